"""Interquartile means and bootstrap intervals, by hand and by how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.errors import DataError
from tacit.evaluation.statistics import Estimate, apart, bootstrap, iqm, ratio, welch


def test_a_quarter_is_left_out_at_either_end() -> None:
    assert iqm([1_000.0, 1.0, 2.0, 3.0, -1_000.0]) == pytest.approx(2.0)
    assert iqm([[0.0, 9.0], [1.0, 2.0], [3.0, -9.0], [4.0, 4.0]]) == pytest.approx((1 + 2 + 3 + 4) / 4)
    assert iqm([0.0, 1.0, 5.0]) == pytest.approx(2.0)  # floor(3 / 4) = 0 are left out


def test_the_interval_holds_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for trial in range(150):
        found = bootstrap(rng.normal(10.0, 3.0, size=20), confidence=0.9, draws=300, seed=trial)
        held += found.low <= 10.0 <= found.high
    assert 120 <= held <= 148


def test_tasks_are_drawn_on_their_own_and_never_mixed() -> None:
    """Two tasks of very different level but no spread within one: no interval at all."""
    found = bootstrap([[0.0, 100.0]] * 5, draws=50)
    assert (found.value, found.low, found.high) == (50.0, 50.0, 50.0)
    assert bootstrap([0.0, 100.0] * 5, draws=50).high > 60


def test_a_single_run_has_no_width() -> None:
    assert bootstrap([7.0]) == Estimate(7.0, 7.0, 7.0)


def test_a_ratio_is_that_of_the_means_and_uncertain_on_both_sides() -> None:
    rng = np.random.default_rng(1)
    own, reference = rng.normal(80, 4, 10), rng.normal(100, 4, 10)
    found = ratio(own, reference)
    assert found.value == pytest.approx(iqm(own) / iqm(reference))
    assert found.low < found.value < found.high < 1
    sure = ratio(own, [100.0] * 10)
    assert found.high - found.low > sure.high - sure.low


def test_intervals_that_touch_are_not_apart() -> None:
    low, high = Estimate(1.0, 0.0, 2.0), Estimate(3.0, 2.0, 4.0)
    assert not apart(low, high)
    assert apart(low, Estimate(3.0, 2.1, 4.0))
    assert apart(Estimate(3.0, 2.1, 4.0), low)
    assert str(Estimate(84.93, 80.1, 88.04)) == "84.9 [80.1, 88]"


@pytest.mark.parametrize("scores", [[], [math.nan], [[[1.0]]]])
def test_scores_that_are_none_are_refused(scores: object) -> None:
    with pytest.raises(DataError, match="scores"):
        bootstrap(scores)  # type: ignore[arg-type]


def test_a_reference_at_zero_and_a_bad_confidence_are_refused() -> None:
    with pytest.raises(DataError, match="not above zero"):
        ratio([1.0, 2.0], [-1.0, 1.0])
    with pytest.raises(DataError, match="confidence"):
        bootstrap([1.0, 2.0], confidence=1.0)


def test_welch_is_scipys_one_sided_test_and_knows_runs_without_spread() -> None:
    rng = np.random.default_rng(0)
    for sizes in ((3, 5), (5, 3), (2, 9)):
        first, second = rng.normal(1.0, 1.0, sizes[0]), rng.normal(0.0, 3.0, sizes[1])
        expected = stats.ttest_ind(first, second, equal_var=False, alternative="greater").pvalue
        assert welch(first, second) == pytest.approx(expected, rel=1e-9)
        assert welch(first, second) + welch(second, first) == pytest.approx(1.0)
    assert (welch([2.0, 2.0], [1.0, 1.0]), welch([1.0, 1.0], [1.0, 1.0])) == (0.0, 1.0)
    with pytest.raises(DataError, match="too few runs"):
        welch([1.0], [1.0, 2.0])
