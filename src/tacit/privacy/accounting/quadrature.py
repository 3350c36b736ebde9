"""The composed privacy loss by quadrature and the Fourier transform: an estimate that checks the certified bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tacit.privacy.accounting import fixed_size, laplace, poisson
from tacit.privacy.accounting.events import (
    EpsilonDeltaEvent,
    LaplaceEvent,
    Leaf,
    Leaves,
    RandomizedResponseEvent,
    SampledWithoutReplacementEvent,
    ZcdpEvent,
)
from tacit.privacy.accounting.steps import MAX_GRID, merge_gaussians, parameters, pure_epsilon, spacing
from tacit.roots import find_root
from tacit.units import Relation

Array = NDArray[np.float64]

_MOST = 700.0  # exp of it is a float64
_ROUNDING = 1e-12  # of the logarithm of a moment


@dataclass(frozen=True)
class LossGrid:
    """An estimate (not a bound) of the composed privacy loss in one direction: masses on an equal grid of losses."""

    losses: Array
    masses: Array

    def delta(self, epsilon: float) -> float:
        """E[(1 - exp(epsilon - L))+]."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        return float(np.dot(self.masses[start:], -np.expm1(epsilon - self.losses[start:])))

    def profile(self, epsilon: Array) -> Array:
        """delta at each epsilon, of either sign, from sums that are taken once."""
        above, below = self._sums
        start = np.searchsorted(self.losses, epsilon, side="right")
        return np.asarray(above[start] - np.exp(np.maximum(epsilon, -_MOST)) * below[start])

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        """Sums from the right, [N + 1], of the masses and of the masses times exp(-losses)."""
        tilted = self.masses * np.exp(np.minimum(-self.losses, _MOST))
        above, below = (np.append(np.cumsum(values[::-1])[::-1], 0.0) for values in (self.masses, tilted))
        return above, below

    def epsilon(self, delta: float) -> float:
        """The epsilon >= 0 at which delta(epsilon) equals delta."""
        if self.delta(0.0) <= delta:
            return 0.0
        return float(find_root(lambda e: self.delta(e) - delta, 0.0, float(self.losses[-1]), tolerance=1e-9))


def renyi(leaves: Leaves, relation: Relation, order: float) -> float:
    """The Renyi divergence of the same cells, without tails: an estimate from below, to about 1e-6 of itself."""

    def one(swapped: bool) -> float:
        total = 0.0
        for leaf, count in leaves:
            if isinstance(leaf, EpsilonDeltaEvent | RandomizedResponseEvent | ZcdpEvent):
                continue  # closed forms, without cells
            losses, masses = _step(leaf, relation, swapped)
            total += count * (float(logsumexp((order - 1) * losses, b=masses)) - _ROUNDING)
        return total / (order - 1)

    return one(False) if relation == "replace_one" else max(one(False), one(True))


@lru_cache(maxsize=8)
def estimate(leaves: Leaves, relation: Relation) -> tuple[LossGrid, ...]:
    """The composed privacy loss by quadrature and the Fourier transform, one grid for each direction."""
    # Source: the privacy random variable accountant of Gopi, Lee & Wutschitz (2021, arXiv 2106.02848), rewritten here:
    # the loss is discretised by splitting each cell of the noise's axis between two neighbouring loss values so that
    # its mean is kept, hence centred rather than rounded up.
    merged_leaves = merge_gaussians(leaves)
    one_sided = relation == "replace_one" or all(
        isinstance(leaf, LaplaceEvent) or parameters(leaf)[0] == 1 for leaf, _ in merged_leaves
    )
    directions = (False,) if one_sided else (False, True)
    return tuple(_compose(merged_leaves, relation, swapped) for swapped in directions)


def _compose(leaves: Leaves, relation: Relation, swapped: bool) -> LossGrid:
    steps = [(*_step(leaf, relation, swapped), count) for leaf, count in leaves]
    spreads = [(losses - float(np.dot(losses, masses)), masses, count) for losses, masses, count in steps]
    variance = sum(count * float(np.dot(centred**2, masses)) for centred, masses, count in spreads)
    low, high = _range(steps, math.sqrt(variance))
    interval = spacing(variance, sum(count for *_, count in steps), 1e-4)
    size = min(1 << max(10, math.ceil(math.log2((high - low) / interval))), MAX_GRID)
    width = (high - low) / size
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for losses, masses, count in steps:
        cells = losses / width
        left = np.floor(cells)
        right_share = cells - left
        grid = np.bincount(np.mod(left, size).astype(np.int64), masses * (1 - right_share), size)
        grid += np.bincount(np.mod(left + 1, size).astype(np.int64), masses * right_share, size)
        spectrum *= np.fft.rfft(grid) ** count
    start = math.floor(low / width)
    total = np.roll(np.fft.irfft(spectrum, size), -(start % size))
    return LossGrid((start + np.arange(size, dtype=np.float64)) * width, np.asarray(total, np.float64))


def _step(leaf: Leaf, relation: Relation, swapped: bool) -> tuple[Array, Array]:
    if isinstance(leaf, LaplaceEvent):
        return laplace.losses(pure_epsilon(leaf, relation))
    if isinstance(leaf, SampledWithoutReplacementEvent):
        return fixed_size.losses(*parameters(leaf))
    return poisson.losses(*parameters(leaf), relation, swapped=swapped)


def _range(steps: list[tuple[Array, Array, int]], std: float) -> tuple[float, float]:
    """Where all but 1e-15 of the composed loss lies, by Chernoff bounds over a grid of exponents."""
    mean = sum(count * float(np.dot(losses, masses)) for losses, masses, count in steps)
    exponents = np.geomspace(0.02, 20, 40) / std
    low = -_chernoff([(-losses, masses, count) for losses, masses, count in steps], exponents)
    high = _chernoff(steps, exponents)
    return min(low, mean - std), max(high, mean + std)


def _chernoff(steps: list[tuple[Array, Array, int]], exponents: Array) -> float:
    """The least (K(t) + 35) / t, K the cumulant generating function of the composed loss, over rising exponents t."""
    # By Chernoff the loss is above it with a probability of at most exp(-35), whichever t is taken: a search that stops
    # early only returns a larger one. K is convex, so t K'(t) - K(t) rises: the quotient falls where it is below 35,
    # then rises, and bisection finds the two neighbours of its least.
    parts = [_shift_losses(losses[masses > 0], masses[masses > 0], count) for losses, masses, count in steps]

    @cache
    def cumulant(index: int) -> tuple[float, float]:
        """K(t) and t K'(t)."""
        t = float(exponents[index])
        value = slope = 0.0
        for top, below, masses, count in parts:
            tilted = np.exp(t * below) * masses
            total = float(tilted.sum())
            value += count * (t * top + math.log(total))
            slope += count * t * (top + float(np.dot(tilted, below)) / total)
        return value, slope

    low, high = 0, len(exponents) - 1
    while high - low > 1:
        middle = (low + high) // 2
        value, slope = cumulant(middle)
        low, high = (middle, high) if slope - value < 35 else (low, middle)
    return min((cumulant(index)[0] + 35) / float(exponents[index]) for index in {low, high})


def _shift_losses(losses: Array, masses: Array, count: int) -> tuple[float, Array, Array, int]:
    """The largest loss, and every loss less it: taken out of the exponential, which then cannot overflow."""
    top = float(losses.max())
    return top, losses - top, masses, count
