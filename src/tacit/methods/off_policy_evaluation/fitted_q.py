"""Private fitted Q evaluation: a value from noisy Bellman residuals without importance ratios, and a valid interval.

The interval is that of the scores, which do need ratios: a regression that is biased (by its features, by too few
rounds, by its noise) has no interval of its own that could be trusted.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.evaluation import Evaluation
from tacit.methods.off_policy_evaluation.features import Features
from tacit.methods.off_policy_evaluation.label import label
from tacit.methods.off_policy_evaluation.logged import Logged, within_horizon
from tacit.methods.off_policy_evaluation.policies import Behaviour, Policy, Target
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.q_function import Fit, QFunction, fit
from tacit.methods.off_policy_evaluation.scores import ScoreVector
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, addressed, resolve, resolve_behaviour
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import exhausted
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import check

START_WIDTH = 0.25
"""Start values are averaged within this part of the public range on either side of the mean return."""


@dataclass(frozen=True, kw_only=True)
class FittedQ(plans.Promising):
    """Fitted Q evaluation with Q linear in public features, one weight vector an action.

    Args:
        problem: discount, horizon, episodes, public range.
        features: phi.
        regression: rounds, trace, prior (`q_function.Fit`).
        clip: of the scores, as in `ImportanceSampling`.
        share: of the budget that goes to the regression; the rest to the scores and the mean start value.
        level: nominal coverage of the interval.
        target: which policy it is about, filled in by `evaluate` (`targets.addressed`).
        noise_multiplier: of the whole plan as one Gaussian; None until calibrated.
        unit, epsilon, delta: the promise; None until calibrated.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "off-policy evaluation (fitted Q)"
    source: ClassVar[str] = "Le, Voloshin and Yue, arXiv:1903.08738, with the Gaussian mechanism"

    problem: Problem
    features: Features
    regression: Fit = field(default_factory=Fit)
    clip: float | None = None
    share: float = 0.6
    level: float = 0.95
    target: str | None = None
    noise_multiplier: float | None = None
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        check("clip", self.clip, self.clip is None or 1e-6 <= self.clip <= 1e6, "None or a number from 1e-6 to 1e6")
        check("share", self.share, 0 < self.share < 1, "a number in (0, 1)")
        check("level", self.level, 0.5 <= self.level <= 0.99, "a number from 0.5 to 0.99")
        self.parts()

    def parts(self) -> tuple[PoissonSum, ...]:
        """The mean return, the Gram matrix, the rounds of residuals, the scores."""
        sigma = self.noise_multiplier
        first, last = (None if sigma is None else float(sigma / np.sqrt(s)) for s in (self.share, 1 - self.share))
        return (*self.regression.parts(self.problem, first), scores.part(self.problem, last))

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> FittedQ:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.plan.calibrate`)."""
        return plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)._clipped(unit)

    def price(self, *, unit: Unit, delta: float) -> FittedQ:
        """The plan at the noise multiplier it has, with the epsilon that this honestly costs."""
        return plans.price(self, unit=unit, delta=delta)._clipped(unit)

    def _clipped(self, unit: Unit) -> FittedQ:
        sigma = self.parts()[-1].noise_multiplier
        if self.clip or not sigma:
            return self
        return dataclasses.replace(self, clip=scores.clip_for(unit.size, sigma / math.sqrt(1 - scores.POINT_SHARE)))


@dataclass(frozen=True)
class StartValue:
    """What V says of the return over the horizon (`logged.within_horizon`), over the width around the fit's centre; the
    state is Q.
    """

    problem: Problem
    width: float

    def __call__(self, log: Logged, state: QFunction) -> np.ndarray:
        """[U], the mean over the unit's episodes."""
        here, after = (state.over("v", one, log.alive.shape) for one in (log.observations, log.next_observations))
        return np.asarray((within_horizon(log, self.problem, here, after) - state.centre) / self.width)


def evaluate(
    plan: FittedQ,
    vault: Vault,
    policy: Target | Release[Policy],
    behaviour: BehaviourPolicy | None = None,
) -> Release[Evaluation]:
    """Run a calibrated plan: the value of a policy and an interval for it.

    Args:
        plan: calibrated for the vault's unit.
        vault: the records and their ledger.
        policy: a public policy over discrete actions, or a release of the same ledger.
        behaviour: the known behaviour policy; None takes the logged propensities (for the interval alone).

    Returns:
        The evaluation; its diagnostics hold "q_weights" [n][A] and "centre".

    Raises:
        PlanError: the policy or the behaviour is not public, has no probabilities, or the plan is not calibrated.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    target = with_probabilities(resolve(policy, vault))
    known = resolve_behaviour(target, behaviour, vault)
    width = START_WIDTH * float(np.subtract(*plan.problem.range(vault.spec)[::-1]))
    vector = ScoreVector(plan.problem, target, known, vault.spec, plan.clip or 1.0, StartValue(plan.problem, width))
    vector.units()
    plan = addressed(plan, target, known)
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, "centre")
    q = fit(vault, run, plan.regression, plan.problem, plan.features, target)
    found = scores.release(vault, run, vector, state=q)[0]
    interval = found.interval(plan.level)
    assert found.point is not None
    evaluation = Evaluation(
        method=plan.method,
        value=min(max(q.centre + width * found.point, interval.low), interval.high),
        interval=interval,
        limits=found.limits,
        diagnostics={"q_weights": q.weights.tolist(), "centre": q.centre},
    )
    covered = f"{plan.regression.rounds + 3} noisy sums: mean returns, a Gram matrix, Bellman residuals, scores"
    return vault.release(run, evaluation, label=label(covered, policy, target, known, features=plan.features))


def with_probabilities(target: Target) -> Policy:
    """The policy, unless it is `Behaviour()`.

    Raises:
        PlanError: it is.
    """
    if isinstance(target, Behaviour):
        raise PlanError(
            "Behaviour() has no probabilities",
            where="off_policy_evaluation",
            expected="a policy that can be asked for probabilities",
            remedy="use ImportanceSampling or ResidualRegression for the behaviour policy itself",
        )
    return target
