"""A ledger that composes as one Gaussian beside a sum: what either fold pays, what comes back, what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from ledger_cases import forge

from tacit.errors import BudgetExceeded, LedgerError, PlanError
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.filters import SUM, Charge, Composition
from tacit.privacy.ledger.folds import Balance, Fold
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.units import Relation, Unit

RULE = Composition(0.2)
LIMIT = gaussian.mu_of(Fraction(4, 5), Fraction(8, 10**6))  # 0.215704415, of (0.8, 8e-6)
RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")


def ledger_of(path: Path, relation: Relation = "add_or_remove", rule: Composition = RULE) -> Ledger:
    return Ledger(path, Unit("person", relation, 1_000), epsilon=1.0, delta=1e-5, composition=rule)


def reserve(ledger: Ledger, plan: str, fold: Fold | None, *, mu: float | None = None, **cost: float) -> None:
    sums = [PoissonSum(name="s", steps=3, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=2.0, fold=fold)]
    described = {"method": "m", "parts": list(certificate_parts(sums))}
    ledger.reserve(plan, described, parts={"s": 3}, **{"epsilon": 9.0, "delta": 1e-4, **cost}, mu=mu)


def squares(ledger: Ledger) -> list[Fraction]:
    return [total.squared for total in Ledger.read(ledger.path).state.balance.totals[:2]]  # of either fold


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_fold_pays_the_squared_mu_of_its_own_plans(tmp_path: Path, relation: Relation) -> None:
    with ledger_of(tmp_path / "x.ledger", relation) as ledger:
        reserve(ledger, "learn", 0, mu=0.15)
        assert squares(ledger) == [Fraction("0.0225"), 0]
        assert ledger.spent(1) == (0.0, 0.0)
        reserve(ledger, "judge", 1, mu=0.2)
        assert squares(ledger) == [Fraction("0.0225"), Fraction("0.04")]
        assert ledger.spent(1) == (float(gaussian.epsilon_of(Fraction("0.04"), Fraction(8, 10**6))), 8e-6)
        assert ledger.spent() == ledger.spent(1)
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "all", None, mu=0.1)  # fits fold 0 alone
        reserve(ledger, "learn more", 0, mu=0.1)
        reserve(ledger, "all", None, mu=0.08)
        assert squares(ledger) == [Fraction("0.0389"), Fraction("0.0464")]
        ledger.verify()
    assert LIMIT**2 - Fraction("0.0464") < Fraction("0.01")


def test_a_plan_that_samples_is_told_that_no_part_is_for_it(tmp_path: Path) -> None:
    unit = Unit("person", "add_or_remove", 100)
    with Ledger(tmp_path / "x.ledger", unit, epsilon=1.0, delta=1e-5, composition=Composition(sampled=0)) as ledger:
        with pytest.raises(BudgetExceeded, match=r"no part of the budget.* is for such plans") as refused:
            ledger.reserve("dp-sgd", {"parts": []}, parts={"sum": 1}, epsilon=0.1, delta=1e-6, rdp=None, mu=None)
        assert "everybody takes part in each step" in str(refused.value)
        assert refused.value.left == (0.0, 0.0)
        assert ledger.plans() == []


@pytest.mark.parametrize("relation", RELATIONS)
def test_who_is_exchanged_meets_the_deltas_of_plans_without_a_mu(tmp_path: Path, relation: Relation) -> None:
    with ledger_of(tmp_path / "x.ledger", relation) as ledger:
        reserve(ledger, "learn", 0, epsilon=0.15, delta=1.5e-6)
        reserve(ledger, "big", 0, mu=0.2)
        moved = relation == "replace_one"
        paid = [Fraction("1.5e-6"), 0, *([Fraction("1.5e-6")] if moved else [])]
        assert [total.delta for total in ledger._state.balance.totals] == paid
        costs = [Fraction("0.15"), 0, *([Fraction("0.075")] if moved else [])]
        assert [total.cost for total in ledger._state.balance.totals] == costs
        if moved:
            with pytest.raises(BudgetExceeded):
                reserve(ledger, "judge", 1, epsilon=0.2, delta=1e-6)
            reserve(ledger, "judge", 1, epsilon=0.2, delta=5e-7)
        else:
            reserve(ledger, "judge", 1, epsilon=0.2, delta=2e-6)


def test_a_plan_with_a_mu_may_cost_more_epsilon_than_the_budget_and_one_without_may_not(tmp_path: Path) -> None:
    with ledger_of(tmp_path / "x.ledger") as ledger:
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "p", None)
        assert ledger.entries()[-1].kind == "create"
        reserve(ledger, "p", None, mu=0.2)
        for epsilon, delta in ((0.2000001, 0.0), (0.1, 2.000001e-6)):
            with pytest.raises(BudgetExceeded):
                reserve(ledger, "sampled", None, epsilon=epsilon, delta=delta)
        reserve(ledger, "sampled", None, epsilon=0.2, delta=2e-6)
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "q", None, mu=0.1)
        assert ledger.left() == (ledger.left(gaussian=True)[0], 8e-6)
        assert ledger.left(gaussian=False) == (0.0, 0.0)


@pytest.mark.parametrize("fold", [None, 0, 1])
def test_what_is_cancelled_gives_its_squared_mu_back(tmp_path: Path, fold: Fold | None) -> None:
    with ledger_of(tmp_path / "x.ledger") as ledger:
        reserve(ledger, "kept", None, mu=0.1)
        reserve(ledger, "p", fold, mu=float(Fraction("0.19")))
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "q", fold, mu=0.19)
        ledger.cancel("p")
        assert squares(ledger) == [Fraction("0.01")] * 2
        reserve(ledger, "q", fold, mu=0.19)
        ledger.claim("q", "s", 1)
        with pytest.raises(LedgerError, match="touched"):
            ledger.cancel("q")


def test_an_opened_ledger_has_the_same_sums_and_terms(tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    with ledger_of(path) as ledger:
        reserve(ledger, "p", 0, mu=0.1234567890123)
        reserve(ledger, "q", 1, epsilon=0.1, delta=1e-6)
        before = ledger._state.balance
        assert [entry.payload.get("mu") for entry in ledger.entries()] == [None, "0.1234567890123", None]
        assert [ledger.entries()[0].payload[name] for name in ("sampled", "order")] == ["0.2", None]
    with Ledger(path) as ledger:
        ledger.verify()
        assert ledger.composition == Composition(0.2)
        assert ledger._state.balance == before
        assert before.totals[0].squared == Fraction("0.1234567890123") ** 2
        reserve(ledger, "p", 0, mu=0.1234567890123)  # the same again costs nothing
        assert ledger._state.balance == before


@pytest.mark.parametrize(
    "rule", [SUM, Composition(0), Composition(0.3), Composition(0.2, 32.0), Composition(1.0, 16.0)]
)
def test_another_composition_at_opening_is_refused(tmp_path: Path, rule: Composition) -> None:
    path = tmp_path / "x.ledger"
    ledger_of(path).close()
    with pytest.raises(LedgerError, match="bound to another composition"):
        ledger_of(path, rule=rule)
    ledger_of(path, rule=Composition(0.2)).close()
    sums = tmp_path / "sum.ledger"
    ledger_of(sums, rule=SUM).close()
    with pytest.raises(LedgerError, match="bound to another composition"):
        ledger_of(sums)


def test_a_forged_entry_with_too_large_a_sum_is_refused(tmp_path: Path) -> None:
    for name, more, valid in (
        ("fits", {"mu": "0.07"}, True),
        ("large", {"mu": "0.15"}, False),
        ("no mu", {"mu": None}, False),
        ("negative", {"mu": "-0.1"}, False),
        ("not a number", {"mu": "nan"}, False),
        ("share", {"mu": None, "epsilon": "0.2", "delta": "2e-06"}, True),
        ("beyond the share", {"mu": None, "epsilon": "0.21", "delta": "2e-06"}, False),
    ):
        path = tmp_path / f"{name}.ledger"
        with ledger_of(path) as ledger:
            reserve(ledger, "p", None, mu=0.2)
            payload: dict[str, Any] = ledger.entries()[-1].payload
        forge(path, "reserve", {**payload, "plan": "forged", **more})
        if valid:
            assert [plan.id for plan in Ledger.read(path).plans()] == ["p", "forged"]
        else:
            with pytest.raises(LedgerError, match="entry 3 is not valid"):
                Ledger.read(path)


def test_another_mu_under_a_known_id_is_another_plan(tmp_path: Path) -> None:
    with ledger_of(tmp_path / "x.ledger") as ledger:
        reserve(ledger, "p", None, mu=0.1)
        with pytest.raises(PlanError, match="not the one that was reserved"):
            reserve(ledger, "p", None, mu=0.11)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_room_and_what_is_left_are_those_of_the_fuller_fold(relation: Relation) -> None:
    balance = Balance.empty(relation, RULE).with_charge(Charge(1.0, 0.0, mu=0.15), 0)
    one = Charge(1.0, 0.0, mu=0.05)
    free = {at: int((LIMIT**2 - used) / Fraction("0.0025")) for at, used in ((0, Fraction("0.0225")), (1, 0))}
    assert free == {0: 9, 1: 18}
    assert [balance.room(one, fold, 1.0, 1e-5) for fold in (0, 1, None)] == [9, 18, 9]
    rest = gaussian.epsilon_of(LIMIT**2 - Fraction("0.0225"), Fraction(8, 10**6))
    epsilon, delta = balance.left(1.0, 1e-5, gaussian=True)
    assert float(rest) * (1 - 3e-8) < epsilon < float(rest)
    assert delta == 8e-6


def test_a_plan_that_was_charged_by_epsilon_goes_on_when_a_mu_of_it_is_found(tmp_path: Path) -> None:
    """Sharper proofs come between two processes: what was charged stays, and bounds what runs."""
    with ledger_of(tmp_path / "x.ledger") as ledger:
        reserve(ledger, "devices", None, epsilon=0.1, delta=1e-6)
        before = ledger.spent()
        reserve(ledger, "devices", None, epsilon=0.09, delta=1e-6, mu=0.02)
        assert ledger.spent() == before
        for dearer in ({"epsilon": 0.11, "delta": 1e-6}, {"epsilon": 0.09, "delta": 2e-6, "mu": 0.02}):
            with pytest.raises(PlanError, match="not the one"):
                reserve(ledger, "devices", None, **dearer)
        reserve(ledger, "sums", None, mu=0.1)
        for other in (0.11, None):
            with pytest.raises(PlanError, match="not the one"):
                reserve(ledger, "sums", None, mu=other)
