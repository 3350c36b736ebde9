"""What a ledger says: the fold of its entries, with every rule of the ledger in one pure place.

Writing and verifying run the same `LedgerState.apply`, so that no entry can be written which verification refuses, and
none verified that could not have been written.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from tacit.errors import BudgetExceeded, LedgerError, PlanError, PlanExhausted, TacitError
from tacit.privacy.accounting.events import MAX_EPSILON
from tacit.privacy.accounting.filters import SUM, Charge, Composition, Total, admits, exact_decimal
from tacit.privacy.ledger.folds import (
    EVERYBODY,
    FOLDS,
    Balance,
    Fold,
    Teacher,
    judged_folds,
    part_folds,
    single_fold,
    teacher_name,
)
from tacit.privacy.ledger.persistent import PersistentDict
from tacit.units import Unit

# The lines of a ledger and the hash that chains them.


GENESIS = "0" * 64  # what the first entry follows


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Args:
        seq: position, from 1.
        time: UTC wall clock to the second; informational, no rule looks at it.
        kind: create, raise, reserve, claim, cancel, void or note.
        text: the payload as canonical JSON.
        hash: SHA-256 over the previous entry's hash and this entry's canonical JSON, in hex.
    """

    seq: int
    time: str
    kind: str
    text: str
    hash: str

    @property
    def payload(self) -> dict[str, Any]:
        """Public JSON values, read from the text at each access."""
        return dict(json.loads(self.text))


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_json(value: Any) -> str:
    """One text per JSON value: sorted keys, no spaces, ASCII, no NaN or infinity (ValueError or TypeError)."""
    return _CANONICAL.encode(value)


def link(previous: str, seq: int, time: str, kind: str, text: str) -> str:
    """The hash that chains an entry, of which `text` is the payload's canonical JSON, to the previous one's."""
    body = f'{{"kind":{canonical_json(kind)},"payload":{text},"seq":{seq},"time":{canonical_json(time)}}}'
    return hashlib.sha256(f"{previous}\n{body}".encode("ascii")).hexdigest()


def damage_error(what: str) -> LedgerError:
    """The error of a ledger whose content cannot be trusted."""
    expected = "entries as tacit wrote them, unedited and in order"
    remedy = "restore the newest copy of the ledger; do not go on with a damaged one"
    return LedgerError(what, where="ledger", expected=expected, remedy=remedy)


def sampled_error(plan: str, budget: str, *, where: str) -> BudgetExceeded:
    """The error of a plan that samples, where all of the budget was declared to be for those that do not."""
    what = f"{plan} samples, or has no Gaussian, and no part of {budget} is for such plans"
    expected = "a plan that does not sample: the part for others was fixed at 0 when the ledger began"
    remedy = "choose a method or a batch size with which everybody takes part in each step"
    return BudgetExceeded(what, where=where, expected=expected, remedy=remedy)


FORMAT = 1
LEAST_PART = Fraction(1, 10**50)
"""Of an epsilon or a delta: of what is smaller, `accounting.gaussian` does not carry the digits."""
POLICY, CALLBACK, UNTRIED = "policy", "callback", "untried callback"
"""Kinds of notes: after a plan's id the digest of a policy that it fixed or released, the name of a callback of the
user's own, or of one that runs or judges candidates."""
NONPRIVATE = "nonprivate"
"""Kind of a note: why the curator looked at the records without noise."""


@dataclass(frozen=True)
class PlanSummary:
    """One reserved plan for people: what it is, what it was charged, and how far it went (steps over all parts).

    Args:
        fold: the one fold that pays, or None where both do.
        taught_by: whom its policies were learned from; of a plan without one, whom it reads.
        judges: the folds on which it may say how good a policy is.
        policies: digest of each policy that it fixed or released -> the folds whose sums it had begun by then.
        began, ended: the entries that took its first and its newest steps, 0 where none were.
        rdp, mu, diameter: as it was charged (`filters.Charge`).
    """

    id: str
    method: str
    epsilon: float
    delta: float
    steps: int
    claimed: int
    fold: Fold | None
    taught_by: Teacher
    judges: tuple[Fold, ...] = ()
    policies: Mapping[str, frozenset[Fold]] = field(default_factory=dict)
    began: int = 0
    ended: int = 0
    rdp: float | None = None
    mu: float | None = None
    diameter: float | None = None

    @property
    def payer_text(self) -> str:
        """Who pays and who taught, for people: empty where everybody does and did."""
        if self.taught_by == EVERYBODY:
            return ""
        return f"; charged to {'both folds' if self.fold is None else f'fold {self.fold}'}, taught by {self.taught_by}"


@dataclass(frozen=True)
class Terms:
    """What a ledger is bound to at creation, for good.

    Args:
        dataset_id: the random name of the records.
        unit: whom the promise is made to.
        epsilon: of the budget that it begins with.
        ceiling: the epsilon that is promised for all time: the budget may be raised up to it.
        delta: of both.
        composition: how plans add up.
    """

    dataset_id: str
    unit: Unit
    epsilon: float
    ceiling: float
    delta: float
    composition: Composition

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise _bad_terms("the budget's epsilon is not a finite number above 0", "0 < epsilon < inf")
        if not 0 < self.delta < 1 or exact_decimal(self.delta) * self.unit.size >= 1:
            raise _bad_terms("the budget's delta is not between 0 and 1 / population", f"delta < 1/{self.unit.size}")
        if not self.epsilon <= self.ceiling < math.inf:
            raise _bad_terms("the ceiling is below the budget, or not finite", "epsilon <= ceiling < inf")
        for name in ("epsilon", "ceiling", "delta"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if not fits_gaussian(self.epsilon, self.ceiling, self.delta, self.composition):
            what = "the ceiling is too large, or the budget too small, for one Gaussian"
            raise _bad_terms(what, f"epsilon <= {MAX_EPSILON:g}, and no part below {float(LEAST_PART):g}")
        order = self.composition.order
        least = Total.of([Charge(self.ceiling, 0.0, 0.0)], self.composition)
        if order is not None and not admits(least, self.ceiling, self.delta):
            raise _bad_terms("no plan fits the ceiling at this Rényi order", "a higher order, epsilon or delta")

    def payload(self) -> dict[str, Any]:
        """The terms as the JSON values of the first entry."""
        unit = {"name": self.unit.name, "relation": self.unit.relation, "population": self.unit.population}
        order = self.composition.order
        return {
            "format": FORMAT,
            "dataset_id": self.dataset_id,
            "unit": unit,
            "epsilon": repr(self.epsilon),
            "ceiling": repr(self.ceiling),
            "delta": repr(self.delta),
            "sampled": repr(self.composition.sampled),
            "order": None if order is None else repr(order),
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Terms:
        """Inverse of `payload`."""
        order = payload["order"]
        terms = cls(
            payload["dataset_id"],
            Unit(**payload["unit"]),
            float(payload["epsilon"]),
            float(payload["ceiling"]),
            float(payload["delta"]),
            Composition(float(payload["sampled"]), None if order is None else float(order)),
        )
        if canonical_json(terms.payload()) != canonical_json(dict(payload)):
            raise damage_error("the first entry is not a creation that this version writes")
        return terms


@dataclass(frozen=True)
class ReservedPlan:
    """One plan in the ledger."""

    seq: int  # the entry that reserved it, and describes it
    method: str  # the description's "method"
    parts: Mapping[str, int]  # number of steps by part
    charge: Charge  # what it costs
    claimed: Mapping[str, int]  # how many steps were taken from each part
    # the fold of each part, as its description says; empty where one is over everybody
    places: Mapping[str, Fold] = field(default_factory=dict)
    folds: frozenset[Fold] | None = None  # those among them; None where one is over everybody
    evaluates: bool = False  # whether it may have asked how good a policy is
    # digest of each policy that it fixed or released -> the folds whose sums it had begun by then
    policies: Mapping[str, frozenset[Fold]] = field(default_factory=dict)
    began: int = 0  # began, ended: the entries that took its first and its newest steps, 0 where none were
    ended: int = 0


@dataclass(frozen=True)
class LedgerState:
    """The ledger after some entries (immutable); the next one's shares with it what the entry leaves as it is.

    Args:
        terms: None before the first entry.
        budgets: the epsilons that plans were admitted up to, from the first to today's.
        plans: the reserved plans by id, cancelled ones left out.
        balance: what these plans cost either fold together.
        void_reason: why the ledger promises nothing any more, or None.
        seq, head: number of entries and hash of the last one.
    """

    terms: Terms | None = None
    budgets: tuple[float, ...] = ()
    plans: PersistentDict[ReservedPlan] = field(default_factory=PersistentDict)
    balance: Balance = field(default_factory=lambda: Balance.empty("add_or_remove", SUM))
    void_reason: str | None = None
    seq: int = 0
    head: str = GENESIS

    @property
    def bound_terms(self) -> Terms:
        """The terms of a ledger that has its first entry."""
        if self.terms is None:
            raise damage_error("the ledger has no first entry")
        return self.terms

    @property
    def budget(self) -> float:
        """The epsilon that plans are admitted up to."""
        return self.budgets[-1]

    def spent(self, fold: Fold | None = None) -> tuple[float, float]:
        """Total (epsilon, delta) charged to one fold, or (None) the larger of each, rounded up.

        Epsilon is inf once a plan without privacy is in the ledger.
        """
        return self.balance.spent(self.bound_terms.delta, fold)

    def left(self, *, gaussian: bool) -> tuple[float, float]:
        """(epsilon, delta) of the largest plan that is still admitted: one that has a mu, or one that has none."""
        return self.balance.left(self.budget, self.bound_terms.delta, gaussian=gaussian)

    def summaries(self) -> list[PlanSummary]:
        """One summary per reserved plan, in the order of reservation."""
        return [
            PlanSummary(
                id=name,
                method=plan.method,
                epsilon=plan.charge.epsilon,
                delta=plan.charge.delta,
                steps=sum(plan.parts.values()),
                claimed=sum(plan.claimed.values()),
                fold=single_fold(plan.folds),
                taught_by=teacher_name(frozenset[Fold]().union(*plan.policies.values()) or plan.folds),
                judges=judged_folds(plan.folds, evaluates=plan.evaluates),
                policies=plan.policies,
                began=plan.began,
                ended=plan.ended,
                rdp=plan.charge.rdp,
                mu=plan.charge.mu,
                diameter=plan.charge.diameter,
            )
            for name, plan in sorted(self.plans.items(), key=lambda item: item[1].seq)
        ]

    def plan(self, plan_id: str) -> ReservedPlan:
        """The reserved plan of that id, or a PlanError."""
        plan = self.plans.get(plan_id)
        if plan is None:
            what, expected = f"no plan {plan_id!r} is reserved", "a plan that was reserved and not cancelled"
            raise PlanError(what, where="Ledger", expected=expected, remedy="reserve the plan first")
        return plan

    def progress(self, plan_id: str, part: str) -> tuple[int, int]:
        """(claimed, steps) of one part, or a PlanError."""
        plan = self.plan(plan_id)
        if part not in plan.parts:
            what, expected = f"plan {plan_id!r} has no part {part!r}", f"one of {', '.join(plan.parts)}"
            raise PlanError(what, where="Ledger", expected=expected, remedy="name a part of the reserved plan")
        return plan.claimed[part], plan.parts[part]

    def block(self, plan_id: str, part: str, count: int) -> range:
        """The next claimable steps: at most `count`, at most 1 % of the part (rounded up), fewer at the end."""
        start, steps = self.progress(plan_id, part)
        if count < 1:
            what, expected = "the number of steps to claim is below 1", "a whole number from 1"
            raise PlanError(what, where="Ledger.claim", expected=expected, remedy="claim at least one step")
        if start == steps:
            what = f"every step of part {part!r} of plan {plan_id!r} has been claimed"
            remedy = "a claimed step is never run again: reserve a new plan to continue"
            raise PlanExhausted(what, where="Ledger.claim", expected="a part with unclaimed steps", remedy=remedy)
        return range(start, min(steps, start + min(count, largest_claim(steps))))

    def next_entry(self, kind: str, payload: Mapping[str, Any], time: str) -> Entry:
        """The entry that would come next; `apply` decides whether it may."""
        seq = self.seq + 1
        text = canonical_json(dict(payload))
        return Entry(seq, time, kind, text, link(self.head, seq, time, kind, text))

    def apply(self, entry: Entry) -> LedgerState:
        """The state after `entry`.

        Raises:
            LedgerError: the entry breaks the chain or a rule (BudgetExceeded, PlanExhausted for those two).
            PlanError: the plan that the entry speaks of is invalid or unknown.
        """
        if entry.seq != self.seq + 1:
            raise damage_error("the sequence has a gap or a repetition")
        payload = _values(entry.text)
        if entry.hash != link(self.head, entry.seq, entry.time, entry.kind, entry.text):
            raise damage_error("its hash does not follow from the previous entry and its content")
        if (self.terms is None) != (entry.kind == "create"):
            raise damage_error("a ledger has exactly one creation, its first entry")
        rules = {
            "create": self._create,
            "raise": self._raise,
            "reserve": self._reserve,
            "claim": self._claim,
            "cancel": self._cancel,
            "void": self._void,
            "note": self._note,
        }
        if entry.kind not in rules:
            raise damage_error("its kind is unknown")
        return replace(rules[entry.kind](payload), seq=entry.seq, head=entry.hash)

    def _create(self, payload: Mapping[str, Any]) -> LedgerState:
        terms = Terms.from_payload(payload)
        balance = Balance.empty(terms.unit.relation, terms.composition)
        return replace(self, terms=terms, budgets=(terms.epsilon,), balance=balance)

    def _raise(self, payload: Mapping[str, Any]) -> LedgerState:
        # Whoever raises the budget has seen releases, so it bounds nothing that was promised: the ceiling does.
        epsilon, ceiling = float(payload["epsilon"]), self.bound_terms.ceiling
        if not self.budget < epsilon <= ceiling:
            what = f"the budget of epsilon {self.budget:g} cannot become {epsilon:g}"
            expected = f"more than it is, and at most the ceiling of {ceiling:g}, which was fixed when the ledger began"
            raise LedgerError(what, where="Ledger.raise_budget", expected=expected, remedy="nothing was changed")
        return replace(self, budgets=(*self.budgets, epsilon))

    def _reserve(self, payload: Mapping[str, Any]) -> LedgerState:
        plan_id, parts, terms = payload["plan"], dict(payload["parts"]), self.bound_terms
        # An entry that says no mu is charged by its epsilon and delta, which holds for every plan.
        known = (payload.get(name) for name in ("rdp", "mu", "diameter"))
        charge = Charge(
            float(payload["epsilon"]),
            float(payload["delta"]),
            *(None if number is None else float(number) for number in known),
        )
        if not plan_id or not isinstance(plan_id, str):
            raise _bad_plan("the plan has no id", "a non-empty text")
        if not charge.epsilon > 0:
            raise _bad_plan("the plan's epsilon is not above 0", "epsilon > 0 (math.inf for a plan without privacy)")
        if not parts or not all(type(n) is int and n >= 1 for n in parts.values()):
            raise _bad_plan("the plan's parts are missing or have no steps", "parts={name: steps} with steps >= 1")
        if not isinstance(payload["description"], dict):
            raise _bad_plan("the plan's description is not a mapping", "a dict of public JSON values")
        if exact_decimal(charge.delta) * terms.unit.size >= 1:
            raise _bad_plan("the plan's delta is not below 1 / population", f"delta < 1/{terms.unit.size}")
        if plan_id in self.plans:
            raise damage_error("the plan is already reserved")
        described = payload["description"]
        part_descriptions: list[Any] = described["parts"] if isinstance(described.get("parts"), list) else []
        fold_list = part_folds(part_descriptions)
        if fold_list is not None and sorted(touch["name"] for touch in part_descriptions) != sorted(parts):
            raise _bad_plan("the plan's parts are not those that its description names", "the same names in both")
        fold_by_part = {touch["name"]: fold for touch, fold in zip(part_descriptions, fold_list or (), strict=False)}
        folds = frozenset(fold_list) if fold_list else None
        balance = self.balance.with_charge(charge, single_fold(folds))
        if not balance.admits(self.budget, terms.delta):
            before, left = self.spent(), self.left(gaussian=terms.composition.takes_mu(charge))
            budget = f"the budget (epsilon {self.budget!r}, delta {terms.delta!r})"
            refusal = BudgetExceeded(
                f"plan {plan_id!r} would bring the total above {budget}, of which ({before[0]!r}, {before[1]!r}) is "
                "spent, so nothing was charged",
                where="Ledger.reserve",
                expected="a plan that fits into what is left",
                remedy="reserve a smaller plan, or cancel an untouched one",
            )
            if terms.composition.sampled == 0 and max(left) == 0:  # of a Gaussian, delta would be left
                refusal = sampled_error(f"plan {plan_id!r}", budget, where="Ledger.reserve")
            refusal.left = left
            raise refusal
        method, evaluates = str(described.get("method", "")), described.get("evaluates") is True
        uses = dict.fromkeys(parts, 0)
        plan = ReservedPlan(self.seq + 1, method, parts, charge, uses, fold_by_part, folds, evaluates)
        void = self.void_reason if charge.finite else self.void_reason or f"plan {plan_id!r} has no privacy"
        return replace(self, plans=self.plans.put(plan_id, plan), balance=balance, void_reason=void)

    def _claim(self, payload: Mapping[str, Any]) -> LedgerState:
        plan_id, part = payload["plan"], payload["part"]
        block = self.block(plan_id, part, payload["count"])
        if (block.start, len(block)) != (payload["start"], payload["count"]):
            raise damage_error("it claims steps that are not the next ones, or more than 1 % of them")
        plan = self.plans[plan_id]
        claimed, now = {**plan.claimed, part: block.stop}, self.seq + 1
        plan = replace(plan, claimed=claimed, began=plan.began or now, ended=now)
        return replace(self, plans=self.plans.put(plan_id, plan))

    def _cancel(self, payload: Mapping[str, Any]) -> LedgerState:
        plan_id = payload["plan"]
        plan = self.plan(plan_id)
        if any(plan.claimed.values()):
            what, expected = f"plan {plan_id!r} has been touched", "a plan of which no step was claimed"
            remedy = "it stays charged in full, because its releases cannot be taken back"
            raise LedgerError(what, where="Ledger.cancel", expected=expected, remedy=remedy)
        balance = self.balance.without_charge(plan.charge, single_fold(plan.folds))
        return replace(self, plans=self.plans.drop(plan_id), balance=balance)

    def _void(self, payload: Mapping[str, Any]) -> LedgerState:
        return replace(self, void_reason=self.void_reason or str(payload["reason"]) or "no reason given")

    def _note(self, payload: Mapping[str, Any]) -> LedgerState:
        kind, (plan_id, _, what) = payload["kind"], str(payload["text"]).partition(" ")
        plan = self.plans.get(plan_id)
        if plan is None or kind not in (POLICY, CALLBACK, UNTRIED) or what in plan.policies:
            return self
        if kind == POLICY:
            begun = [fold for part, fold in plan.places.items() if plan.claimed[part]]
            read = frozenset(begun) or plan.folds or frozenset(FOLDS)  # before any sum it is none that the plan taught
            plan = replace(plan, policies={**plan.policies, what: read})
        else:  # which may have asked anything
            plan = replace(plan, evaluates=True)
        return replace(self, plans=self.plans.put(plan_id, plan))


def fits_gaussian(epsilon: float, ceiling: float, delta: float, composition: Composition) -> bool:
    """Whether the part of a budget that adds mus up, if there is one, is of a size that can be computed."""
    least = min(composition.cut(number)[0] for number in (epsilon, delta))
    return composition.sampled == 1 or (ceiling <= MAX_EPSILON and least >= LEAST_PART)


def replay(entries: Iterable[Entry]) -> LedgerState:
    """Fold a whole ledger from its entries.

    Raises:
        LedgerError: naming the first entry that breaks the chain or a rule.
    """
    state = LedgerState()
    for entry in entries:
        try:
            state = state.apply(entry)
        except TacitError as error:
            raise damage_error(f"entry {state.seq + 1} is not valid ({error.what})") from error
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ArithmeticError) as error:
            what = f"entry {state.seq + 1} is not valid (its content is not what its kind demands)"
            raise damage_error(what) from error
    if state.terms is None:
        raise damage_error("the ledger has no first entry")
    return state


def _values(text: str) -> dict[str, Any]:
    """The payload that this is the canonical JSON of, or a LedgerError."""
    try:
        value = json.loads(text)
        if isinstance(value, dict) and canonical_json(value) == text:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    raise damage_error("its content is not canonical JSON")


def largest_claim(steps: int) -> int:
    """How many steps of a part one claim may take: 1 %, rounded up."""
    return -(-steps // 100)


def _bad_terms(what: str, expected: str) -> PlanError:
    return PlanError(what, where="Ledger", expected=expected, remedy="mend the budget; no ledger was created")


def _bad_plan(what: str, expected: str) -> PlanError:
    return PlanError(what, where="Ledger.reserve", expected=expected, remedy="mend the plan; nothing was charged")
