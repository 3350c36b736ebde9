"""Mechanisms with an (epsilon, delta) proof of their own: closed forms, refusals, and what may be said about mu."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import table as accounting_table
from tacit.privacy.accounting.events import ComposedEvent, EpsilonDeltaEvent, SelfComposedEvent
from tacit.units import Relation

RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")


def response(epsilon: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """The two distributions of the dominating mechanism: it reveals the bit, or answers by randomised response."""
    rest = (1 - delta) * np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))
    return np.array([delta, *rest, 0.0]), np.array([0.0, *rest[::-1], delta])


@given(st.floats(0.01, 20), st.floats(0, 0.5), st.floats(0, 25))
def test_delta_is_the_hockey_stick_of_the_dominating_mechanism(epsilon: float, delta: float, at: float) -> None:
    p, q = response(epsilon, delta)
    found = accounting.delta(EpsilonDeltaEvent(epsilon, delta), epsilon=at, relation="replace_one")
    assert found == pytest.approx(np.maximum(p - math.exp(at) * q, 0).sum(), rel=1e-9, abs=1e-12)
    assert found >= delta


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 0.0), (3.0, 1e-3), (30.0, 1e-9)])
def test_epsilon_by_closed_form_and_by_privacy_loss_distribution(
    relation: Relation, epsilon: float, delta: float
) -> None:
    event = EpsilonDeltaEvent(epsilon, delta)
    # 2^-13 of epsilon: then epsilon itself is on the grid.
    distribution = from_privacy_parameters(DifferentialPrivacyParameters(epsilon, delta), epsilon / 2**13)
    for at in (max(delta, 1e-12), 2 * delta + 1e-6, 0.01, 0.4):
        bound = accounting.epsilon(event, delta=at, relation=relation)
        assert bound.epsilon == pytest.approx(max(0.0, distribution.get_epsilon_for_delta(at)), abs=1e-6)
        assert bound.epsilon == pytest.approx(bound.check_epsilon, abs=5e-4)
        assert bound.epsilon <= epsilon
        if bound.epsilon > 0:
            again = accounting.delta(event, epsilon=bound.epsilon, relation=relation)
            assert again == pytest.approx(at, rel=1e-5, abs=1e-12)
    assert {bound.accountant, bound.check_accountant} == {accounting_table.OWN_PROOF, accounting_table.RESPONSE}


def test_at_its_own_delta_epsilon_is_exactly_its_own_and_below_it_nothing_is_promised() -> None:
    event = EpsilonDeltaEvent(0.7, 1e-6)
    assert accounting.epsilon(event, delta=1e-6, relation="replace_one").epsilon == 0.7
    assert accounting.delta(event, epsilon=0.7, relation="replace_one") == 1e-6
    assert accounting.delta(event, epsilon=9.0, relation="replace_one") == 1e-6
    with pytest.raises(AccountingError, match="below that of the mechanism's own proof"):
        accounting.epsilon(event, delta=0.99e-6, relation="replace_one")
    assert [d for d, _ in accounting.profile(event, "replace_one")] == [1e-3, 1e-4, 1e-5, 1e-6]
    pure = accounting.profile(EpsilonDeltaEvent(0.7, 0.0), "replace_one")
    assert [d for d, _ in pure] == list(accounting.PROFILE_DELTAS)
    assert all(0.69 < epsilon < 0.7 for _, epsilon in pure)


def test_alone_in_a_composition_of_one_it_is_itself() -> None:
    event = SelfComposedEvent(ComposedEvent([EpsilonDeltaEvent(1.0, 1e-7)]), 1)
    assert accounting.epsilon(event, delta=1e-7, relation="add_or_remove").epsilon == 1.0


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(AccountingError, match="no certified bound exists"):
        accounting.epsilon(EpsilonDeltaEvent(1.0, 0.0), delta=1e-6, relation="edit_distance")  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_pure_privacy_is_gaussian_privacy_with_the_mu_of_its_corner(epsilon: float) -> None:
    """mu = 2 Phi^-1(e / (1 + e)) for epsilon = 1 and so on; no smaller mu bounds the curve at epsilon's corner."""
    mu = accounting.mu_gdp(EpsilonDeltaEvent(epsilon, 0.0), "replace_one")
    assert mu == pytest.approx(2 * norm.ppf(math.exp(epsilon) / (1 + math.exp(epsilon))), rel=1e-9)
    corner, alarms = 1 / (1 + math.exp(epsilon)), np.linspace(1e-6, 1 - 1e-6, 1_001)
    misses = np.maximum(np.maximum(1 - math.exp(epsilon) * alarms, math.exp(-epsilon) * (1 - alarms)), 0)
    assert (norm.cdf(norm.ppf(1 - alarms) - mu) <= misses + 1e-12).all()
    assert norm.cdf(norm.ppf(1 - corner) - 0.999 * mu) > corner


def test_with_a_delta_mu_holds_over_the_range_and_only_there() -> None:
    event = EpsilonDeltaEvent(1.0, 1e-4)
    assert accounting.mu_gdp(event, "replace_one") == math.inf
    for at in (1e-4, 1e-2, 0.6):
        mu = accounting.mu_gdp(event, "replace_one", delta=at)
        end = accounting.epsilon(event, delta=at, relation="replace_one").epsilon
        for epsilon in np.linspace(0, end, 50):
            curve = float(accountants.gaussian_delta(epsilon, mu))
            assert accounting.delta(event, epsilon=epsilon, relation="replace_one") <= curve * (1 + 1e-9)
    assert (
        mu < accounting.mu_gdp(event, "replace_one", delta=1e-2) < accounting.mu_gdp(event, "replace_one", delta=1e-4)
    )
