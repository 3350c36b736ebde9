"""Public blocks of cells, and a distribution over many of them out of noisy counts with known noise (empirical Bayes).

Going down from the whole, a block either holds its share of what its parent holds (by the prior), or an exponential
mass of its own. How many blocks hold masses of their own is what makes the noisy counts of a level most likely. What a
block is given is its posterior mean, and the blocks of a parent add up to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.grids import EARTH_KM, Grid, H3Grid, RegularGrid

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
    centres = np.radians(grid.centres(np.unique(np.linspace(0, grid.size - 1, 10_000).astype(np.int64))))
    (south, west), (north, east) = centres.min(axis=0), centres.max(axis=0)
    return EARTH_KM * math.sqrt((math.sin(north) - math.sin(south)) * (east - west) / grid.size)


def scales(grid: Grid) -> tuple[tuple[int, float], ...]:
    """Factors of `grid.coarse`, from the cells themselves upwards, each with the side of its blocks in cells: 1, 2, 5,
    10, 20 ... cells, or the resolutions of hexagons."""
    if isinstance(grid, H3Grid):
        return tuple((up, 7.0 ** (up / 2)) for up in range(grid.resolution + 1))
    return tuple((step * int(10**decade), float(step * 10**decade)) for decade in range(6) for step in (1, 2, 5))


def coarse_factor(blocks: Grid) -> int | None:
    """The factor of the blocks of about `FARTHER` blocks a side; None where there is none so large."""
    if isinstance(blocks, H3Grid):
        return 2 if blocks.resolution >= 2 else None
    return FARTHER


def block_factor(grid: Grid, people: int, noise: float) -> int:
    """The factor of `grid.coarse` (one of `scales`) for blocks of a size that fits the noise; the rule knows no
    record."""
    # The side grows with the cube root of the noise, which balances what a coarse block blurs (its side) against what
    # noise adds over all blocks (noise over squared side): 25 km times the root, about 10 km for 83 people at epsilon 2
    # and 2 km for 10,000. Vectors of all people together stay below `NUMBERS` numbers.
    # noise: standard deviation of the noise in the mean of vectors of norm 1
    target_side = max(SIDE_KM * min(noise, 1.0) ** (1 / 3) / side_km(grid), 1e-9)
    ladder = scales(grid)
    at = int(np.argmin([abs(math.log(side / target_side)) for _, side in ladder]))
    while grid.coarse_grid(ladder[at][0]).size * people > NUMBERS and at < len(ladder) - 1:
        at += 1
    return ladder[at][0]


def proximity_prior(blocks: Grid, prior: Floats) -> Callable[[Floats], Floats]:
    """How a found distribution changes what is expected elsewhere: towns thin out from their centres."""
    # returns: From the found masses [G] the next prior [G]: half the old one, half the old one weighted by nearness, a
    # mass counting (1 + (distance / side)^2)^-1.5
    places = np.radians(blocks.centres(np.arange(blocks.size)))
    level = np.cos(places[:, 0])
    on_sphere = np.stack([level * np.cos(places[:, 1]), level * np.sin(places[:, 1]), np.sin(places[:, 0])], axis=1) * (
        EARTH_KM / side_km(blocks)
    )

    def update_prior(distribution: Floats) -> Floats:
        strongest = np.argsort(-distribution, kind="stable")[:STRONGEST]
        strongest = strongest[distribution[strongest] > 1e-3 * distribution.sum()]
        density = np.zeros(len(prior))
        for at in strongest:
            squared_distance = np.square(on_sphere - on_sphere[at]).sum(axis=1)
            kernel = prior * (1 + squared_distance) ** -1.5
            density += distribution[at] * kernel / kernel.sum()
        total = density.sum()
        return (1 - MIXED) * prior + MIXED * density / total if total > 0 else prior

    return update_prior


MOST_WHOLE = 1.25
"""The most that all people together may hold: a histogram of norm 1 sums to 1 with one home, to more with several."""
DOUBLINGS = 16


@dataclass(frozen=True, eq=False)
class Level:
    """Noisy masses of the cells of one level [G], the standard deviation of their noise, and each cell's parent in the
    level before [G] (0 for all in the first)."""

    noisy_masses: Floats
    noise: float
    parent: NDArray[np.int64]


def estimate_probabilities(
    levels: Sequence[Level], prior: Floats, update_prior: Callable[[Floats], Floats] | None = None
) -> Floats:
    """Probabilities of the cells of the last level [G]."""
    # expected: from the masses that were found [G] a better prior for a second pass
    masses, own_masses = _descend_levels(levels, prior)
    if update_prior is not None:
        masses = _descend_levels(levels, update_prior(own_masses))[0]
    return np.asarray(masses / masses.sum())


def _descend_levels(levels: Sequence[Level], prior: Floats) -> tuple[Floats, Floats]:
    """Masses of the last level's cells [G], and which part of them is their own rather than the prior's [G]."""
    priors = [prior]
    for coarser, level in reversed(list(pairwise(levels))):
        parents = len(coarser.noisy_masses)
        priors.insert(0, np.bincount(level.parent, priors[0], parents).astype(np.float64))
    masses = np.array([MOST_WHOLE])
    own_masses = masses
    for i, (level, shares) in enumerate(zip(levels, priors, strict=True)):
        parent_totals = np.bincount(level.parent, shares, len(masses))[level.parent]
        share = np.divide(shares, parent_totals, out=np.zeros(len(shares)), where=parent_totals > 0)
        if i == 0:
            masses = np.array([max(1.0, float(_posterior_masses(level, masses, share)[0].sum()))])
        own_masses, rest = _posterior_masses(level, masses, share)
        masses = _reconcile_masses(own_masses, rest, level.parent, masses)
    return masses, own_masses


def _posterior_masses(level: Level, masses: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Posterior means of the cells' own masses, and of what they hold by their share of the parent's [G]."""
    from scipy.special import log_ndtr

    parent_masses, y, s = masses[level.parent], level.noisy_masses, level.noise
    prior_masses = parent_masses * share
    prior_log_density = _log_density((y - prior_masses) / s)
    cells = 1 / max(float(share[share > 0].min()), 1e-300)
    best = None
    for number in 2.0 ** np.arange(DOUBLINGS):
        if number > max(cells, 1.0):
            break
        odds = np.minimum(number * share, 0.99)
        scale = np.maximum(parent_masses / number, 1e-6 * s)
        # An exponential mass seen with normal noise: its density at y, and the mean of the normal cut at 0.
        z = y / s - s / scale
        tail = log_ndtr(z)
        own_log_density = np.log(s / scale) + (s / scale) ** 2 / 2 - y / scale + tail
        with np.errstate(divide="ignore"):
            log_own, log_prior = np.log(odds) + own_log_density, np.log1p(-odds) + prior_log_density
        total = np.logaddexp(log_own, log_prior)
        score = float(total[share > 0].sum()) - 0.5 * np.log(number)
        if best is None or score > best[0]:
            # Far in the tail the mean of the cut normal is -1 / z; the difference below loses all its digits there.
            truncated_mean = np.where(z < -30, -1 / np.minimum(z, -1.0), z + np.exp(_log_density(z) - tail))
            best = score, np.exp(log_own - total), s * np.maximum(truncated_mean, 0.0)
    assert best is not None
    _, chance, mean = best
    return chance * np.minimum(mean, parent_masses), (1 - chance) * prior_masses


def _reconcile_masses(own_masses: Floats, rest: Floats, parent: NDArray[np.int64], masses: Floats) -> Floats:
    """Masses [G] that add up to those of the parents: measured ones as they are or scaled down, the rest shared out."""
    own_totals, rest_totals = np.bincount(parent, own_masses, len(masses)), np.bincount(parent, rest, len(masses))
    remaining = np.maximum(masses - own_totals, 0.0)
    fill = np.divide(remaining, rest_totals, out=np.zeros(len(masses)), where=rest_totals > 0)
    shrinkage = np.minimum(1.0, np.divide(masses, own_totals, out=np.ones(len(masses)), where=own_totals > 0))
    cells = own_masses * shrinkage[parent]
    cells = cells + fill[parent] * rest
    total = np.bincount(parent, cells, len(masses))
    return np.asarray(cells * np.divide(masses, total, out=np.zeros(len(masses)), where=total > 0)[parent])


def _log_density(z: Floats) -> Floats:
    return np.asarray(-np.square(z) / 2 - 0.5 * np.log(2 * np.pi))
