"""Off-policy evaluation: what every method does alike. A plan brings the mathematics of its method.

Input: records behind a vault, a calibrated plan, the evaluated policy, the behaviour policy or logged propensities
1. both policies must be public, or releases of the same ledger                       (targets.py)
2. refuse what the method cannot evaluate, before anything is charged                 (plan.require)
3. reserve the plan for this very policy: the ledger pays for all of its parts
4. noisy sums over the units, and what follows from them: V, the value, its interval  (plan.estimate)
5. move the value into its interval, and release it with a certificate                (label)
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.features import Custom, Features, try_features
from tacit.methods.off_policy_evaluation.policies import Behaviour, Policy, Target
from tacit.methods.off_policy_evaluation.problem import Evaluation, Problem
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, digest, resolve, resolve_behaviour, words
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.certificate.words import Label
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run, exhausted
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import check


@dataclass(frozen=True, kw_only=True)
class Estimator(plans.PrivatePlan, ABC):
    """A method of off-policy evaluation: its public parameters, what it releases, and how it estimates."""

    method: ClassVar[str]
    source: ClassVar[str]

    problem: Problem
    """discount, horizon, episodes, public range."""
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None
    """the promise; None until calibrated."""

    @property
    @abstractmethod
    def covered(self) -> str:
        """What the plan releases, in the certificate's words."""

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """Every touch of records that the plan allows."""

    @abstractmethod
    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: Policy | None) -> Evaluation:
        """Evaluate the target through the run's parts; `behaviour` is None where logged propensities are used."""

    def label(self, circumstances: Sequence[str] = ()) -> Label:
        """The certificate's words (see `label`)."""
        return label(self.covered, circumstances)

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse what the method cannot evaluate.

        Raises:
            PlanError: the target, the behaviour or the bounds of the records do not fit the plan.
        """

    def about(self, target: Target, behaviour: Policy | None = None) -> Self:
        """The plan for this very policy: by default the same for all of them."""
        return self

    @property
    def basis(self) -> Features | None:
        """The features of V or Q; None where the method has none."""
        return getattr(self, "features", None)


@dataclass(frozen=True, kw_only=True)
class GaussianEstimator(Estimator, ABC):
    """A method of noisy sums. Its plan may be run once for each of several policies; each run is charged."""

    level: float = 0.95
    """nominal coverage of the interval."""
    target: str | None = None
    """a digest of the evaluated policy and the known behaviour, filled in by `fit`."""
    noise_multiplier: float | None = None
    """of the whole plan, seen as one Gaussian; None until calibrated."""

    def __post_init__(self) -> None:
        check("level", self.level, 0.5 <= self.level <= 0.99, "a number from 0.5 to 0.99")

    def about(self, target: Target, behaviour: Policy | None = None) -> Self:
        """The plan for this very policy, with its digest."""
        return dataclasses.replace(self, target=digest(target, behaviour))


def fit(
    plan: Estimator, vault: Vault, policy: Target | Release[Policy], *, behaviour: BehaviourPolicy | None = None
) -> Release[Evaluation]:
    """Evaluate a policy as the plan says.

    Args:
        plan: calibrated for the vault's unit (`plan.calibrate(unit=vault.unit, epsilon=..., delta=...)`).
        vault: the records and their ledger.
        policy: `Behaviour()` for the policy that made the records, a public policy, or a release of the same ledger.
        behaviour: the known behaviour policy; None takes the logged propensities.

    Raises:
        PlanError: the policy or the behaviour is not public, or the plan does not fit them or the records.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    if not isinstance(plan, Estimator):
        raise PlanError(
            f"{type(plan).__name__} is no plan of off-policy evaluation",
            where="off_policy_evaluation.fit",
            expected="a plan of tacit.off_policy_evaluation",
            remedy="use ResidualRegression, the default",
        )
    if plan.basis is not None:
        try_features(plan.basis, vault.spec.observation)
    target = resolve(policy, vault)
    plan.require(target, behaviour, vault.spec)
    behaviour_policy = resolve_behaviour(target, behaviour, vault)
    plan = plan.about(target, behaviour_policy)
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, plan.parts()[0].name)
    evaluation = plan.estimate(vault, run, target, behaviour_policy)
    if evaluation.value is not None and evaluation.interval is not None:
        evaluation = dataclasses.replace(evaluation, value=evaluation.interval.nearest(evaluation.value))
    own = [plan.basis] if isinstance(plan.basis, Custom) else []
    features = [f"the features {basis.function} were fixed without these records" for basis in own]
    circumstances = (f"evaluated: {words(policy)}", *propensities(target, behaviour_policy), *features)
    return vault.release(run, evaluation, label=plan.label(circumstances))


def label(covered: str, circumstances: Sequence[str] = ()) -> Label:
    """The words of an evaluation's certificate.

    Args:
        covered: what the plan releases.
        circumstances: what was evaluated, and on what else that rests.
    """
    return Label(
        covered=(covered, "everything computed from the evaluation: its value, interval, value function and report"),
        not_covered=(
            "the choice of hyper-parameters: it must have been made without looking at the private records",
            "whatever the curator computes from the records outside the vault (see the ledger's notes)",
        ),
        not_protected=(
            "what is true of the population rather than of one unit, such as how good the policy is",
            "the evaluated policy, that these records were used at all, and every public parameter of the plan",
            "several units that belong to one person, where the declared unit is less than a person",
        ),
        assumptions=(
            *circumstances,
            "no episode's discounted return lies outside the public range (for the value and the interval, not for "
            "the promise of privacy)",
        ),
    )


def propensities(target: Target, behaviour: Policy | None) -> tuple[str, ...]:
    """What importance ratios rest on, for a certificate.

    Args:
        target: the evaluated policy.
        behaviour: the known behaviour policy, or None.
    """
    if isinstance(target, Behaviour):
        return ()
    if behaviour is not None:
        return (f"the behaviour policy is {words(behaviour)}, and made the records",)
    return ("the logged propensities are the true probabilities of the logged actions",)
