"""A budget that may be raised, up to a ceiling that was fixed before anybody saw a release."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_cases import UNIT, edit, forge, make, reserve

from tacit.errors import BudgetExceeded, LedgerError, PlanError, TacitError
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.filters import SUM, Composition, rdp_to_epsilon
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.state import LedgerState, Terms, replay
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.units import Unit

RULES = [SUM, Composition(1.0, 64.0), Composition(0), Composition(0.25), Composition(0.25, 64.0)]


def test_a_raised_budget_admits_what_was_refused_before(path: Path) -> None:
    with make(path, ceiling=3.0) as ledger:
        reserve(ledger, "p", epsilon=0.9)
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "q", epsilon=1.1)
        assert (ledger.epsilon, ledger.ceiling, ledger.left()) == (1.0, 3.0, (0.1, 9e-5))
        ledger.raise_budget(2)
        assert (ledger.epsilon, ledger.ceiling, ledger.left()) == (2.0, 3.0, (1.1, 9e-5))
        reserve(ledger, "q", epsilon=1.1)
        with pytest.raises(BudgetExceeded, match=re.escape("(epsilon 2.0, delta 0.0001)")):
            reserve(ledger, "r", epsilon=1e-9)
        ledger.raise_budget(3.0)
        reserve(ledger, "r", epsilon=1.0)
        assert ledger.spent() == (3.0, 3e-5)
        assert ledger.terms.epsilon == 1.0
        ledger.verify()
        raises = [entry for entry in ledger.entries() if entry.kind == "raise"]
    assert [entry.payload for entry in raises] == [{"epsilon": "2.0"}, {"epsilon": "3.0"}]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.time) for entry in raises)
    view = Ledger.read(path)
    assert (view.epsilon, view.ceiling, view.terms.epsilon, view.spent()) == (3.0, 3.0, 1.0, (3.0, 3e-5))
    assert "(3, 0.0001), promised at most (3, 0.0001)" in view._repr_html_()


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_both_parts_grow_with_the_budget(path: Path, rule: Composition) -> None:
    """As many equal plans as the formulas allow, before and after."""
    kinds = [{"mu": 0.1}] * (rule.sampled < 1) + [{"rdp": 0.02, "epsilon": 0.04, "delta": 0.0}] * (rule.sampled > 0)
    share, order = Fraction(repr(rule.sampled)), rule.order
    with make(path, ceiling=2.0, composition=rule) as ledger:
        for budget in (Fraction(1), Fraction(2)):
            if budget == 2:
                ledger.raise_budget(2.0)
            for number, cost in enumerate(kinds):
                count = 0
                while True:
                    try:
                        reserve(ledger, f"{budget} {number} {count}", **cost)  # type: ignore[arg-type]
                    except BudgetExceeded:
                        break
                    count += 1
                held = sum((plan.mu is None) == ("mu" not in cost) for plan in ledger.plans())
                if "mu" in cost:
                    limit = gaussian.mu_of((1 - share) * budget, (1 - share) / 10**4) ** 2 / Fraction("0.01")
                elif order is None:
                    limit = share * budget / Fraction("0.04")
                else:
                    limit = (share * budget - rdp_to_epsilon(Fraction(2), order, share / 10**4) + 2) / Fraction("0.02")
                assert held == int(limit) > count - 1
                assert count > 0


@pytest.mark.parametrize("epsilon", [3.0000000000000004, 4.0, math.inf, 2.0, 1.5, 1.0, 0.0, -1.0, math.nan])
def test_other_raises_are_refused_and_nothing_is_written(path: Path, epsilon: float) -> None:
    with make(path, ceiling=3.0) as ledger:
        ledger.raise_budget(2.0)
        head = ledger.head
        with pytest.raises(LedgerError, match="the budget of epsilon 2 cannot become"):
            ledger.raise_budget(epsilon)
        assert (ledger.head, ledger.epsilon, ledger.ceiling) == (head, 2.0, 3.0)
        ledger.verify()
        with pytest.raises(BudgetExceeded):
            reserve(ledger, epsilon=2.0000001)
        ledger.raise_budget(2.5)  # and it goes on
    assert Ledger.read(path).epsilon == 2.5


@pytest.mark.parametrize("ceiling", [None, 1.0])
def test_without_a_higher_ceiling_there_is_no_raise(path: Path, ceiling: float | None) -> None:
    with make(path, ceiling=ceiling) as ledger:
        assert ledger.ceiling == 1.0
        for epsilon in (1.0, 1.0000000000000002, 2.0):
            with pytest.raises(LedgerError, match="ceiling of 1, which was fixed when the ledger began"):
                ledger.raise_budget(epsilon)
        assert [entry.kind for entry in ledger.entries()] == ["create"]


def test_a_ledger_is_opened_again_with_any_budget_that_it_has_had(path: Path) -> None:
    make(path, ceiling=4.0).close()
    had = {1.0}
    for raised in (None, 2.0, 3.0):
        if raised is not None:
            with Ledger(path) as ledger:
                ledger.raise_budget(raised)
            had.add(raised)
        for epsilon in (None, *had):  # a run that began before a raise goes on with its own words
            with Ledger(path, UNIT, epsilon=epsilon, delta=1e-4, composition=SUM, ceiling=4.0) as ledger:
                assert (ledger.epsilon, ledger.terms.epsilon, ledger.ceiling) == (raised or 1.0, 1.0, 4.0)
        for epsilon in {0.5, 1.5, 2.0, 4.0, 8.0} - had:
            with pytest.raises(LedgerError, match="bound to another epsilon"):
                Ledger(path, epsilon=epsilon)
    for ceiling in (1.0, 3.0, 8.0):
        with pytest.raises(LedgerError, match="bound to another ceiling"):
            Ledger(path, ceiling=ceiling)
    assert Ledger.read(path).epsilon == 3.0


@pytest.mark.parametrize("ceiling", [0.9999999, 0.0, -2.0, math.inf, math.nan])
def test_a_ceiling_below_the_budget_or_without_end_creates_nothing(path: Path, ceiling: float) -> None:
    with pytest.raises(PlanError, match="the ceiling is below the budget, or not finite"):
        make(path, ceiling=ceiling)
    assert not path.exists()
    make(path).close()


def test_a_ceiling_is_no_larger_than_what_one_gaussian_can_have(path: Path) -> None:
    with pytest.raises(PlanError, match="the ceiling is too large"):
        make(path, ceiling=1e9, composition=Composition(0.25))
    with make(path, ceiling=1e9) as ledger:
        ledger.raise_budget(1e9)


@pytest.mark.parametrize(
    "payload",
    [
        {"epsilon": "3.0000000000000004"},
        {"epsilon": "100.0"},
        {"epsilon": "inf"},
        {"epsilon": "nan"},
        {"epsilon": "2.0"},
        {"epsilon": "1.0"},
        {"epsilon": "much"},
        {"epsilon": None},
        {},
    ],
)
def test_a_forged_raise_is_refused_by_name(path: Path, payload: dict[str, object]) -> None:
    with make(path, ceiling=3.0) as ledger:
        ledger.raise_budget(2.0)
    forge(path, "raise", payload)
    for attempt in (Ledger, Ledger.read):
        with pytest.raises(LedgerError, match="entry 3 is not valid"):
            attempt(path)


def test_a_forged_raise_within_the_ceiling_is_read(path: Path) -> None:
    """What the test above forges is refused for its number alone."""
    make(path, ceiling=3.0).close()
    forge(path, "raise", {"epsilon": "3.0"})
    assert Ledger.read(path).epsilon == 3.0


def test_a_plan_that_needs_the_raise_is_refused_before_it(path: Path) -> None:
    with make(path, ceiling=3.0) as ledger:
        ledger.raise_budget(2.0)
        reserve(ledger, epsilon=1.5)
        raised, reserved = (entry.payload for entry in ledger.entries()[1:])
    for name, order, valid in (("as it was", (0, 1), True), ("turned", (1, 0), False)):
        other = path.with_name(f"{name}.ledger")
        make(other, ceiling=3.0).close()
        for at in order:
            forge(other, ("raise", "reserve")[at], (raised, reserved)[at])
        if valid:
            assert Ledger.read(other).spent() == (1.5, 1e-5)
        else:
            with pytest.raises(LedgerError, match="entry 2 is not valid"):
                Ledger.read(other)


def test_a_raise_that_is_taken_out_or_a_ceiling_that_is_edited_is_noticed(path: Path) -> None:
    with make(path, ceiling=3.0) as ledger:
        ledger.raise_budget(2.0)
        ledger.note("curator", "after it")
    whole = path.read_bytes()
    for statement in (
        "DELETE FROM entries WHERE kind = 'raise'",
        "UPDATE entries SET payload = replace(payload, '2.0', '2.5') WHERE kind = 'raise'",
        """UPDATE entries SET payload = replace(payload, '"ceiling":"3.0"', '"ceiling":"9.0"') WHERE seq = 1""",
    ):
        path.write_bytes(whole)
        edit(path, statement)
        assert path.read_bytes() != whole
        with pytest.raises(LedgerError, match=r"entry [123] is not valid"):
            Ledger.read(path)


# -- the terms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("ceiling", [1.0, 2.5])
def test_terms_are_read_as_they_were_written(rule: Composition, ceiling: float) -> None:
    terms = Terms("0" * 32, UNIT, 1, ceiling, 1e-4, rule)
    payload = terms.payload()
    assert {name: payload[name] for name in ("epsilon", "ceiling", "delta", "sampled", "order")} == {
        "epsilon": "1.0",
        "ceiling": repr(ceiling),
        "delta": "0.0001",
        "sampled": {0.0: "0.0", 0.25: "0.25", 1.0: "1.0"}[rule.sampled],
        "order": None if rule.order is None else "64.0",
    }
    assert Terms.from_payload(payload) == terms


@pytest.mark.parametrize(
    "change",
    [
        {"ceiling": "2"},
        {"ceiling": 2.0},
        {"sampled": "0.250"},
        {"order": "64"},
        {"more": 1},
        {"format": 2},
    ],
)
def test_terms_in_another_spelling_are_refused(change: dict[str, object]) -> None:
    payload = Terms("0" * 32, UNIT, 1.0, 2.0, 1e-4, Composition(0.25, 64.0)).payload()
    with pytest.raises(LedgerError, match="not a creation that this version writes"):
        Terms.from_payload({**payload, **change})
    for name in ("ceiling", "sampled", "order"):
        with pytest.raises(KeyError):
            Terms.from_payload({key: value for key, value in payload.items() if key != name})


# -- what is promised --------------------------------------------------------------------------------------------------

CEILING = 2.0
MOVES = st.one_of(
    st.tuples(st.just("raise"), st.sampled_from(("1.2", "1.5", "2.0", "2.1", "8.0", "nan", "inf"))),
    st.tuples(
        st.just("reserve"),
        st.sampled_from((0.01, 0.1, 0.24, 0.5, 1.0, 1.9)),
        st.sampled_from((None, 0.02, 0.1, 0.2, 0.35)),
        st.sampled_from((None, 0, 1)),
    ),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("rule", RULES, ids=str)
@settings(max_examples=60, deadline=None)
@given(moves=st.lists(MOVES, max_size=30))
def test_whatever_the_order_of_raises_and_plans_all_of_them_fit_the_ceiling(
    rule: Composition, relation: Any, moves: list[tuple[Any, ...]]
) -> None:
    terms = Terms("0" * 32, Unit("person", relation, 1_000), 1.0, CEILING, 1e-4, rule)
    state, entries = LedgerState(), []

    def attempt(kind: str, payload: dict[str, Any]) -> None:
        nonlocal state
        entry = state.next_entry(kind, payload, "now")
        try:
            state = state.apply(entry)
        except TacitError:
            return
        entries.append(entry)

    attempt("create", terms.payload())
    for number, (kind, *what) in enumerate(moves):
        if kind == "raise":
            attempt("raise", {"epsilon": what[0]})
        elif kind == "cancel":
            attempt("cancel", {"plan": f"plan {what[0]}"})
        else:
            cost, mu, fold = what
            part = PoissonSum(name="s", steps=3, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=2.0, fold=fold)
            payload = {
                "plan": f"plan {number}",
                "description": {"parts": list(certificate_parts([part]))},
                "parts": {"s": 3},
                "epsilon": repr(cost),
                "delta": "1e-06",
                "rdp": repr(cost / 2),
                "mu": None if mu is None else repr(mu),
            }
            attempt("reserve", payload)
    assert 1.0 <= state.budget <= state.bound_terms.ceiling == CEILING
    assert state.balance.admits(CEILING, 1e-4)
    assert replay(entries) == state
    for fold in (0, 1):  # and by sums over the plans, with no total of the ledger's
        own = [plan for plan in state.summaries() if plan.fold in (None, fold)]
        mus = [plan.mu for plan in own if plan.mu is not None and rule.sampled < 1]
        rest = [plan for plan in own if plan.mu is None or rule.sampled == 1]
        squared = sum((Fraction(repr(mu)) ** 2 for mu in mus), Fraction(0))
        share = Fraction(repr(rule.sampled))
        assert squared <= gaussian.mu_of((1 - share) * 2, (1 - share) / 10**4) ** 2
        if rule.order is None:
            assert sum(Fraction(repr(plan.epsilon)) for plan in rest) <= share * 2
            assert len(rest) <= share * 100
        elif rest:
            rdp = sum((Fraction(repr(plan.epsilon / 2)) for plan in rest), Fraction(0))
            assert rdp_to_epsilon(rdp, rule.order, share / 10**4) <= share * 2
