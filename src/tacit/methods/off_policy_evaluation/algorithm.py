"""Off-policy evaluation: what every method does alike. A plan brings the mathematics of its method.

Input: records behind a vault, a calibrated plan, the evaluated policy, the behaviour policy or logged propensities
1. both policies must be public, or releases of the same ledger                       (targets.py)
2. refuse what the method cannot evaluate, before anything is charged                 (plan.require)
3. who taught the policy does not judge it: the fold that is free, or no interval     (origins.standing)
   reserve the plan for this very policy: the ledger pays for all of its parts
4. a private model of the behaviour policy, if the plan has one                       (behaviour_model.py)
5. noisy sums over the units, and what follows from them: V, the value, its interval  (plan.estimate)
   what following the policy a little would change, if the plan asks for it           (difference.py)
6. move the value into its interval, and release it with a certificate                (label)
"""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self, TypeVar

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.behaviour_model import BehaviourModel
from tacit.methods.off_policy_evaluation.difference import BLOCKS, Following
from tacit.methods.off_policy_evaluation.difference import PART as DIFFERENCE
from tacit.methods.off_policy_evaluation.features import CustomFeatures, Features, require_memory, try_features
from tacit.methods.off_policy_evaluation.policies import Behaviour, DiscretePolicy, Target
from tacit.methods.off_policy_evaluation.problem import Evaluation, Problem
from tacit.methods.off_policy_evaluation.targets import (
    BehaviourPolicy,
    describe_policy,
    earlier_origins,
    require_probabilities,
    resolve,
    resolve_behaviour,
    resolve_origin,
)
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.folds import FOLDS, Fold, plan_folds
from tacit.privacy.ledger.ledger import Ledger, LedgerView
from tacit.privacy.mechanisms.base import Part, certificate_parts
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, Label, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run, exhausted_error
from tacit.privacy.vault.origins import MOST_LEVEL, Origin, Standing, assess_standing, digest, teachers
from tacit.privacy.vault.vault import Vault
from tacit.serialization import OPTIONAL
from tacit.validation import require_valid

SCORES = "scores"
"""The part of a plan that intervals are made from."""
AnyEstimator = TypeVar("AnyEstimator", bound="Estimator")
WEIGHTS = "behaviour_weights"
"""Under which name the diagnostics of an evaluation hold the weights of its model of the behaviour policy."""


@dataclass(frozen=True, kw_only=True)
class Estimator(plans.PrivatePlan, ABC):
    """A method of off-policy evaluation: its public parameters, what it releases, and how it estimates."""

    method: ClassVar[str]
    source: ClassVar[str]
    needs_propensities: ClassVar[bool] = True
    """Whether it cannot do without the probabilities of the logged actions, unless they are the evaluated policy's."""

    problem: Problem
    """discount, horizon, episodes, public range."""

    @property
    @abstractmethod
    def covered_clauses(self) -> tuple[Clause, ...]:
        """What the plan releases, for the certificate."""

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """Every touch of records that the plan allows."""

    @abstractmethod
    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: DiscretePolicy | None) -> Evaluation:
        """Evaluate the target through the run's parts; `behaviour` is None where logged propensities are used."""

    def label(self, circumstances: Sequence[Clause] = ()) -> Label:
        """The certificate's statements (see `label`)."""
        return label(*self.covered_clauses, circumstances=circumstances)

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse what the method cannot evaluate.

        Raises:
            PlanError: the target, the behaviour or the bounds of the records do not fit the plan.
        """

    def with_target(
        self, target: Target, behaviour: DiscretePolicy | None = None, origin: Origin | None = None
    ) -> Self:
        """The plan for this very policy: by default the same for all of them."""
        return self

    def with_fold(self, fold: Fold) -> Self:
        """The plan over one fold of the units alone, at the same cost; the plan itself where that is not possible."""
        return self

    @property
    def judging_folds(self) -> frozenset[Fold]:
        """The folds that its interval is from: those of the scores, of which any method's interval is made."""
        parts = certificate_parts([part for part in self.parts() if part.name == SCORES] or self.parts())
        return plan_folds(parts) or frozenset(FOLDS)

    @property
    def private_behaviour(self) -> BehaviourModel | None:
        """The private model of the behaviour policy within the plan's budget, if there is one."""
        return None

    @property
    def compared(self) -> Following | None:
        """How much following of the policy is compared with today's practice, if the plan asks for it."""
        return None

    @property
    def basis(self) -> Features | None:
        """The features of V or Q; None where the method has none."""
        return getattr(self, "features", None)

    def grams(self, spec: PublicSpec) -> int:
        """How many Gram matrices of these features a unit has."""
        return 1


@dataclass(frozen=True, kw_only=True)
class GaussianEstimator(Estimator, ABC):
    """A method of noisy sums. Its plan may be run once for each of several policies; each run is charged."""

    level: float = 0.95
    """nominal coverage of the interval."""
    fold: Fold | None = field(default=None, metadata=OPTIONAL)
    """over which half of the units all of its sums are, None for everybody. Where a fold taught the policy, `fit` takes
    the other one."""
    behaviour_model: BehaviourModel | None = field(default=None, metadata=OPTIONAL)
    """a private model of the behaviour policy in place of logged propensities, within the plan's own budget."""
    following: Following | None = field(default=None, metadata=OPTIONAL)
    """what following the policy a little would change, within the plan's own budget; None does not ask for it."""
    target: str | None = None
    """a digest of the evaluated policy and the known behaviour, filled in by `fit`."""
    origin: Origin | None = field(default=None, metadata=OPTIONAL)
    """where the evaluated policy comes from, as its certificate says or as it is declared; filled in by `fit`."""
    noise_multiplier: float | None = None
    """of the whole plan, seen as one Gaussian; None until calibrated."""

    def __post_init__(self) -> None:
        require_valid("level", self.level, 0.5 <= self.level <= MOST_LEVEL, f"a number from 0.5 to {MOST_LEVEL}")
        require_valid("fold", self.fold, self.fold in (None, *FOLDS), "None, 0 or 1")
        # the bounds of a difference rest on weights of mean 1, which a fitted model's need not have
        alone = self.following is None or self.behaviour_model is None
        require_valid("following", self.following, alone, "None beside a model of the behaviour policy")

    @abstractmethod
    def sums(self) -> tuple[Part, ...]:
        """Every touch of records by the method itself, at its `own_noise`."""

    def parts(self) -> tuple[Part, ...]:
        """The sums of a model or a difference, if one is asked for, and the method's own: together one Gaussian."""
        sigma, parts = self.noise_multiplier, self.sums()
        if self.following is not None:  # who judges the value judges the difference
            fold = next((part.fold for part in parts if part.name == SCORES), None)
            noise = sigma and sigma / math.sqrt(self.following.budget)
            parts = (self.problem.part(DIFFERENCE, noise, fold=fold, blocks=BLOCKS), *parts)
        if self.behaviour_model is not None:
            share = self.behaviour_model.share
            parts = (*self.behaviour_model.parts(self.problem, sigma and sigma / math.sqrt(share)), *parts)
        return parts if self.fold is None else tuple(self._part_on_fold(part) for part in parts)

    def _part_on_fold(self, part: Part) -> Part:
        """A sum over everybody, over the plan's fold instead."""
        whole = isinstance(part, PoissonSum) and part.sampling_rate == 1 and part.fold is None
        require_valid("fold", self.fold, whole, "None: not every sum of this method is over all of the units")
        assert isinstance(part, PoissonSum)
        return dataclasses.replace(part, fold=self.fold)

    def with_fold(self, fold: Fold) -> Self:
        """See `Estimator`."""
        parts = self.parts()
        whole = all(isinstance(part, PoissonSum) and part.sampling_rate == 1 and part.fold is None for part in parts)
        return dataclasses.replace(self, fold=fold) if whole else self

    @property
    def own_noise(self) -> float | None:
        """The noise multiplier of the method's own sums, with what a model or a difference leaves of the budget."""
        spent = self.behaviour_model.share if self.behaviour_model else self.following.budget if self.following else 0.0
        return self.noise_multiplier and self.noise_multiplier / math.sqrt(1 - spent)

    @property
    def private_behaviour(self) -> BehaviourModel | None:
        """See `Estimator`."""
        return self.behaviour_model

    @property
    def compared(self) -> Following | None:
        """See `Estimator`."""
        return self.following

    def label(self, circumstances: Sequence[Clause] = ()) -> Label:
        """See `Estimator`; with what a model adds to the sums and takes from the interval, and a difference adds."""
        own, model, following = super().label(circumstances), self.behaviour_model, self.following
        if following is not None:
            several = (clause("courses_apart"),) if self.problem.episodes_per_unit > 1 else ()
            own = dataclasses.replace(
                own, covered=(*following.covered_clauses, *own.covered), assumptions=(*own.assumptions, *several)
            )
        if model is None:
            return own
        return dataclasses.replace(
            own, covered=(*model.covered_clauses, *own.covered), assumptions=(*own.assumptions, model.assumption)
        )

    def __str__(self) -> str:
        """The promise in plain words, and what a model of the behaviour policy and a difference get."""
        return "\n".join([super().__str__(), *(each.words for each in (self.behaviour_model, self.following) if each)])

    def with_target(
        self, target: Target, behaviour: DiscretePolicy | None = None, origin: Origin | None = None
    ) -> Self:
        """The plan for this very policy, with its digest and its origin."""
        return dataclasses.replace(self, target=digest(target, behaviour), origin=origin)


def fit(
    plan: Estimator,
    vault: Vault,
    policy: Target | Release[DiscretePolicy],
    *,
    behaviour: BehaviourPolicy | None = None,
    origin: Origin | None = None,
) -> Release[Evaluation]:
    """Evaluate a policy as the plan says.

    Args:
        plan: calibrated for the vault's unit (`plan.calibrate(unit=vault.unit, epsilon=..., delta=...)`).
        vault: the records and their ledger.
        policy: `Behaviour()` for the policy that made the records, a public policy, or a release of the same ledger.
        behaviour: the known behaviour policy; None takes the logged propensities, if the method needs any.
        origin: where a policy comes from that is no release itself: `Origin.public()`, or `Origin.made_from(...)`. It
            has to be declared once the ledger holds a release: the value has no interval otherwise.

    Guarantee:
        An interval is from units that did not teach the policy, and as wide as the evaluations before it ask for
        (`Standing`); where no fold is free there is none, and `Evaluation.standing` says why.

    Raises:
        PlanError: the policy or the behaviour is not public, the plan does not fit them or the records, or it needs
            propensities and there are none.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    if not isinstance(plan, Estimator):
        what = f"{type(plan).__name__} is no plan of off-policy evaluation"
        expected, remedy = "a plan of tacit.off_policy_evaluation", "use ResidualRegression, the default"
        raise PlanError(what, where="off_policy_evaluation.fit", expected=expected, remedy=remedy)
    if plan.basis is not None:
        try_features(plan.basis, vault.spec)
        require_memory(plan.basis, vault.unit, plan.grams(vault.spec))
    target = resolve(policy, vault)
    plan.require(target, behaviour, vault.spec)
    model = plan.private_behaviour
    if model is not None:
        _require_use(model, target, behaviour, vault.spec)
    following, followed = plan.compared, None if plan.compared is None else require_probabilities(target)
    needed = (plan.needs_propensities and model is None) or following is not None
    behaviour_policy = resolve_behaviour(target, behaviour, vault, needed=needed)
    plan, allowed = assign_judges(plan, vault.ledger, policy, target, behaviour_policy, behaviour, origin)
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, plan.parts()[0].name)
    found = {}
    if model is not None:
        weights = model.fit(vault, run, plan.problem)
        behaviour_policy, found = model.policy(weights), {WEIGHTS: weights.tolist()}
    evaluation = plan.estimate(vault, run, target, behaviour_policy)
    evaluation = dataclasses.replace(evaluation, diagnostics={**evaluation.diagnostics, **found})
    if following is not None and followed is not None:
        level = allowed.level if allowed.words else getattr(plan, "level", None)
        difference = following.estimate(vault, run, plan.problem, followed, behaviour_policy, level=level)
        evaluation = dataclasses.replace(evaluation, difference=difference)
    if evaluation.interval is not None and allowed.words:
        interval = None if allowed.level is None else evaluation.interval
        evaluation = dataclasses.replace(evaluation, interval=interval, standing=allowed.words)
    if evaluation.value is not None and evaluation.interval is not None:
        evaluation = dataclasses.replace(evaluation, value=evaluation.interval.clamp(evaluation.value))
    own = [plan.basis] if isinstance(plan.basis, CustomFeatures) else []
    features = [clause("features_fixed", words=basis.function) for basis in own]
    rests = () if model else ratio_clauses(target, behaviour_policy, has_propensities=vault.spec.propensities)
    circumstances = (clause("evaluated", **describe_policy(policy, origin, vault.ledger)), *rests, *features)
    return vault.release(run, evaluation, label=plan.label(circumstances))


def assign_judges(
    plan: AnyEstimator,
    ledger: Ledger | LedgerView,
    policy: Target | Release[DiscretePolicy],
    target: Target,
    behaviour_policy: DiscretePolicy | None,
    behaviour: BehaviourPolicy | None = None,
    origin: Origin | None = None,
) -> tuple[AnyEstimator, Standing]:
    """The plan for this policy over people who may judge it, at the level that then holds, and what that rests on.

    Args:
        plan: calibrated.
        ledger: of the records.
        policy: the evaluated policy, as it was given; `target` is the policy itself.
        behaviour_policy: the known behaviour policy; `behaviour` says whether it is a release.
        origin: as it is declared; of a release its certificate's word counts.

    Raises:
        PlanError: the origin names no plan of the ledger, or is declared of a release.
    """
    if isinstance(target, Behaviour):
        return plan.with_target(target, behaviour_policy), Standing(frozenset(FOLDS), None)
    origin = resolve_origin(policy, origin)
    earlier, since = earlier_origins(ledger, target, behaviour_policy)
    origin = origin or next((known for known in earlier if known is not None), None)
    besides = frozenset[Fold]()
    if behaviour is not None and isinstance(behaviour.policy, Release):
        besides = teachers(ledger, Origin.of(behaviour.policy))
    level = getattr(plan, "level", 0.95)
    ask = functools.partial(assess_standing, ledger, [origin, *earlier], level=level, since=since, besides=besides)
    free = ask().free
    if len(free) == 1 and not plan.judging_folds <= free:
        plan = plan.with_fold(min(free))
    allowed = ask(judges=plan.judging_folds)
    if allowed.level is not None and allowed.level != level:
        plan = dataclasses.replace(plan, level=allowed.level)  # type: ignore[call-arg]
    return plan.with_target(target, behaviour_policy, origin), allowed


def _require_use(model: BehaviourModel, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
    """Refuse a model that would not be used, or that does not fit the observations."""
    if isinstance(target, Behaviour) or behaviour is not None:
        what = "the model of the behaviour policy would not be used"
        expected, remedy = "another policy than Behaviour(), and no behaviour=", "leave the model out"
        raise PlanError(what, where="behaviour_model", expected=expected, remedy=remedy)
    try_features(model.features, spec)


def used_behaviour(
    plan: Estimator, found: Evaluation, target: Target, behaviour: BehaviourPolicy | None, vault: Vault
) -> DiscretePolicy | None:
    """The behaviour policy that a run of the plan weighed by: the model that it found, or a known one, or None."""
    if plan.private_behaviour is not None:
        return plan.private_behaviour.policy(np.array(found.diagnostics[WEIGHTS]))
    return resolve_behaviour(target, behaviour, vault, needed=plan.needs_propensities)


def label(*covered: Clause, circumstances: Sequence[Clause] = ()) -> Label:
    """The statements of an evaluation's certificate."""
    return Label(
        covered=(*covered, clause("from_evaluation")),
        not_covered=(clause("hyperparameters"), clause("curator")),
        not_protected=(clause("population_value"), clause("evaluated_policy"), clause("less_than_person")),
        assumptions=(*circumstances, clause("returns_in_range")),
    )


def ratio_clauses(target: Target, behaviour: DiscretePolicy | None, *, has_propensities: bool) -> tuple[Clause, ...]:
    """What importance ratios rest on, for a certificate."""
    # behaviour: the known behaviour policy, or None
    if isinstance(target, Behaviour):
        return ()
    if behaviour is not None:
        return (clause("behaviour_known", **describe_policy(behaviour)),)
    return (clause("propensities_true" if has_propensities else "no_propensities"),)
