"""DP-LSTD, sufficient-statistics perturbation: one noisy release of A and b, then LSTD with a ridge of the noise.

Perturbing the sufficient statistics of a regression: Vu and Slavkovic 2009; Wang (arXiv:1803.02596). The ridge that the
noise in A asks for is n s^2, the expectation of E^T E for noise E of standard deviation s.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.evaluation import Evaluation
from tacit.methods.off_policy_evaluation.features import Features
from tacit.methods.off_policy_evaluation.label import label
from tacit.methods.off_policy_evaluation.policies import Policy, Target
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.scores import ScoreVector
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics, Stats
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, addressed, resolve, resolve_behaviour
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import exhausted
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import check

PART = "statistics"


@dataclass(frozen=True, kw_only=True)
class SufficientStatistics(plans.Promising):
    """DP-LSTD's public parameters.

    Args:
        problem: what is evaluated.
        features: phi, n numbers a state.
        clip: largest norm of one unit's stacked (A_i, b_i - A_i theta_0), n^2 + n numbers.
        value_share: of the precision (1 / noise^2), what the value with its interval gets. It is released first, and
            theta_0 gives every state that value (the start-centred variant). 0 is DP-LSTD as it is known: theta_0 = 0,
            and no scalar value.
        level: nominal coverage of the interval.
        target: which policy it is about, filled in by `evaluate` (`targets.addressed`).
        noise_multiplier: of the whole plan, seen as one Gaussian; None until calibrated.
        unit, epsilon, delta: the promise, set by `calibrate` or `price`.

    Raises:
        PlanError: a parameter is out of range.
    """

    method: ClassVar[str] = "DP-LSTD"
    source: ClassVar[str] = "sufficient-statistics perturbation (Wang, arXiv:1803.02596) of LSTD"

    problem: Problem
    features: Features
    clip: float
    value_share: float = 0.2
    level: float = 0.95
    target: str | None = None
    noise_multiplier: float | None = None
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        check("clip", self.clip, 1e-6 <= self.clip <= 1e6, "a number from 1e-6 to 1e6")
        check("value_share", self.value_share, 0 <= self.value_share < 1, "a number in [0, 1)")
        check("level", self.level, 0.5 <= self.level <= 0.99, "a number from 0.5 to 0.99")
        self.parts()

    def parts(self) -> tuple[PoissonSum, ...]:
        """One noisy sum of the statistics, divided by the clip; and, before it, one of scores."""
        sigma = self.noise_multiplier
        own = None if sigma is None else sigma / math.sqrt(1 - self.value_share)
        statistics = dataclasses.replace(scores.part(self.problem, own), name=PART)
        if not self.value_share:
            return (statistics,)
        return scores.part(self.problem, None if sigma is None else sigma / math.sqrt(self.value_share)), statistics


@dataclass(frozen=True)
class Stacked:
    """Each unit's (A, b - A theta_0) over the clip, [U, n^2 + n], for the state theta_0 [n]."""

    summary: BellmanStatistics
    clip: float

    def __call__(self, rows: Stats, state: np.ndarray) -> np.ndarray:
        """Statistics [U, ...] -> [U, n^2 + n]."""
        if "A" in rows:
            A, b = rows["A"].astype(np.float64), rows["b"].astype(np.float64)
        else:
            Z, D = rows["Z"].astype(np.float64), rows["D"].astype(np.float64)
            A, b = np.swapaxes(Z, 1, 2) @ D, np.einsum("uln,ul->un", Z, rows["r"].astype(np.float64))
        stacked = np.concatenate([A.reshape(len(A), -1), b - A @ state], axis=1)
        return np.asarray(stacked / self.clip)


def solve(noisy: np.ndarray, noise: float, centre: np.ndarray) -> np.ndarray:
    """theta [n] from a noisy mean [n^2 + n] of (A, b - A theta_0), whose entries have this much noise."""
    n = len(centre)
    A, b = noisy[: n * n].reshape(n, n), noisy[n * n :]
    ridge = max(n * noise**2, 1e-12)
    return np.asarray(centre + np.linalg.solve(A.T @ A + ridge * np.eye(n), A.T @ b))


def evaluate(
    plan: SufficientStatistics,
    vault: Vault,
    policy: Target | Release[Policy],
    behaviour: BehaviourPolicy | None = None,
) -> Release[Evaluation]:
    """Run a calibrated plan: the policy's value function and, with a share for it, its value with an interval.

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
    plan = addressed(plan, target, known)
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, PART)
    value = Evaluation(method=plan.method, features=plan.features, limits=plan.problem.range(vault.spec))
    covered, centre = "one noisy sum of clipped LSTD statistics", np.zeros(plan.features.size)
    if plan.value_share:
        covered += ", and one of clipped returns, of their squares and of the number of units"
        widest = scores.clip_for(vault.unit.size, run.sum_part(scores.NAME).noise_multiplier or 0.0)
        found = scores.release(vault, run, ScoreVector(plan.problem, target, known, vault.spec, widest))[0]
        interval = found.interval(plan.level)
        point = min(max(found.value(), interval.low), interval.high)
        value = dataclasses.replace(value, value=point, interval=interval)
        centre = plan.features.constant(point)
    summary = BellmanStatistics(plan.problem, target, known, plan.features, "gtd")
    noisy = plan.clip * vault.noisy_sum(run, PART, Stacked(summary, plan.clip), centre)[0]
    (sigma,) = (part.noise_multiplier for part in plan.parts() if part.name == PART)
    assert sigma is not None
    theta = solve(noisy, plan.clip * sigma / vault.unit.size, centre)
    return vault.release(
        run,
        dataclasses.replace(value, theta=theta),
        label=label(covered, policy, target, known, features=plan.features),
    )
