"""Private fitted Q evaluation: a value from noisy Bellman residuals without importance ratios, and a valid interval.

The interval is that of the scores, which do need ratios: a regression that is biased (by its features, by too few
rounds, by its noise) has no interval of its own that could be trusted. Records without propensities give the value
alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.features import AnyFeatures
from tacit.methods.off_policy_evaluation.importance import ScoreEstimator
from tacit.methods.off_policy_evaluation.logged import Logged, within_horizon
from tacit.methods.off_policy_evaluation.policies import Policy, Target
from tacit.methods.off_policy_evaluation.problem import Evaluation, Problem
from tacit.methods.off_policy_evaluation.q_function import Fit, QFunction
from tacit.methods.off_policy_evaluation.scores import Point, PointVector, Scores, ScoreVector
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, with_probabilities
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.validation import check

START_WIDTH = 0.25
"""Start values are averaged within this part of the public range on either side of the mean return."""


@dataclass(frozen=True, kw_only=True)
class QEstimator(ScoreEstimator, ABC):
    """A method that fits Q, then averages a number that Q gives about each unit, beside the scores."""

    with_point: ClassVar[bool] = True

    features: AnyFeatures
    """phi."""
    regression: Fit = field(default_factory=Fit)
    """rounds, trace, prior."""

    @abstractmethod
    def half_width(self, spec: PublicSpec) -> float:
        """How far from the fit's centre the averaged numbers may be."""

    @abstractmethod
    def point(self, spec: PublicSpec) -> Point:
        """Each unit's number over the half width around the fit's centre; its state is Q."""

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse a policy without probabilities, and a range that the rewards cannot reach."""
        with_probabilities(target)
        super().require(target, behaviour, spec)

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: Policy | None) -> Evaluation:
        """The value and its interval; the diagnostics hold "q_weights" [n][A] and "centre"."""
        q = self.regression.fit(vault, run, self.problem, self.features, with_probabilities(target))
        vector = ScoreVector(self.problem, target, behaviour, vault.spec, self.clip or 1.0, self.point(vault.spec))
        noisy_scores = scores.release(vault, run, vector, state=q)
        assert noisy_scores.point is not None
        return Evaluation(
            method=self.method,
            value=q.centre + self.half_width(vault.spec) * noisy_scores.point,
            interval=noisy_scores.interval(self.level),
            limits=noisy_scores.limits,
            diagnostics={"q_weights": q.weights.tolist(), "centre": q.centre} | self.further(noisy_scores),
        )

    def further(self, found: Scores) -> dict[str, float]:
        """Diagnostics of the method's own."""
        return {}


@dataclass(frozen=True, kw_only=True)
class FittedQ(QEstimator):
    """Fitted Q evaluation with Q linear in public features, one weight vector an action.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "off-policy evaluation (fitted Q)"
    weighs: ClassVar[bool] = False
    source: ClassVar[str] = "Le, Voloshin and Yue, arXiv:1903.08738, with the Gaussian mechanism"

    share: float = 0.6
    """of the budget that goes to the regression; the rest to the scores and the mean start value."""

    def __post_init__(self) -> None:
        check("share", self.share, 0 < self.share < 1, "a number in (0, 1)")
        super().__post_init__()

    @property
    def covered(self) -> str:
        """All of its noisy sums."""
        return f"{self.regression.rounds + 3} noisy sums: mean returns, a Gram matrix, Bellman residuals, scores"

    def sums(self) -> tuple[PoissonSum, ...]:
        """The mean return, the Gram matrix, the rounds of residuals, the scores."""
        sigma = self.own_noise
        first, last = (sigma and sigma / math.sqrt(share) for share in (self.share, 1 - self.share))
        return (*self.regression.parts(self.problem, first), self.problem.part(scores.NAME, last))

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: Policy | None) -> Evaluation:
        """As for every method that fits Q; the value alone where nothing tells the probabilities of logged actions."""
        if behaviour is not None or vault.spec.propensities:
            return super().estimate(vault, run, target, behaviour)
        q = self.regression.fit(vault, run, self.problem, self.features, with_probabilities(target))
        low, high = limits = scores.limits(self.problem, vault.spec)
        mean = scores.mean(vault, run, PointVector(self.problem, self.point(vault.spec)), state=q)
        value = q.centre + self.half_width(vault.spec) * mean
        return Evaluation(
            method=self.method,
            value=min(max(value, low), high),
            limits=limits,
            diagnostics={"q_weights": q.weights.tolist(), "centre": q.centre},
        )

    def half_width(self, spec: PublicSpec) -> float:
        """A quarter of the public range."""
        low, high = self.problem.range(spec)
        return START_WIDTH * (high - low)

    def point(self, spec: PublicSpec) -> StartValue:
        """The value at the start."""
        return StartValue(self.problem, self.half_width(spec))


@dataclass(frozen=True)
class StartValue:
    """What V says of the return over the horizon (`logged.within_horizon`), over the width around the fit's centre; the
    state is Q."""

    problem: Problem
    width: float

    def __call__(self, log: Logged, state: QFunction) -> np.ndarray:
        """[U], the mean over the unit's episodes."""
        values, next_values = (
            state.over("v", observations, log.alive.shape) for observations in (log.observations, log.next_observations)
        )
        return np.asarray((within_horizon(log, self.problem, values, next_values) - state.centre) / self.width)
