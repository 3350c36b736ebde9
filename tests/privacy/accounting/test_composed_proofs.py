"""Mechanisms with proofs of their own in compositions: enumeration, published theorems, integrals, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, approximate, certified
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import table as accounting_table
from tacit.privacy.accounting.events import (
    ComposedEvent,
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    event_from_json,
    event_to_json,
    flatten,
)
from tacit.units import Relation

RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")
Kinds = list[tuple[float, float, int]]


def composed(kinds: Kinds, *others: Event) -> Event:
    """(epsilon, delta, count) of each kind, and whatever else."""
    own = [SelfComposedEvent(EpsilonDeltaEvent(e, d), n) for e, d, n in kinds]
    return ComposedEvent([*own, *others])


def dp_sgd(rate: float, sigma: float, steps: int) -> Event:
    step = PoissonSampledEvent(rate, GaussianEvent(sigma))
    return SelfComposedEvent(step, steps)


def joint(kinds: Kinds) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of all joint outcomes under both neighbours, each mechanism revealing the bit or answering."""
    p = q = np.ones(1)
    for epsilon, delta, count in kinds:
        rest = (1 - delta) * np.array([expit(epsilon), expit(-epsilon)])
        for _ in range(count):
            p = np.multiply.outer(p, [delta, *rest, 0.0]).ravel()
            q = np.multiply.outer(q, [0.0, *rest[::-1], delta]).ravel()
    return p, q


CASES: list[Kinds] = [
    [(0.5, 0.01, 4)],
    [(0.5, 0.0, 3), (1.2, 0.02, 2)],
    [(3.0, 1e-3, 2), (0.1, 0.0, 3)],
    [(0.3, 0.05, 2), (0.3, 0.01, 2), (0.0, 0.03, 1)],
]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kinds", CASES, ids=str)
def test_their_composition_is_the_enumeration_of_all_outcomes(kinds: Kinds, relation: Relation) -> None:
    p, q = joint(kinds)
    own = 1 - math.prod((1 - d) ** n for _, d, n in kinds)
    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.3, 5.0):
        exact = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
        found = accounting.delta(composed(kinds), epsilon=epsilon, relation=relation)
        assert found == pytest.approx(exact, rel=1e-9)
        assert found >= own
        if exact > own * (1 + 1e-9):
            bound = accounting.epsilon(composed(kinds), delta=exact, relation=relation)
            assert bound.epsilon == pytest.approx(epsilon, abs=1e-9)
            assert bound.check_epsilon == pytest.approx(epsilon, abs=2e-4)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 2.0), st.floats(0, 0.01), st.integers(2, 60))
def test_equal_ones_are_the_optimal_composition_of_kairouz_oh_and_viswanath(
    epsilon: float, delta: float, k: int
) -> None:
    """Theorem 3.3: (k - 2i) epsilon, with 1 - (1 - delta)^k (1 - delta_i), for every i."""
    for i in {0, 1, k // 4, k // 2}:
        excess = (
            math.fsum(
                math.comb(k, j) * (math.exp((k - j) * epsilon) - math.exp((k - 2 * i + j) * epsilon)) for j in range(i)
            )
            / (1 + math.exp(epsilon)) ** k
        )
        expected = 1 - (1 - delta) ** k * (1 - excess)
        found = float(approximate.delta(flatten(composed([(epsilon, delta, k)])), (k - 2 * i) * epsilon))
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-13)


def test_it_lies_between_one_and_the_sum_and_below_advanced_composition() -> None:
    one = EpsilonDeltaEvent(0.1, 1e-8)
    found = [
        accounting.epsilon(SelfComposedEvent(one, n), delta=2e-5, relation="add_or_remove").epsilon
        for n in (1, 10, 100, 1_000)
    ]
    assert found == sorted(found)
    assert all(small <= 0.1 * n for small, n in zip(found, (1, 10, 100, 1_000), strict=True))
    slack = 2e-5 - 1_000 * 1e-8
    advanced = math.sqrt(2 * 1_000 * math.log(1 / slack)) * 0.1 + 1_000 * 0.1 * math.expm1(0.1)
    assert found[-1] < 0.9 * advanced


def test_a_leaf_of_epsilon_zero_adds_its_delta_and_nothing_else() -> None:
    kinds: Kinds = [(0.4, 1e-7, 10)]
    for epsilon in (0.0, 1.0, 2.0):
        plain = accounting.delta(composed(kinds), epsilon=epsilon, relation="add_or_remove")
        rare = accounting.delta(composed([*kinds, (0.0, 1e-3, 1)]), epsilon=epsilon, relation="add_or_remove")
        assert rare == pytest.approx(1e-3 + (1 - 1e-3) * plain, rel=1e-9)
    rare_event = EpsilonDeltaEvent(0.0, 1e-9)
    assert event_from_json(event_to_json(rare_event)) == rare_event
    for bad in (EpsilonDeltaEvent(0.0, 0.0), EpsilonDeltaEvent(False, 1e-9), EpsilonDeltaEvent(-0.1, 1e-9)):
        with pytest.raises(AccountingError, match="epsilon"):
            flatten(bad)


@pytest.mark.parametrize(("relation", "far"), [("add_or_remove", 1.0), ("replace_one", 2.0)])
@pytest.mark.parametrize("kinds", [[(0.5, 0.01, 2)], [(0.5, 0.0, 1), (1.5, 1e-3, 2)]], ids=str)
def test_beside_a_gaussian_it_is_the_integral_over_all_outcomes(kinds: Kinds, relation: Relation, far: float) -> None:
    p, q = joint(kinds)
    sigma, event = 1.7, composed(kinds, GaussianEvent(1.7))
    for epsilon in (0.3, 1.1, 2.5):
        exact = sum(
            quad(
                lambda x, a=a, b=b, e=epsilon: max(
                    a * norm.pdf(x, far, sigma) - math.exp(e) * b * norm.pdf(x, 0, sigma), 0
                ),
                -20,
                22,
                limit=400,
            )[0]
            for a, b in zip(p, q, strict=True)
            if a > 0
        )
        found = accounting.delta(event, epsilon=epsilon, relation=relation)
        assert exact * (1 - 1e-6) <= found <= exact * 1.002
        bound = accounting.epsilon(event, delta=exact, relation=relation)
        assert bound.epsilon == pytest.approx(epsilon, abs=2e-3)
        assert (bound.accountant, bound.check_accountant) == (accounting_table.PLD, accounting_table.MIXED)


@pytest.mark.parametrize(("q", "relation"), list(itertools.product((0.1, 0.6), RELATIONS)))
def test_beside_a_sample_directions_are_not_mixed(q: float, relation: Relation) -> None:
    """One Poisson step beside two answers: the worse of the two directions, each integrated by itself."""
    kinds: Kinds = [(0.7, 0.001, 2)]
    outcomes, sigma = joint(kinds), 1.1
    event, epsilon = composed(kinds, dp_sgd(q, sigma, 1)), 1.0

    def density(x: float, centre: float) -> float:
        return float((1 - q) * norm.pdf(x, 0, sigma) + q * norm.pdf(x, centre, sigma))

    pairs = [(1.0, 0.0), (0.0, 1.0)] if relation == "add_or_remove" else [(1.0, -1.0)]
    exact = max(
        sum(
            quad(
                lambda x, a=a, b=b, u=u, v=v: max(a * density(x, u) - math.exp(epsilon) * b * density(x, v), 0),
                -12,
                12,
                limit=400,
                points=[0.0, 1.0],
            )[0]
            for a, b in zip(*outcomes, strict=True)
            if a > 0
        )
        for u, v in pairs
    )
    found = accounting.delta(event, epsilon=epsilon, relation=relation)
    assert exact * (1 - 1e-6) <= found <= exact * 1.005


def test_the_joint_bound_is_below_the_sum_and_above_each() -> None:
    kinds, sgd = [(0.3, 1e-7, 20)], dp_sgd(0.05, 2.0, 800)
    delta = 1e-4
    alone = [accounting.epsilon(e, delta=delta, relation="add_or_remove").epsilon for e in (composed(kinds), sgd)]
    both = accounting.epsilon(composed(kinds, sgd), delta=delta, relation="add_or_remove").epsilon
    assert max(alone) < both < 0.9 * sum(alone)


def test_the_profile_starts_above_the_mechanisms_own_delta() -> None:
    event = composed([(0.3, 1e-6, 20), (0.0, 5e-6, 1)], GaussianEvent(2.0))
    table = accounting.profile(event, "add_or_remove")
    assert [d for d, _ in table] == [1e-3, 1e-4]
    assert table[0][1] < table[1][1]
    for delta in (1e-5, 2.4e-5):
        with pytest.raises(AccountingError, match="below that of the mechanism's own proof"):
            accounting.epsilon(event, delta=delta, relation="add_or_remove")
    with pytest.raises(AccountingError, match="below that of the mechanism's own proof"):
        accounting.epsilon(composed([(0.3, 1e-6, 20)]), delta=1.9e-5, relation="add_or_remove")
    own = 1 - (1 - 1e-6) ** 20 * (1 - 5e-6)
    assert accounting.delta(event, epsilon=400.0, relation="add_or_remove") == pytest.approx(own, rel=1e-6)
    alone = accounting.delta(composed([(0.3, 1e-6, 20)]), epsilon=6.0, relation="add_or_remove")
    assert alone == pytest.approx(20e-6, rel=1e-4)


@pytest.mark.parametrize("others", [[], [GaussianEvent(2.0)], [dp_sgd(0.1, 1.5, 30)]], ids=str)
def test_mu_bounds_the_profile_over_its_range(others: list[Event]) -> None:
    event, delta = composed([(0.3, 1e-6, 10)], *others), 1e-4
    assert accounting.mu_gdp(event, "add_or_remove") == math.inf
    mu = accounting.mu_gdp(event, "add_or_remove", delta=delta)
    end = accounting.epsilon(event, delta=delta, relation="add_or_remove").epsilon
    for epsilon in np.linspace(0, end, 9):
        truth = accounting.delta(event, epsilon=float(epsilon), relation="add_or_remove")
        assert truth <= float(accountants.gaussian_delta(float(epsilon), mu)) * 1.01
    pure = composed([(0.3, 0.0, 10)], *others)
    one = accounting.mu_gdp(EpsilonDeltaEvent(0.3, 0.0), "add_or_remove")
    rest = accounting.mu_gdp(ComposedEvent(others), "add_or_remove") if others else 0.0
    assert accounting.mu_gdp(pure, "add_or_remove") == pytest.approx(math.hypot(math.sqrt(10) * one, rest), rel=1e-12)


def test_renyi_adds_up_and_is_infinite_with_a_delta() -> None:
    gaussian = GaussianEvent(3.0)
    for order in (2.0, 8.0):
        one = accounting.renyi(EpsilonDeltaEvent(0.4, 0.0), order=order, relation="add_or_remove")
        both = accounting.renyi(composed([(0.4, 0.0, 5)], gaussian), order=order, relation="add_or_remove")
        assert both == pytest.approx(5 * one + order / 18, rel=1e-12)
        with pytest.raises(AccountingError, match="no finite Renyi bound"):
            accounting.renyi(composed([(0.4, 1e-9, 5)], gaussian), order=order, relation="add_or_remove")


def test_order_and_nesting_carry_no_meaning() -> None:
    left = composed([(0.3, 1e-7, 4)], GaussianEvent(2.0), composed([(0.1, 0.0, 2)]))
    right = composed([(0.1, 0.0, 2), (0.3, 1e-7, 1)], composed([(0.3, 1e-7, 3)]), GaussianEvent(2.0))
    found = [accounting.epsilon(e, delta=1e-5, relation="add_or_remove").epsilon for e in (left, right)]
    assert found[0] == found[1]


def test_too_many_different_sums_of_losses_are_refused() -> None:
    many = composed([(0.01 * k, 1e-9, 40) for k in range(1, 5)])
    for call in (
        lambda: accounting.epsilon(many, delta=1e-4, relation="add_or_remove"),
        lambda: accounting.delta(many, epsilon=1.0, relation="add_or_remove"),
        lambda: accounting.epsilon(composed([], many, dp_sgd(0.1, 2.0, 5)), delta=1e-4, relation="add_or_remove"),
    ):
        with pytest.raises(AccountingError, match="too many mechanisms"):
            call()


def test_a_lie_of_either_side_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    certified.epsilon.cache_clear()
    event = composed([(0.31, 1e-6, 10)], GaussianEvent(2.0))
    whole = approximate.pessimistic_pld
    monkeypatch.setattr(approximate, "pessimistic_pld", lambda leaves, interval: whole(((leaves[0][0], 5),), interval))
    accountants._pessimistic_pld.cache_clear()
    for one in (event, composed([(0.31, 1e-6, 10)])):
        with pytest.raises(AccountingError, match="disagree"):
            accounting.epsilon(one, delta=1e-4, relation="add_or_remove")
    accountants._pessimistic_pld.cache_clear()
    certified.epsilon.cache_clear()


def test_a_joint_plan_is_calibrated() -> None:
    def event(sigma: float) -> Event:
        return composed([(0.2, 1e-6, 25), (0.0, 1e-8, 1)], dp_sgd(0.05, sigma, 500))

    sigma = accounting.calibrate(event, epsilon=6.0, delta=1e-4, relation="add_or_remove")
    certified = accounting.epsilon(event(sigma), delta=1e-4, relation="add_or_remove").epsilon
    assert 5.97 <= certified <= 6.0
    with pytest.raises(AccountingError, match="even the largest noise multiplier misses"):
        accounting.calibrate(event, epsilon=1.0, delta=1e-4, relation="add_or_remove")
