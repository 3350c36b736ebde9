"""What becomes of the keys of units and episodes: dense codes, names, and for shards keyed digests. No id is kept."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from tacit.data.store import Array
from tacit.data.unit_keys import NAME_BYTES, duplicates, fold_key, names
from tacit.units import UnitKey

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
