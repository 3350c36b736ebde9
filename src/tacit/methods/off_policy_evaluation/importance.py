"""Importance sampling: a policy's value from weighted returns, with an interval that survives the clip."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, get_args

from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.evaluation import Evaluation
from tacit.methods.off_policy_evaluation.intervals import Sides
from tacit.methods.off_policy_evaluation.label import label
from tacit.methods.off_policy_evaluation.policies import Policy, Target
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.scores import ScoreVector, Weighting
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, addressed, resolve, resolve_behaviour
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import exhausted
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import check


@dataclass(frozen=True, kw_only=True)
class ImportanceSampling(plans.Promising):
    """One noisy vector of clipped, weighted returns; for the behaviour policy itself, of plain returns.

    Args:
        problem: discount, horizon, episodes, public range.
        weighting: the off-policy estimate, per-decision importance sampling (`pdis`) or self-normalised (`wpdis`: far
            less biased by the clip). The interval is the same.
        clip: the largest weighted return, in multiples of the largest return: more means less bias and more noise. None
            chooses by the calibrated noise (`scores.clip_for`).
        sides: `both` ends of an interval, or the `lower` one alone, which is then higher.
        level: nominal coverage of the interval.
        target: which policy it is about, filled in by `evaluate` (`targets.addressed`).
        noise_multiplier: standard deviation of the noise over the vector's norm; None until calibrated.
        unit, epsilon, delta: the promise; None until calibrated.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "off-policy evaluation (importance sampling)"
    source: ClassVar[str] = "Precup, Sutton and Singh (ICML 2000), with the Gaussian mechanism"

    problem: Problem
    weighting: Weighting = "wpdis"
    clip: float | None = None
    sides: Sides = "both"
    level: float = 0.95
    target: str | None = None
    noise_multiplier: float | None = None
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        check("weighting", self.weighting, self.weighting in get_args(Weighting), "pdis or wpdis")
        check("clip", self.clip, self.clip is None or 1e-6 <= self.clip <= 1e6, "None or a number from 1e-6 to 1e6")
        check("sides", self.sides, self.sides in get_args(Sides), "both or lower")
        check("level", self.level, 0.5 <= self.level <= 0.99, "a number from 0.5 to 0.99")
        self.parts()

    def parts(self) -> tuple[PoissonSum, ...]:
        """One noisy sum."""
        return (scores.part(self.problem, self.noise_multiplier),)

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> ImportanceSampling:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.plan.calibrate`)."""
        return plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)._clipped(unit)

    def price(self, *, unit: Unit, delta: float) -> ImportanceSampling:
        """The plan at the noise multiplier it has, with the epsilon that this honestly costs."""
        return plans.price(self, unit=unit, delta=delta)._clipped(unit)

    def _clipped(self, unit: Unit) -> ImportanceSampling:
        sigma = self.parts()[-1].noise_multiplier
        return self if self.clip or not sigma else dataclasses.replace(self, clip=scores.clip_for(unit.size, sigma))


def evaluate(
    plan: ImportanceSampling,
    vault: Vault,
    policy: Target | Release[Policy],
    behaviour: BehaviourPolicy | None = None,
) -> Release[Evaluation]:
    """Run a calibrated plan: the value of a policy and its interval.

    Args:
        plan: calibrated for the vault's unit.
        vault: the records and their ledger.
        policy: `Behaviour()` for the policy that made the records, a public policy, or a release of the same ledger.
        behaviour: the known behaviour policy; None takes the logged propensities.

    Raises:
        PlanError: the policy or the behaviour is not public, or the plan is not calibrated.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    target = resolve(policy, vault)
    known = resolve_behaviour(target, behaviour, vault)
    vector = ScoreVector(plan.problem, target, known, vault.spec, plan.clip or 1.0)
    vector.units()
    plan = addressed(plan, target, known)
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, scores.NAME)
    found = scores.release(vault, run, vector)[0]
    interval = found.interval(plan.level) if plan.sides == "both" else found.lower_bound(plan.level)
    evaluation = Evaluation(
        method=plan.method,
        value=min(max(found.value(plan.weighting), interval.low), interval.high),
        interval=interval,
        limits=found.limits,
    )
    covered = "one noisy sum of clipped returns, of their squares and of the number of units"
    return vault.release(run, evaluation, label=label(covered, policy, target, known))
