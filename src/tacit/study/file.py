"""`study.toml`: which records a study is of, whose they are, and what may be spent on them, said once."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from tacit import plain_files
from tacit.errors import FileError, PlanError
from tacit.study.movement import Whereabouts
from tacit.units import Relation, is_noun

NAME = Path("study.toml")
_TEMPLATE = """\
# Private records, whose they are, and what may be spent on them. `tacit check` says what is missing or wrong here.

records = {records}
unit = {unit}{unit_words}
population = {population}    # how many there could be, as the public knows; never counted from the records
budget_epsilon = {budget}    # what all releases together may cost; it is final
budget_sampled = {sampled}    # the part of it for plans that sample, such as DP-SGD: 0 for none, 1 for all; it is final
# budget_ceiling = 8          # up to which epsilon the budget may ever be raised; people are promised this number
# relation = "replace_one"    # where one is exchanged for another; without it, one is present or absent
# ledger = "records.ledger"   # what was spent; without it, beside the records
"""
_OF_TABLE = """\
spec = {spec}    # public bounds of the columns: fill them in

[reading]
# time = "date"             # what orders a person's rows; without it, the table's order. A column, or an expression:
# time = "try_strptime(day, '%d.%m.%Y')"
# episode = "stay_id"       # column of the episode's id; where every row is a decision of its own, of its event or time
# next = "keep"             # build next observations from the next row ("drop" leaves out the last row of each episode)
# reward = "-abs(pulse - 75) / 145"    # an expression, where no column has it
# propensity = "p"          # column with the behaviour policy's probability of the action
# separator = ";"           # of a CSV file, as are these:
# decimal = ","
# encoding = "cp1252"
# missing = ["n.a."]        # texts that say that nothing is known, beside empty cells, NA and null
# box = [39.7, 116.2, 40.1, 116.6]     # of positions, in place of spec: the region, SOUTH WEST NORTH EAST, with
# cell = "auto"             # or metres, and the zone of its midnights:
# zone = "Asia/Shanghai"
"""


@dataclass(frozen=True)
class StudyFile:
    """What a `study.toml` says, by the words of `Study`; paths are relative to its folder.

    Attributes:
        path: of the file.
        records: file or folder of the private records.
        unit: column of the ids of a table; of a folder that was imported, what one unit is.
        unit_name: what one unit is, where the column is called otherwise.
        population: how many units there could be, as the public knows.
        budget_epsilon, budget_sampled, budget_ceiling, budget_delta: the budget (see `Study`).
        relation: what neighbouring data sets differ in.
        ledger: file of what was spent; None where it lies beside the records.
        spec: file of the public bounds of a table.
        reading: how the table is read (see `Trajectories.from_frame`).
    """

    path: Path
    records: Path
    unit: str
    population: int
    budget_epsilon: float
    budget_sampled: float
    budget_ceiling: float | None = None
    budget_delta: float | None = None
    relation: Relation = "add_or_remove"
    ledger: Path | None = None
    spec: Path | None = None
    unit_name: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> StudyFile:
        """The study in a file.

        Raises:
            FileError: there is no such file, or it is no TOML.
            PlanError: something in it is missing, unknown or of another type; all of it in one sentence.
        """
        values = content(path)
        wrong = list(faults(values))
        if wrong:
            expected = "records, unit, population, budget_epsilon, budget_sampled, and what else `tacit new` writes"
            raise PlanError("; ".join(wrong), where=str(path), expected=expected, remedy="mend these lines")
        placed = {
            name: path.parent / value if name in PATHS else value for name, value in values.items() if name != "reading"
        }
        return cls(path=path, reading=values.get("reading", {}), **placed)

    @property
    def arguments(self) -> dict[str, Any]:
        """What `Study` is called with besides its records."""
        names = [one.name for one in dataclasses.fields(self) if one.name not in ("path", "records", "reading")]
        return {name: value for name in names if (value := getattr(self, name)) is not None} | dict(self.reading)


PATHS = ("records", "ledger", "spec")
READING = (
    *("time", "episode", "next", "where", "qualify", "reward", "actions", "columns", "fields", "propensity"),
    *("unit_key", "separator", "decimal", "encoding", "missing", "simulated", "text"),
    *(one.name for one in dataclasses.fields(Whereabouts) if one.name not in ("source", "city", "preset")),
)


def faults(values: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the content of a study's file, one piece after another."""
    known = {one.name: one for one in dataclasses.fields(StudyFile) if one.name != "path"}
    required = [name for name, one in known.items() if one.default is one.default_factory is dataclasses.MISSING]
    for name in required:
        if name not in values:
            yield f"{name} is missing"
    reading = values.get("reading", {})
    for name, names in (*((name, tuple(known)) for name in values), *((name, READING) for name in reading)):
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            yield f"{name[:40]!r} is unknown" + (" (it belongs under [reading])" if name in READING else hint)
    texts = [
        name for name in ("records", "unit", "unit_name", "ledger", "spec") if not isinstance(values.get(name, ""), str)
    ]
    yield from (f"{name} is no text" for name in texts)
    if isinstance(values.get("unit_name", ""), str) and not is_noun(values.get("unit_name", "unit")):
        yield 'unit_name is no noun of letters, such as "patient"'
    population = values.get("population", 2)
    if type(population) is not int or population < 2:
        yield "population is no whole number of 2 or more"
    for name in ("budget_epsilon", "budget_ceiling", "budget_delta"):
        number = values.get(name, 0.5)
        if type(number) not in (int, float) or not (math.isfinite(number) and number > 0):
            yield f"{name} is no finite number above 0"
    part = values.get("budget_sampled", 0)
    if type(part) not in (int, float) or not 0 <= part <= 1:
        yield "budget_sampled is no number from 0 to 1"
    if values.get("relation", "add_or_remove") not in get_args(Relation):
        yield f"relation is none of {' and '.join(get_args(Relation))}"


def content(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(plain_files.read_text(path))
    except FileNotFoundError:
        expected = "a study's file, or the folder of imported records with --unit and --population"
        remedy = "write one with `tacit new RECORDS`, or name the records"
        raise FileError("there is no such file", where=str(path), expected=expected, remedy=remedy) from None
    except (OSError, ValueError, RecursionError):
        remedy = "mend it, or write a new one with `tacit new RECORDS`"
        raise FileError("the file is no TOML", where=str(path), expected="a study's file", remedy=remedy) from None
    return values if isinstance(values.get("reading", {}), dict) else values | {"reading": {"[reading]": None}}


def template(
    records: str,
    unit: str,
    population: int,
    budget: float,
    sampled: float,
    spec: str | None,
    reading: Mapping[str, str],
) -> str:
    """The text of a study's file.

    Args:
        records, spec: as the file shall name them; no spec where the records were imported.
        unit, population, budget, sampled: what only the curator knows.
        reading: how the table is read, as far as it was told.
    """
    words = ""
    if spec is not None:
        words = (
            '    # the column that says whose a row is\n# unit_name = "patient"       # what one is, in letters and '
        )
        words += "certificates; without it, the column's name. It is final"
    text = _TEMPLATE.format(
        records=_quote(records),
        unit=_quote(unit),
        unit_words=words,
        population=population,
        budget=f"{budget!r}",
        sampled=f"{sampled!r}",
    )
    if spec is not None:
        text += _OF_TABLE.format(spec=_quote(spec))
    for name, value in reading.items():  # in place of the example
        said = f"{name} = {_quote(value)}".replace("\\", r"\\")
        text = re.sub(rf'^# {name} = "[^"]*"', said, text, count=1, flags=re.MULTILINE)
    return text


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML has the escapes of JSON
