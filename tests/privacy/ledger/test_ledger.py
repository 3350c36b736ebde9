import math
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_cases import UNIT, make, reserve

from tacit.errors import BudgetExceeded, LedgerError, PlanError, PlanExhausted
from tacit.privacy.ledger import ledger as ledger_module
from tacit.privacy.ledger.ledger import SUM, Composition, Ledger, PlanSummary
from tacit.privacy.ledger.state import LedgerState, Terms, replay
from tacit.units import Unit


def test_creation_binds_unit_budget_composition_and_a_random_dataset(path: Path, tmp_path: Path) -> None:
    with make(path) as first, make(tmp_path / "y.ledger") as second:
        assert (first.unit, first.epsilon, first.delta, first.composition) == (UNIT, 1.0, 1e-4, SUM)
        assert len(first.dataset_id) == 32
        assert first.dataset_id != second.dataset_id
        identity, head = first.dataset_id, first.head
    with Ledger(path) as again:
        assert (again.unit, again.epsilon, again.delta, again.composition) == (UNIT, 1.0, 1e-4, SUM)
        assert (again.dataset_id, again.head) == (identity, head)


@pytest.mark.parametrize(
    "other",
    [
        {"unit": Unit("transition", "add_or_remove", 1000)},
        {"unit": Unit("patient", "replace_one", 1000)},
        {"unit": Unit("patient", "add_or_remove", 2000)},
        {"epsilon": 2.0},
        {"delta": 1e-5},
        {"composition": Composition(1.0, 8.0)},
    ],
)
def test_opening_with_other_terms_is_refused(path: Path, other: dict[str, object]) -> None:
    make(path).close()
    with pytest.raises(LedgerError, match="bound to another"):
        Ledger(path, **other)  # type: ignore[arg-type]
    Ledger(path).close()  # and the lock was given back


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"delta": 1e-3},  # 1 / population
        {"delta": math.nan},
        {"composition": Composition(1.0, 2.0)},  # no plan would fit at this order and delta
        {"unit": None},
        {"epsilon": None},
        {"delta": None},
        {"composition": None},
    ],
)
def test_bad_terms_create_nothing(path: Path, terms: dict[str, object]) -> None:
    with pytest.raises(PlanError):
        Ledger(path, **{"unit": UNIT, "epsilon": 1.0, "delta": 1e-4, "composition": SUM, **terms})  # type: ignore[arg-type]
    assert not path.exists()
    make(path).close()


def test_a_missing_ledger_is_not_created_by_opening_or_reading(path: Path) -> None:
    with pytest.raises(PlanError, match="no ledger yet"):
        Ledger(path)
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger.read(path)
    assert not path.exists()


def test_reserve_charges_the_whole_plan_once(path: Path) -> None:
    with make(path) as ledger:
        reserve(ledger)
        reserve(ledger)
        assert ledger.spent() == (0.4, 1e-5)
    with Ledger(path) as ledger:
        reserve(ledger)
        assert ledger.spent() == (0.4, 1e-5)
        assert ledger.plans() == [PlanSummary("p", "synthesis", 0.4, 1e-5, 253, 0, fold=None, taught_by="everybody")]


def test_over_budget_charges_nothing(ledger: Ledger) -> None:
    reserve(ledger, "p", epsilon=0.4)
    reserve(ledger, "q", epsilon=0.6)
    head = ledger.head
    with pytest.raises(BudgetExceeded, match="nothing was charged"):
        reserve(ledger, "r", epsilon=1e-12)
    assert (ledger.head, ledger.spent()) == (head, (1.0, 2e-5))
    ledger.verify()


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 0.5}, {"delta": 2e-5}, {"parts": {"a": 251, "b": 3}}, {"parts": {"a": 250}}, {"steps": 2}],
)
def test_an_edited_plan_is_refused(ledger: Ledger, change: dict[str, object]) -> None:
    reserve(ledger)
    with pytest.raises(PlanError, match="not the one that was reserved"):
        reserve(ledger, **change)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="not the one that was reserved"):
        ledger.reserve("p", {"method": "other"}, parts={"a": 250, "b": 3}, epsilon=0.4, delta=1e-5)
    assert ledger.spent() == (0.4, 1e-5)


def test_a_recomputed_cost_may_differ_by_rounding(ledger: Ledger) -> None:
    reserve(ledger)
    reserve(ledger, epsilon=0.4 * (1 + 1e-12))
    assert ledger.spent() == (0.4, 1e-5)


def test_cancel_returns_an_untouched_charge_only(ledger: Ledger) -> None:
    reserve(ledger, "p", epsilon=0.9)
    ledger.cancel("p")
    assert (ledger.spent(), ledger.plans()) == ((0.0, 0.0), [])
    with pytest.raises(PlanError, match="no plan"):
        ledger.claim("p", "a", 1)
    with pytest.raises(PlanError, match="no plan"):
        ledger.cancel("p")
    reserve(ledger, "p", epsilon=1.0, steps=10)  # charged again, as another plan
    ledger.claim("p", "b", 1)
    with pytest.raises(LedgerError, match="touched"):
        ledger.cancel("p")
    assert ledger.spent() == (1.0, 1e-5)
    ledger.verify()


def test_infinite_epsilon_is_admitted_and_voids_for_good(path: Path) -> None:
    with make(path) as ledger:
        assert ledger.void_reason is None
        reserve(ledger, "free", epsilon=math.inf)
        assert ledger.void_reason == "plan 'free' has no privacy"
        assert ledger.spent() == (math.inf, 0.0)
        ledger.cancel("free")
        reserve(ledger, "p", epsilon=1.0)
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "q", epsilon=0.1)
    with Ledger(path) as ledger:
        assert ledger.void_reason == "plan 'free' has no privacy"
        ledger.void("seeded noise")
        assert ledger.void_reason == "plan 'free' has no privacy"


def test_void_and_note(path: Path) -> None:
    with make(path) as ledger:
        ledger.note("curator", "looked at the records")
        assert ledger.void_reason is None
        ledger.void("seeded noise")
    view = Ledger.read(path)
    assert view.void_reason == "seeded noise"
    assert [entry.kind for entry in view.entries()] == ["create", "note", "void"]
    assert view.entries()[1].payload == {"kind": "curator", "text": "looked at the records"}


@pytest.mark.parametrize(
    "plan",
    [
        {"plan": ""},
        {"parts": {}},
        {"parts": {"a": 0}},
        {"parts": {"a": 2.5}},
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"delta": 1e-3},
        {"delta": -1e-9},
        {"rdp": -1.0},
    ],
)
def test_bad_plans_charge_nothing(ledger: Ledger, plan: dict[str, object]) -> None:
    head = ledger.head
    with pytest.raises(PlanError):
        reserve(ledger, **plan)  # type: ignore[arg-type]
    assert ledger.head == head


@pytest.mark.parametrize("description", [{"x": math.nan}, {"x": object()}, {"x": {1, 2}}, {"x": b"bytes"}])
def test_descriptions_are_json(ledger: Ledger, description: dict[str, object]) -> None:
    with pytest.raises(PlanError, match="JSON"):
        ledger.reserve("p", description, parts={"a": 1}, epsilon=0.1, delta=0.0)


def test_rdp_ledger_composes_at_its_order(path: Path) -> None:
    with make(path, epsilon=3.0, composition=Composition(1.0, 16.0)) as ledger:
        assert ledger.spent() == (0.0, 0.0)
        with pytest.raises(PlanError, match="Rényi"):
            reserve(ledger, "p", epsilon=0.1)
        for number in range(5):  # 3 - log(15/16) + log(16e-4) / 15 = 2.635...: room for five plans of 0.5
            reserve(ledger, f"p{number}", epsilon=1.5, rdp=0.5)
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "p5", epsilon=1.5, rdp=0.5)
        assert 2.5 < ledger.spent()[0] <= 3.0
        assert ledger.spent()[1] == 1e-4
        assert sum(plan.epsilon for plan in ledger.plans()) == 7.5
    with Ledger(path) as ledger:
        assert ledger.composition == Composition(1.0, 16.0)
        ledger.verify()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("rcxs"), st.floats(1e-3, 0.7)), max_size=30))
def test_any_history_stays_within_budget_and_replays(moves: list[tuple[str, str, float]]) -> None:
    state = LedgerState()
    entries = [state.next_entry("create", Terms("0" * 32, UNIT, 1.0, 1.0, 1e-4, SUM).payload(), "now")]
    state = state.apply(entries[0])
    charged: dict[str, float] = {}
    for plan, move, epsilon in moves:
        payload: dict[str, object] = {"plan": plan}
        if move == "r":
            payload |= {"description": {}, "parts": {"s": 3}, "epsilon": repr(epsilon), "delta": "1e-07", "rdp": None}
        elif move == "c":
            payload |= {"part": "s", "start": state.plans[plan].claimed["s"] if plan in state.plans else 0, "count": 1}
        entry = state.next_entry({"r": "reserve", "c": "claim", "x": "cancel", "s": "void"}[move], payload, "now")
        if move == "s":
            continue
        try:
            state = state.apply(entry)
        except (LedgerError, PlanError):
            continue
        entries.append(entry)
        if move == "r":
            charged[plan] = epsilon
        if move == "x":
            del charged[plan]
        assert math.fsum(charged.values()) <= 1.0 + 1e-15
        assert state.spent()[0] <= 1.0
        assert state.spent()[0] == pytest.approx(math.fsum(charged.values()), rel=1e-12)
        assert all(plan.claimed["s"] <= 3 for plan in state.plans.values())
    assert replay(entries) == state


def test_claims_are_contiguous_disjoint_and_end(path: Path) -> None:
    taken: list[int] = []
    for _ in range(3):  # reopening goes on behind what was claimed
        with make(path) as ledger:
            reserve(ledger, steps=250)
            for _ in range(20):
                taken += ledger.claim("p", "a", 2)
    with make(path) as ledger:
        assert ledger.claimed("p", "a") == 120
        assert ledger.steps("p", "a") == 250
        while ledger.claimed("p", "a") < 250:
            taken += ledger.claim("p", "a", 100)
        with pytest.raises(PlanExhausted):
            ledger.claim("p", "a", 100)
        assert taken == list(range(250))
        assert [list(ledger.claim("p", "b", 3)) for _ in range(3)] == [[0], [1], [2]]
        with pytest.raises(PlanExhausted, match="never run again"):
            ledger.claim("p", "b", 1)
        assert ledger.plans()[0].claimed == 253
        ledger.verify()


@pytest.mark.parametrize(("steps", "most"), [(1, 1), (100, 1), (101, 2), (250, 3), (2000, 20)])
def test_a_claim_takes_at_most_one_percent_rounded_up(ledger: Ledger, steps: int, most: int) -> None:
    reserve(ledger, steps=steps)
    assert ledger.claim("p", "a", steps) == range(most)


def test_bad_claims(ledger: Ledger) -> None:
    reserve(ledger)
    head = ledger.head
    with pytest.raises(PlanError, match="no part"):
        ledger.claim("p", "c", 1)
    with pytest.raises(PlanError, match="no plan"):
        ledger.claim("q", "a", 1)
    for count in (0, -1):
        with pytest.raises(PlanError, match="below 1"):
            ledger.claim("p", "a", count)
    with pytest.raises(TypeError):
        ledger.claim("p", "a", 1.5)  # type: ignore[arg-type]
    assert ledger.head == head


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    reserve(ledger, steps=400)
    taken: list[int] = []

    def work() -> None:
        for _ in range(20):
            taken.extend(ledger.claim("p", "a", 4))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(320))
    ledger.verify()


def test_a_claim_is_committed_before_it_returns(path: Path, ledger: Ledger) -> None:
    reserve(ledger)
    ledger.claim("p", "a", 1)
    assert Ledger.read(path).plans()[0].claimed == 1  # another connection, while the writer is open
    (connection,) = ledger._store._connections
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("truncate",)
    assert not connection.in_transaction


def test_the_clock_may_go_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make(path) as ledger:
        monkeypatch.setattr(ledger_module, "_now", lambda: "1999-01-01T00:00:00Z")
        reserve(ledger)
        ledger.claim("p", "a", 1)
        ledger.verify()
    Ledger(path).close()


@pytest.mark.parametrize("moment", ["_check_identity", "record"])
def test_ctrl_c_during_a_claim_costs_a_block_at_most(path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    with make(path) as ledger:
        reserve(ledger)
        assert ledger.claim("p", "a", 3) == range(0, 3)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(type(ledger._store.lock if moment == "record" else ledger._store), moment, interrupt)
            with pytest.raises(KeyboardInterrupt):
                ledger.claim("p", "a", 3)
        burned = 3 if moment == "record" else 0  # the commit had happened
        assert ledger.claim("p", "a", 3) == range(3 + burned, 6 + burned)
        ledger.verify()


def test_a_ledger_shows_what_it_is_in_one_line(path: Path) -> None:
    with make(path) as ledger:
        reserve(ledger)
    assert repr(ledger) == f"Ledger({str(path)!r}: (0.4, 1e-05) of (1, 0.0001) spent; patient, add_or_remove, 1,000)"
