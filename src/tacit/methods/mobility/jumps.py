"""How far exploring leads: every person's histogram of distances, and the law read out of its noisy mean.

The distance of a step to a place that is new that day is counted in logarithmic bins. A person adds her histogram
scaled to norm 1, as with `starts`; a law's direction is uniform.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.days import EXPLORE, actions, days_of
from tacit.data.grids import Grid, haversine_km
from tacit.envs.spaces import JumpLaw
from tacit.methods.mobility.blocks import diagonal_km, side_km

Floats = NDArray[np.float64]

JUMPS = "jumps"
"""The part's name."""
CLIP = 1.0
BINS = 16
FARTHEST_KM = 3000.0
NEAREST = 0.75
"""The least distance, in sides of a cell."""
SMOOTH = 2.0
"""Bins over which the law is taken to be smooth."""


@dataclass(frozen=True)
class Distances:
    """How often a person explores over distances of each bin.

    Args:
        grid: the public grid.
        edges: [B + 1] rising edges of the bins, km; what lies outside counts in the bin at that end.
    """

    grid: Grid
    edges: tuple[float, ...]

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rows [U, L] -> "jumps" [U, B]."""
        cells, owner = days_of(rows)
        counts = np.zeros((len(rows["mask"]), len(self.edges) - 1))
        day, slot = np.nonzero(actions(cells) == EXPLORE)
        here, there = self.grid.centres(cells[day, slot]), self.grid.centres(cells[day, slot + 1])
        at = np.searchsorted(np.array(self.edges), haversine_km(here, there), side="right") - 1
        np.add.at(counts, (owner[day], np.clip(at, 0, len(self.edges) - 2)), 1.0)
        return {"jumps": counts}


@dataclass(frozen=True)
class JumpSums:
    """What a person adds: her histogram of distances of norm 1.

    Args:
        grid, edges: as for `Distances`.
    """

    grid: Grid
    edges: tuple[float, ...]

    @classmethod
    def sized(cls, grid: Grid) -> JumpSums:
        """Sixteen bins from just below the side of a cell to the grid's diagonal, at most 3,000 km."""
        low = NEAREST * side_km(grid)
        edges = np.geomspace(low, max(2 * low, min(FARTHEST_KM, diagonal_km(grid))), BINS + 1)
        return cls(grid, tuple(float(edge) for edge in edges))

    @property
    def summary(self) -> Distances:
        """What is kept of each person."""
        return Distances(self.grid, self.edges)

    @property
    def size(self) -> int:
        """B, the length of a person's vector."""
        return len(self.edges) - 1

    def __call__(self, rows: Mapping[str, np.ndarray], state: object = None) -> np.ndarray:
        """[U, B], each row of norm 1, or 0 for a person who never explores."""
        counts = np.asarray(rows["jumps"], np.float64)
        norms = np.sqrt(np.square(counts).sum(axis=1, keepdims=True))
        return np.asarray(counts / np.maximum(norms, 1.0))

    def read(self, mean: Floats, noise: float) -> JumpLaw:
        """The law behind a noisy mean.

        Args:
            mean: [B], the released sum over people divided by their number.
            noise: its known standard deviation.
        """
        masses = smoothed(np.asarray(mean, np.float64).reshape(-1), noise)
        total = masses.sum()
        p = masses / total if total > 0 else np.full(len(masses), 1 / len(masses))
        return JumpLaw(self.grid, self.edges, tuple(float(x) for x in p))


def smoothed(seen: Floats, noise: float) -> Floats:
    """Posterior mean [B] >= 0 of a smooth curve seen with known noise.

    A Gaussian process over the bins around the mean of what is seen, with a squared exponential kernel of length
    `SMOOTH`; its scale is the one of a public ladder that makes what is seen most likely.
    """
    if noise <= 0:
        return np.maximum(seen, 0.0)
    bins = np.arange(len(seen))
    kernel = np.exp(-np.square(bins[:, None] - bins) / (2 * SMOOTH**2))
    level = max(float(seen.mean()), 0.0)
    best = None
    for scale in 2.0 ** np.arange(-8, 3) * max(level, noise):
        prior = scale**2 * kernel
        cholesky = np.linalg.cholesky(prior + noise**2 * np.eye(len(seen)))
        white = np.linalg.solve(cholesky, seen - level)
        score = -0.5 * float(white @ white) - float(np.log(np.diag(cholesky)).sum())
        if best is None or score > best[0]:
            best = score, level + prior @ np.linalg.solve(cholesky.T, white)
    assert best is not None
    return np.asarray(np.maximum(best[1], 0.0))
