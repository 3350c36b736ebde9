"""Thresholds of the call `above_threshold`, chosen before any record is read (`proofs/above_threshold.md`).

Counts, thresholds and noise live on the grid of multiples of 1 / GRID, and every number of a `Thresholds` is one, so
that float64 adds and compares them exactly. Units: experts, unless said otherwise.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from tacit.errors import PlanError
from tacit.validation import require_valid

GRID: Final = 2**20
"""Steps of the grid in one expert."""

_LARGEST: Final = 2.0**20  # experts: scales of the noise then stay within 2^40 steps of the grid
_SIDE, _ROUNDS, _LEVELS = 13, 7, 256
_ROUNDING: Final = 2.0**-40  # more than float64 loses in the formulas below, relatively


@dataclass(frozen=True)
class PMin:
    """Every expert gives every action at least this probability, in every state.

    Raises:
        PlanError: the probability is not in (0, 1/2].
    """

    probability: float
    kind: Literal["p_min"] = field(default="p_min", init=False)

    def __post_init__(self) -> None:
        require_valid("floor", self.probability, 0 < self.probability <= 0.5, "a probability in (0, 1/2]")


@dataclass(frozen=True)
class KappaStop:
    """A prefix stops with this probability before every test, whatever the experts do; they may be deterministic.

    Raises:
        PlanError: the probability is not in (0, 1).
    """

    probability: float
    kind: Literal["kappa_stop"] = field(default="kappa_stop", init=False)

    def __post_init__(self) -> None:
        require_valid("floor", self.probability, 0 < self.probability < 1, "a probability in (0, 1)")


Floor = PMin | KappaStop
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Thresholds:
    """What one trajectory's tests use; all of it public and on the grid."""

    safe_count: float  # theta; prefixes with a smaller count are unsafe, and their release is paid for by delta
    threshold: float  # theta_hat, what a count is compared with
    threshold_scale: float  # b1, scale of the discrete Laplace noise on the threshold, drawn once a trajectory
    step_scale: float  # b2, scale of the noise on each count, drawn at every step


def trajectory_epsilon(thresholds: Thresholds, floor: Floor, *, actions: int, experts: int) -> float:
    """Epsilon of one trajectory: the larger of the two directions' (`proofs/above_threshold.md`, theorem)."""
    # experts: M, a public lower bound
    x, y = 1 / thresholds.threshold_scale, 1 / thresholds.step_scale
    if isinstance(floor, PMin):
        removed = x + y + math.log1p(_odds(floor, actions) / thresholds.safe_count)
    else:
        removed = x + y + math.log1p(math.exp(-y) / (floor.probability * thresholds.safe_count))
    return max(removed, y + _removal_epsilon(experts)) * (1 + _ROUNDING)


def tail(threshold_scale: float, step_scale: float, t: float) -> float:
    """P[nu - rho >= t], nu and rho discrete Laplace on the grid with the two scales; at most 2^-40 of it too large."""
    # threshold_scale: b1 of rho; step_scale: b2 of nu; t: at least 0
    steps = math.ceil(t * GRID)
    s, r = threshold_scale * GRID, step_scale * GRID
    p = math.exp(-1 / s)
    one_p, one_q, one_pq = -math.expm1(-1 / s), -math.expm1(-1 / r), -math.expm1(-1 / s - 1 / r)
    if s == r:
        slope = (steps + 1) / p - 1 / (1 + p) + 2 / one_p
        exact = math.exp(-(steps + 1) / s) * one_p**2 / (1 + p) / one_pq * slope
    else:
        wide, thin = max(s, r), min(s, r)
        (one_p, one_q) = (one_p, one_q) if s > r else (one_q, one_p)
        p = math.exp(-1 / wide)
        apart = (wide - thin) / wide / thin
        gap = -p * math.expm1(-apart)  # p - q
        fall = (steps + 1) * apart + 2 * math.log1p(gap / one_p) + math.log1p(-gap / (1 + p))  # ln of the terms' ratio
        exact = math.exp(-(steps + 1) / wide) * one_q**2 / (1 + p) * -math.expm1(-fall) / (gap * one_pq)
    return min(exact * (1 + _ROUNDING) + 1e-300, 1.0)


@functools.lru_cache(maxsize=1024)
def optimise(floor: Floor, *, actions: int, experts: int, epsilon: float, delta: float) -> Thresholds:
    """The thresholds with the smallest `threshold` for which one trajectory is (epsilon, delta)-private."""
    # experts: M, a public lower bound; returns: the same thresholds for the same arguments, always
    require_valid("floor", floor, type(floor) in (PMin, KappaStop), "PMin(...) or KappaStop(...)")
    require_valid("experts", experts, type(experts) is int and experts >= 2, "a whole number >= 2")
    require_valid("actions", actions, type(actions) is int and actions >= 2, "a whole number >= 2")
    above = _removal_epsilon(experts) < epsilon < math.inf
    require_valid("epsilon of a trajectory", epsilon, above, "above ln(experts / (experts - 1))")
    require_valid("delta of a trajectory", delta, 0 < delta < 0.5, "a number in (0, 1/2)")
    if isinstance(floor, PMin):
        _odds(floor, actions)
    x, y = _shares(floor, actions, experts, epsilon, delta)
    best = _on_grid(floor, actions, experts, epsilon, delta, x, y)
    if best.threshold > experts:
        what = f"an unreachable threshold: {best.threshold:,.0f} experts would have to agree of {experts:,} promised"
        expected = "a threshold of at most the public number of experts"
        remedy = "give more epsilon, process fewer trajectories, take a larger floor, or ask more experts"
        raise PlanError(what, where="plan", expected=expected, remedy=remedy)
    return best


def longest_prefix(thresholds: Thresholds, floor: Floor, *, actions: int, experts: int, horizon: int) -> int:
    """Steps of the longest prefix whose count reaches the threshold if all experts agree on every step."""
    # With `PMin` even agreement lets the count fall by the floor's factor a step; with `KappaStop` it does not, and the
    # horizon is the answer (how often chance stops a prefix earlier: see `expected_length`).
    if thresholds.threshold > experts:
        return 0
    if isinstance(floor, KappaStop):
        return horizon
    log_factor = math.log1p(-(actions - 1) * floor.probability)
    return min(horizon, math.floor(math.log(thresholds.threshold / experts) / log_factor))


def expected_length(
    thresholds: Thresholds, floor: Floor, *, actions: int, experts: int, horizon: int, agreement: float = 1.0
) -> float:
    """Steps of a prefix on average, if at every step this share of the experts still agreeing prefers one action."""
    # A statement about imagined experts, for planning: no record is read. A trajectory that leaves the preferred
    # actions counts as stopped there, episodes as ending at the horizon only.
    # horizon: T, the most steps of an episode; agreement: in [0, 1], 1 is all experts on every step
    require_valid("agreement", agreement, 0 <= agreement <= 1, "a share in [0, 1]")
    often, rare = _chances(floor, actions)
    step = agreement * often + (1 - agreement) * rare  # both the chance of the step and what it leaves of the count
    going = step * (1 - floor.probability if isinstance(floor, KappaStop) else 1.0)
    counts = experts * step ** np.arange(1, horizon + 1)
    level = (np.arange(_LEVELS) + 0.5) / _LEVELS
    laplace = np.where(level < 0.5, np.log(2 * level), -np.log(2 * (1 - level)))  # quantiles of rho / b1
    margin = thresholds.threshold + thresholds.threshold_scale * laplace[:, None] - counts
    passed = np.exp(-np.abs(margin) / thresholds.step_scale) / 2
    passed = np.where(margin > 0, passed, 1 - passed)
    reached = np.cumprod(passed * going, axis=1).mean(axis=0)
    return float(reached.sum())


def overflow(trajectories: int, held_out: int, experts: int) -> float:
    """At least P[some expert is drawn more than `held_out` times], a union over the experts and the draws they get."""
    # trajectories: n, independent draws; held_out: r, fresh episodes set aside of each expert; experts: M, a public
    # lower bound
    drawn = math.comb(trajectories, held_out + 1) * float(experts - 1) ** -held_out
    return min(1.0, drawn * (1 + _ROUNDING))


def overflow_delta(trajectories: int, held_out: int, experts: int, epsilon: float) -> float:
    """The delta of a leaf (0, delta) beside n leaves (epsilon / n, ...) that pays for `overflow`."""
    # Independent fresh trajectories are the model, and what happens differs from it on overflow only: delta grows by (1
    # + e^epsilon) times its probability. Twice that holds beside leaves whose deltas add up to 1/2 at most, whatever
    # else the plan composes with and whatever epsilon it is evaluated at (`proofs/experts.md`).
    return min(1.0, 2 * (1 + math.exp(epsilon)) * overflow(trajectories, held_out, experts))


def smallest_holdout(trajectories: int, experts: int, epsilon_total: float, delta: float, *, limit: int) -> int:
    """The smallest r up to `most` for which `overflow_delta` is at most `delta`."""
    for fresh in range(1, min(trajectories, limit) + 1):
        if overflow_delta(trajectories, fresh, experts, epsilon_total) <= delta:
            return fresh
    what, expected = f"no hold-out makes overflow as rare as {delta:.3g}", "a positive delta for it"
    raise PlanError(what, where="plan", expected=expected, remedy="give a larger delta")


def _chances(floor: Floor, actions: int) -> tuple[float, float]:
    """The largest and the smallest probability of an action under the floor."""
    rare = floor.probability if isinstance(floor, PMin) else 0.0
    return 1 - (actions - 1) * rare, rare


def _odds(floor: PMin, actions: int) -> float:
    often, rare = _chances(floor, actions)
    require_valid("floor", rare, rare * actions <= 1, f"at most 1 / actions ({1 / actions:.3g})")
    return often / rare


def _removal_epsilon(experts: int) -> float:
    """ln(M / (M - 1)): how much likelier one expert is drawn where another one is missing."""
    return -math.log1p(-1 / experts)


def _safe_counts(floor: Floor, actions: int, epsilon: float, x: Numbers, y: Numbers) -> Numbers:
    """theta for which `trajectory_epsilon` is epsilon in the direction that needs it; x, y: 1 / b1, 1 / b2."""
    if isinstance(floor, PMin):
        return _odds(floor, actions) / np.expm1(epsilon - x - y)
    return 1 / (floor.probability * np.exp(y) * np.expm1(epsilon - x - y))


def _shares(floor: Floor, actions: int, experts: int, epsilon: float, delta: float) -> tuple[float, float]:
    """1 / b1 and 1 / b2 where theta plus the noise's tail is smallest; by ever finer grids, with continuous Laplace."""
    low, high = np.array([1e-3, 1e-3]), np.array([0.999, 0.999])
    for _ in range(_ROUNDS):
        first, second = (g.ravel() for g in np.meshgrid(*np.linspace(low, high, _SIDE).T))
        inside = (first + second < 0.9995) & (second * epsilon + _removal_epsilon(experts) < epsilon)
        first, second = first[inside], second[inside]
        x, y = first * epsilon, second * epsilon
        best = int(np.argmin(_safe_counts(floor, actions, epsilon, x, y) + _margin(1 / x, 1 / y, delta)))
        centre, step = np.array([first[best], second[best]]), (high - low) / (_SIDE - 1)
        low, high = np.maximum(centre - 1.5 * step, 1e-4), np.minimum(centre + 1.5 * step, 0.9999)
    return float(x[best]), float(y[best])


def _margin(first: Numbers, second: Numbers, delta: float) -> Numbers:
    """t with P[nu - rho >= t] = delta for continuous Laplace noise of two scales, by bisection."""
    wide = np.maximum(first, second) * (1 + 1e-6)
    thin = np.minimum(first, second)
    low, high = np.zeros_like(wide), wide * (math.log(1 / delta) + 40)
    for _ in range(40):
        t = (low + high) / 2
        chance = (wide**2 * np.exp(-t / wide) - thin**2 * np.exp(-t / thin)) / (2 * (wide**2 - thin**2))
        low, high = np.where(chance > delta, t, low), np.where(chance > delta, high, t)
    return high


def _on_grid(floor: Floor, actions: int, experts: int, epsilon: float, delta: float, x: float, y: float) -> Thresholds:
    """Thresholds with 1 / b1 = x and 1 / b2 = y at most, on the grid, that keep to epsilon and delta exactly."""
    first, second = (math.ceil(GRID / share) / GRID for share in (x, y))
    drawn = max(first, second) <= _LARGEST
    require_valid("epsilon of a trajectory", epsilon, drawn, "large enough for noise below 2**20")
    steps = math.ceil(GRID * float(_safe_counts(floor, actions, epsilon, np.array(x), np.array(y))))
    public = {"actions": actions, "experts": experts}
    while trajectory_epsilon(Thresholds(steps / GRID, 0.0, first, second), floor, **public) > epsilon:
        steps += 1 + steps // 2**40
    above = math.ceil(GRID * float(_margin(np.array(first), np.array(second), delta)))
    low, high = 0, 2 * above + GRID
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tail(first, second, middle / GRID) > delta else (low, middle)
    return Thresholds(steps / GRID, (steps + GRID + high) / GRID, first, second)
