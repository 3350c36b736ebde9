"""What a page is made of: sections of blocks, and the sections that several kinds of report share."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from tacit.evaluation.report.charts import number


@dataclass(frozen=True)
class Text:
    """Paragraphs of one style."""

    lines: Sequence[str]
    style: Literal["lead", "lead caution", "method", "details", "prose"] = "lead"


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
    """A drawing with its caption and its legend."""

    label: str
    note: str
    drawing: Markup
    legend: Sequence[Key] = ()


@dataclass(frozen=True)
class Row:
    """One row of a table, its cells by column: of the release ("synthetic"), of something else, or of neither ("")."""

    label: str
    cells: Mapping[str, str]
    note: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of figures, or of words; `first` heads their labels."""

    first: str
    rows: Sequence[Row]
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
class Grid:
    """Blocks side by side under a legend, as many as fit; fewer where they are wide."""

    blocks: Sequence[Block]
    wide: bool = False
    legend: Sequence[Key] = ()


Block = Text | Facts | Notes | Chart | Table | Banner | Grid


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
class PublicReport(ABC):
    """What a report of any kind holds: public values alone."""

    title: str  # of the release
    # the release's certificate as `Certificate.to_json()` gives it, verified by the caller. The promise in words, the
    # profile, what is not protected and whether the records are simulated are read from it alone.
    certificate: Mapping[str, Any]
    verify: tuple[str, ...]  # the shell commands with which a reader recomputes the promise
    costs: tuple[tuple[str, str], ...] = ()  # (name, value) pairs on run time, memory and size

    @property
    def simulated(self) -> bool:
        """Whether the certificate says that no person is among the records."""
        return self.certificate.get("simulated") is True

    @property
    def shows_records(self) -> bool:
        """Whether protected rows are on the page."""
        return False

    @abstractmethod
    def sections(self) -> tuple[Section, ...]:
        """What the page says besides the promise."""


def grid(blocks: Sequence[Block], *, wide: bool = False, legend: Sequence[Key] = ()) -> tuple[Grid, ...]:
    """A grid of the blocks; none of none."""
    return (Grid(blocks, wide, legend),) if blocks else ()


def opening(headline: str, blocks: Sequence[Block], *, eyebrow: str, hero: str) -> Section:
    """What the page begins with, before the promise."""
    return Section(headline, blocks, id="answer", before=True, hero=hero, eyebrow=eyebrow)


def tabled(first: str, rows: Sequence[Row], *, words: bool = False) -> tuple[Table, ...]:
    """A table of the rows; none of none."""
    return (Table(first, rows, words),) if rows else ()


def settings(
    rows: Sequence[tuple[str, str]],
    *released: Block,
    before: str = "any record was read",
    resting: str = "The promise rests",
) -> Section:
    """The section of a plan's settings, and of what was released along with the answer."""
    lead = f"Public settings, chosen before {before}. {resting} on them."
    return Section("What was fixed beforehand", (Facts(rows, "pairs"), *released), lead, "settings")


def limits(
    certificate: Mapping[str, Any],
    *,
    title: str = "What is assumed, and what is not covered",
    lead: str = "",
    id: str = "assumptions",
    covered: bool = True,
) -> Section:
    """The section of what the certificate assumes, and of what its promise does and does not cover."""
    lists = [Notes("Covered by the promise", certificate["covered"], plain=True)] if covered else []
    lists.append(Notes("Assumed", certificate["assumptions"], plain=True))
    lists.append(Notes("Not covered by the promise", certificate["not_covered"]))
    return Section(title, grid(lists, wide=not covered), lead, id)


STATED = frozenset({"unit", "epsilon", "delta"})
"""Fields of every plan that stand elsewhere on the page, as the promise."""


def pairs(plan: Mapping[str, Any], names: Mapping[str, str], unused: Collection[str] = STATED) -> list[tuple[str, str]]:
    """(setting, value) for every field of a plan, one level deep."""
    rows = []
    for name, value in plan.items():
        inner = (
            {f"{name}: {key}": entry for key, entry in value.items()} if isinstance(value, Mapping) else {name: value}
        )
        if name not in unused:
            rows += [(named(key, names), _shown(entry)) for key, entry in inner.items() if key not in unused]
    return rows


def named(name: str, names: Mapping[str, str]) -> str:
    """A setting's name for people."""
    return names.get(name, name.replace("_", " "))


def _shown(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list) and all(isinstance(v, int | float) for v in value):
        return ", ".join(number(v) for v in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
