"""Tallies: contributions that count a unit's rows in tables, at the cost of its rows and not of the tables' cells.

A callback names the cell of every row in each table. All else is the vault's: the mean of the unit's rows as one-hot
vectors, its norm, its clip, and the sum. So a callback cannot promise a bound that it does not keep.

| input                                   | result                                                              |
|-----------------------------------------|---------------------------------------------------------------------|
| several rows of a unit in one cell      | counted together, so that the norm is that of the whole vector       |
| a unit without rows                     | adds nothing                                                        |
| a cell outside its table, or no integer | `MechanismError`                                                    |
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import MechanismError
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.base import Contribution, Rows

Cells = Sequence[NDArray[np.int64]]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DENSE = 8
"""Cells a row up to which all cells of a table are counted; rows are sorted by their cells where there are more."""


class Tally(Protocol):
    """What is counted of a unit's rows: a frozen dataclass whose fields are public.

    A unit adds the mean of its rows' one-hot vectors, table after table. Unlike a `Contribution`, it is not callable.
    """

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each table."""

    def cells(self, rows: Rows, state: Any) -> Cells:
        """Rows of many units without padding, each column [M, ...] -> of each table, the cell [M] of every row."""


def contribution_vectors(contribution: Contribution | Tally, rows: Rows, state: Any) -> Floats:
    """The contributions [U, d] of units with padded rows, each column [U, L, ...], not clipped.

    Raises:
        MechanismError: a tally names cells that are not there.
    """
    if callable(contribution):
        return np.asarray(contribution(rows, state), np.float64)
    mask = rows["mask"]
    units, owner = len(mask), np.nonzero(mask)[0]
    alone = {name: column[mask] for name, column in rows.items() if name != "mask" and column.shape[:2] == mask.shape}
    shares = 1 / np.maximum(np.bincount(owner, minlength=units), 1)[owner]
    tables = zip(require_cells(contribution, alone, state, len(owner)), contribution.sizes, strict=True)
    return np.hstack(
        [np.bincount(owner * size + cell, shares, units * size).reshape(units, size) for cell, size in tables]
    )


def clipped_tallies(
    tally: Tally, rows: Rows, state: Any, clip: float, owner: Integers, replicate: Integers, sums: Floats, lost: Floats
) -> None:
    """Add the clipped contributions of units to the sums of their replicates.

    Args:
        tally: names the cells.
        rows: each column [M, ...].
        state: the tally's, public.
        clip: the bound of a unit's contribution.
        owner: the unit of each row [M], rising, from 0 to U - 1.
        replicate: of each unit [U], rising, from 0 to R - 1.
        sums, lost: [R, d], float64, to be added to, and what is rounded away of them.

    Guarantee: each unit adds a vector of norm at most `clip`, whatever cells were named: its norm is computed from the
    counts of its rows, in whole numbers. Blocks of `clipping.BLOCK` rows are added up first,
    and as many blocks before they are added to the sums (`floating_point.md`).

    Raises:
        MechanismError: the tally names cells that are not there; or see `clipping.require_clip`.
    """
    cells = require_cells(tally, rows, state, len(owner))
    count = np.bincount(owner, minlength=len(replicate))
    shares = 1 / np.maximum(count, 1)
    norms = np.sqrt(_squares(cells, tally.sizes, owner, count)) * shares
    weights = (clipping.coefficients(norms, clip) * shares)[owner]
    ends = np.searchsorted(replicate[owner], np.arange(len(sums) + 1))
    # only cells that some row has: a block costs as much as there are of them, however many a table has
    there = [np.bincount(cell, minlength=size) > 0 for cell, size in zip(cells, tally.sizes, strict=True)]
    kept = [np.flatnonzero(some) for some in there]
    cells = [(np.cumsum(some) - 1)[cell] for some, cell in zip(there, cells, strict=True)]
    places = np.concatenate([some + begin for some, begin in zip(kept, np.cumsum([0, *tally.sizes]), strict=False)])
    columns = list(itertools.pairwise(np.cumsum([0, *map(len, kept)])))
    for r, (start, end) in enumerate(itertools.pairwise(ends)):
        total, residual = sums[r, places], lost[r, places]
        for several in range(start, end, clipping.BLOCK**2):
            added = np.zeros_like(total)
            for first in range(several, min(several + clipping.BLOCK**2, end), clipping.BLOCK):
                block = slice(first, min(first + clipping.BLOCK, end))
                for cell, (a, b) in zip(cells, columns, strict=True):
                    added[a:b] += np.bincount(cell[block], weights[block], b - a)
            clipping.add_compensated(total, residual, added)
        sums[r, places], lost[r, places] = total, residual


def _squares(cells: Cells, sizes: tuple[int, ...], owner: Integers, count: Integers) -> Integers:
    """The squared norm of each unit's counts in all tables, [U]."""
    squares: Integers = len(sizes) * (count == 1).astype(np.int64)
    several = count > 1
    inside = several[owner]
    if not inside.any():
        return squares
    local_units = (np.cumsum(several) - 1)[owner[inside]]
    units = int(local_units[-1]) + 1
    for cell, size in zip(cells, sizes, strict=True):
        keys = local_units * size + cell[inside]
        if units * size <= DENSE * len(keys):
            table = np.bincount(keys, minlength=units * size).reshape(units, size)
            squares[several] += np.einsum("uc,uc->u", table, table)
            continue
        keys.sort()  # every unit keeps its places
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        often = np.diff(starts, append=len(keys))
        squares[several] += np.bincount(local_units[starts], often * often, units).astype(np.int64)
    return squares


def require_cells(tally: Tally, rows: Rows, state: Any, count: int) -> list[Integers]:
    """Of each table, the cell that a tally names for every one of so many rows.

    Raises:
        MechanismError: it names cells that are not there.
    """
    cells = [np.asarray(cell) for cell in tally.cells(rows, state)]
    if len(cells) != len(tally.sizes) or not all(
        cell.shape == (count,) and cell.dtype.kind in "iu" and (count == 0 or (cell.min() >= 0 and cell.max() < size))
        for cell, size in zip(cells, tally.sizes, strict=True)
    ):
        what = "a tally names other cells than its tables have"
        expected = "of each table, one whole number a row, from 0 to its size - 1"
        remedy = "cut columns by public edges, with outer cells for what lies outside"
        raise MechanismError(what, where=type(tally).__qualname__, expected=expected, remedy=remedy)
    return [cell.astype(np.int64, copy=False) for cell in cells]
