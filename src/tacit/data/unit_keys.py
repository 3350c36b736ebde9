"""Who is one unit: the one law by which an id, whatever source it comes from, becomes a key; names and twins of keys.
Of a key come a dense code, a name and, for shards, a keyed digest; no id is kept.

Files, frames, arrays, databases, positions, texts, devices and registers all ask this module.

- A key is a text without white space (Unicode's) at its ends. Whole numbers of any size are the texts of their digits,
  and so are decimals and floats without a fraction; bytes are their hexadecimal digits. "1", "01" and "1.0" are three
  keys. Fractions, truth values, dates and all else are no ids.
- Nothing is no id, and neither are the words for nothing, such as NA (`columns.MISSING`), nor what nobody sees.
- *Twins* are keys that a person could take for one: alike but for case, width, Unicode form, runs of white space or
  invisible characters (`fold_key`). They are refused, unless it is declared that they are different units, or one.
"""

from __future__ import annotations

import contextlib
import decimal
import hashlib
import numbers
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.data.columns import MISSING, unmask
from tacit.errors import DataError
from tacit.units import UnitKey

Array = NDArray[Any]
WHOLE = "a whole number"
"""The kind of ids that have no twins."""
NAME_BYTES = 16
"""Of a key's digest: 2^64 ids until two of them are likely to share one."""
TWINS = "write the id of each unit in one way; or say unit_key='exact' (in a command --unit-key exact) if ids that "
TWINS += "differ by case or form alone are different units, 'folded' if they are one"

WHITE = "".join(map(chr, (*range(9, 14), *range(28, 33), 133, 160, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029)))
WHITE += "\u202f\u205f\u3000"
"""White space as `str.strip` has it."""
_EXACT = 1 << 53
"""From here on, floats skip whole numbers, and two ids may have become one."""
_IGNORED = "\u2800\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
"""Characters that nobody sees, beside those of Unicode's kinds Cf and Cc and the variation selectors."""


class NoKey(ValueError):
    """An id that is none: what it is, and its row, counted from 0."""

    row: int = 0


def key(value: Any, unit_key: UnitKey | None = None) -> str:
    """The key of an id, given what twins are. Raises NoKey where it is missing, or is neither text, bytes nor a whole
    number; the message shows no cell."""
    if isinstance(value, str):
        text = value.strip()
    elif isinstance(value, (bytes, bytearray, memoryview)):
        text = bytes(value).hex()
    else:
        text = _digits(value)
    if text in MISSING or not fold_key(text):
        raise NoKey("is missing")
    return fold_key(text) if unit_key == "folded" else text


def key_or_none(value: Any, unit_key: UnitKey | None = None) -> str | None:
    """The key of an id, or None where it is none."""
    try:
        return key(value, unit_key)
    except NoKey:
        return None


def as_column(values: Any) -> Array:
    """One id a row as an array that keeps each as it is: numpy cuts zeros from the ends of texts and bytes in a
    list."""
    # Ids that are no flat column come out with another number of dimensions than one.
    values = unmask(values)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of unequal length
        return np.empty((), dtype=object)
    if array.ndim != 1 or array.dtype.kind == "i" or not isinstance(values, (list, tuple)):
        return array
    kept = np.empty(len(values), dtype=object)
    kept[:] = values
    return kept


def keys(ids: Array, unit_key: UnitKey | None = None) -> tuple[Array, str]:
    """The keys of a column of ids, and which kind of ids they are."""
    # returns: Keys [n]: int64 of whole numbers that fit, else objects, texts or (of other whole numbers) int; and the
    # kind, "text", "bytes" or "a whole number"
    if ids.dtype.kind == "i":
        return ids.astype(np.int64), WHOLE
    cells = ids.tolist() if ids.dtype.kind in "ufbOSU" else list(ids)
    made, known, kind = np.empty(len(cells), dtype=object), dict[Any, str](), kind_of(cells[0]) if cells else ""
    for row, cell in enumerate(cells):
        if row and cell is cells[row - 1]:
            made[row] = made[row - 1]
            continue
        try:
            text = known.get(cell) if isinstance(cell, (str, bytes)) else key(cell)
            if text is None:
                text = known[cell] = key(cell, unit_key)
            if kind_of(cell) != kind:
                raise NoKey(f"is {kind_of(cell)} in one row and {kind} in another")
        except NoKey as error:
            error.row = row
            raise
        made[row] = text
    if kind == WHOLE:
        made[:] = [int(text) for text in made.tolist()]
    return made, kind


def kind_of(cell: Any) -> str:
    """Text, bytes or a whole number: what an id that has a key is."""
    if isinstance(cell, str):
        return "text"
    return "bytes" if isinstance(cell, (bytes, bytearray, memoryview)) else WHOLE


def _digits(value: Any) -> str:
    nan = isinstance(value, (float, np.floating, decimal.Decimal)) and value != value
    if value is None or nan or type(value).__name__ in ("NAType", "NaTType"):
        raise NoKey("is missing")
    if isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_, np.timedelta64)):
        return str(int(value))
    if isinstance(value, (float, np.floating)) and float(value).is_integer() and abs(float(value)) < _EXACT:
        return str(int(value))
    if isinstance(value, decimal.Decimal) and value.is_finite() and value == value.to_integral_value():
        return str(int(value))
    raise NoKey("is neither text, bytes nor a whole number")


def fold_key(text: str) -> str:
    """What is left of a key without case, width, Unicode form, invisible characters and runs of white space."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.lower()
    previous = None
    # A case may open a form, a form a case, and what nobody sees may part a letter from its sign.
    while text != previous:
        previous, visible = text, "".join(c for c in text if not _is_invisible(c))
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", visible).upper().casefold())
    return " ".join(text.split())


@cache
def _is_invisible(character: str) -> bool:
    hidden = unicodedata.category(character) in ("Cf", "Cc") and not character.isspace()
    selects = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return hidden or selects or character in _IGNORED or "\u180b" <= character <= "\u180f"


def names(keys: Iterable[str]) -> NDArray[np.uint8]:
    """The digest of each key, by which units are dealt (`tacit.privacy.deals`), [U, 16] bytes; as private as the ids:
    there is no secret in it, and a key has the same name everywhere."""
    digests = bytearray()
    for text in keys:
        digests += hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=NAME_BYTES).digest()
    return np.frombuffer(bytes(digests), np.uint8).reshape(-1, NAME_BYTES)


def duplicates(rows: NDArray[np.uint8]) -> Array:
    """Which of these digests [U, 16] equal another one."""
    halves = np.ascontiguousarray(rows).view(np.uint64)
    order = np.lexsort(halves.T)
    same = np.flatnonzero((halves[order[1:]] == halves[order[:-1]]).all(axis=1))
    return np.unique(order[np.concatenate([same, same + 1])])


def require_no_twins(keys: Iterable[str], where: str, unit_key: UnitKey | None = None) -> None:
    """Refuse (DataError) different keys that differ by case or form alone, unless it was said what they are."""
    distinct = set(keys)
    if unit_key is None and len({fold_key(text) for text in distinct}) < len(distinct):
        raise twins_error(where)


def twins_error(where: str) -> DataError:
    """The refusal of twins."""
    what = "two unit ids differ by case, width, form or invisible characters alone, and one unit could pass for two"
    return DataError(what, where=where, expected="one way to write the id of each unit", remedy=TWINS)


def require_unit_key(unit_key: str | None, where: str) -> UnitKey | None:
    """What twins are, if it is one of the words."""
    if unit_key is not None and unit_key not in get_args(UnitKey):
        what, expected = "unit_key says nothing that is known", "'exact', 'folded' or None"
        remedy = "leave it out, so that ids that differ by case or form alone are refused"
        raise DataError(what, where=where, expected=expected, remedy=remedy)
    return unit_key  # type: ignore[return-value]


MOST_RUNS = 64
"""Growing runs of whole numbers, such as files that are sorted each, that need no table."""


class Codes:
    """Ids -> dense codes `0, 1, ...` in order of first appearance; the ids themselves are dropped with this object."""

    def __init__(self) -> None:
        self.count = 0
        self._current_run: list[Array] = []  # ids that have only grown since the last run need no table
        self._runs: list[Array] = []  # whole numbers that grew before: those of a file that is sorted, say
        self._last: Hashable = None
        self._table: dict[Hashable, int] | None = None

    def encode(self, ids: Array) -> Array:
        """Codes of the next ids: `(n,)` int64, or `(n,)` objects that are text or whole numbers -> `(n,)` int64."""
        packed = _pack(ids) if self._table is None else None
        new = None if packed is None else _rising_mask(self._last, ids, packed)
        if packed is not None and new is None and packed.dtype.kind in "iu" and len(self._runs) < MOST_RUNS:
            new = _rising_mask(None, ids, packed)
            if new is not None and self._current_run:
                self._close_run()
        if packed is not None and new is not None:
            more = packed[new]
            if not any((run[np.minimum(np.searchsorted(run, more), len(run) - 1)] == more).any() for run in self._runs):
                codes: Array = self.count - 1 + np.cumsum(new)
                self.count += int(new.sum())
                self._current_run.append(more)
                self._last = ids[-1]
                return codes
        if self._table is None:
            if self._current_run:
                self._close_run()
            earlier = np.concatenate(self._runs) if self._runs else ids[:0]
            known = (earlier.astype(str) if earlier.dtype.kind == "S" else earlier).tolist()
            self._table, self._runs = {value: code for code, value in enumerate(known)}, []
        table = self._table
        codes = np.fromiter((table.setdefault(value, len(table)) for value in ids.tolist()), np.int64, len(ids))
        self.count = len(table)
        return codes

    def _close_run(self) -> None:
        """What comes next may be smaller."""
        self._runs.append(np.concatenate(self._current_run))
        self._current_run = []


def _pack(ids: Array) -> Array | None:
    """Ids without an object each: int64, or bytes of ASCII text; None of any others."""
    if ids.dtype != object:
        return ids
    with contextlib.suppress(TypeError, UnicodeEncodeError):
        if "\0" not in "".join(ids):  # the bytes would lose one at the end
            return ids.astype("S")
    return None


def _rising_mask(last: Any, ids: Array, packed: Array) -> Array | None:
    """Which ids are larger than the one before, the first than `last`; None where one is smaller."""
    # Of two texts the longer one is larger, so that numbers written as text grow as numbers do.
    larger = np.ones(len(ids), np.bool_)
    smaller = np.zeros(len(ids), np.bool_)
    larger[1:], smaller[1:] = packed[1:] > packed[:-1], packed[1:] < packed[:-1]
    if last is not None:
        larger[0], smaller[0] = ids[0] > last, ids[0] < last
    if ids.dtype == object:
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        change = np.diff(lengths, prepend=lengths[0] if last is None else len(last))
        larger, smaller = (change > 0) | (larger & (change == 0)), (change < 0) | (smaller & (change == 0))
    return None if smaller.any() else larger


class Digests:
    """Keyed digests of units, by which shards are compared without showing an id. The key is secret, 16 to 64 bytes,
    the same for all shards of one run and for no other. Twins get one digest, unless `unit_key` says that they
    differ."""

    def __init__(self, key: bytes, unit_key: UnitKey | None = None) -> None:
        self._key, self._exact = key, unit_key == "exact"
        self._parts = bytearray(self._digest(f"{unit_key}"))

    def add(self, keys: Iterable[str]) -> None:
        """The next units' keys."""
        for text in keys:
            self._parts += self._digest(f"={text if self._exact else fold_key(text)}")

    def finish(self) -> Array:
        """The digest of no unit, which tells key and law, and then each one's, two words, `(1 + U, 2)` int64."""
        return np.frombuffer(bytes(self._parts), "<i8").reshape(-1, 2)

    def _digest(self, text: str) -> bytes:
        name = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(name, key=self._key, digest_size=NAME_BYTES).digest()


class Names:
    """The names of units as they come, and whether two of these are twins, where nobody said what twins are
    (`unit_key`)."""

    def __init__(self, unit_key: UnitKey | None) -> None:
        self._checks_twins = unit_key is None
        self._folds = bytearray()

    def add(self, keys: Sequence[str], *, whole: bool) -> Array:
        """The names `(n, 16)` of the next units, whose ids are whole numbers or not."""
        digests = names(keys)
        if self._checks_twins and not whole:
            folds = [fold_key(text) for text in keys]
            self._folds += (digests if folds == list(keys) else names(folds)).tobytes()
        return digests

    def twins(self) -> Array:
        """The places of units whose ids differ from another's by case or form alone."""
        return duplicates(np.frombuffer(bytes(self._folds), np.uint8).reshape(-1, NAME_BYTES))
