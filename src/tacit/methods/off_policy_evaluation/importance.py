"""Importance sampling: a policy's value from weighted returns, with an interval that survives the clip."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

from tacit.data.spec import PublicSpec
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.algorithm import GaussianEstimator
from tacit.methods.off_policy_evaluation.intervals import Sides
from tacit.methods.off_policy_evaluation.policies import Policy, Target
from tacit.methods.off_policy_evaluation.problem import Evaluation
from tacit.methods.off_policy_evaluation.scores import ScoreVector, Weighting
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.parameters import Option
from tacit.privacy.ledger.folds import Fold
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import check


@dataclass(frozen=True, kw_only=True)
class ScoreEstimator(GaussianEstimator, ABC):
    """A method whose interval, at least, is that of the scores: the last of its parts."""

    with_point: ClassVar[bool] = False
    """Whether the scores share their vector with a further number (`scores.Point`)."""

    clip: Option[float | None] = None
    """the largest weighted return, in multiples of the largest return: more means less bias and more noise. None
    chooses by the calibrated noise (`scores.clip_for`)."""

    def __post_init__(self) -> None:
        check("clip", self.clip, self.clip is None or 1e-6 <= self.clip <= 1e6, "None or a number from 1e-6 to 1e6")
        super().__post_init__()
        self.parts()

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> Self:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.vault.plan.calibrate`)."""
        return super().calibrate(unit=unit, epsilon=epsilon, delta=delta)._clipped(unit)

    def account(self, *, unit: Unit, delta: float) -> Self:
        """The plan at the noise multiplier it has, with the epsilon that this honestly costs."""
        return super().account(unit=unit, delta=delta)._clipped(unit)

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse a range that the rewards cannot reach."""
        scores.limits(self.problem, spec)

    def on(self, fold: Fold) -> Self:
        """See `Estimator`; a clip that was chosen by the noise is chosen again, for half as many units."""
        moved = super().on(fold)
        chosen = self.unit is not None and self.clip == dataclasses.replace(self, clip=None)._clipped(self.unit).clip
        return dataclasses.replace(moved, clip=None)._clipped(self.unit) if chosen and self.unit else moved

    def _clipped(self, unit: Unit) -> Self:
        part: Any = self.parts()[-1]
        if self.clip or not part.noise_multiplier:
            return self
        units = unit.size if part.fold is None else unit.size / 2
        noise = part.noise_multiplier / math.sqrt(1 - scores.POINT_SHARE if self.with_point else 1)
        return dataclasses.replace(self, clip=scores.clip_for(units, noise))


@dataclass(frozen=True, kw_only=True)
class ImportanceSampling(ScoreEstimator):
    """One noisy vector of clipped, weighted returns; for the behaviour policy itself, of plain returns.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "off-policy evaluation (importance sampling)"
    source: ClassVar[str] = "Precup, Sutton and Singh (ICML 2000), with the Gaussian mechanism"
    covered: ClassVar[str] = f"one noisy sum of {scores.COVERED}"

    weighting: Weighting = "wpdis"
    """the off-policy estimate, per-decision importance sampling (`pdis`) or self-normalised (`wpdis`: far less biased
    by the clip). The interval is the same."""
    sides: Sides = "both"
    """`both` ends of an interval, or the `lower` one alone, which is then higher."""

    def __post_init__(self) -> None:
        check("weighting", self.weighting, self.weighting in get_args(Weighting), "pdis or wpdis")
        check("sides", self.sides, self.sides in get_args(Sides), "both or lower")
        super().__post_init__()

    def sums(self) -> tuple[PoissonSum, ...]:
        """One noisy sum."""
        return (self.problem.part(scores.NAME, self.own_noise),)

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: Policy | None) -> Evaluation:
        """The value and its interval."""
        vector = ScoreVector(self.problem, target, behaviour, vault.spec, self.clip or 1.0)
        noisy_scores = scores.release(vault, run, vector)
        return Evaluation(
            method=self.method,
            value=noisy_scores.value(self.weighting),
            interval=noisy_scores.interval(self.level)
            if self.sides == "both"
            else noisy_scores.lower_bound(self.level),
            limits=noisy_scores.limits,
        )
