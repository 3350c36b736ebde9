"""Public blocks of cells: how large they should be for a given noise, and how near to one another they are."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.data.grids import EARTH_KM, Grid, RegularGrid
from tacit.data.h3_grid import H3Grid

Floats = NDArray[np.float64]

SIDE_KM = 25.0
"""Side of the blocks where the noise is as large as everybody together."""
FARTHER = 8
"""About so many fine blocks lie along a side of a block of blocks."""
NUMBERS = 2**23
"""Most numbers that all people's vectors hold together."""
STRONGEST = 500
"""So many occupied blocks say where others are to be expected."""
MIXED = 0.5


def side_km(grid: Grid) -> float:
    """About the side of a cell in the middle of the grid, km: the root of a cell's mean area."""
    if isinstance(grid, RegularGrid):
        width = grid.step if grid.width is None else grid.width
        level = math.cos(math.radians((grid.south + grid.north) / 2))
        return math.radians(1.0) * EARTH_KM * math.sqrt(grid.step * width * max(level, 1e-3))
    some = np.radians(grid.centres(np.unique(np.linspace(0, grid.size - 1, 10_000).astype(np.int64))))
    (south, west), (north, east) = some.min(axis=0), some.max(axis=0)
    return EARTH_KM * math.sqrt((math.sin(north) - math.sin(south)) * (east - west) / grid.size)


def diagonal_km(grid: Grid) -> float:
    """About the longest distance in the grid, km."""
    return side_km(grid) * math.sqrt(2 * grid.size)


def scales(grid: Grid) -> tuple[tuple[int, float], ...]:
    """Factors of `grid.coarse`, from the cells themselves upwards, each with the side of its blocks in cells: 1, 2, 5,
    10, 20 ... cells, or the resolutions of hexagons."""
    if isinstance(grid, H3Grid):
        return tuple((up, 7.0 ** (up / 2)) for up in range(grid.resolution + 1))
    return tuple((step * int(10**decade), float(step * 10**decade)) for decade in range(6) for step in (1, 2, 5))


def blocks_of_blocks(blocks: Grid) -> int | None:
    """The factor of the blocks of about `FARTHER` blocks a side; None where there is none so large."""
    if isinstance(blocks, H3Grid):
        return 2 if blocks.resolution >= 2 else None
    return FARTHER


def block_factor(grid: Grid, people: int, noise: float) -> int:
    """The factor of `grid.coarse` (one of `scales`) for blocks of a size that fits the noise; the rule knows no record.

    The side grows with the cube root of the noise, which balances what a coarse block blurs (its side) against what
    noise adds over all blocks (noise over squared side): 25 km times the root, about 10 km for 83 people at epsilon 2
    and 2 km for 10,000. Vectors of all people together stay below `NUMBERS` numbers.

    Args:
        grid: the public grid.
        people: their public number.
        noise: standard deviation of the noise in the mean of vectors of norm 1.
    """
    wanted = max(SIDE_KM * min(noise, 1.0) ** (1 / 3) / side_km(grid), 1e-9)
    ladder = scales(grid)
    at = int(np.argmin([abs(math.log(side / wanted)) for _, side in ladder]))
    while grid.coarse(ladder[at][0]).size * people > NUMBERS and at < len(ladder) - 1:
        at += 1
    return ladder[at][0]


def near(blocks: Grid, prior: Floats) -> Callable[[Floats], Floats]:
    """How a found distribution changes what is expected elsewhere: towns thin out from their centres.

    Returns:
        From the found masses [G] the next prior [G]: half the old one, half the old one weighted by nearness, a mass
        counting (1 + (distance / side)^2)^-1.5.
    """
    places = np.radians(blocks.centres(np.arange(blocks.size)))
    level = np.cos(places[:, 0])
    on_sphere = np.stack([level * np.cos(places[:, 1]), level * np.sin(places[:, 1]), np.sin(places[:, 0])], axis=1) * (
        EARTH_KM / side_km(blocks)
    )

    def expected(found: Floats) -> Floats:
        strongest = np.argsort(-found, kind="stable")[:STRONGEST]
        strongest = strongest[found[strongest] > 1e-3 * found.sum()]
        around = np.zeros(len(prior))
        for at in strongest:
            away = np.square(on_sphere - on_sphere[at]).sum(axis=1)
            kernel = prior * (1 + away) ** -1.5
            around += found[at] * kernel / kernel.sum()
        total = around.sum()
        return (1 - MIXED) * prior + MIXED * around / total if total > 0 else prior

    return expected
