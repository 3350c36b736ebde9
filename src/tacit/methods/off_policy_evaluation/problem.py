"""The question and the answer: a discounted value over a public horizon; its estimate and interval. All is public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.features import AnyFeatures
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.serialization import OPTIONAL, Json
from tacit.validation import require_valid, require_whole

MOST_ROWS = 100_000
"""Rows of one unit that may be read: they are held side by side in memory."""

Kind = Literal["two_sided", "lower", "upper"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The value that is asked for, and how much of each unit may be read for it.

    The value (and its interval) is the expected discounted return over the horizon, from the start of an episode. The
    values of states are those of going on: they have no horizon, and are bootstrapped after a cut.

    Args:
        gamma: discount factor, in [0, 1].
        horizon: steps that count of each episode; later ones are cut.
        episodes_per_unit: episodes that count of each unit; later ones are cut. A unit contributes the mean over its
            episodes, so every unit weighs the same.
        return_range: public (lowest, highest) discounted return of an episode from any of its steps, and so value of a
            state; None takes the widest that the reward's bounds allow. Returns outside are moved onto it, which
            biases the value; a range that is far too wide costs accuracy at a small epsilon.
    """

    gamma: float
    horizon: int
    episodes_per_unit: int = 1
    return_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        require_valid("gamma", self.gamma, 0 <= self.gamma <= 1, "a number in [0, 1]")
        require_whole(horizon=self.horizon, episodes_per_unit=self.episodes_per_unit)
        rows = self.rows_per_unit
        fits = rows <= MOST_ROWS
        require_valid("horizon times episodes_per_unit", rows, fits, f"at most {MOST_ROWS:,} rows of one unit")
        if self.return_range is not None:
            low, high = self.return_range
            valid = math.isfinite(low) and math.isfinite(high) and low < high
            require_valid("return_range", self.return_range, valid, "two finite numbers, the lower first")
            object.__setattr__(self, "return_range", (float(low), float(high)))

    @property
    def rows_per_unit(self) -> int:
        """Rows of one unit that are read: its first ones in order of time."""
        return self.horizon * self.episodes_per_unit

    @property
    def discounted_length(self) -> float:
        """sum_{t < horizon} gamma^t: the return of a reward of 1 at every step."""
        return float(self.horizon) if self.gamma == 1 else (1 - self.gamma**self.horizon) / (1 - self.gamma)

    def value_range(self, spec: PublicSpec) -> tuple[float, float]:
        """The public range of values: `return_range`, or what the payments allow."""
        if self.return_range is not None:
            return self.return_range
        low, high = self.reward_range(spec)
        return low * self.discounted_length, high * self.discounted_length

    def reward_range(self, spec: PublicSpec) -> tuple[float, float]:
        """The least and the most that a step can pay: the reward's bounds, and 0, what steps pay after an early end.

        An episode of one step cannot end before it, so that 0 is in no way special there.
        """
        low, high = spec.reward.low[0], spec.reward.high[0]
        return (low, high) if self.horizon == 1 else (min(0.0, low), max(0.0, high))

    def part(
        self, name: str, noise_multiplier: float | None, *, steps: int = 1, fold: Literal[0, 1] | None = None
    ) -> PoissonSum:
        """The part of a plan for noisy sums over every unit (or every one of a fold), of vectors of norm at most 1."""
        return PoissonSum(
            name=name,
            steps=steps,
            sampling_rate=1.0,
            clip_norm=1.0,
            noise_multiplier=noise_multiplier,
            rows_per_unit=self.rows_per_unit,
            rows="first",
            fold=fold,
        )


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A confidence interval for the policy's value that counts the sampling of units and the privacy noise.

    Args:
        low, high: its ends; an end that nothing is known about is the public range's.
        level: the nominal coverage, such as 0.95.
        kind: `two_sided`, or the one side that is a bound.
        words: what it says and rests on, in a sentence.

    Raises:
        PlanError: low > high, or the level is not in (0, 1).
    """

    low: float
    high: float
    level: float
    kind: Kind
    words: str

    def __post_init__(self) -> None:
        require_valid("interval", (self.low, self.high), self.low <= self.high, "low <= high")
        require_valid("level", self.level, 0 < self.level < 1, "a number in (0, 1)")

    def clamp(self, value: float) -> float:
        """The value, moved into the interval."""
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, kw_only=True)
class Difference(Json):
    """What following a policy a little would change of an episode's return; all is public.

    Args:
        extent: in which visits, in words after "following the policy".
        value: the estimate, within the interval.
        interval: about it; None where those who would judge the policy taught it.
    """

    extent: str
    value: float
    interval: Interval | None

    def __str__(self) -> str:
        """The verdict in a sentence."""
        following = f"following it {self.extent}"
        if self.interval is None:
            return f"{following[0].upper()}{following[1:]} has no interval: who would judge it taught it."
        level = f"{100 * self.interval.level:.3g} % confidence"
        if self.interval.low > 0:
            return f"Better than today's practice: {following} gains, at {level}."
        if self.interval.high < 0:
            return f"Worse than today's practice: {following} loses, at {level}."
        return f"These records do not tell, at {level}, whether {following} gains or loses."


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation(Json):
    """The result of off-policy evaluation.

    Args:
        method: the plan's method.
        value: the policy's value from the start of an episode, or None where the method gives a value function only.
        interval: about `value`.
        theta: parameters of the value function, [n], or None.
        features: its features.
        limits: the public range that values are clipped to.
        diagnostics: further public numbers by name (post-processing of what the mechanisms gave).
        standing: why there is no interval, or why it is at another level than was asked for; None where neither is so.
        difference: what following the policy a little would change, where the plan asks for it.
    """

    method: str
    value: float | None = None
    interval: Interval | None = None
    theta: np.ndarray | None = None
    features: AnyFeatures | None = None
    limits: tuple[float, float] | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    standing: str | None = field(default=None, metadata=OPTIONAL)
    difference: Difference | None = field(default=None, metadata=OPTIONAL)

    def values(self, observations: np.ndarray) -> np.ndarray:
        """V at observations [N, d], or [N] of a discrete space -> [N], within the limits.

        Raises:
            PlanError: the method gives no value function.
        """
        if self.theta is None or self.features is None:
            what = "there is no value function"
            expected, remedy = "a method that estimates V(s)", "use a ResidualRegression plan, say"
            raise PlanError(what, where=f"Evaluation of {self.method}", expected=expected, remedy=remedy)
        values = np.asarray(self.features(np.asarray(observations)), np.float64) @ self.theta
        return np.asarray(values if self.limits is None else np.clip(values, *self.limits))
