"""What may be evaluated under a vault: policies known without its records, or released under one of its ledgers.

The promise of privacy holds for both. Whether the value gets an interval is another question: who taught a policy
cannot judge it (`privacy.vault.origins`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from tacit.data.spec import Discrete, Source
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.features import Custom
from tacit.methods.off_policy_evaluation.policies import Behaviour, Callable, Policy, Target, unknown_behaviour
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger, LedgerView
from tacit.privacy.vault.invented import invented_rows
from tacit.privacy.vault.origins import Origin
from tacit.privacy.vault.vault import Vault
from tacit.serialization import from_json


@dataclass(frozen=True)
class BehaviourPolicy:
    """The behaviour policy in place of logged propensities.

    Args:
        policy: a policy that is known without the records, or a release of the same ledger.
        source: how it is known, in the words of `PublicSpec.source`; None for a release.
    """

    policy: Policy | Release[Policy]
    source: Source | None = None


def resolve(policy: Target | Release[Policy], vault: Vault) -> Target:
    """The policy itself, once it is known to be public: given as such, or released under one of the vault's ledgers."""
    target: Any = policy
    if isinstance(policy, Release):
        policy.certificate.verify()
        admitted = {(ledger.dataset_id, plan.id) for ledger in vault.ledgers for plan in ledger.plans()}
        if (policy.certificate.dataset_id, policy.certificate.plan_id) not in admitted:
            raise PlanError(
                "the policy was released under another ledger",
                where="off_policy_evaluation",
                expected="a policy known without the records, or a release of this very ledger",
                remedy="pass the release that this vault made, or the policy itself if it is public",
            )
        target = policy.value
    if isinstance(target, Behaviour):
        return target
    space = vault.spec.action
    actions = target.actions if isinstance(target, Policy) else None
    if not isinstance(space, Discrete) or actions != space.n:
        raise PlanError(
            f"the policy has {actions} actions" if actions else "the policy is of no known form",
            where="off_policy_evaluation",
            expected=f"a policy over {space.n} actions" if isinstance(space, Discrete) else "discrete actions",
            remedy="use a policy of tacit.off_policy_evaluation.policies for these actions",
        )
    if isinstance(target, Callable):
        target.require_distributions(invented_rows(vault.spec, 64, 1, seed=0)["observations"][:, 0])
    checked: Policy = target
    return checked


def resolve_behaviour(
    policy: Target, behaviour: BehaviourPolicy | None, vault: Vault, *, needed: bool = True
) -> Policy | None:
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
            raise unknown_behaviour()
        return None
    if not isinstance(behaviour.policy, Release) and behaviour.source not in get_args(Source):
        raise PlanError(
            "the behaviour policy's source is missing or is not public",
            where="BehaviourPolicy",
            expected=f"source= one of {', '.join(get_args(Source))}, or a release of this ledger",
            remedy="say how it is known; one fitted to the records must be released under their own ledger",
        )
    behaviour_policy = resolve(behaviour.policy, vault)
    if isinstance(behaviour_policy, Behaviour):
        raise PlanError(
            "the behaviour policy is Behaviour() itself, which has no probabilities",
            where="BehaviourPolicy",
            expected="a policy with probabilities",
            remedy="leave behaviour out to use the logged propensities",
        )
    return behaviour_policy


def with_probabilities(target: Target) -> Policy:
    """The policy, unless it is `Behaviour()`."""
    if isinstance(target, Behaviour):
        raise PlanError(
            "Behaviour() has no probabilities",
            where="off_policy_evaluation",
            expected="a policy that can be asked for probabilities",
            remedy="use ImportanceSampling or ResidualRegression for the behaviour policy itself",
        )
    return target


def digest(target: Target, behaviour: Policy | None = None) -> str:
    """SHA-256 of all that makes up a policy (and the known behaviour), 16 hex digits."""
    text = repr((_plain(target), _plain(behaviour)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> object:
    """What makes up a policy, arrays by their digest; of a class of the user's own only the name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, _plain(getattr(value, field.name))) for field in dataclasses.fields(value))
        return type(value).__qualname__, tuple(fields)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, tuple):
        return tuple(_plain(entry) for entry in value)
    return value if isinstance(value, str | int | float | bool | None) else type(value).__qualname__


def fixed_by_digest(value: Any) -> bool:
    """Whether the digest tells such policies apart: not where it holds no more of a function or class than its name."""
    if isinstance(value, Callable | Custom):
        return False
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = type(value).__module__.partition(".")[0] == __name__.partition(".")[0]  # others may read what they like
        return own and all(fixed_by_digest(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, tuple):
        return all(map(fixed_by_digest, value))
    return value is None or isinstance(value, str | int | float | np.ndarray)


def origin_of(policy: Target | Release[Policy], declared: Origin | None) -> Origin | None:
    """Where the policy comes from: of a release its certificate says so, any other one is declared, or is not."""
    if declared is not None and (declared.certified or isinstance(policy, Release)):
        raise PlanError(
            "an origin was declared of a policy whose certificate says where it comes from",
            where="off_policy_evaluation",
            expected="a release of this ledger by itself, or another policy with Origin.public() or Origin.made_from()",
            remedy="leave the origin out, or pass the policy without its certificate",
        )
    return Origin.of(policy) if isinstance(policy, Release) else declared


def declared_before(
    ledger: Ledger | LedgerView, target: Target, behaviour: Policy | None
) -> tuple[list[Origin | None], int | None]:
    """What was declared of this very policy in earlier evaluations, and how many plans the ledger held before them."""
    # returns: ([], None) where it was not evaluated before, or could have changed behind its name
    if not (fixed_by_digest(target) and fixed_by_digest(behaviour)):
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


def words(
    policy: Target | Release[Policy], origin: Origin | None = None, ledger: Ledger | LedgerView | None = None
) -> str:
    """The policy in a few words for a certificate.

    Args:
        policy: as it was given.
        origin: as it was declared.
        ledger: of the records; it knows who taught a release.
    """
    if isinstance(policy, Release):
        taught_by = [
            plan.taught_by for plan in (ledger.plans() if ledger else []) if plan.id == policy.certificate.plan_id
        ]
        return f"a policy released under this ledger{', taught by ' if taught_by else ''}{''.join(taught_by)}"
    if isinstance(policy, Behaviour):
        return "the policy that made the records"
    if origin is not None and origin.plans:
        from_ = f"made from the release{'s' if len(origin.plans) > 1 else ''} {', '.join(origin.plans)} of this ledger"
    else:
        from_ = "fixed without these records"
    if isinstance(policy, Callable):
        return f"the user's function {policy.function}, {from_} (declared by the user)"
    declared = " (declared by the user)" if origin is not None else ""
    public = "" if origin is not None and origin.plans else "public "
    return f"a {public}{type(policy).__name__} policy over {policy.actions} actions, {from_}{declared}"
