"""Private doubly robust evaluation: Q from one half of the units, weighted residuals of it from the other.

    J = E[ V(s_0) + sum_t gamma^t w_t (r_t + gamma V(s_{t+1}) - Q(s_t, a_t)) ]

for any fixed Q (Jiang and Li, arXiv:1511.03722), the better Q the less the weights w_t matter. The two halves are fixed
for the ledger's life, so each part costs as if it were alone (parallel composition).

The point estimate clips these signed scores. They give no interval: a clip moves their mean either way. Writing a score
as a sum of scores that are not negative, as for the returns, needs a bound M on every residual, and what is lost to the
clip then scales with M (the width of the range of Q) where for plain rewards it scales with the rewards. So the
interval is that of the plain scores, of the second half.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.evaluation import Evaluation
from tacit.methods.off_policy_evaluation.features import Features
from tacit.methods.off_policy_evaluation.fitted_q import with_probabilities
from tacit.methods.off_policy_evaluation.label import label
from tacit.methods.off_policy_evaluation.logged import Logged
from tacit.methods.off_policy_evaluation.policies import Policy, Target
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


@dataclass(frozen=True, kw_only=True)
class DoublyRobust(plans.Promising):
    """Doubly robust evaluation over two fixed halves of the units.

    Args:
        problem: discount, horizon, episodes, public range.
        features: phi of Q.
        regression: rounds, trace, prior (`q_function.Fit`), on the first half.
        width: the doubly robust scores are clipped so far to either side of the mean return, in multiples of the
            public range.
        clip: of the plain scores, as in `ImportanceSampling`.
        level: nominal coverage of the interval.
        target: which policy it is about, filled in by `evaluate` (`targets.addressed`).
        noise_multiplier: of each half as one Gaussian; None until calibrated.
        unit, epsilon, delta: the promise; None until calibrated.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "off-policy evaluation (doubly robust)"
    source: ClassVar[str] = "Jiang and Li, arXiv:1511.03722, with the Gaussian mechanism"

    problem: Problem
    features: Features
    regression: Fit = field(default_factory=Fit)
    width: float = 0.5
    clip: float | None = None
    level: float = 0.95
    target: str | None = None
    noise_multiplier: float | None = None
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        check("width", self.width, 1e-6 <= self.width <= 1e6, "a number from 1e-6 to 1e6")
        check("clip", self.clip, self.clip is None or 1e-6 <= self.clip <= 1e6, "None or a number from 1e-6 to 1e6")
        check("level", self.level, 0.5 <= self.level <= 0.99, "a number from 0.5 to 0.99")
        self.parts()

    def parts(self) -> tuple[PoissonSum, ...]:
        """The Gram matrix and the rounds of residuals on the first half, the scores on the second."""
        first = self.regression.parts(self.problem, self.noise_multiplier, 0)
        return (*first, scores.part(self.problem, self.noise_multiplier, fold=1))

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> DoublyRobust:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.plan.calibrate`)."""
        return plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)._clipped(unit)

    def price(self, *, unit: Unit, delta: float) -> DoublyRobust:
        """The plan at the noise multiplier it has, with the epsilon that this honestly costs."""
        return plans.price(self, unit=unit, delta=delta)._clipped(unit)

    def _clipped(self, unit: Unit) -> DoublyRobust:
        sigma = self.parts()[-1].noise_multiplier
        if self.clip or not sigma:
            return self
        return dataclasses.replace(self, clip=scores.clip_for(unit.size / 2, sigma / math.sqrt(1 - scores.POINT_SHARE)))


@dataclass(frozen=True)
class DoublyRobustScore:
    """Each unit's doubly robust score over the width around the fit's centre; the state is Q.

    A row that the horizon ends has nothing after it, as the value is that of the return over the horizon; a row after
    which the records were cut earlier is bootstrapped.
    """

    problem: Problem
    width: float

    def __call__(self, log: Logged, state: QFunction) -> np.ndarray:
        """[U], the mean over the unit's episodes."""
        shape, gamma = log.alive.shape, self.problem.gamma
        chosen = np.where(log.alive, log.actions, 0)[..., None]
        q = np.take_along_axis(state.over("q", log.observations, shape), chosen, axis=2)[..., 0]
        goes_on = ~log.terminations & (log.step < self.problem.horizon - 1)
        after = goes_on * state.over("v", log.next_observations, shape)
        corrections = gamma**log.step * scores.weights(log) * (log.rewards + gamma * after - q)
        starts = log.alive & (log.step == 0)
        each = corrections * log.alive + starts * state.over("v", log.observations, shape)
        return np.asarray((each.sum(axis=1) / log.episodes - state.centre) / self.width)


def evaluate(
    plan: DoublyRobust,
    vault: Vault,
    policy: Target | Release[Policy],
    behaviour: BehaviourPolicy | None = None,
) -> Release[Evaluation]:
    """Run a calibrated plan: the value of a policy and an interval for it.

    Args:
        plan: calibrated for the vault's unit.
        vault: the records and their ledger.
        policy: a public policy over discrete actions, or a release of the same ledger.
        behaviour: the known behaviour policy; None takes the logged propensities.

    Returns:
        The evaluation; its diagnostics hold "q_weights" [n][A], "centre" and "importance_sampling", the estimate from
        the plain scores.

    Raises:
        PlanError: the policy or the behaviour is not public, has no probabilities, or the plan is not calibrated.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    target = with_probabilities(resolve(policy, vault))
    known = resolve_behaviour(target, behaviour, vault)
    low, high = plan.problem.range(vault.spec)
    width = plan.width * (high - low)
    vector = ScoreVector(
        plan.problem, target, known, vault.spec, plan.clip or 1.0, DoublyRobustScore(plan.problem, width)
    )
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
        diagnostics={"q_weights": q.weights.tolist(), "centre": q.centre, "importance_sampling": found.value()},
    )
    covered = f"{plan.regression.rounds + 2} noisy sums over one fixed half of the units and one over the other"
    return vault.release(run, evaluation, label=label(covered, policy, target, known, features=plan.features))
