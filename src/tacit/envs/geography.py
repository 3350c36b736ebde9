"""The public ground of the synthetic city: where people live, what attracts them, and which cells are near which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.grids import RegularGrid, haversine_km

__all__ = ["GRID", "Geography", "apart", "between", "by_gravity", "geography", "neighbour", "ranked"]

GRID = RegularGrid.of_metres((39.765, 116.224, 40.035, 116.576), 500)
"""The public square of the default city, 30 km wide."""

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Geography:
    """Public: where people live and what attracts them.

    Attributes:
        grid: the grid.
        density: [cells] probability of a home.
        attraction: [cells] relative, mean 1.
    """

    grid: RegularGrid
    density: FloatArray
    attraction: FloatArray


def geography(grid: RegularGrid = GRID, *, layout: int = 0) -> Geography:
    """Twelve population centres with Zipf weights on a thin background; the same `layout` gives the same city."""
    rng = np.random.default_rng([layout, 7])
    points = grid.centres(np.arange(grid.size))
    low, high = points.min(axis=0), points.max(axis=0)
    middles = (low + high) / 2 + (high - low) * np.clip(rng.normal(0, 0.2, (12, 2)), -0.45, 0.45)
    reach = rng.lognormal(np.log(1.5), 0.4, 12)
    weight = np.arange(1, 13) ** -1.0
    near = np.exp(-haversine_km(points[:, None], middles) / reach) * (weight / reach**2)
    density = near.sum(axis=1) * rng.lognormal(0, 0.5, grid.size)
    density = density / density.sum() * 0.95 + 0.05 / grid.size
    attraction = density**1.1 * rng.lognormal(0, 0.8, grid.size)
    return Geography(grid, density, attraction / attraction.mean())


def by_gravity(home: IntArray, land: Geography, rng: np.random.Generator) -> IntArray:
    """A cell for each home with probability ~ attraction exp(-distance / 7 km)."""
    homes, index = np.unique(home, return_inverse=True)
    points = land.grid.centres(np.arange(land.grid.size))
    found = np.empty(len(home), dtype=np.int64)
    order, level = np.argsort(index, kind="stable"), rng.random(len(home))
    ends = np.cumsum(np.bincount(index, minlength=len(homes)))
    for i, here in enumerate(homes):
        own = order[ends[i - 1] if i else 0 : ends[i]]
        total = np.cumsum(land.attraction * np.exp(-haversine_km(points[here], points) / 7.0))
        found[own] = np.searchsorted(total, level[own] * total[-1], side="right")
    return np.minimum(found, land.grid.size - 1)


def ranked(cells: IntArray, land: Geography, rng: np.random.Generator) -> IntArray:
    """Of two cells near each of `cells` by the rank law, the one that attracts more, mostly."""
    first, second = _nearby(cells, land.grid, rng), _nearby(cells, land.grid, rng)
    a, b = land.attraction[first], land.attraction[second]
    return np.where(rng.random(len(cells)) * (a + b) < a, first, second)


def _nearby(cells: IntArray, grid: RegularGrid, rng: np.random.Generator) -> IntArray:
    """The k-th nearest cell or so, P(k) ~ k^-.9 for k from 2 to 2,000, mirrored at the edges of the grid."""
    low, high = 2.0**0.1, 2_000.0**0.1
    k = (low + (high - low) * rng.random(len(cells))) ** 10
    radius, turn = np.sqrt(k / np.pi), rng.random(len(cells)) * 2 * np.pi
    row, column = np.divmod(cells, grid.columns)
    up = _mirrored(row + np.rint(radius * np.sin(turn)).astype(np.int64), grid.rows)
    east = _mirrored(column + np.rint(radius * np.cos(turn)).astype(np.int64), grid.columns)
    found: IntArray = up * grid.columns + east
    return found


def _mirrored(index: IntArray, size: int) -> IntArray:
    folded = np.abs(index) % max(2 * size - 2, 1)
    return np.minimum(folded, max(2 * size - 2, 1) - folded) if size > 1 else np.zeros_like(index)


def neighbour(cells: IntArray, grid: RegularGrid, rng: np.random.Generator) -> IntArray:
    """One of three neighbours that a cell always has, mostly the first."""
    which = np.searchsorted([0.8, 0.95], rng.random(len(cells)))
    turn = (cells * 2_654_435_761 + which * 3) % 8
    row, column = np.divmod(cells, grid.columns)
    up = _mirrored(row + np.array([1, 1, 0, -1, -1, -1, 0, 1])[turn], grid.rows)
    east = _mirrored(column + np.array([0, 1, 1, 1, 0, -1, -1, -1])[turn], grid.columns)
    found: IntArray = up * grid.columns + east
    return found


def apart(a: IntArray, b: IntArray, grid: RegularGrid) -> IntArray:
    """Rows or columns between cells, whichever are more."""
    steps: IntArray = np.maximum(
        np.abs(a // grid.columns - b // grid.columns), np.abs(a % grid.columns - b % grid.columns)
    )
    return steps


def between(a: IntArray, b: IntArray, grid: RegularGrid, rng: np.random.Generator) -> IntArray:
    """A cell on the way from a to b."""
    part = 0.25 + 0.5 * rng.random(len(a))
    row = np.rint(a // grid.columns * (1 - part) + b // grid.columns * part).astype(np.int64)
    column = np.rint(a % grid.columns * (1 - part) + b % grid.columns * part).astype(np.int64)
    found: IntArray = row * grid.columns + column
    return found
