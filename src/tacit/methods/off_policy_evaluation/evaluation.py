"""What an evaluation hands out: a value with an interval, a value function, diagnostics; all of it public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.features import Custom, Features, Fourier, OneHot
from tacit.serialization import Json, Kinds
from tacit.validation import check

Kind = Literal["two_sided", "lower", "upper"]


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
        check("interval", (self.low, self.high), self.low <= self.high, "low <= high")
        check("level", self.level, 0 < self.level < 1, "a number in (0, 1)")


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
        diagnostics: further public numbers by name (post-processing of what the doors gave).
    """

    method: str
    value: float | None = None
    interval: Interval | None = None
    theta: np.ndarray | None = None
    features: Annotated[Features, Kinds(OneHot, Fourier, Custom)] | None = None
    limits: tuple[float, float] | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    def values(self, observations: np.ndarray) -> np.ndarray:
        """V at observations [N, d], or [N] of a discrete space -> [N], within the limits.

        Raises:
            PlanError: the method gives no value function.
        """
        if self.theta is None or self.features is None:
            raise PlanError(
                "there is no value function",
                where=f"Evaluation of {self.method}",
                expected="a method that estimates V(s)",
                remedy="use a ResidualRegression plan, say",
            )
        values = np.asarray(self.features(np.asarray(observations)), np.float64) @ self.theta
        return np.asarray(values if self.limits is None else np.clip(values, *self.limits))
