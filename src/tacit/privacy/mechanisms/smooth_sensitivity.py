"""Private least-squares policy evaluation by output perturbation with smooth sensitivity: DP-LSW and DP-LSL.

Source: B. Balle, M. Gomrokchi, D. Precup, "Differentially private policy evaluation" (ICML 2016, arXiv:1603.02010);
smooth sensitivity and its Gaussian constants: K. Nissim, S. Raskhodnikova, A. Smith, "Smooth sensitivity and sampling
in private data analysis" (STOC 2007). Proof page: `proofs/smooth_sensitivity.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting.events import EpsilonDeltaEvent
from tacit.privacy.gradients.clipping import SLACK
from tacit.privacy.mechanisms.base import ProvedMechanism, kind_field
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.noise.lattice import NoiseSource
from tacit.units import Unit
from tacit.validation import require_valid

Constants = Literal["published", "tight"]
"""Noise as Balle et al. have it, or with the smaller constants that the same proof gives."""

Float64 = NDArray[np.float64]
Rows = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Visits:
    """First-visit Monte Carlo returns of finitely many public states, one a unit and state.

    Args:
        axes: the public cells of the observation (`Axis` of the column "observations"); a state is a cell.
        gamma: discount, in [0, 1].
        horizon: steps of an episode that count.
        low, high: public range of a return; returns are clipped to it.

    Raises:
        PlanError: a value is out of range.
    """

    axes: tuple[Axis, ...]
    gamma: float
    horizon: int
    low: float
    high: float

    def __post_init__(self) -> None:
        require_valid("axes", len(self.axes), len(self.axes) >= 1, "at least one axis")
        require_valid("gamma", self.gamma, 0 <= self.gamma <= 1, "a number in [0, 1]")
        require_valid("horizon", self.horizon, self.horizon >= 1, "a whole number >= 1")
        finite = math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high
        require_valid("low, high", (self.low, self.high), finite, "two finite numbers, the lower first")

    @property
    def states(self) -> int:
        """S, the number of cells."""
        return math.prod(len(axis.edges) - 1 for axis in self.axes)

    @property
    def span(self) -> float:
        """G: no return differs by more from another, or from the 0 that stands for a state without visits."""
        return max(self.high, 0.0) - min(self.low, 0.0)

    def __call__(self, rows: Rows) -> Float64:
        """First rows of U units [U, L, ...] -> [U, 2, S]: whether a unit visits a state, and its return from there."""
        mask, starts = rows["mask"], rows["starts"]
        units, length = mask.shape
        time = np.arange(length)
        step = time - np.maximum.accumulate(np.where(starts | (time == 0), time, 0), axis=1)
        alive = mask & (step < self.horizon)
        cells = self._cells(rows["observations"])
        result = np.zeros((units, 2, self.states))
        following = np.zeros(units)
        for t in reversed(range(length)):
            going_on = alive[:, t + 1] & ~starts[:, t + 1] if t + 1 < length else np.zeros(units, bool)
            following = rows["rewards"][:, t] + self.gamma * np.where(going_on, following, 0.0)
            visitors = np.flatnonzero(alive[:, t])
            result[visitors, 0, cells[visitors, t]] = 1.0
            result[visitors, 1, cells[visitors, t]] = np.clip(following[visitors], self.low, self.high)
        return np.nan_to_num(result)

    def _cells(self, observations: np.ndarray) -> NDArray[np.int64]:
        cells = np.zeros(observations.shape[:2], np.int64)
        for axis in self.axes:
            values = observations[..., axis.index] if observations.ndim == 3 else observations
            bins = len(axis.edges) - 1
            cells = cells * bins + np.clip(np.searchsorted(axis.edges, values, side="right") - 1, 0, bins - 1)
        return cells


@dataclass(frozen=True, kw_only=True)
class _SmoothLeastSquares(ProvedMechanism):
    """What both regressions share: their public parameters, the first visits, and Gaussian noise."""

    kind: Literal["smooth_sensitivity"] = kind_field("smooth_sensitivity")
    name: str
    visits: Visits
    features: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    epsilon: float
    delta: float
    rows_per_unit: int
    constants: Constants = "tight"

    def __post_init__(self) -> None:
        expected = "a number in (0, 1]: the constants hold for no larger one"
        require_valid("epsilon", self.epsilon, 0 < self.epsilon <= 1, expected)
        require_valid("delta", self.delta, 0 < self.delta <= 0.5, "a number in (0, 1/2]")
        require_valid("constants", self.constants, self.constants in ("published", "tight"), "published or tight")
        valid_cells = type(self.visits) is Visits and all(type(axis) is Axis for axis in self.visits.axes)
        visits, expected = type(self.visits).__qualname__, "Visits with Axis cells: the proof is about these"
        require_valid("visits", visits, valid_cells, expected)
        phi, weights = self._phi, np.asarray(self.weights)
        fits = phi.ndim == 2 and len(phi) == self.visits.states == len(weights) and bool(np.isfinite(phi).all())
        require_valid("features", phi.shape, fits, "a finite row for each of the states")
        require_valid("features", phi.shape, bool(np.any(phi)), "at least one feature that is not 0")
        positive = bool(np.isfinite(weights).all() and (weights > 0).all())
        require_valid("weights", "not positive", positive, "a finite number > 0 for each of the states")

    @property
    def size(self) -> int:
        return 2 * self.visits.states

    @property
    def event(self) -> EpsilonDeltaEvent:
        """(epsilon, delta), by the proof page."""
        return EpsilonDeltaEvent(self.epsilon, self.delta)

    @property
    def _phi(self) -> Float64:
        return np.asarray(self.features, np.float64)

    @property
    def alpha(self) -> float:
        """Noise standard deviation over smooth sensitivity: 5 sqrt(2 ln(2 / delta)) / epsilon."""
        return 5 * math.sqrt(2 * math.log(2 / self.delta)) / self.epsilon

    @property
    def beta(self) -> float:
        """How smooth the sensitivity must be: (epsilon / 4) / (n + ln(2 / delta)) for n released numbers."""
        return self.epsilon / 4 / (len(self.features[0]) + math.log(2 / self.delta))

    @property
    def _decay(self) -> float:
        """What psi, the squared sensitivity, loses a step: e^(-2 beta) suffices, e^(-beta) is published."""
        return math.exp(-(2.0 if self.constants == "tight" else 1.0) * self.beta)

    def contributions(self, rows: Rows) -> Float64:
        """Rows [U, L, ...] -> [U, 2, S], each unit's first visits (`Visits`)."""
        return self.visits(rows)

    def _add_noise(self, theta: Float64, scale: float, least: float, noise: NoiseSource) -> Float64:
        """theta + N(0, scale^2) on a grid that the public `least` scale fixes: one that `scale` fixed would tell it."""
        # The scale may be 2^20 times the least and more, so float32 noise alone would leave digits of theta bare on
        # that grid: a second, 2^20 times smaller Gaussian fills in its lattice.
        grid = 2.0 ** (math.frexp(least)[1] - 11)
        coarse, fine = (noise.gaussian(theta.size).astype(np.float64) for _ in range(2))
        noisy = theta + scale * (1 + SLACK) * (coarse + 2.0**-20 * fine)
        return np.asarray(np.rint(noisy / grid) * grid, np.float64)


@dataclass(frozen=True, kw_only=True)
class WeightedStates(_SmoothLeastSquares):
    """DP-LSW: theta = argmin sum_s w_s (F_s - phi_s . theta)^2 with noise, shape [n].

    F_s is the mean, over the units that visit state s, of the return after their first visit (0 without visits).

    Guarantee: (epsilon, delta)-differential privacy for one unit, under both relations; see the proof page.

    Edge cases:
        | case | what happens |
        |---|---|
        | a state that nobody visits | F_s = 0; its sensitivity is that of one visit |
        | no records | noise of the largest scale |
        | a return that is not finite or outside the range | is brought into the range |

    Source: Balle et al. 2016, algorithm DP-LSW and theorem 3, constants as in the module's page.

    Args:
        name: the part's name inside its plan.
        visits: states and returns.
        features: phi, one row a state: [S][n].
        weights: w, [S], positive, public.
        epsilon: in (0, 1].
        delta: in (0, 1/2].
        rows_per_unit: how many of a unit's rows are read, in order of time.
        constants: see `Constants`.

    Raises:
        PlanError: a parameter is out of range.
    """

    def psi(self, counts: Float64) -> float:
        """Smooth bound of sum_s w_s / max(|X_s|, 1)^2 at the visit counts [S]."""
        away = np.arange(int(counts.max(initial=0)) + 1.0)
        bound = np.square(1 / np.maximum(counts - away[:, None], 1.0)) @ np.asarray(self.weights)
        return float((bound * self._decay**away).max())

    def scale(self, counts: Float64) -> float:
        """Standard deviation of the noise at the visit counts [S]."""
        return self.alpha * self.visits.span * float(np.linalg.norm(self._inverse, 2)) * math.sqrt(self.psi(counts))

    def solve(self, counts: Float64, sums: Float64) -> Float64:
        """theta [n] from visit counts [S] and sums of returns [S], without noise."""
        return np.asarray(self._inverse @ (np.sqrt(self.weights) * sums / np.maximum(counts, 1)))

    def release(self, chunks: Iterable[Rows], noise: NoiseSource, unit: Unit) -> Float64:
        """theta of the units in `chunks`, with noise."""
        counts, sums = _totals(chunks, self.visits)
        least = self.scale(np.full(self.visits.states, float(unit.size)))
        return self._add_noise(self.solve(counts, sums), self.scale(counts), least, noise)

    @property
    def _inverse(self) -> Float64:
        return np.asarray(np.linalg.pinv(np.sqrt(self.weights)[:, None] * self._phi), np.float64)


@dataclass(frozen=True, kw_only=True)
class RegularisedLoss(_SmoothLeastSquares):
    """DP-LSL: theta = argmin (1/m) sum_i sum_{s in x_i} w_s (F_is - phi_s . theta)^2 + (ridge / 2m) |theta|^2, [n].

    F_is is unit i's return after its first visit to s, m the public population.

    Guarantee: (epsilon, delta)-differential privacy for one unit, under both relations; see the proof page.

    Edge cases: those of `WeightedStates`; a state without visits adds nothing to the loss.

    Source: Balle et al. 2016, algorithm DP-LSL and theorem 4.

    Args:
        ridge: lambda > 0; the published constants need lambda > |Phi|^2 max w, the tight ones do not.
        name, visits, features, weights, epsilon, delta, rows_per_unit, constants: as in `WeightedStates`.

    Raises:
        PlanError: a parameter is out of range.
    """

    ridge: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_valid("ridge", self.ridge, 1e-9 <= self.ridge <= 1e15, "a number from 1e-9 to 1e15")
        least = self._norm**2 * max(self.weights) if self.constants == "published" else 0.0
        require_valid("ridge", self.ridge, self.ridge > least, f"more than {least:.4g}, or constants='tight'")

    def psi(self, counts: Float64, population: int) -> float:
        """Smooth bound of (c sqrt(sum_s w_s |X_s|) + |w|)^2 at the counts [S]; c = |Phi| max w / sqrt(2 ridge)."""
        weights = np.asarray(self.weights)
        c = self._norm * weights.max() / math.sqrt(2 * self.ridge)
        away = np.arange(population + 1.0)
        reached = np.zeros(len(away))
        for count, weight in zip(counts, weights, strict=True):
            reached += weight * np.minimum(count + away, population)
        bound = np.square(c * np.sqrt(reached) + np.linalg.norm(weights))
        return float((bound * self._decay**away).max())

    def scale(self, counts: Float64, population: int) -> float:
        """Standard deviation of the noise at the visit counts [S]."""
        convexity = self.ridge if self.constants == "tight" else self.ridge - self._norm**2 * max(self.weights)
        factor = 2 * self.alpha * self.visits.span * self._norm / convexity
        return factor * math.sqrt(self.psi(counts, population))

    def solve(self, counts: Float64, sums: Float64, population: int) -> Float64:
        """theta [n] from visit counts [S] and sums of returns [S], without noise."""
        weights, phi = np.asarray(self.weights), self._phi
        gram = phi.T @ ((weights * counts / population)[:, None] * phi)
        ridge = self.ridge / (2 * population) * np.eye(len(gram))
        return np.asarray(np.linalg.solve(gram + ridge, phi.T @ (weights * sums / population)))

    def release(self, chunks: Iterable[Rows], noise: NoiseSource, unit: Unit) -> Float64:
        """theta of the units in `chunks`, with noise."""
        counts, sums = _totals(chunks, self.visits)
        least = self.scale(np.zeros(self.visits.states), unit.size)
        theta = self.solve(counts, sums, unit.size)
        return self._add_noise(theta, self.scale(counts, unit.size), least, noise)

    @property
    def _norm(self) -> float:
        return float(np.linalg.norm(self._phi, 2))


def _totals(chunks: Iterable[Rows], visits: Visits) -> tuple[Float64, Float64]:
    total = np.zeros((2, visits.states))
    for rows in chunks:
        total += visits(rows).sum(axis=0)
    return total[0], total[1]
