"""The ledger's fold against a second one, which adds up everything from the beginning after each entry."""

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import BudgetExceeded, LedgerError, PlanError, PlanExhausted, TacitError
from tacit.privacy.accounting.filters import SUM, Charge, Composition, Total, rdp_to_epsilon
from tacit.privacy.ledger.state import Entry, LedgerState, PlanSummary, Terms, canonical_json, link, replay
from tacit.units import Unit

UNIT = Unit("patient", "add_or_remove", 1000)
ORDER = Composition(1.0, 16.0)


@dataclass
class Slow:
    """What the entries say, by lists and sums alone: every question goes through all entries."""

    composition: Composition
    entries: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def plans(self) -> dict[str, dict[str, Any]]:
        """The plans that were reserved and not cancelled, in order."""
        held: dict[str, dict[str, Any]] = {}
        for kind, payload in self.entries:
            if kind == "reserve":
                held[payload["plan"]] = payload
            if kind == "cancel":
                del held[payload["plan"]]
        return held

    def claimed(self, plan: str) -> int:
        """Steps claimed since the plan was reserved."""
        count = 0
        for kind, payload in self.entries:
            if kind == "reserve" and payload["plan"] == plan:
                count = 0
            if kind == "claim" and payload["plan"] == plan:
                count += 1
        return count

    def exact(self, more: dict[str, Any] | None = None) -> tuple[Fraction, Fraction]:
        """(epsilon, delta) of the finite plans, and of one more."""
        plans = [plan for plan in [*self.plans().values(), more] if plan is not None and plan["epsilon"] != "inf"]
        if not plans:
            return Fraction(0), Fraction(0)
        if self.composition.order is None:
            return (
                sum((Fraction(plan["epsilon"]) for plan in plans), Fraction(0)),
                sum((Fraction(plan["delta"]) for plan in plans), Fraction(0)),
            )
        rdp = sum((Fraction(plan["rdp"]) for plan in plans), Fraction(0))
        return rdp_to_epsilon(rdp, self.composition.order, Fraction("1e-4")), Fraction("1e-4")

    def budget(self, first: float) -> Fraction:
        """What the budget's epsilon became."""
        return Fraction(([repr(first)] + [payload["epsilon"] for kind, payload in self.entries if kind == "raise"])[-1])

    def refusal(self, kind: str, payload: dict[str, Any], first: float) -> type[TacitError] | None:
        """With what the entry must be refused, if at all; the ceiling is twice the first budget."""
        plans, name = self.plans(), payload.get("plan")
        if kind in ("void", "note"):
            return None
        if kind == "raise":
            return None if self.budget(first) < Fraction(payload["epsilon"]) <= 2 * Fraction(first) else LedgerError
        if kind == "reserve":
            if name in plans:
                return LedgerError
            finite = payload["epsilon"] != "inf"
            if finite and self.composition.order is not None and payload["rdp"] in (None, "inf"):
                return PlanError
            total = self.exact(payload)
            return BudgetExceeded if total[0] > self.budget(first) or total[1] > Fraction("1e-4") else None
        if name not in plans:
            return PlanError
        if kind == "cancel":
            return LedgerError if self.claimed(name) else None
        return PlanExhausted if self.claimed(name) == 3 else None

    def void_reason(self) -> str | None:
        """Why nothing is promised any more."""
        for kind, payload in self.entries:
            if kind == "void":
                return str(payload["reason"])
            if kind == "reserve" and payload["epsilon"] == "inf":
                return f"plan {payload['plan']!r} has no privacy"
        return None

    def totals(self) -> tuple[Total, Total]:
        """A total by one addition after the other, from nothing."""
        charges = (
            Charge(float(plan["epsilon"]), float(plan["delta"]), None if plan["rdp"] is None else float(plan["rdp"]))
            for plan in self.plans().values()
        )
        whole = Total.of(charges, self.composition)
        return whole, whole


moves = st.lists(
    st.tuples(
        st.sampled_from(("reserve", "reserve", "reserve", "claim", "claim", "cancel", "raise", "void", "note")),
        st.sampled_from([f"plan {number}" for number in range(5)]),
        st.sampled_from(("0.1", "0.1", "0.3", "1e-12", "5e-324", "0.3333333333333333", "inf")) | st.floats(1e-3, 0.5),
        st.sampled_from(("0.0", "1e-05", "2.5e-05", "9.99e-05")),
        st.sampled_from((None, "0.0", "0.1", "0.25", "1e-09", "inf")),
    ),
    max_size=40,
)


@pytest.mark.parametrize("composition", [SUM, ORDER], ids=["sum", "order"])
@settings(max_examples=50, deadline=None)
@given(moves=moves, budget=st.sampled_from((1.0, 3.0, 1000.0)))
def test_the_running_totals_decide_as_sums_over_all_entries(
    composition: Composition, moves: list[tuple[Any, ...]], budget: float
) -> None:
    terms = Terms("0" * 32, UNIT, budget, 2 * budget, 1e-4, composition)
    state, slow = LedgerState(), Slow(composition)
    entries = [state.next_entry("create", terms.payload(), "now")]
    state = state.apply(entries[0])
    versions = [(state, state.summaries(), state.spent())]
    for kind, plan, epsilon, delta, rdp in moves:
        payload: dict[str, Any] = {
            "reserve": {
                "plan": plan,
                "description": {"method": "m"},
                "parts": {"s": 3},
                "epsilon": epsilon if isinstance(epsilon, str) else repr(epsilon),
                "delta": delta,
                "rdp": rdp,
            },
            "claim": {
                "plan": plan,
                "part": "s",
                "start": slow.claimed(plan) if plan in slow.plans() else 0,
                "count": 1,
            },
            "cancel": {"plan": plan},
            "raise": {"epsilon": repr(budget * (0.75 + int(plan[-1]) * 0.35))},
            "void": {"reason": f"because of {plan}"},
            "note": {"kind": "k", "text": plan},
        }[kind]
        entry = state.next_entry(kind, payload, "now")
        expected = slow.refusal(kind, payload, budget)
        if expected is None:
            state = state.apply(entry)
            entries.append(entry)
            slow.entries.append((kind, payload))
        else:
            with pytest.raises(TacitError) as refused:
                state.apply(entry)
            assert type(refused.value) is expected
        assert state.balance.totals == slow.totals()
        assert state.void_reason == slow.void_reason()
        assert Fraction(repr(state.budget)) == slow.budget(budget)
        assert [(plan.id, plan.claimed) for plan in state.summaries()] == [
            (name, slow.claimed(name)) for name in slow.plans()
        ]
        epsilon_spent, delta_spent = state.spent()
        exact = slow.exact()
        if any(plan["epsilon"] == "inf" for plan in slow.plans().values()):
            assert epsilon_spent == math.inf
        else:
            assert exact[0] <= Fraction(repr(epsilon_spent)) <= exact[0] * (1 + Fraction(1, 2**51))
        assert exact[1] <= Fraction(repr(delta_spent)) <= exact[1] * (1 + Fraction(1, 2**51))
        versions.append((state, state.summaries(), state.spent()))
    assert replay(entries) == state
    for version, summaries, spent in versions:  # no later entry is seen in an earlier state
        assert (version.summaries(), version.spent()) == (summaries, spent)


def reservation(**changes: object) -> dict[str, Any]:
    terms = {"plan": "p", "description": {}, "parts": {"s": 3}, "epsilon": "0.4", "delta": "0.0", "rdp": None}
    return terms | changes


def created(epsilon: float = 1.0) -> LedgerState:
    state = LedgerState()
    return state.apply(state.next_entry("create", Terms("0" * 32, UNIT, epsilon, epsilon, 1e-4, SUM).payload(), "now"))


def test_a_full_budget_admits_nothing_but_what_is_infinite() -> None:
    state = created()
    state = state.apply(state.next_entry("reserve", reservation(epsilon="1.0"), "now"))
    with pytest.raises(BudgetExceeded):
        state.apply(state.next_entry("reserve", reservation(plan="q", epsilon="5e-324"), "now"))
    void = state.apply(state.next_entry("reserve", reservation(plan="q", epsilon="inf"), "now"))
    assert (void.spent(), void.void_reason) == ((math.inf, 0.0), "plan 'q' has no privacy")
    assert (state.spent(), state.void_reason) == ((1.0, 0.0), None)


def test_a_refused_entry_leaves_the_state_as_it_was() -> None:
    state = created()
    state = state.apply(state.next_entry("reserve", reservation(), "now"))
    before, totals = state.summaries(), state.balance
    for kind, payload in (
        ("reserve", reservation(plan="q", epsilon="0.7")),
        ("reserve", reservation()),
        ("claim", {"plan": "p", "part": "s", "start": 1, "count": 1}),
        ("cancel", {"plan": "q"}),
    ):
        with pytest.raises(TacitError):
            state.apply(state.next_entry(kind, payload, "now"))
    assert (state.summaries(), state.balance) == (before, totals)
    assert before == [PlanSummary("p", "", 0.4, 0.0, steps=3, claimed=0, fold=None, taught_by="everybody")]
    assert totals.totals == (Total(SUM, cost=Fraction(2, 5), others=1),) * 2


@pytest.mark.parametrize("composition", [SUM, ORDER], ids=["sum", "order"])
def test_a_cancelled_plan_gives_back_exactly_its_charge(composition: Composition) -> None:
    state = LedgerState()
    state = state.apply(state.next_entry("create", Terms("0" * 32, UNIT, 1.0, 1.0, 1e-4, composition).payload(), "now"))
    for plan, cost in (("p", "0.1"), ("q", "0.2"), ("r", "inf")):
        payload = reservation(plan=plan, epsilon=cost, delta="1e-05", rdp=cost)
        state = state.apply(state.next_entry("reserve", payload, "now"))
    whole = Total(composition, cost=Fraction(3, 10), delta=Fraction(2, 10**5), others=2, infinite=1)
    assert state.balance.totals == (whole, whole)
    for plan in ("r", "q"):
        state = state.apply(state.next_entry("cancel", {"plan": plan}, "now"))
    left = Total(composition, cost=Fraction(1, 10), delta=Fraction(1, 10**5), others=1)
    assert state.balance.totals == (left, left)


@given(
    st.text(max_size=5),
    st.integers(1, 2**40),
    st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3)),
)
def test_the_hash_is_that_of_the_whole_entry_as_json(kind: str, seq: int, payload: dict[str, Any]) -> None:
    body = json.dumps(
        {"kind": kind, "payload": payload, "seq": seq, "time": "now"}, sort_keys=True, separators=(",", ":")
    )
    expected = hashlib.sha256(f"{'7' * 64}\n{body}".encode("ascii")).hexdigest()
    assert link("7" * 64, seq, "now", kind, canonical_json(payload)) == expected


@pytest.mark.parametrize(
    "text",
    ['{"text":"x", "kind":"k"}', '{"kind":"k","text":"x"} ', '["note"]', '{"kind":"é"}', '{"x":NaN}', "", "[" * 9999],
)
def test_a_payload_in_another_spelling_is_refused_though_its_hash_is_right(text: str) -> None:
    state = created()
    entry = Entry(2, "now", "note", text, "")
    with pytest.raises(LedgerError, match="canonical JSON"):
        state.apply(replace(entry, hash=link(state.head, 2, "now", "note", text) if text.isascii() else "0" * 64))


def test_what_a_reader_does_to_a_payload_stays_with_the_reader() -> None:
    state = created()
    entry = state.next_entry("reserve", reservation(), "now")
    entry.payload["epsilon"] = "0.1"
    assert state.apply(entry).spent() == (0.4, 0.0)
