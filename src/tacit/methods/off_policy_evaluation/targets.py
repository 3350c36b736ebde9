"""What may be evaluated under a vault: policies known without its records, or released under one of its ledgers.

The promise of privacy holds for both. Whether the value gets an interval is another question: who taught a policy
cannot judge it (`privacy.vault.origins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, get_args

from tacit.agents.policy_files import FeedForward
from tacit.data.spec import Discrete, PublicSpec, Source
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.policies import (
    Behaviour,
    Callable,
    DiscretePolicy,
    Network,
    Target,
    behaviour_error,
    try_policy,
)
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.folds import teacher_name
from tacit.privacy.ledger.ledger import Ledger, LedgerView
from tacit.privacy.vault.origins import Origin, acting_policy, digest, has_digest, teachers
from tacit.serialization import from_json


@dataclass(frozen=True)
class BehaviourPolicy:
    """The behaviour policy in place of logged propensities.

    Args:
        policy: a policy that is known without the records, or a release of the same ledger.
        source: how it is known, in the words of `PublicSpec.source`; None for a release.
    """

    policy: DiscretePolicy | Release[DiscretePolicy]
    source: Source | None = None


class PublicSide(Protocol):
    """What is public about records, as a vault has it: their bounds, and the ledgers that know what was released."""

    @property
    def spec(self) -> PublicSpec: ...

    @property
    def ledgers(self) -> Sequence[Ledger | LedgerView]: ...


def resolve(policy: Target | Release[DiscretePolicy], vault: PublicSide) -> Target:
    """The policy itself, once it is known to be public: given as such, or released under one of the vault's ledgers."""
    target: Any = policy
    if isinstance(policy, Release):
        policy.certificate.verify()
        stated = policy.certificate
        admitted = [ledger for ledger in vault.ledgers if ledger.dataset_id == stated.dataset_id]
        if not any(plan.id == stated.plan_id for ledger in admitted for plan in ledger.plans()):
            what = "the policy was released under another ledger"
            expected = "a policy known without the records, or a release of this very ledger"
            remedy = "pass the release that this vault made, or the policy itself if it is public"
            raise PlanError(what, where="off_policy_evaluation", expected=expected, remedy=remedy)
        teachers(admitted[0], Origin.of(policy))  # refuses another value than the plan released
        target = evaluated_policy(policy)
    if isinstance(target, Behaviour):
        return target
    space = vault.spec.action
    actions = target.actions if isinstance(target, DiscretePolicy) else None
    if not isinstance(space, Discrete) or actions != space.n:
        what = f"the policy has {actions} actions" if actions else "the policy is of no known form"
        expected = f"a policy over {space.n} actions" if isinstance(space, Discrete) else "discrete actions"
        remedy = "use a policy of tacit.off_policy_evaluation.policies for these actions"
        raise PlanError(what, where="off_policy_evaluation", expected=expected, remedy=remedy)
    checked: DiscretePolicy = target
    try_policy(checked, vault.spec)
    return checked


def evaluated_policy(release: Release[Any]) -> Any:
    """The released policy as it is evaluated."""
    policy = acting_policy(release.value)
    return Network.of(policy) if isinstance(policy, FeedForward) else policy


def resolve_behaviour(
    policy: Target, behaviour: BehaviourPolicy | None, vault: PublicSide, *, needed: bool = True
) -> DiscretePolicy | None:
    """The known behaviour policy, or None where the logged propensities (or none at all) are used.

    Args:
        policy: the evaluated policy.
        behaviour: the known behaviour policy, if there is one.
        vault: the records and their ledger.
        needed: whether the method cannot do without the probabilities of the logged actions.

    Raises:
        PlanError: they are needed, and there is neither a behaviour policy nor a column of propensities; or the
            behaviour policy's source is missing: one that was fitted to the records must be a release of their ledger.
    """
    if isinstance(policy, Behaviour):
        return None
    if behaviour is None:
        if needed and not vault.spec.propensities:
            raise behaviour_error()
        return None
    if not isinstance(behaviour.policy, Release) and behaviour.source not in get_args(Source):
        what = "the behaviour policy's source is missing or is not public"
        expected = f"source= one of {', '.join(get_args(Source))}, or a release of this ledger"
        remedy = "say how it is known; one fitted to the records must be released under their own ledger"
        raise PlanError(what, where="BehaviourPolicy", expected=expected, remedy=remedy)
    behaviour_policy = resolve(behaviour.policy, vault)
    if isinstance(behaviour_policy, Behaviour):
        what = "the behaviour policy is Behaviour() itself, which has no probabilities"
        expected, remedy = "a policy with probabilities", "leave behaviour out to use the logged propensities"
        raise PlanError(what, where="BehaviourPolicy", expected=expected, remedy=remedy)
    return behaviour_policy


def require_probabilities(target: Target) -> DiscretePolicy:
    """The policy, unless it is `Behaviour()`."""
    if isinstance(target, Behaviour):
        what, expected = "Behaviour() has no probabilities", "a policy that can be asked for probabilities"
        remedy = "use ImportanceSampling or ResidualRegression for the behaviour policy itself"
        raise PlanError(what, where="off_policy_evaluation", expected=expected, remedy=remedy)
    return target


def resolve_origin(policy: Target | Release[DiscretePolicy], declared: Origin | None) -> Origin | None:
    """Where the policy comes from: of a release the ledger knows it, any other one is declared, or is not."""
    if declared is not None and (declared.released is not None or isinstance(policy, Release)):
        what = "an origin was declared of a policy of which the ledger knows where it comes from"
        expected = "a release of this ledger by itself, or another policy with Origin.public() or Origin.made_from()"
        remedy = "leave the origin out, or pass the policy without its certificate"
        raise PlanError(what, where="off_policy_evaluation", expected=expected, remedy=remedy)
    return Origin.of(policy) if isinstance(policy, Release) else declared


def earlier_origins(
    ledger: Ledger | LedgerView, target: Target, behaviour: DiscretePolicy | None
) -> tuple[list[Origin | None], int | None]:
    """What was declared of this very policy in earlier evaluations, and how many plans the ledger held before them."""
    # returns: ([], None) where it was not evaluated before, or could have changed behind its name
    if not (has_digest(target) and has_digest(behaviour)):
        return [], None
    known, held = digest(target, behaviour), {plan.id: at for at, plan in enumerate(ledger.plans())}
    found = []
    for entry in ledger.entries():
        payload = entry.payload if entry.kind == "reserve" else {}
        stated = payload.get("description", {}).get("plan", {})
        if payload.get("plan") in held and isinstance(stated, dict) and stated.get("target") == known:
            origin = stated.get("origin")
            found.append((held[payload["plan"]], None if origin is None else from_json(Origin, origin)))
    return [origin for _, origin in found], min((at for at, _ in found), default=None)


def describe_policy(
    policy: Target | Release[DiscretePolicy], origin: Origin | None = None, ledger: Ledger | LedgerView | None = None
) -> dict[str, Any]:
    """What a certificate says of a policy: the fields of a clause about it (`sentences.POLICIES`).

    Args:
        policy: as it was given.
        origin: as it was declared.
        ledger: of the records; it knows who taught a release.
    """
    if isinstance(policy, Release):
        if ledger is None:
            return {"policy": "released"}
        return {"policy": "taught", "teacher": teacher_name(teachers(ledger, Origin.of(policy)))}
    if isinstance(policy, Behaviour):
        return {"policy": "of_the_records"}
    made = {"plans": ", ".join(origin.plans)} if origin is not None and origin.plans else {}
    if isinstance(policy, Callable):
        return {"policy": "function_made" if made else "function", "function": policy.function} | made
    code = "made" if made else "fixed" if origin is None else "fixed_declared"
    return {"policy": code, "form": type(policy).__name__, "actions": int(policy.actions)} | made
