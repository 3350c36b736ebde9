"""The trade-off curve of a release: a lower bound of the true one, and a close one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import tradeoff as trade_off
from tacit.privacy.accounting.events import Event, GaussianEvent, NonPrivateEvent, PoissonSampledEvent, event_to_json

ALARMS = np.concatenate([np.geomspace(1e-6, 0.1, 30), np.linspace(0.1, 1.0, 30)])
RATE, SIGMA, DELTA = 0.3, 1.0, 1e-6
GAUSSIAN = GaussianEvent(SIGMA)
STEP = PoissonSampledEvent(RATE, GAUSSIAN)


def missed(event: Event) -> np.ndarray:
    return trade_off.miss_rates(event, "add_or_remove", delta=DELTA, false_alarms=ALARMS)


def of_one_step(alarms: np.ndarray) -> np.ndarray:
    """What the best tests of one sampled step miss, the worse of both directions, at these false alarms."""
    x = np.linspace(-9, 12, 200_001)
    noise, mixed = norm.cdf(x / SIGMA), (1 - RATE) * norm.cdf(x / SIGMA) + RATE * norm.cdf((x - 1) / SIGMA)
    removed = np.interp(alarms, (1 - noise)[::-1], mixed[::-1])  # called true above x; the unit is in the mixture
    added = np.interp(alarms, mixed, 1 - noise)  # called true below x; the unit is in the mixture of the other one
    return np.minimum(removed, added)


def test_one_gaussian_is_exactly_mu_gdp() -> None:
    mu = accounting.mu_gdp(GAUSSIAN, "add_or_remove")
    np.testing.assert_allclose(missed(GAUSSIAN), norm.cdf(norm.isf(ALARMS) - mu), atol=1e-9)


def test_a_sampled_step_misses_no_less_than_stated_and_little_more() -> None:
    stated, true = missed(STEP), of_one_step(ALARMS)
    assert (stated <= true + 1e-6).all()
    assert (true - stated).max() < 0.01


def test_the_curve_of_a_step_that_claims_more_noise_is_above_the_true_one() -> None:
    claimed = missed(PoissonSampledEvent(RATE, GaussianEvent(1.1 * SIGMA)))
    assert (claimed > of_one_step(ALARMS) + 0.005).any()


@pytest.mark.parametrize("private", [True, False])
def test_rows_never_rise_and_end_at_nothing(private: bool) -> None:
    told = {"private": private, "event": event_to_json(STEP), "delta": DELTA, "unit": {"relation": "add_or_remove"}}
    found = [row["missed_at_least"] for row in trade_off.rows(told)]
    assert found == sorted(found, reverse=True)
    assert (0.999 < found[0] < 1) if private else found[0] == 0.0
    assert found[-1] == 0.0


def test_nothing_is_missed_without_noise() -> None:
    assert not missed(NonPrivateEvent()).any()
