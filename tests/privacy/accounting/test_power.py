"""The most that any test can catch: exact for Gaussians, the bound of (epsilon, delta) for everything else."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting.dp_event import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from scipy import stats

from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import tradeoff
from tacit.units import Relation

ALARMS = np.array([0.0, 0.05, 0.5, 1.0])
SAMPLED = PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0))


@pytest.mark.parametrize(("relation", "mu"), [("add_or_remove", 1.0), ("replace_one", 2.0)])
def test_gaussians_have_their_own_trade_off(relation: Relation, mu: float) -> None:
    event = ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(2.0), 2), GaussianDpEvent(np.sqrt(2.0))])
    exact = [0.0, stats.norm.sf(stats.norm.isf(0.05) - mu), stats.norm.cdf(mu), 1.0]
    np.testing.assert_allclose(tradeoff.power(event, relation, 1e-9, 1e-9, ALARMS), exact)


def test_a_gaussian_is_caught_by_the_best_test_that_often() -> None:
    rng = np.random.default_rng(0)
    absent, present = rng.normal(0, 1, 200_000), rng.normal(1, 1, 200_000)
    caught = float((present > np.quantile(absent, 0.95)).mean())
    bound = tradeoff.caught(GaussianDpEvent(1.0), "add_or_remove", 4.377, 1e-5)
    assert bound == 25.96  # Phi(Phi^-1(0.05) + 1) = 0.259511, rounded up
    assert 100 * caught == pytest.approx(bound, abs=0.5)


def test_any_other_event_has_the_bound_of_its_promise() -> None:
    found = tradeoff.power(SAMPLED, "add_or_remove", float(np.log(3)), 0.01, ALARMS)
    np.testing.assert_allclose(found, [0.01, 0.16, 1 - 0.49 / 3, 1.0])
    np.testing.assert_allclose(tradeoff.power(SAMPLED, "add_or_remove", 0.0, 0.0, ALARMS), ALARMS)


@pytest.mark.parametrize("event", [SAMPLED, NonPrivateDpEvent()])
def test_nothing_promised_is_everything_caught(event: DpEvent) -> None:
    np.testing.assert_array_equal(tradeoff.power(event, "add_or_remove", float("inf"), 0.01, ALARMS), 1.0)
    assert tradeoff.caught(event, "add_or_remove", float("inf"), 0.01) == 100.0


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_the_gaussians_figure_is_never_above_the_bound_of_its_promise(sigma: float) -> None:
    gaussian = GaussianDpEvent(sigma)
    epsilon = accounting.epsilon(gaussian, delta=1e-5, relation="add_or_remove").epsilon
    bound = tradeoff.caught(SAMPLED, "add_or_remove", epsilon, 1e-5)
    assert tradeoff.caught(gaussian, "add_or_remove", epsilon, 1e-5) <= bound


def test_the_figure_in_words() -> None:
    words = tradeoff.words(GaussianDpEvent(1.0), "add_or_remove", 4.377, 1e-5)
    assert words == "any test with 5 % false alarms catches at most 25.96 % of true cases"
