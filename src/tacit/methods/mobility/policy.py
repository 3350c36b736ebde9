"""A policy of movement as a table: probabilities of the actions for each day type and each public bucket of states."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.days import SLOTS
from tacit.errors import DataError
from tacit.serialization import from_json, to_json
from tacit.validation import check

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Public buckets of states: time block x different cells so far x slots in the present cell x whether at home.

    Bucket (b, c, s, h) has the number ((b C + c) S + s) 2 + h.

    Args:
        times: B, number of equal blocks of the day's 48 slots.
        counts: lower ends of the bins of different cells, the first 1.
        stays: lower ends of the bins of slots in the present cell, the first 1.

    Raises:
        PlanError: a number is out of range or the ends do not increase from 1.
    """

    times: int = 1
    counts: tuple[int, ...] = (1,)
    stays: tuple[int, ...] = (1, 2, 4)

    def __post_init__(self) -> None:
        check("layout.times", self.times, type(self.times) is int and 1 <= self.times <= SLOTS, "from 1 to 48")
        for name in ("counts", "stays"):
            ends = getattr(self, name)
            rising = len(ends) > 0 and ends[0] == 1 and all(a < b <= SLOTS for a, b in itertools.pairwise(ends))
            whole = isinstance(ends, tuple) and all(type(end) is int for end in ends)
            check(f"layout.{name}", ends, whole and rising, "a tuple of whole numbers that increase from 1, at most 48")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Numbers of time blocks, bins of cells, bins of stays, and 2."""
        return self.times, len(self.counts), len(self.stays), 2

    @property
    def size(self) -> int:
        """K, the number of buckets."""
        return int(np.prod(self.shape))

    def buckets(self, slot: IntArray | int, distinct: IntArray, stay: IntArray, home: Mask) -> IntArray:
        """Bucket of each state, for slots 0 .. 47 and arrays of one shape."""
        block = np.asarray(slot) * self.times // SLOTS
        count = np.searchsorted(self.counts, distinct, side="right") - 1
        length = np.searchsorted(self.stays, stay, side="right") - 1
        _, counts, stays, _ = self.shape
        found: IntArray = ((block * counts + count) * stays + length) * 2 + home
        return found

    @property
    def block_shares(self) -> FloatArray:
        """Share [B] of a day's 47 steps that begin in each time block."""
        blocks = np.arange(SLOTS - 1) * self.times // SLOTS
        return np.bincount(blocks, minlength=self.times) / (SLOTS - 1)


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """Probabilities of the actions by day type and bucket, a `movement.Policy`.

    Args:
        layout: the buckets.
        table: [kinds, K, 4] or [kinds, K, 5], each row a distribution.

    Raises:
        DataError: the table has another shape, or a row is no distribution.
    """

    layout: Layout
    table: FloatArray

    def __post_init__(self) -> None:
        table = np.asarray(self.table, np.float64)
        shaped = table.ndim == 3 and len(table) > 0 and table.shape[1] == self.layout.size and table.shape[2] in (4, 5)
        if not shaped or not (np.all(table >= 0) and np.allclose(table.sum(axis=2), 1.0, atol=1e-6)):
            raise DataError(
                "the table is not one of probabilities over the layout",
                where="TablePolicy",
                expected=f"[kinds, {self.layout.size}, 4 or 5], rows that add up to 1",
                remedy="normalise the rows, or take the layout that the table was made for",
            )
        object.__setattr__(self, "table", table)

    @property
    def kinds(self) -> int:
        """Number of latent day types."""
        return len(self.table)

    def probabilities(self, kind: IntArray, slot: int, distinct: IntArray, stay: IntArray, home: Mask) -> FloatArray:
        """See `movement.Policy`."""
        return np.asarray(self.table[kind, self.layout.buckets(slot, distinct, stay, home)])

    def to_json(self) -> dict[str, Any]:
        """JSON values for `from_json`."""
        layout = to_json(self.layout)
        return {"kind": "table", "layout": layout, "table": self.table.tolist()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TablePolicy:
        """The policy that `to_json` wrote.

        Raises:
            DataError, PlanError: a field is missing or out of range.
        """
        try:
            return cls(from_json(Layout, values["layout"]), np.asarray(values["table"], np.float64))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                "the values are not those of a policy",
                where="TablePolicy.from_json",
                expected="layout and table",
                remedy="use the JSON that to_json of the policy wrote",
            ) from error
