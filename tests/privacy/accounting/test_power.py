"""The most that any test can catch: exact for Gaussians, close to the truth for samples, one figure everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import tradeoff
from tacit.privacy.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from tacit.privacy.certificate.fields import figures
from tacit.privacy.certificate.markdown import attack, catch_percent
from tacit.units import Relation

ALARMS = np.array([0.0, 0.05, 0.5, 1.0])
SAMPLED = SelfComposedEvent(PoissonSampledEvent(0.01, GaussianEvent(1.2)), 1000)


def least(event: Event, relation: Relation = "add_or_remove") -> float:
    """What the accountants say that the best test catches at 5 % false alarms, in per cent."""
    return 100 * float(1 - tradeoff.miss_rates(event, relation, delta=1e-5, false_alarms=np.array([0.05]))[0])


@pytest.mark.parametrize(("relation", "mu"), [("add_or_remove", 1.0), ("replace_one", 2.0)])
def test_gaussians_have_their_own_trade_off(relation: Relation, mu: float) -> None:
    event = ComposedEvent([SelfComposedEvent(GaussianEvent(2.0), 2), GaussianEvent(np.sqrt(2.0))])
    exact = [0.0, stats.norm.sf(stats.norm.isf(0.05) - mu), stats.norm.cdf(mu), 1.0]
    np.testing.assert_allclose(
        1 - tradeoff.miss_rates(event, relation, delta=1e-9, false_alarms=ALARMS), exact, atol=1e-12
    )


def test_a_gaussian_is_caught_by_the_best_test_that_often() -> None:
    rng = np.random.default_rng(0)
    absent, present = rng.normal(0, 1, 200_000), rng.normal(1, 1, 200_000)
    share = float((present > np.quantile(absent, 0.95)).mean())
    bound = catch_percent(figures(GaussianEvent(1.0), "add_or_remove", 1e-5))
    assert bound == 25.96  # Phi(Phi^-1(0.05) + 1) = 0.259511, rounded up
    assert 100 * share == pytest.approx(bound, abs=0.5)


def test_a_sample_is_caught_far_less_often_than_the_worst_mechanism_of_its_promise() -> None:
    epsilon = accounting.epsilon(SAMPLED, delta=1e-5, relation="add_or_remove").epsilon
    loose = 100 * (0.05 * np.exp(epsilon) + 1e-5)
    assert loose == pytest.approx(18.32, abs=0.01)
    stated = catch_percent(figures(SAMPLED, "add_or_remove", 1e-5))
    assert least(SAMPLED) <= stated < 0.7 * loose
    assert least(SAMPLED) == pytest.approx(9.31, abs=0.01)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_the_figure_is_never_below_what_the_best_test_catches(sigma: float) -> None:
    for event in (GaussianEvent(sigma), PoissonSampledEvent(0.1, GaussianEvent(sigma))):
        assert catch_percent(figures(event, "add_or_remove", 1e-5)) >= least(event) * (1 - 1e-9)


def test_nothing_promised_is_everything_caught() -> None:
    assert catch_percent(figures(NonPrivateEvent(), "add_or_remove", 0.01)) == 100.0
    np.testing.assert_array_equal(
        tradeoff.miss_rates(NonPrivateEvent(), "add_or_remove", delta=0.01, false_alarms=ALARMS), 0.0
    )


def test_the_figure_in_words() -> None:
    words = attack(figures(GaussianEvent(1.0), "add_or_remove", 1e-5))
    assert words == "any test with 5 % false alarms catches at most 25.96 % of true cases"
