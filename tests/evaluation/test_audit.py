"""The arithmetic of audits against closed forms, and its coverage on mechanisms of known privacy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.errors import DataError
from tacit.evaluation.lower_bounds import (
    Counts,
    audit,
    epsilon_lower_bound,
    highest_rate,
    lowest_rate,
    mu_lower_bound,
    rate,
)


def test_clopper_pearson_where_it_has_a_closed_form() -> None:
    assert highest_rate(0, 20, 0.05) == pytest.approx(1 - 0.05 ** (1 / 20))
    assert lowest_rate(20, 20, 0.05) == pytest.approx(0.05 ** (1 / 20))
    assert highest_rate(20, 20, 0.05) == 1.0
    assert lowest_rate(0, 20, 0.05) == 0.0


def test_clopper_pearson_solves_its_own_equation() -> None:
    rate = highest_rate(7, 50, 0.025)
    assert stats.binom.cdf(7, 50, rate) == pytest.approx(0.025)
    rate = lowest_rate(7, 50, 0.025)
    assert stats.binom.sf(6, 50, rate) == pytest.approx(0.025)


def test_epsilon_of_a_test_that_never_errs() -> None:
    n, error = 1000, 0.025
    expected = math.log((error ** (1 / n) - 1e-5) / (1 - error ** (1 / n)))
    assert epsilon_lower_bound(Counts(0, n, n, n), delta=1e-5, confidence=0.95) == pytest.approx(expected)


def test_epsilon_converges_to_randomised_response() -> None:
    """Alarm rates 3/4 and 1/4 are those of ln 3 at delta 0."""
    n = 10**8
    found = epsilon_lower_bound(Counts(n // 4, n, 3 * n // 4, n), delta=0.0, confidence=0.95)
    assert math.log(3) - 1e-3 < found < math.log(3)


def test_mu_converges_to_the_shift_of_two_gaussians() -> None:
    n = 10**8
    false, hit = stats.norm.sf(0.5), stats.norm.sf(-0.5)
    counts = Counts(round(n * false), n, round(n * hit), n)
    assert 1 - 1e-3 < mu_lower_bound(counts, confidence=0.95) < 1


def test_a_test_that_knows_nothing_bounds_nothing() -> None:
    assert epsilon_lower_bound(Counts(50, 100, 50, 100), delta=1e-5, confidence=0.95) == 0.0
    assert epsilon_lower_bound(Counts(0, 100, 1, 100), delta=0.5, confidence=0.95) == 0.0
    assert mu_lower_bound(Counts(50, 100, 50, 100), confidence=0.95) == 0.0
    assert mu_lower_bound(Counts(100, 100, 0, 100), confidence=0.95) == 0.0
    found = audit([0.0, 1.0] * 10, [0.0, 1.0] * 10, delta=1e-5)
    assert (found.epsilon, found.mu, found.gaussian_epsilon) == (0.0, 0.0, 0.0)


def test_bounds_grow_with_confidence_given_up() -> None:
    counts = Counts(20, 1000, 300, 1000)
    low, high = (epsilon_lower_bound(counts, delta=1e-5, confidence=c) for c in (0.99, 0.9))
    assert low < high


def test_bounds_on_a_gaussian_are_below_the_truth_as_often_as_promised() -> None:
    rng = np.random.default_rng(0)
    mu, delta, truth = 1.0, 0.05, 1.5689
    too_high = np.zeros(2)
    for _ in range(200):
        found = audit(rng.normal(size=400), mu + rng.normal(size=400), delta=delta, confidence=0.8)
        too_high += (found.epsilon > truth, found.mu > mu)
    assert (too_high <= 60).all(), "a bound of 80 % fails more often than 30 % of the time"


def test_both_directions_of_the_test_are_tried() -> None:
    """Without the canary a rare output occurs that never occurs with it: only its absence tells anything."""
    without, having = np.zeros(4000), np.ones(4000)
    without[::8], without[1::8] = -1, -1
    without[without == 0] = 1
    found = audit(without, having, delta=1e-5, confidence=0.95)
    assert found.epsilon > 3
    assert audit(-having, -without, delta=1e-5, confidence=0.95).epsilon == pytest.approx(found.epsilon)


def test_the_gaussian_figure_is_the_closed_form_of_mu() -> None:
    """4.3772 at mu = 1 and delta = 1e-5 (Balle & Wang, arXiv:1805.06530)."""
    rng = np.random.default_rng(1)
    found = audit(rng.normal(size=400_000), 1.02 + rng.normal(size=400_000), delta=1e-5)
    assert found.mu == pytest.approx(1.0, abs=0.02)
    assert found.gaussian_epsilon == pytest.approx(4.3772, abs=0.1)


@pytest.mark.parametrize("counts", [(1, 0, 0, 1), (2, 1, 0, 1), (0, 1, -1, 1), (0, 1, 2, 1)])
def test_impossible_counts_are_refused(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(DataError):
        Counts(*counts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"without": [1.0]}, "too few"),
        ({"having": [1.0, math.nan]}, "finite"),
        ({"delta": 0.0}, "delta"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_invalid_audits_are_refused(change: dict[str, object], message: str) -> None:
    arguments = {"without": [0.0, 1.0], "having": [0.0, 1.0], "delta": 1e-5, "confidence": 0.9} | change
    with pytest.raises(DataError, match=message):
        audit(arguments.pop("without"), arguments.pop("having"), **arguments)  # type: ignore[arg-type]


def test_a_rate_has_its_exact_interval() -> None:
    found = rate(7, 50, confidence=0.9)
    assert found.value == 0.14
    assert stats.binom.sf(6, 50, found.low) == pytest.approx(0.05)
    assert stats.binom.cdf(7, 50, found.high) == pytest.approx(0.05)
    assert str(rate(1, 10)) == "10.0% [0.3%, 44.5%]"
    for events, trials in ((0, 0), (2, 1), (-1, 1)):
        with pytest.raises(DataError, match="rate"):
            rate(events, trials)
