"""Histograms of rows on public bins, and weights of synthetic rows that match them.

Weights come from iterative proportional fitting ("raking", Deming & Stephan 1940, doi:10.1214/aoms/1177731829), after
each noisy table was drawn towards the synthetic rows' own one by as much as its noise explains of their difference
(James & Stein 1961).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.mechanisms.marginals import DIFFERENCES
from tacit.privacy.mechanisms.releases import Axis

if TYPE_CHECKING:
    from tacit.privacy.vault.base import Run
    from tacit.privacy.vault.vault import Vault

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Columns = Mapping[str, NDArray[Any]]
Table = tuple[Axis, ...]
"""Columns that are counted together."""

_LEAST = 1e-12
"""A share of the rows below this is none."""


@dataclass(frozen=True)
class Histograms:
    """What one unit adds: the mean one-hot vectors of its rows, table after table."""

    tables: tuple[Table, ...]

    def __call__(self, rows: Columns, state: None) -> Floats:
        """Columns [U, L, ...] with `mask` [U, L] -> [U, bins of all tables]."""
        mask = rows["mask"]
        share = (mask / np.maximum(1, mask.sum(axis=1, keepdims=True))).ravel()
        found = []
        for table, codes in zip(self.tables, codes_of(self.tables, rows), strict=True):
            size = math.prod(len(axis.edges) - 1 for axis in table)
            flat = (np.arange(len(mask))[:, None] * size + codes).ravel()
            found.append(np.bincount(flat, share, len(mask) * size).reshape(len(mask), size))
        return np.concatenate(found, axis=1)


def asked(vault: Vault, run: Run, part: str, tables: tuple[Table, ...]) -> Iterator[Floats]:
    """The sums of the histograms that are left, one after another, each [bins of all tables]."""
    contribution = Histograms(tables)
    while vault.steps_left(run, part):
        yield vault.noisy_sum(run, part, contribution)[0]


def codes_of(tables: Sequence[Table], rows: Columns) -> list[Codes]:
    """The cell of every row in each table, in the shape of the rewards; what lies outside falls into outer bins."""
    bins = {axis: _bins(axis, rows) for table in tables for axis in table}
    codes = []
    for table in tables:
        code = np.zeros(rows["rewards"].shape, np.int64)
        for axis in table:
            code = code * (len(axis.edges) - 1) + bins[axis]
        codes.append(code)
    return codes


def simplex(counts: Floats, total: float) -> Floats:
    """The nearest counts (in L2) that are nowhere negative and add up to `total` > 0: PrivSyn's "Norm-Sub"."""
    highest = np.sort(counts.ravel())[::-1]
    levels = (np.cumsum(highest) - total) / np.arange(1, highest.size + 1)
    level = levels[np.flatnonzero(highest > levels)[-1]]
    return np.asarray(np.maximum(counts - level, 0.0))


def shrunk(table: Floats, own: Floats, deviation: float) -> Floats:
    """A noisy table, drawn towards the synthetic rows' own by the share of their difference that is noise."""
    difference = np.asarray(table - own)
    squares = float(np.square(difference).sum())
    kept = 0.0 if squares == 0 else max(0.0, 1 - difference.size * deviation**2 / squares)
    return np.asarray(own + kept * difference)


def raked(codes: Sequence[Codes], goals: Sequence[Floats], sweeps: int) -> Floats:
    """Weights [M] of rows that bring table after table to its goal, `sweeps` times.

    Args:
        codes: of each table, the cell [M] of every row.
        goals: of each table, the share of each cell; what no row lies in is shared by the others.
        sweeps: over all tables.
    """
    weights = np.full(len(codes[0]), 1 / len(codes[0]))
    for _ in range(sweeps):
        for code, goal in zip(codes, goals, strict=True):
            present = np.bincount(code, weights, len(goal))
            factor = np.where(present > _LEAST, goal / np.maximum(present, _LEAST), 0.0)
            moved = weights * factor[code]
            if (total := moved.sum()) > 0:  # else no row at all lies where this table has its shares
                weights = moved / total
    return np.asarray(weights)


def effective(weights: Floats) -> float:
    """How many equally weighted rows are as good as these (Kish 1965): 1 / sum of squared weights."""
    return float(1 / np.square(weights).sum())


def resampled(weights: Floats, count: int, rng: np.random.Generator) -> Codes:
    """Indices [count] of rows, each as often as its weight says up to one, in random order."""
    heights = np.cumsum(weights)
    at = (rng.random() + np.arange(count)) / count * heights[-1]
    return rng.permutation(np.minimum(np.searchsorted(heights, at, side="right"), len(weights) - 1))


def _bins(axis: Axis, rows: Columns) -> Codes:
    if axis.column == DIFFERENCES:
        values = np.subtract(rows["next_observations"], rows["observations"])
    else:
        values = rows[axis.column]
    if values.ndim > rows["rewards"].ndim:
        values = values[..., axis.index]
    return np.searchsorted(axis.edges[1:-1], values, side="right")
