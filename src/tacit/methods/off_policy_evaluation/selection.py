"""A private choice among K candidate policies: which has the largest clipped value, and nothing about the values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.algorithm import label, ratio_clauses
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour, DiscretePolicy, Target
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.scores import bound_scores, limits
from tacit.methods.off_policy_evaluation.targets import (
    BehaviourPolicy,
    describe_policy,
    evaluated_policy,
    resolve,
    resolve_behaviour,
)
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.releases import NoisyMaximum
from tacit.privacy.sentences import Clause, Label, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.origins import Origin, digest, teachers
from tacit.privacy.vault.vault import Vault
from tacit.serialization import OPTIONAL
from tacit.units import Promise, Unit, require_delta
from tacit.validation import require_valid

PART = "choice"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy that may be chosen.

    Args:
        name: its name in the release.
        policy: a public policy, `Behaviour()` for the one that made the records, or a release of the same ledger (of
            which the policy itself is kept).

    Attributes:
        ledger: the dataset id of the ledger that released the policy, or None.
        origin: the plan that released it, and which policy that was, or None.
        digest: of everything in the policy (`origins.digest`).

    Raises:
        PlanError: there is no name, or the release is no policy.
    """

    name: str
    policy: Target | Release[DiscretePolicy]
    ledger: str | None = field(init=False, default=None)
    origin: Origin | None = field(init=False, default=None, metadata=OPTIONAL)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.policy, Release):
            object.__setattr__(self, "ledger", self.policy.certificate.dataset_id)
            object.__setattr__(self, "origin", Origin.of(self.policy))
            object.__setattr__(self, "policy", evaluated_policy(self.policy))
        require_valid("name", self.name, bool(self.name.strip()), "a name of the candidate")
        object.__setattr__(self, "digest", digest(self.target, None))

    @property
    def target(self) -> Target:
        """The policy itself."""
        assert not isinstance(self.policy, Release)
        return self.policy


@dataclass(frozen=True, kw_only=True)
class ChosenCandidate:
    """The candidate that was chosen.

    Args:
        index: its place among the candidates.
        name: its name.
        candidates: the names of all of them.
    """

    index: int
    name: str
    candidates: tuple[str, ...]


@dataclass(frozen=True)
class CandidateScores:
    """Each unit's score for every candidate: X_low (`scores.py`) over the clip."""

    problem: Problem
    policies: tuple[Target, ...]
    behaviour: DiscretePolicy | None
    spec: PublicSpec
    clip: float

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rows [U, L, ...] -> "scores" [U, K], >= 0."""
        min_reward = self.problem.reward_range(self.spec)[0]
        largest = limits(self.problem, self.spec)[1] - min_reward * self.problem.discounted_length
        scores = [
            bound_scores(cut_episodes(rows, self.problem, policy, self.behaviour), self.problem, self.spec)[0]
            for policy in self.policies
        ]
        return {"scores": np.stack(scores, axis=1) / (self.clip * largest)}


@dataclass(frozen=True, kw_only=True)
class PolicySelection(plans.PrivatePlan):
    """A choice by the exponential mechanism, of pure epsilon: it costs the same for any number of candidates.

    With N units the chosen candidate's mean clipped value is, with probability 1 - b, within
    clip * range * (ln K + ln(1/b)) / (epsilon N) of the largest (twice that under replace_one).

    Raises:
        PlanError: a value is out of range, or two candidates share a name.
    """

    method: ClassVar[str] = "off-policy selection (exponential mechanism)"
    source: ClassVar[str] = "McSherry and Talwar (FOCS 2007) over per-decision importance sampling"

    problem: Problem
    """discount, horizon, episodes, public range."""
    candidates: tuple[Candidate, ...]
    """at least two, of different names."""
    spec: PublicSpec
    """the public bounds of the records, as their `Trajectories` have them."""
    behaviour: BehaviourPolicy | None = None
    """the known behaviour policy; None takes the logged propensities."""
    clip: float = 5.0
    """the largest weighted return, in multiples of the largest return. A clip lowers the sums of candidates that are
    far from the behaviour; the noise is small enough for a wide one."""

    def __post_init__(self) -> None:
        require_valid("clip", self.clip, 1e-6 <= self.clip <= 1e6, "a number from 1e-6 to 1e6")
        names = [candidate.name for candidate in self.candidates]
        valid = len(names) >= 2 and len(set(names)) == len(names)
        require_valid("candidates", names, valid, "at least two different names")
        limits(self.problem, self.spec)

    def parts(self) -> tuple[Part, ...]:
        """One release.

        Raises:
            PlanError: the plan is not calibrated.
        """
        behaviour = None if self.behaviour is None else self.behaviour.policy
        scores = CandidateScores(
            self.problem,
            tuple(candidate.target for candidate in self.candidates),
            behaviour.value if isinstance(behaviour, Release) else behaviour,
            self.spec,
            self.clip,
        )
        mechanism = NoisyMaximum(
            name=PART,
            scores=scores,
            candidates=len(self.candidates),
            epsilon=self.epsilon,
            rows_per_unit=self.problem.rows_per_unit,
        )
        return (mechanism,)

    def label(self, circumstances: Sequence[Clause] = ()) -> Label:
        """The certificate's words.

        Args:
            circumstances: which policies the candidates are, and on what else that rests.
        """
        return label(clause("one_choice", candidates=len(self.candidates)), circumstances=circumstances)

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> PolicySelection:
        """The plan for this epsilon; `delta` is what the ledger enters for it (the mechanism needs none)."""
        require_valid("epsilon", epsilon, 1e-6 <= epsilon <= 500, "a number from 1e-6 to 500")
        require_delta(delta, unit)
        return plans.with_promise(self, Promise(unit, epsilon, delta))

    def account(self, *, unit: Unit, delta: float) -> PolicySelection:
        """The plan for this unit at the epsilon it has: the law of the choice follows from epsilon here."""
        return self.calibrate(unit=unit, epsilon=self.epsilon, delta=delta)


def fit(plan: PolicySelection, vault: Vault) -> Release[ChosenCandidate]:
    """Run a calibrated plan: the name of one candidate.

    Raises:
        PlanError: a candidate does not fit the records or is not what its plan released, the behaviour is not public,
            the bounds are not the records', or the plan is not calibrated.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    if plan.spec != vault.spec:
        what = "the plan's public bounds are not those of the records"
        expected, remedy = "spec=vault.spec", "make the plan with the bounds of the records"
        raise PlanError(what, where="off_policy_evaluation.selection.fit", expected=expected, remedy=remedy)
    strangers = (
        {candidate.ledger for candidate in plan.candidates} - {None} - {ledger.dataset_id for ledger in vault.ledgers}
    )
    if strangers:
        what = "a candidate was released under another ledger"
        expected = "policies known without the records, or releases of this very ledger"
        remedy = "pass the release that this vault made, or the policy itself if it is public"
        raise PlanError(what, where="off_policy_evaluation.selection.fit", expected=expected, remedy=remedy)
    for candidate, ledger in itertools.product(plan.candidates, vault.ledgers):
        if candidate.origin is not None and candidate.ledger == ledger.dataset_id:
            teachers(ledger, candidate.origin)  # refuses another value than the plan released
    targets = [resolve(candidate.target, vault) for candidate in plan.candidates]
    behaviours = [resolve_behaviour(target, plan.behaviour, vault) for target in targets]
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, PART)
    index = int(vault.release_once(run, PART)[0, 0])
    names = tuple(candidate.name for candidate in plan.candidates)
    candidates = []
    for candidate, target in zip(plan.candidates, targets, strict=True):
        policy = {"policy": "released"} if candidate.ledger else describe_policy(target)
        candidates.append(clause("candidate", words=candidate.name, **policy))
    weighted = next((i for i, target in enumerate(targets) if not isinstance(target, Behaviour)), 0)
    rests = ratio_clauses(targets[weighted], behaviours[weighted], has_propensities=vault.spec.propensities)
    circumstances = (*candidates, *rests)
    value = ChosenCandidate(index=index, name=names[index], candidates=names)
    return vault.release(run, value, label=plan.label(circumstances))
