"""What becomes of the ids of units and episodes: dense codes, and for shards keyed digests. No id is kept."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Hashable
from typing import Any

import numpy as np

from tacit.data.store import Array

MOST_RUNS = 64
"""Growing runs of whole numbers, such as files that are sorted each, that need no table."""


class Codes:
    """Ids -> dense codes `0, 1, ...` in order of first appearance; the ids themselves are dropped with this object."""

    def __init__(self) -> None:
        self.count = 0
        self._rising: list[Array] = []  # ids that have only grown since the last run need no table
        self._runs: list[Array] = []  # whole numbers that grew before: those of a file that is sorted, say
        self._last: Hashable = None
        self._table: dict[Hashable, int] | None = None

    def encode(self, ids: Array) -> Array:
        """Codes of the next ids: `(n,)` int64, or `(n,)` objects that are text or whole numbers -> `(n,)` int64."""
        packed = _packed(ids) if self._table is None else None
        new = None if packed is None else _grown(self._last, ids, packed)
        if packed is not None and new is None and packed.dtype.kind in "iu" and len(self._runs) < MOST_RUNS:
            new = _grown(None, ids, packed)
            if new is not None and self._rising:
                self._close_run()
        if packed is not None and new is not None and not self._known(packed[new]):
            codes: Array = self.count - 1 + np.cumsum(new)
            self.count += int(new.sum())
            self._rising.append(packed[new])
            self._last = ids[-1]
            return codes
        if self._table is None:
            if self._rising:
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
        self._runs.append(np.concatenate(self._rising))
        self._rising = []

    def _known(self, ids: Array) -> bool:
        """Whether an earlier run holds one of these whole numbers."""
        return any((run[np.minimum(np.searchsorted(run, ids), len(run) - 1)] == ids).any() for run in self._runs)

    def differ_in_case_alone(self) -> bool:
        """Whether there are two texts among the ids that are one but for their upper and lower case."""
        if self._table is not None:
            texts = [value for value in self._table if isinstance(value, str)]
            return len({text.casefold() for text in texts}) < len(texts)
        if not self._rising or self._rising[0].dtype.kind != "S":
            return False
        ids = np.concatenate(self._rising)
        lower = np.char.lower(ids)
        return not np.array_equal(lower, ids) and len(np.unique(lower)) < len(ids)


def _packed(ids: Array) -> Array | None:
    """Ids without an object each: int64, or bytes of ASCII text; None of any others."""
    if ids.dtype != object:
        return ids
    with contextlib.suppress(TypeError, UnicodeEncodeError):
        if "\0" not in "".join(ids):  # the bytes would lose one at the end
            return ids.astype("S")
    return None


def _grown(last: Any, ids: Array, packed: Array) -> Array | None:
    """Which ids are larger than the one before, the first than `last`; None where one is smaller.

    Of two texts the longer one is larger, so that numbers written as text grow as numbers do.
    """
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
    """Keyed digests of ids, by which shards are compared without showing an id.

    Args:
        key: secret bytes, 16 to 64, the same for all shards of one run and for no other.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._parts = bytearray(self._digest(b""))

    def add(self, ids: Array) -> None:
        """The next ids: text or whole numbers, which count as their digits."""
        for value in ids.tolist():
            self._parts += self._digest(str(value).encode("utf-8", "surrogatepass"))

    def finish(self) -> Array:
        """The digest of no id, which tells the key, and then each id's, two words each, shape `(1 + U, 2)` int64."""
        return np.frombuffer(bytes(self._parts), "<i8").reshape(-1, 2)

    def _digest(self, text: bytes) -> bytes:
        return hashlib.blake2b(text, key=self._key, digest_size=16).digest()


def first_places(codes: Array, known: int) -> Array:
    """Where each new code, `known` and above, occurs first, in the order of the codes."""
    new = np.flatnonzero(codes >= known)
    return new[np.unique(codes[new], return_index=True)[1]]
