"""Named, typed columns of records: cells as people write them, and the numbers that methods learn from. A space whose
columns are declared holds one number for each: a number or a whole number as it stands, a category by the place of its
label. A column that may miss has a second number after its own, 1 where the cell was missing."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

Array = NDArray[Any]
Kind = Literal["number", "integer", "category", "duration"]
TimeUnit = Literal["seconds", "minutes", "hours", "days"]
_WORDS = ("", "nan", "na", "n/a", "<na>", "null", "none")
MISSING = frozenset("".join(signs) for word in _WORDS for signs in product(*zip(word, word.upper(), strict=True)))
"""Texts that say that a cell or an id is missing, in any case."""
NUMBER_REMEDY = (
    'correct it, or say how it is written: --decimal "," of 1,5; --missing TEXT of a cell without a value; of a column '
    "with another name in the spec, an expression takes signs away, as cast(replace(PAY, '$', '') AS DOUBLE)"
)
"""What to do about a cell that is not a number."""
MISSING_REMEDY = (
    "say in the spec what a missing cell is, fill it in an expression (coalesce), or leave the row out with --where"
)
"""What to do about a cell that is missing."""
_FILL = "fill:"
_PLAIN = re.compile(r"[!-^`-~]+")  # Python takes 1_0 for 10, and digits of any script
_LARGEST = 2**24  # float32 tells whole numbers apart up to it


@dataclass(frozen=True)
class Column:
    """One column of a table, as its documentation describes it; never as its cells do. Raises DataError where a field
    is out of range, or belongs to another kind."""

    name: str  # its name in files, reports and outputs
    # "number"; "integer", whole numbers; "category", one of `labels`; or "duration", the time since the row before in
    # the episode, 0 in its first one, which the import computes where the table has no such column
    kind: Kind = "number"
    low: float | None = None  # low, high: public bounds of whatever is no category
    high: float | None = None
    labels: tuple[str, ...] = ()  # what a category's cells say, in the order of their codes 0, 1, ...
    # what a missing cell is: "refuse", an error; "fill:VALUE", this public value; or "flag", the lowest value beside
    # a flag that says so, which methods learn like any other column
    missing: str = "refuse"
    # public typical size (standard deviation) of a number's change from one row to the next, if it is known
    step: float | None = None
    static: bool = False  # whether it never changes in a unit (sex, year of birth), which the import checks
    # what a duration counts, where times are dates; None where they are numbers, whose difference it is
    time_unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or set(self.name) & set(",=\n"):
            what = "the name is missing, or holds a comma, a '=' or a line's end"
            expected = "a plain name, under which an expression of the import may read any column"
            raise _column_error("a column", what, expected)
        if self.kind not in get_args(Kind):
            raise self._error("the kind is unknown", " or ".join(get_args(Kind)))
        if self.kind == "category":
            self._require_labels()
        else:
            self._require_bounds()
        if self.missing not in ("refuse", "flag"):
            self._require_fill()
        if not isinstance(self.static, bool) or (self.static and (self.kind == "duration" or self.step is not None)):
            raise self._error("static is not true or false, or the column has a step or is a duration", "one of them")
        if self.time_unit not in (None, *get_args(TimeUnit)) or (self.time_unit and self.kind != "duration"):
            raise self._error("time_unit has no meaning", f"of a duration one of {', '.join(get_args(TimeUnit))}")

    def _require_labels(self) -> None:
        labels = self.labels
        if isinstance(labels, str) or not all(isinstance(label, str) and label == label.strip() for label in labels):
            raise self._error("the labels are not texts without spaces at their ends", "a list of texts")
        object.__setattr__(self, "labels", tuple(labels))
        if len(labels) < 2 or len(set(labels)) < len(labels) or not all(labels):
            raise self._error("the labels are fewer than two, or one stands twice or is empty", "different labels")
        if (self.low, self.high, self.step) != (None, None, None):
            raise self._error("a category has no bounds and no step", "labels alone")

    def _require_bounds(self) -> None:
        if self.labels:
            raise self._error(f"it is of the kind {self.kind!r} and has labels", "low and high, or the kind 'category'")
        for name in ("low", "high", *(("step",) if self.step is not None else ())):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise self._error(f"{name} is missing, or is no finite number", "low and high, known without the data")
            object.__setattr__(self, name, float(value))
        assert self.low is not None
        assert self.high is not None
        if self.low >= self.high:
            raise self._error("the bounds are inverted or equal", "low < high")
        if self.step is not None and self.step <= 0:
            raise self._error("the step is not positive", "the typical size of a change, or none")
        whole = self.low.is_integer() and self.high.is_integer() and max(-self.low, self.high) <= _LARGEST
        if self.kind == "integer" and not whole:
            raise self._error("the bounds of whole numbers are not whole, or beyond 2^24", "whole bounds")

    def _require_fill(self) -> None:
        if not isinstance(self.missing, str) or not self.missing.startswith(_FILL):
            raise self._error("what a missing cell is was not understood", "refuse, flag or fill:VALUE")
        value = self._encode_cell(self.missing.removeprefix(_FILL))
        low, high = self.bounds
        if isinstance(value, str) or not low <= value <= high:
            raise self._error("the value for missing cells is outside the column", "a label, or a number in the bounds")

    def _error(self, what: str, expected: str) -> DataError:
        return _column_error(f"the column {self.name!r}", what, expected)

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest number that stands for a cell."""
        if self.kind == "category":
            return 0.0, len(self.labels) - 1.0
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    @property
    def flag(self) -> Column | None:
        """The column of 0 and 1 that follows one whose missing cells are flagged."""
        if self.missing != "flag":
            return None
        return Column(f"{self.name}_missing", "category", labels=("no", "yes"), static=self.static)

    def encode(self, cells: Array, refused: list[BadCell] | None = None) -> tuple[Array, Array]:
        """Cells [n] (numbers, texts, None, NaN) -> their numbers [n] float64, not clipped, and which were missing [n]
        bool. Raises BadCell where one is missing and may not, or is none of this column's; `refused` takes all that is
        wrong instead, a kind at a time, and such cells become the lowest value."""
        found: list[BadCell] = []
        if cells.dtype.kind in "biuf" and self.kind != "category":
            values = cells.astype(np.float64)
            missing = np.isnan(values)
        else:
            codes_by_cell, many = _CodeCache(self._encode_cell), "a cell that is no single value"
            try:
                codes = [codes_by_cell[cell] for cell in cells.tolist()]
            except TypeError:  # a list, say
                codes = [codes_by_cell[cell] if isinstance(cell, Hashable) else many for cell in cells.tolist()]
            wrong: dict[str, list[int]] = {}
            for row, code in enumerate(codes if str in set(map(type, codes)) else ()):
                if isinstance(code, str):
                    wrong.setdefault(code, []).append(row)
                    codes[row] = self.bounds[0]
            remedy = None if self.kind == "category" else NUMBER_REMEDY
            for what, rows in wrong.items():
                found.append(BadCell(f"the column {self.name!r} has {what}", self._expected_cells, rows, remedy))
            values = np.array(codes, np.float64)
            missing = np.isnan(values)
        if missing.any():
            if self.missing == "refuse":
                what = f"the column {self.name!r} has a missing value"
                expected = "a value in every row, or missing 'flag' or 'fill:VALUE'"
                found.append(BadCell(what, expected, np.flatnonzero(missing).tolist(), MISSING_REMEDY))
            filled = self.missing.startswith(_FILL)
            fill = self._encode_cell(self.missing.removeprefix(_FILL)) if filled else self.bounds[0]
            values = np.where(missing, fill, values)
        broken = ~np.isfinite(values) | ((values != np.rint(values)) & (self.kind == "integer"))
        if broken.any():
            what = f"the column {self.name!r} has {_BAD_VALUES[self.kind]}"
            found.append(BadCell(what, self._expected_cells, np.flatnonzero(broken).tolist()))
            values = np.where(broken, self.bounds[0], values)
        if found and refused is None:
            raise found[0]
        if refused is not None:
            refused += found
        return values, missing

    @property
    def _expected_cells(self) -> str:
        return (
            "one of the labels of the spec, as it is written there"
            if self.kind == "category"
            else "finite numbers, whole where declared so"
        )

    def _encode_cell(self, cell: Any) -> float | str:
        """The number of a cell, NaN of a missing one; or words for what it is instead."""
        text = _text(cell)
        if self.kind == "category":
            if text in self.labels:
                return float(self.labels.index(text))
            return math.nan if text in MISSING else "a label that the spec does not declare"
        if text in MISSING:
            return math.nan
        try:
            value = float(cell if isinstance(cell, (bool, np.bool_)) else text if _PLAIN.fullmatch(text) else "none")
        except ValueError:
            return "a cell that is not a number"
        return value if math.isfinite(value) else "a value that is infinite"

    def nearest_codes(self, numbers: Array) -> Array:
        """Numbers [n] of whole numbers or labels -> the nearest that is one [n] int64."""
        return np.clip(np.rint(numbers), *self.bounds).astype(np.int64)


class BadCell(Exception):
    """Cells that their column does not take: `rows` (from 0) of all of them, in order. No cell is named. `what`,
    `expected` and `remedy` are of the error that names the file."""

    def __init__(self, what: str, expected: str, rows: Sequence[int], remedy: str | None = None) -> None:
        super().__init__(what)
        self.what, self.expected, self.rows, self.row, self.remedy = what, expected, rows, rows[0], remedy


class _CodeCache(dict[Any, float | str]):
    """Codes of the different cells, each found once."""

    def __init__(self, code: Callable[[Any], float | str]) -> None:
        self._code = code

    def __missing__(self, cell: Any) -> float | str:
        return self.setdefault(cell, self._code(cell))


_BAD_VALUES: Mapping[str, str] = {
    "number": "a value that is infinite",
    "duration": "a value that is infinite",
    "integer": "a value that is no finite whole number",
    "category": "a value that is no label",
}


def dimensions(columns: Sequence[Column]) -> tuple[Column, ...]:
    """What each number of a space is: the columns, with the flags of those that may miss after them."""
    return tuple(part for column in columns for part in (column, column.flag) if part is not None)


def encode_cells(
    columns: Sequence[Column],
    cells: Mapping[str, Any],
    counts: dict[str, int] | None = None,
    refused: list[BadCell] | None = None,
) -> Array:
    """Cells by column name -> numbers [n, d], d of `dimensions`; to `counts`, those that are missing are added."""
    # refused: see `Column.encode`
    parts: list[Array] = []
    for column in columns:
        values, missing = column.encode(flatten_cells(cells[column.name]), refused)
        if counts is not None:
            counts[column.name] = counts.get(column.name, 0) + int(missing.sum())
        parts += [values, missing.astype(np.float64)] if column.flag else [values]
    return np.stack(parts, axis=1)


def split_columns(columns: Sequence[Column], numbers: Array) -> Iterator[tuple[Column, Array, Array | None]]:
    """Each column with its numbers [n] of [n, d], and which are missing [n] bool (None where none can be)."""
    place = 0
    for column in columns:
        yield column, numbers[:, place], None if column.flag is None else numbers[:, place + 1] > 0.5
        place += 1 if column.flag is None else 2


def encode_flags(cells: Array) -> Array:
    """Cells [n] as numbers, of which 0 and 1 are flags; true and false, in any case, are 1 and 0."""
    if cells.dtype.kind in "biuf":
        return cells
    texts = [{"true": "1", "false": "0"}.get(text, text) for text in (_text(cell).lower() for cell in cells.tolist())]
    codes = {text: number for text in set(texts) for number in (0.0, 1.0) if text in (f"{number:g}", f"{number}")}
    return np.array([codes.get(text, math.nan) for text in texts], np.float64)


def unmask(values: Any) -> Any:
    """An array whose mask hides cells as objects, None in their place; whatever else as it is."""
    return np.where(np.ma.getmaskarray(values), None, values.data) if np.ma.is_masked(values) else values


def flatten_cells(cells: Any) -> Array:
    """Cells [n] as one array, of objects where their kinds differ; those of a masked or nullable column as None."""
    cells = unmask(cells)
    if not isinstance(cells, np.ndarray):
        cells = cells.to_numpy(dtype=object) if hasattr(cells, "to_numpy") else np.array(list(cells), dtype=object)
    return np.asarray(cells if cells.dtype.kind in "biufO" else cells.astype(object))


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace").strip()
    if isinstance(cell, (float, decimal.Decimal)) and math.isfinite(cell) and cell % 1 == 0:
        return str(int(cell))
    return str(cell).strip()


def _column_error(where: str, what: str, expected: str) -> DataError:
    return DataError(what, where=where, expected=expected, remedy="take it from the documentation of the records")
