"""What a report is: sections of blocks beside a certificate. The blocks are what is shown, and what is stored."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tacit import serialization
from tacit.errors import DataError, FileError, TacitError
from tacit.evaluation.report.charts import number
from tacit.methods import METHODS, load
from tacit.parameters import parameters
from tacit.privacy import sentences

Certified = Mapping[str, Any]
"""A certificate as `Certificate.to_json()` gives it, verified by the caller."""
_SHAPES = re.compile(
    r'(?:[^<>]++|<(?:svg|title|rect|path|circle|text)(?: (?!on|href)[\w-]++="[^"<>]*+")*+ ?/?>|</(?:svg|title|text)>)*+'
)
"""What a drawing may hold: plain shapes and text, and nothing that runs or asks for anything."""


@dataclass(frozen=True)
class Paragraphs:
    """Paragraphs of one style."""

    lines: Sequence[str]
    style: Literal["lead", "lead caution", "method", "details", "prose"] = "lead"


@dataclass(frozen=True)
class Link:
    """A paragraph that begins with a link to a file beside the page."""

    file: str
    label: str
    text: str

    def __post_init__(self) -> None:
        if not self.file or set(self.file) & set("/\\:"):
            remedy = "write it into the folder of the report"
            raise DataError("the link is to no file beside the page", where="report", expected="a name", remedy=remedy)


@dataclass(frozen=True)
class Facts:
    """Named values (name, value) or (name, value, note), under a heading: large figures, or pairs in small print."""

    rows: Sequence[tuple[str, str] | tuple[str, str, str]]
    style: Literal["figures", "figures small", "pairs"] = "figures"
    heading: str = ""


@dataclass(frozen=True)
class Notes:
    """A short list under a heading; a plain one does not warn."""

    heading: str
    lines: Sequence[str]
    plain: bool = False


Key = tuple[str, str] | tuple[str, str, str]
"""What a colour stands for: (label, style), or (label, style, form of a mark)."""


@dataclass(frozen=True)
class Chart:
    """A drawing (an SVG of `charts`) with its caption and its legend."""

    label: str
    note: str
    drawing: str
    legend: Sequence[Key] = ()

    def __post_init__(self) -> None:
        if not _SHAPES.fullmatch(self.drawing):
            expected, remedy = "an SVG of plain shapes and text", "draw it with `tacit.evaluation.report.charts`"
            raise DataError("the drawing holds something else", where="report", expected=expected, remedy=remedy)


@dataclass(frozen=True)
class TableRow:
    """One row of a table, its cells by column: of the release ("synthetic"), of something else, or of neither ("")."""

    label: str
    cells: Mapping[str, str]
    note: str = ""
    kind: str = ""


@dataclass(frozen=True)
class TableBlock:
    """Rows of figures, or of words; `first` heads their labels."""

    first: str
    rows: Sequence[TableRow]
    words: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of a row, in the order of their first appearance."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.cells))


@dataclass(frozen=True)
class Banner:
    """A word of warning; its heading is set in bold."""

    heading: str
    text: str
    style: Literal["broken", "simulated", "absent"]


@dataclass(frozen=True)
class BlockGrid:
    """Blocks side by side under a legend, as many as fit; fewer where they are wide."""

    blocks: Sequence[Block]
    wide: bool = False
    legend: Sequence[Key] = ()


Block = Paragraphs | Link | Facts | Notes | Chart | TableBlock | Banner | BlockGrid


@dataclass(frozen=True)
class Section:
    """A part of a page; one without blocks is not shown."""

    title: str  # its heading; the first of a page is the page's own
    blocks: Sequence[Block]  # what stands in it
    lead: str = ""  # what introduces them
    id: str = ""  # its anchor
    before: bool = False  # whether it stands before the promise
    hero: str = ""  # its name for readers who do not see it, where it is large
    eyebrow: str = ""  # what stands above the heading of a large one
    broken: bool = False  # whether the heading is struck out


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report of any kind: public values alone."""

    title: str  # of the release
    # of the release. The promise in words, the profile, what is not protected and whether the records are simulated are
    # read from it alone.
    certificate: Certified
    sections: Sequence[Section]  # what the page says besides the promise
    verify: Sequence[str] = ()  # the shell commands with which a reader recomputes the promise
    costs: Sequence[tuple[str, str]] = ()  # (name, value) pairs on run time, memory and size
    shows_records: bool = False  # whether protected rows, which must be simulated, are on the page

    def __post_init__(self) -> None:
        object.__setattr__(self, "sections", tuple(one for one in self.sections if one.blocks or one.hero))

    @property
    def simulated(self) -> bool:
        """Whether the certificate says that no person is among the records."""
        return self.certificate.get("simulated") is True

    def to_json(self) -> dict[str, Any]:
        """JSON values of all but the certificate, which has a file of its own."""
        values: dict[str, Any] = serialization.to_json(dataclasses.replace(self, certificate={}))
        del values["certificate"]
        return values

    @classmethod
    def from_json(cls, value: Mapping[str, Any], certificate: Certified) -> Report:
        """The report that `to_json` wrote, with its certificate. Raises FileError of a missing, unknown or mistyped
        field."""
        try:
            report = serialization.from_json(cls, {**value, "certificate": {}})
        except (TypeError, TacitError):
            what, expected = "the stored report is damaged or of another version", "run.json as this version wrote it"
            remedy = "run it again, or use the version of tacit that wrote it"
            raise FileError(what, where="report", expected=expected, remedy=remedy) from None
        return dataclasses.replace(report, certificate=certificate)


def make_grid(blocks: Sequence[Block], *, wide: bool = False, legend: Sequence[Key] = ()) -> tuple[BlockGrid, ...]:
    """A grid of the blocks; none of none."""
    return (BlockGrid(blocks, wide, legend),) if blocks else ()


def make_table(first: str, rows: Sequence[TableRow], *, words: bool = False) -> tuple[TableBlock, ...]:
    """A table of the rows; none of none."""
    return (TableBlock(first, rows, words),) if rows else ()


def opening_section(headline: str, blocks: Sequence[Block], *, eyebrow: str, hero: str) -> Section:
    """What the page begins with, before the promise."""
    return Section(headline, blocks, id="answer", before=True, hero=hero, eyebrow=eyebrow)


def settings_section(
    rows: Sequence[tuple[str, str, str]],
    *released: Block,
    before: str = "any record was read",
    resting: str = "The promise rests",
) -> Section:
    """The section of a plan's settings, and of what was released along with the answer."""
    lead = f"Public settings, chosen before {before}. {resting} on them."
    return Section("What was fixed beforehand", (Facts(rows, "pairs"), *released), lead, "settings")


def limits_section(
    certificate: Certified,
    *,
    title: str = "What is assumed, and what is not covered",
    lead: str = "",
    id: str = "assumptions",
    covered: bool = True,
) -> Section:
    """The section of what the certificate assumes, and of what its promise does and does not cover."""
    lists = [Notes("Covered by the promise", sentences.lines(certificate, "covered"), plain=True)] if covered else []
    lists.append(Notes("Assumed", sentences.lines(certificate, "assumptions"), plain=True))
    lists.append(Notes("Not covered by the promise", sentences.lines(certificate, "not_covered")))
    return Section(title, make_grid(lists, wide=not covered), lead, id)


STATED = frozenset({"unit", "epsilon", "delta"})
"""Fields of every plan that stand elsewhere on the page, as the promise."""


def setting_pairs(
    certificate: Certified, unused: Collection[str] = STATED, *, plan: Mapping[str, Any] | None = None
) -> list[tuple[str, str, str]]:
    """(setting, value, what it is) for every field of the certificate's plan, one level deep.

    Args:
        certificate: whose method says which plan it is; what a setting is stands in the plan's doc lines.
        unused: fields and inner fields that are left out.
        plan: other values in place of the certificate's.
    """
    classes = [load(entry.plan) for entry in METHODS if entry.certified == certificate.get("method")]
    docs = {parameter.name: parameter.doc for cls in classes for parameter in parameters(cls)}
    rows = []
    for name, value in (certificate["plan"] if plan is None else plan).items():
        inner = {f"{name}: {key}": part for key, part in value.items()} if isinstance(value, Mapping) else {name: value}
        doc = _NO_READERS.sub("", docs.get(name, "")).replace("`", "").rstrip(".")
        if name not in unused:
            shown = ((key, part) for key, part in inner.items() if key not in unused)
            rows += [(key.replace("_", " "), _format_setting(part), doc if key == name else "") for key, part in shown]
    return rows


_NO_READERS = re.compile(r" ?\(`[^)]*`\)|^see `.*|[;.]? ?None (until|takes|chooses|is|counts|for) [^;]*$")
"""Parts of doc lines that say nothing on a page: references to code, and what None means, which a run has replaced."""


def _format_setting(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list) and all(isinstance(v, int | float) for v in value):
        return ", ".join(number(v) for v in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
