"""Ids of units and episodes become dense codes; the ids themselves are not kept."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from tacit.data.store import Array


class Codes:
    """Ids -> dense codes `0, 1, ...` in order of first appearance; the ids themselves are dropped with this object."""

    def __init__(self) -> None:
        self.count = 0
        self._rising: list[Array] = []  # whole-number ids that have only ever grown need no table
        self._table: dict[Hashable, int] | None = None

    def encode(self, ids: Array) -> Array:
        """Codes of the next ids: `(n,)` int64, or `(n,)` objects that are text or whole numbers -> `(n,)` int64."""
        if self._table is None and ids.dtype != object:
            last = self._rising[-1][-1] if self._rising else None
            if (last is None or ids[0] >= last) and bool(np.all(ids[1:] >= ids[:-1])):
                new = np.ones(len(ids), dtype=np.bool_)
                new[0], new[1:] = last is None or ids[0] > last, ids[1:] != ids[:-1]
                codes = self.count - 1 + np.cumsum(new)
                self.count += int(new.sum())
                if new.any():
                    self._rising.append(ids[new])
                return codes
        if self._table is None:
            known: Sequence[int] = np.concatenate(self._rising).tolist() if self._rising else []
            self._table, self._rising = {value: code for code, value in enumerate(known)}, []
        table = self._table
        codes = np.fromiter((table.setdefault(value, len(table)) for value in ids.tolist()), np.int64, len(ids))
        self.count = len(table)
        return codes
