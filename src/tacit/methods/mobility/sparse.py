"""A distribution over many cells, few of them occupied, out of noisy counts with known noise: empirical Bayes.

Going down from the whole, a cell either holds its share of what its parent holds (by the prior), or an exponential
mass of its own. How many cells hold masses of their own is what makes the noisy counts of a level most likely. What a
cell is given is its posterior mean, and the cells of a parent add up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Floats = NDArray[np.float64]

MOST_WHOLE = 1.25
"""The most that all people together may hold: a histogram of norm 1 sums to 1 with one home, to more with several."""
DOUBLINGS = 16


@dataclass(frozen=True, eq=False)
class Level:
    """Noisy masses of the cells of one level [G], the standard deviation of their noise, and each cell's parent in the
    level before [G] (0 for all in the first)."""

    seen: Floats
    noise: float
    parent: NDArray[np.int64]


def spread(levels: Sequence[Level], prior: Floats, expected: Callable[[Floats], Floats] | None = None) -> Floats:
    """Probabilities of the cells of the last level [G].

    Args:
        levels: from coarse to fine.
        prior: public probabilities of the cells of the last level.
        expected: from the masses that were found [G] a better prior for a second pass.
    """
    masses, own = _down(levels, prior)
    if expected is not None:
        masses = _down(levels, expected(own))[0]
    return np.asarray(masses / masses.sum())


def _down(levels: Sequence[Level], prior: Floats) -> tuple[Floats, Floats]:
    """Masses of the last level's cells [G], and which part of them is their own rather than the prior's [G]."""
    priors = [prior]
    for above, level in reversed(list(pairwise(levels))):
        parents = len(above.seen)
        priors.insert(0, np.bincount(level.parent, priors[0], parents).astype(np.float64))
    masses = np.array([MOST_WHOLE])
    own = masses
    for i, (level, shares) in enumerate(zip(levels, priors, strict=True)):
        within = np.bincount(level.parent, shares, len(masses))[level.parent]
        share = np.divide(shares, within, out=np.zeros(len(shares)), where=within > 0)
        if i == 0:
            masses = np.array([max(1.0, float(_posterior(level, masses, share)[0].sum()))])
        own, rest = _posterior(level, masses, share)
        masses = _settled(own, rest, level.parent, masses)
    return masses, own


def _posterior(level: Level, masses: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Posterior means of the cells' own masses, and of what they hold by their share of the parent's [G]."""
    whole, y, s = masses[level.parent], level.seen, level.noise
    usual = whole * share
    plain = _log_density((y - usual) / s)
    cells = 1 / max(float(share[share > 0].min()), 1e-300)
    best = None
    for number in 2.0 ** np.arange(DOUBLINGS):
        if number > max(cells, 1.0):
            break
        odds = np.minimum(number * share, 0.99)
        scale = np.maximum(whole / number, 1e-6 * s)
        # An exponential mass seen with normal noise: its density at y, and the mean of the normal cut at 0.
        z = y / s - s / scale
        tail = log_ndtr(z)
        likely = np.log(s / scale) + (s / scale) ** 2 / 2 - y / scale + tail
        with np.errstate(divide="ignore"):
            apart, together = np.log(odds) + likely, np.log1p(-odds) + plain
        total = np.logaddexp(apart, together)
        score = float(total[share > 0].sum()) - 0.5 * np.log(number)
        if best is None or score > best[0]:
            # Far in the tail the mean of the cut normal is -1 / z; the difference below loses all its digits there.
            above = np.where(z < -30, -1 / np.minimum(z, -1.0), z + np.exp(_log_density(z) - tail))
            best = score, np.exp(apart - total), s * np.maximum(above, 0.0)
    assert best is not None
    _, chance, mean = best
    return chance * np.minimum(mean, whole), (1 - chance) * usual


def _settled(own: Floats, rest: Floats, parent: NDArray[np.int64], masses: Floats) -> Floats:
    """Masses [G] that add up to those of the parents: own ones as they are or scaled down, the rest shared out."""
    owned, shared = np.bincount(parent, own, len(masses)), np.bincount(parent, rest, len(masses))
    left = np.maximum(masses - owned, 0.0)
    fill = np.divide(left, shared, out=np.zeros(len(masses)), where=shared > 0)
    cells = own * np.minimum(1.0, np.divide(masses, owned, out=np.ones(len(masses)), where=owned > 0))[parent]
    cells = cells + fill[parent] * rest
    total = np.bincount(parent, cells, len(masses))
    return np.asarray(cells * np.divide(masses, total, out=np.zeros(len(masses)), where=total > 0)[parent])


def _log_density(z: Floats) -> Floats:
    return np.asarray(-np.square(z) / 2 - 0.5 * np.log(2 * np.pi))
