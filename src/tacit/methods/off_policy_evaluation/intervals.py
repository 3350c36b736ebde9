"""Confidence intervals for a mean that is known through noisy sums alone.

The sums are those of bounded numbers u_1 .. u_N, of their count and of their squares, each with Gaussian noise of known
size. A mean mu is accepted when the noisy residual T(mu) = sum u - mu N is within

    z sqrt(V(mu) + nu(mu)) + gamma(mu) V / (V + nu)

where nu is the variance of the noise in T, V an upper estimate of the sampling variance and gamma a bound on what rare
large or rare small u can do. The interval is the hull of the accepted means (Fieller, "Some problems in interval
estimation", 1954: it needs no division by the noisy count, and stays valid when the count is all noise). Proof page:
`proofs/off_policy_evaluation.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.roots import find_root
from tacit.validation import require_valid

Float64 = NDArray[np.float64]
Sides = Literal["both", "lower"]

UPPER = 1.25
"""Standard deviations of its noise by which the sampling variance is raised. The least that keeps the coverage at
every level from 0.5 to 0.999, whatever the true variance and the noise (checked numerically by the tests)."""

GRID = 1_001


@dataclass(frozen=True, kw_only=True)
class NoisySums:
    """Noisy sums over the N units that are present, of numbers u in [floor, 1]."""

    total: float  # sum of u
    count: float  # N
    squares: float  # sum of u^2
    # standard deviations of the Gaussian noise in these three, independent of one another
    noise: tuple[float, float, float]
    population: int  # a public number that N cannot exceed
    floor: float  # the least that u can be, -1 or 0
    expected: float | None = None  # how many units the public expects, for point estimates; None is the population

    @classmethod
    def read(
        cls,
        noisy: Float64,
        weights: Float64,
        noise: float,
        population: int,
        floor: float,
        expected: float | None = None,
    ) -> list[NoisySums]:
        """Of k numbers u, by the noisy sum [2 k + 1] of vectors (u, 1, u^2), each of them times its public weight."""
        totals, deviations, k = noisy / weights, noise / weights, len(noisy) // 2
        return [
            cls(
                total=float(totals[i]),
                count=float(totals[k]),
                squares=float(totals[k + 1 + i]),
                noise=(float(deviations[i]), float(deviations[k]), float(deviations[k + 1 + i])),
                population=population,
                floor=floor,
                expected=expected,
            )
            for i in range(k)
        ]

    @property
    def mean(self) -> float:
        """The estimate of E[u], within [floor, 1]."""
        return min(
            1.0, max(self.floor, self.total / unit_count(self.count, self.noise[1], self.expected or self.population))
        )


def unit_count(count: float, noise: float, population: float) -> float:
    """How many units there are, for point estimates: the population, unless the noisy count is clearly below it.

    A count that is lost in its own noise is raised to that noise, which draws estimates towards 0.
    """
    return population if count >= population - 2 * noise else min(max(count, noise, 1e-9), population)


def share_bounds(
    first: NoisySums, second: NoisySums, scales: tuple[float, float], *, level: float, sides: Sides
) -> tuple[float, float]:
    """The interval for the share r = s E[u] / (s E[u] + t E[v]) of numbers u, v in [0, 1], within [0, 1]; never
    empty."""
    # A share is accepted where the noisy mean of (1 - r) s u - r t v may be 0. What u and v have in common would lower
    # the variance of that; it is not released, so the interval is wider than it has to be.
    z = _quantile(level, sides)
    s, t = scales[0] / max(scales), scales[1] / max(scales)

    def excess(share: Float64) -> Float64:
        above, below = (1 - share) * s, share * t
        return _excess(
            residual=above * first.total - below * second.total,
            noise=(above * first.noise[0]) ** 2 + (below * second.noise[0]) ** 2,
            spread=above**2 * first.squares + below**2 * second.squares,
            spread_noise=np.hypot(above**2 * first.noise[2], below**2 * second.noise[2]),
            below=below,
            above=above,
            population=first.population,
            z=z,
            sides=sides,
        )

    a, b = s * first.mean, t * second.mean
    return _hull(excess, 0.0, a / (a + b) if a + b > 0 else 0.5, sides)


def bounds(sums: NoisySums, *, level: float, sides: Sides) -> tuple[float, float]:
    """The interval for E[u] at this level, within [floor, 1]; never empty, never NaN.

    Args:
        sums: what the mechanism returned.
        level: nominal coverage, in [0.5, 0.999].
        sides: "both", or "lower" for a lower bound alone (the upper end is then 1).

    Returns:
        (low, high). Where the noise contradicts every mean in the range, that is all of the range.

    Raises:
        PlanError: the level is out of range.
    """
    z = _quantile(level, sides)
    a, b, d = sums.noise

    def excess(mean: Float64) -> Float64:
        return _excess(
            residual=sums.total - mean * sums.count,
            noise=a**2 + (mean * b) ** 2,
            spread=sums.squares - 2 * mean * sums.total + mean**2 * sums.count,
            spread_noise=np.sqrt(d**2 + (2 * mean * a) ** 2 + (mean**2 * b) ** 2),
            below=mean - sums.floor,
            above=1 - mean,
            population=sums.population,
            z=z,
            sides=sides,
        )

    return _hull(excess, sums.floor, sums.mean, sides)


def _quantile(level: float, sides: Sides) -> float:
    from scipy.special import ndtri

    require_valid("level", level, 0.5 <= level <= 0.999, "a number from 0.5 to 0.999")
    return float(ndtri(level if sides == "lower" else (1 + level) / 2))


def _hull(excess: Callable[[Float64], Float64], floor: float, estimate: float, sides: Sides) -> tuple[float, float]:
    """The hull of what is accepted (excess <= 0) within [floor, 1]; all of it where nothing is."""

    def at(point: float) -> float:
        return float(excess(np.array([point]))[0])

    grid = np.unique(np.append(np.linspace(floor, 1.0, GRID), estimate))
    accepted = np.flatnonzero(excess(grid) <= 0)
    if not len(accepted):
        return floor, 1.0
    first, last = accepted[0], accepted[-1]
    low, high = float(grid[first]), 1.0
    if first > 0:
        low = find_root(at, float(grid[first - 1]), low, tolerance=1e-12)
    if last < len(grid) - 1 and sides == "both":
        high = find_root(at, float(grid[last]), float(grid[last + 1]), tolerance=1e-12)
    return low, high


def _excess(
    *,
    residual: Float64,
    noise: Float64,
    spread: Float64,
    spread_noise: Float64,
    below: Float64,
    above: Float64,
    population: int,
    z: float,
    sides: Sides,
) -> Float64:
    """How far a noisy residual is from being accepted as one of mean 0, [G]; accepted where <= 0."""
    from scipy.special import log_ndtr

    # spread, spread_noise: the noisy sum of their squares, and the standard deviation of its noise; sides: "both", or
    # "lower" where only a residual that is too large is refused
    most = population * above * below  # Bhatia and Davis 2000: the largest variance at a mean
    variance = np.minimum(np.maximum(spread, 0) + UPPER * spread_noise, np.maximum(most, 0))
    near, far = np.where(residual > 0, (above, below), (below, above))
    share = variance / np.maximum(variance + noise, 1e-300)
    rare = np.maximum((z**2 + 2) / 6 * near, -log_ndtr(-z) * far) * share  # proof page: why these two
    distance = residual if sides == "lower" else np.abs(residual)
    return np.asarray(distance - z * np.sqrt(variance + noise) - rare)
