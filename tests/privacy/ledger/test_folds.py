"""Balances by fold: against sums from the beginning, and against the exact privacy of the worst of three people."""

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from tacit.errors import BudgetExceeded, PlanError
from tacit.privacy.accounting.filters import SUM, Charge, Composition
from tacit.privacy.ledger.folds import FOLDS, Balance, Fold, part_folds, plan_folds, single_fold, teacher_name
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.state import POLICY
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.device_sums import LaplaceSum
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.units import Relation, Unit

RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")


def part(fold: Fold | None, rate: float = 1.0, name: str = "s") -> dict[str, Any]:
    """A sum as the ledger writes it down."""
    return certificate_parts(
        [PoissonSum(name=name, steps=3, sampling_rate=rate, clip_norm=1.0, noise_multiplier=2.0, fold=fold)]
    )[0]


def ledger_of(path: Path, relation: Relation, composition: Composition = SUM) -> Ledger:
    return Ledger(path, Unit("person", relation, 1_000), epsilon=1.0, delta=1e-4, composition=composition)


def reserve(ledger: Ledger, plan: str, parts: Sequence[dict[str, Any]], epsilon: float, delta: float = 1e-5) -> None:
    steps = {one["name"]: one["steps"] for one in parts}
    ledger.reserve(
        plan, {"method": "m", "parts": list(parts)}, parts=steps, epsilon=epsilon, delta=delta, rdp=epsilon / 10
    )


# -- where a plan lies -------------------------------------------------------------------------------------------------


def test_a_plan_lies_where_all_of_its_parts_do() -> None:
    for parts, folds, pays, who in (
        ([part(0)], {0}, 0, "fold 0"),
        ([part(1), part(1)], {1}, 1, "fold 1"),
        ([part(0), part(1)], {0, 1}, None, "everybody"),
        ([part(0), part(None)], None, None, "everybody"),
        ([], None, None, "everybody"),
    ):
        found = plan_folds(parts)
        assert found == (None if folds is None else frozenset(folds))
        assert (single_fold(found), teacher_name(found)) == (pays, who)
    assert part_folds([part(1), part(0), part(1)]) == (1, 0, 1)
    assert part_folds([part(None), part(1)]) is None


def test_a_policy_is_taught_by_the_folds_that_had_been_read_when_the_ledger_first_saw_it(tmp_path: Path) -> None:
    with ledger_of(tmp_path / "x.ledger", "add_or_remove") as ledger:
        reserve(ledger, "p", [part(0, name="s"), part(1, name="t")], 0.5)
        reserve(ledger, "q", [part(None)], 0.1)
        ledger.note(POLICY, "p before")
        ledger.claim("p", "s", 1)
        for text in ("p between", "nobody between", "between"):
            ledger.note(POLICY, text)
        ledger.note("other", "p other")
        assert [plan.taught_by for plan in ledger.plans()] == ["everybody", "everybody"]  # `before` came too early
        ledger.claim("p", "t", 1)
        ledger.claim("q", "s", 1)
        for text in ("p between", "p after", "q after"):
            ledger.note(POLICY, text)
    p, q = Ledger.read(tmp_path / "x.ledger").plans()
    assert p.policies == {"before": {0, 1}, "between": {0}, "after": {0, 1}}
    assert q.policies == {"after": {0, 1}}


def test_what_is_not_proved_for_a_fold_counts_as_over_everybody() -> None:
    fixed = FixedSizeSum(name="s", steps=1, batch_size=5, population=10, clip_norm=1.0, noise_multiplier=1.0)
    laplace = LaplaceSum(name="s", steps=1, bound=1.0, size=2, noise_multiplier=1.0)
    for stated in (
        {**part(None, rate=0.5), "fold": 0},
        {**certificate_parts([fixed])[0], "fold": 0},
        {**certificate_parts([laplace])[0], "fold": 0},
        {**part(0), "fold": True},
        {**part(0), "fold": 2},
        {**part(0), "kind": "of my own"},
        "fold 0",
    ):
        assert plan_folds([stated]) is None


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_a_fold_pays_for_its_own_plans_alone(tmp_path: Path) -> None:
    with ledger_of(tmp_path / "x.ledger", "add_or_remove") as ledger:
        reserve(ledger, "learn", [part(0)], 0.8, 9e-5)
        reserve(ledger, "judge", [part(1)], 0.7, 9e-5)
        assert [ledger.spent(fold) for fold in (0, 1, None)] == [(0.8, 9e-5), (0.7, 9e-5), (0.8, 9e-5)]
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "all", [part(None)], 0.25)
        reserve(ledger, "all", [part(None)], 0.2)
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "both", [part(0), part(1, name="t")], 0.05, 1e-9)
        assert [ledger.spent(fold) for fold in (0, 1)] == [(1.0, 1e-4), (0.9, 1e-4)]
        ledger.cancel("learn")
        assert [ledger.spent(fold) for fold in (0, 1)] == [(0.2, 1e-5), (0.9, 1e-4)]
        assert [(plan.fold, plan.taught_by) for plan in ledger.plans()] == [(1, "fold 1"), (None, "everybody")]
        ledger.verify()
    assert Ledger.read(tmp_path / "x.ledger").spent(1) == (0.9, 1e-4)


def test_who_is_exchanged_may_meet_both_folds_so_deltas_add_up(tmp_path: Path) -> None:
    with ledger_of(tmp_path / "x.ledger", "replace_one") as ledger:
        reserve(ledger, "learn", [part(0)], 0.8, 6e-5)
        assert [ledger.spent(fold) for fold in (0, 1)] == [(0.8, 6e-5), (0.0, 0.0)]
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "judge", [part(1)], 0.8, 6e-5)
        assert ledger.left() == pytest.approx((0.2, 4e-5))
        reserve(ledger, "judge", [part(1)], 0.8, 4e-5)
        assert [ledger.spent(fold) for fold in (0, 1, None)] == [(0.8, 6e-5), (0.8, 4e-5), (0.8, 1e-4)]


@pytest.mark.parametrize("diameter", [None, 2.0, math.sqrt(2), 1.2, 1.0])
def test_who_is_exchanged_pays_a_clip_on_either_fold(tmp_path: Path, diameter: float | None) -> None:
    with ledger_of(tmp_path / "x.ledger", "replace_one") as ledger:

        def spend(name: str, fold: Fold, epsilon: float) -> None:
            described = {"method": "m", "parts": [part(fold)]}
            ledger.reserve(name, described, parts={"s": 3}, epsilon=epsilon, delta=1e-5, diameter=diameter)

        spend("learn", 0, 0.8)
        if (0.8 + 0.3) / (diameter or 2.0) > 1:
            with pytest.raises(BudgetExceeded):
                spend("judge", 1, 0.3)
            spend("judge", 1, 0.2)
        else:
            spend("judge", 1, 0.3)
        both = sum(plan.epsilon for plan in ledger.plans()) / (diameter or 2.0)
        assert float(ledger._state.balance.totals[2].cost) == pytest.approx(both, rel=1e-15)
        assert [plan.diameter for plan in ledger.plans()] == [diameter] * 2
        ledger.verify()


@pytest.mark.parametrize("relation", RELATIONS)
def test_renyi_bounds_are_kept_by_fold(tmp_path: Path, relation: Relation) -> None:
    with ledger_of(tmp_path / "x.ledger", relation, composition=Composition(1.0, 64.0)) as ledger:
        reserve(ledger, "learn", [part(0)], 3.0)
        assert ledger.spent(1) == (0.0, 0.0)
        reserve(ledger, "judge", [part(1)], 3.0)
        assert ledger.spent(0) == ledger.spent(1)
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "all", [part(None)], 7.0)


def test_a_plan_without_privacy_voids_the_ledger_and_is_charged_to_both(tmp_path: Path) -> None:
    with ledger_of(tmp_path / "x.ledger", "add_or_remove") as ledger:
        reserve(ledger, "bare", [part(0)], math.inf)
        assert [ledger.spent(fold)[0] for fold in (0, 1)] == [math.inf] * 2
        assert ledger.void_reason is not None


@pytest.mark.parametrize(
    ("described", "parts"), [([part(0)], {"s": 3, "t": 3}), ([part(0), part(1)], {"s": 3})], ids=["more", "fewer"]
)
def test_parts_that_are_not_the_described_ones_are_refused(
    tmp_path: Path, described: list[dict[str, Any]], parts: dict[str, int]
) -> None:
    with ledger_of(tmp_path / "x.ledger", "add_or_remove") as ledger, pytest.raises(PlanError, match="its description"):
        ledger.reserve("p", {"parts": described}, parts=parts, epsilon=0.1, delta=1e-5)


@settings(max_examples=100, deadline=None)
@given(
    plans=st.lists(
        st.tuples(
            st.sampled_from((0.1, 0.3, 1e-12, 0.3333333333333333, math.inf)),
            st.sampled_from((0.0, 1e-5, 2.5e-5)),
            st.sampled_from((None, 0, 1)),
        ),
        max_size=12,
    ),
    relation=st.sampled_from(RELATIONS),
)
def test_the_balance_is_the_sum_over_the_plans_of_a_fold(
    plans: list[tuple[float, float, Fold | None]], relation: Relation
) -> None:
    balance = Balance.empty(relation, SUM)
    for epsilon, delta, fold in plans:
        balance = balance.with_charge(Charge(epsilon, delta), fold)
    finite = [plan for plan in plans if plan[0] < math.inf]
    for fold in FOLDS:
        own = [Fraction(repr(epsilon)) for epsilon, _, at in finite if at in (None, fold)]
        deltas = [Fraction(repr(d)) for _, d, at in finite if at in (None, fold)]
        assert (balance.totals[fold].cost, balance.totals[fold].delta) == (sum(own), sum(deltas))
        assert balance.admits(1.0, 1e-4) <= (sum(own) <= 1 and sum(deltas) <= Fraction(1, 10**4))
    if relation == "replace_one":
        assert balance.totals[2].delta == sum(Fraction(repr(d)) for _, d, _ in finite)
        halves = [Fraction(repr(epsilon)) / (1 if at is None else 2) for epsilon, _, at in finite]
        assert sum(halves) <= balance.totals[2].cost <= sum(halves) * (1 + Fraction(1, 10**15))
    for epsilon, delta, at in plans:
        balance = balance.without_charge(Charge(epsilon, delta), at)
    assert balance == Balance.empty(relation, SUM)


# -- what it promises --------------------------------------------------------------------------------------------------


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The exact delta of one Gaussian mechanism: arXiv:1805.06530, Theorem 8; written down here again."""
    if mu == 0:
        return 0.0
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


@pytest.mark.parametrize("d", [2.0, math.sqrt(2), 1.1])
def test_a_dth_of_the_distance_costs_at_most_a_dth_of_epsilon(d: float) -> None:
    for m in np.geomspace(0.01, 12.0, 40):
        for epsilon in np.geomspace(1e-3, 60.0, 40):
            assert gaussian_delta(m, epsilon / d) <= gaussian_delta(d * m, epsilon) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_full_balance_keeps_the_promise_to_whoever_comes_goes_or_moves(relation: Relation) -> None:
    """Random plans are admitted until no more fit; then the exact privacy of each person there can be is computed."""
    generator, admitted = np.random.default_rng(7), 0
    for number in range(60):
        budget, delta = float(generator.uniform(4.0, 20.0)), 1e-5
        least, most = ((0.02, 0.9), (2.4, 3.0))[number % 2]  # many small plans, or a large one of as much as the budget
        balance, plans = Balance.empty(relation, SUM), list[tuple[Any, float, float]]()
        for _ in range(20):
            reach = generator.choice([0, 1, 2, 3])
            m = np.where([reach in (0, 2), reach in (1, 2)], generator.uniform(least, most, 2), 0.0)
            both = float(generator.uniform(0.02, 0.5)) if reach == 3 else 0.0
            far = 1.0 if relation == "add_or_remove" else float(generator.choice([1.0, 1.2, math.sqrt(2), 2.0]))
            halves = max(far * max(m), math.hypot(*m) if relation == "replace_one" else 0.0)
            dearer, share = math.hypot(halves, far * both), 1e-6
            epsilon = brentq(lambda e, mu=dearer, d=share: gaussian_delta(mu, e) - d, 0.0, 80.0, xtol=1e-12)
            budget = epsilon + 1e-6 if most > 1 and not plans else budget
            fold: Fold | None = {0: 0, 1: 1}.get(int(reach))  # type: ignore[assignment]
            more = balance.with_charge(Charge(float(epsilon) + 1e-9, share, diameter=far), fold)
            if more.admits(budget, delta):
                balance, plans = more, [*plans, (m, both, far)]
        admitted += len(plans)
        if relation == "add_or_remove":  # in fold 0, or in fold 1
            people = [[math.hypot(m[at], both) for m, both, _ in plans] for at in (0, 1)]
        else:  # exchanged within fold 0, within fold 1, or for somebody of the other fold
            people = [[far * math.hypot(m[at], both) for m, both, far in plans] for at in (0, 1)]
            people.append([math.hypot(*m, far * both) for m, both, far in plans])
        for distances in people:
            assert gaussian_delta(math.hypot(*distances), budget) <= delta
    assert admitted > 3 * 60


def test_moving_can_cost_more_than_either_fold_if_epsilon_were_charged_by_removal() -> None:
    """What a careless rule would do: one fold charged for one clip rather than two, so that the mover pays both."""
    m, delta = 1.0, 1e-5
    epsilon = brentq(lambda e: gaussian_delta(m, e) - delta, 0.0, 50.0)
    assert gaussian_delta(math.hypot(m, m), epsilon) > 10 * delta
