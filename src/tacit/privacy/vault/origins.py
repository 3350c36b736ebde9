"""Where a policy comes from, and what may therefore be said of it from the same records.

A policy that people helped to choose looks better on these people than it is. So a statement about its value is made
on people who did not: the ledger knows its own releases and which fold taught them, any other policy is declared, and
what was said before of the judging people is counted. `proofs/off_policy_evaluation.md` has the proof and its limits.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import PlanError
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.privacy.ledger.folds import FOLDS, Fold
from tacit.privacy.ledger.ledger import Ledger, LedgerView, PlanSummary

MOST_LEVEL = 0.998
"""The largest nominal level for which an interval's coverage was checked."""
_EVERYBODY = frozenset[Fold](FOLDS)


@dataclass(frozen=True)
class Origin:
    """Where a policy comes from: which releases of the records' own ledger it was made from.

    Args:
        plans: their ids in the ledger, as `tacit ledger show` prints them; none for a public policy, which owes nothing
            to the records.
        released: digest of the policy, where one of these plans released it as it is; else the origin is declared.
    """

    plans: tuple[str, ...] = ()
    released: str | None = None

    @classmethod
    def public(cls) -> Origin:
        """Declared: nothing that was released from these records had a part in the policy, nor had these records."""
        return cls()

    @classmethod
    def made_from(cls, *releases: str | Release[Any] | Certificate) -> Origin:
        """Declared: the policy was made from these releases (or ids of their plans), such as from synthetic rows."""
        certificates = [one.certificate if isinstance(one, Release) else one for one in releases]
        ids = {one if isinstance(one, str) else one.plan_id for one in certificates}
        return cls(tuple(sorted(ids)))

    @classmethod
    def of(cls, release: Release[Any]) -> Origin:
        """That of a policy which is itself what was released; the ledger knows whether that plan released this one.

        Raises:
            PlanError: the value is no policy that is known again by its digest.
        """
        policy = acting_policy(release.value)
        if policy is None or not has_digest(policy):
            what = "the release is no policy over discrete actions, or one of a class or function of your own"
            raise _origin_error(what)
        return cls((release.certificate.plan_id,), digest(policy))


@dataclass(frozen=True)
class Standing:
    """What may be said of a policy from the records of a ledger."""

    free: frozenset[Fold]  # the folds that taught nothing of it
    level: float | None  # at which level an interval is given, or None where there is none
    words: str = ""  # why there is none, or why it is at another level than was asked for; empty otherwise
    declared: bool = True  # whether it is known, or need not be, where the policy comes from


def assess_standing(
    ledger: Ledger | LedgerView,
    origins: Sequence[Origin | None],
    *,
    level: float,
    judges: frozenset[Fold] | None = None,
    since: int | None = None,
    besides: frozenset[Fold] = frozenset(),
) -> Standing:
    """What a ledger lets be said of a policy.

    Args:
        ledger: of the records that judge it.
        origins: what was declared of it, now and before; None where nothing was.
        level: the nominal coverage that is asked for.
        judges: the folds that the judging sums are over; None takes the free ones.
        since: how many plans the ledger held when the policy was declared for the first time; None is now.
        besides: folds that taught something else which the statement takes for fixed.

    Raises:
        PlanError: an origin names a plan that the ledger does not hold.
    """
    plans = ledger.plans()
    declared = [origin for origin in origins if origin is not None]
    taught_by = besides.union(*(teachers(ledger, origin) for origin in declared))
    releasing = [plans[_place(plans, plan_id)] for origin in declared if origin.released for plan_id in origin.plans]
    before = plans[: len(plans) if since is None else since]
    if releasing:  # its last step may have been chosen by whatever was seen until then, wherever its plan stands
        ended = max(plan.ended for plan in releasing)
        before = [plan for plan in plans if plan not in releasing and 0 < plan.began < ended]
    free = _EVERYBODY - taught_by
    judges = (free or _EVERYBODY) if judges is None else judges
    if not declared and (earlier := next((plan for plan in before if plan.claimed), None)) is not None:
        return Standing(
            free,
            None,
            f"no interval: where the policy comes from was not declared, and the ledger holds a release already (plan "
            f"{earlier.id}). Declare it: public, or made from that plan",
            declared=False,
        )
    if judges & taught_by:
        who = "everybody" if not free else f"fold {min(taught_by)}"
        again = "learn the policy on fold 0 (tacit improve does), and fold 1 can judge it"
        return Standing(
            free,
            None,
            f"no interval: {who} taught the policy, and a policy looks better than it is on the people who taught it. "
            f"To get one, {again if not free else f'evaluate it on fold {min(free)}'}",
        )
    claims = sum(bool(plan.claimed and judges.intersection(plan.judges)) for plan in before)
    return _corrected_standing(free, level, claims)


def teachers(ledger: Ledger | LedgerView, origin: Origin) -> frozenset[Fold]:
    """The folds that taught a policy of this origin: of a release those that its plan had read when the ledger first
    saw the policy, of what was made from a release all that the release read.

    Raises:
        PlanError: the ledger does not hold one of the plans, or that plan released other policies than this one.
    """
    plans = ledger.plans()
    sources = [plans[_place(plans, plan_id)] for plan_id in origin.plans]
    if origin.released is not None:
        every = [plan.policies.get(origin.released) for plan in sources]
    else:
        every = [_EVERYBODY if plan.fold is None else frozenset({plan.fold}) for plan in sources]
    if None in every:
        raise _origin_error(f"plan {' or '.join(origin.plans)} released another policy than this one")
    return frozenset[Fold]().union(*(folds for folds in every if folds is not None))


def _corrected_standing(free: frozenset[Fold], level: float, count: int) -> Standing:
    """The standing after so many evaluations on the judging people, each of which could have led to this policy."""
    wider = corrected_level(level, count)
    if wider == level:
        return Standing(free, level)
    before = f"{count} evaluation{'s' if count > 1 else ''} on the same people came before this policy was"
    if wider is None:
        return Standing(free, None, f"no interval: {before} released or declared, too many to allow for its choice")
    return Standing(
        free,
        wider,
        f"{100 * level:g} % were asked for; {before} released or declared, so the interval is one of "
        f"{100 * wider:.4g} %: whichever of {count + 1} policies was chosen by them, {100 * level:g} % hold for it",
    )


def require_level(
    ledger: Ledger | LedgerView, judges: frozenset[Fold], level: float, *, where: str, besides: str = ""
) -> float:
    """The level of one more statement from these folds, whichever plan of the ledger but one led to it.

    Raises:
        PlanError: too many plans have said something of how good a policy is.
    """
    plans = (plan for plan in ledger.plans() if plan.id != besides)
    count = sum(bool(plan.claimed and judges.intersection(plan.judges)) for plan in plans)
    if (wider := corrected_level(level, count)) is None:
        what = f"{count} statements were made of policies by the people who are to judge this one"
        expected, remedy = "fewer, so that the level of one more can allow for its choice", "ask for a lower level"
        raise PlanError(what, where=where, expected=expected, remedy=remedy)
    return wider


def corrected_level(level: float, count: int) -> float | None:
    """1 - (1 - level) / (count + 1): the level at which `count` + 1 intervals hold together at `level`.

    Returns:
        None where that is beyond `MOST_LEVEL`.
    """
    wider = level if not count else 1 - (1 - level) / (count + 1)
    return wider if wider <= max(level, MOST_LEVEL) else None


def _place(plans: Sequence[PlanSummary], plan_id: str) -> int:
    for at, plan in enumerate(plans):
        if plan.id == plan_id:
            return at
    raise _origin_error(f"the ledger of these records holds no plan {plan_id!r}")


def _origin_error(what: str) -> PlanError:
    return PlanError(
        what,
        where="Origin",
        expected="a policy of tacit's classes as a plan of this ledger released it, or one that is declared",
        remedy="pass the release as it is, or the policy alone with origin=Origin.made_from(release), or "
        "Origin.public() where other records alone taught it",
    )


# By which digest a ledger knows a policy again that was fixed, released or declared under it.


def digest(*values: Any) -> str:
    """SHA-256 of all that makes up these values, fields and arrays, 16 hex digits; see `has_digest`."""
    return hashlib.sha256(repr(tuple(map(_digest_form, values))).encode()).hexdigest()[:16]


def has_digest(value: Any) -> bool:
    """Whether the digest tells such policies apart: not where it holds no more of a function or class than its name."""
    if hasattr(value, "function"):
        return False
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        ours = type(value).__module__.partition(".")[0] == __name__.partition(".")[0]  # others may read what they like
        return ours and all(has_digest(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, tuple):
        return all(map(has_digest, value))
    return value is None or isinstance(value, str | int | float | np.ndarray)


def acting_policy(value: Any) -> Any | None:
    """What of a released value acts over discrete actions: a policy itself, or its layers; None where nothing does."""
    if not hasattr(value, "feed_forward"):
        return value if hasattr(value, "probabilities") else None
    try:
        return value.feed_forward()
    except PlanError:
        return None


def _digest_form(value: Any) -> object:
    """What makes up a value, arrays by their digest; of a class of the user's own only the name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, _digest_form(getattr(value, field.name))) for field in dataclasses.fields(value))
        return type(value).__qualname__, tuple(fields)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, tuple):
        return tuple(_digest_form(entry) for entry in value)
    return value if isinstance(value, str | int | float | bool | None) else type(value).__qualname__
