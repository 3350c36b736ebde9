"""Interquartile means and bootstrap intervals, by hand and by how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from experiments.lib.statistics import Estimate, bootstrap, compare, iqm, is_disjoint, ratio
from scipy import stats

from tacit.errors import DataError
from tacit.evaluation.report.tables import t_interval


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
    assert not is_disjoint(low, high)
    assert is_disjoint(low, Estimate(3.0, 2.1, 4.0))
    assert is_disjoint(Estimate(3.0, 2.1, 4.0), low)
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


def test_comparisons_are_scipys_tests_in_both_directions_with_holms_correction() -> None:
    rng = np.random.default_rng(0)
    pairs = {
        "up": (rng.normal(9.0, 1.0, 5), rng.normal(0.0, 3.0, 4)),
        "equal": (rng.normal(0.0, 1.0, 3), rng.normal(0.0, 2.0, 5)),
        "down": (rng.normal(0.0, 1.0, 5), rng.normal(4.0, 1.0, 5)),
    }
    found = compare(pairs)
    raw = {name: stats.ttest_ind(*pair, equal_var=False) for name, pair in pairs.items()}
    small, middle, large = sorted(raw, key=lambda name: raw[name].pvalue)
    assert found[small].p == pytest.approx(3 * raw[small].pvalue)
    assert found[middle].p == pytest.approx(max(3 * raw[small].pvalue, 2 * raw[middle].pvalue))
    assert found[large].p == pytest.approx(raw[large].pvalue)
    assert [found[name].verdict for name in pairs] == ["above", "not apart", "below"]
    for name, (one, other) in pairs.items():
        assert found[name].difference == pytest.approx(one.mean() - other.mean())
        assert (found[name].low, found[name].high) == pytest.approx(raw[name].confidence_interval(0.95))
    swapped = compare({name: (other, one) for name, (one, other) in pairs.items()})
    assert [swapped[name].verdict for name in pairs] == ["below", "not apart", "above"]
    assert [swapped[name].p for name in pairs] == pytest.approx([found[name].p for name in pairs])


def test_one_correction_holds_for_all_pairs_together() -> None:
    pair = ([1.0, 1.1, 1.2], [1.5, 1.6, 1.7])
    alone, many = compare({"a": pair}), compare({str(i): pair for i in range(20)})
    assert alone["a"].verdict == "below"
    assert {one.verdict for one in many.values()} == {"not apart"}
    assert many["3"].p == pytest.approx(20 * alone["a"].p)


def test_a_run_counts_once_however_many_tasks_share_its_data() -> None:
    one, other = np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])
    again = compare({"a": (np.tile(one[:, None], 10), np.tile(other[:, None], 10))})
    assert again == compare({"a": (one, other)})


def test_runs_without_spread_are_apart_or_equal_and_too_few_are_refused() -> None:
    found = compare({"up": ([2.0, 2.0], [1.0, 1.0]), "same": ([1.0, 1.0], [1.0, 1.0])})
    assert [(one.verdict, one.p) for one in found.values()] == [("above", 0.0), ("not apart", 1.0)]
    with pytest.raises(DataError, match="too few runs"):
        compare({"a": ([1.0], [1.0, 2.0])})
    with pytest.raises(DataError, match="error"):
        compare({"a": ([1.0, 2.0], [1.0, 2.0])}, error=1.0)


def test_interval_is_students() -> None:
    mean, low, high = t_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert high - mean == pytest.approx(4.302652729911275 * 1.0 / math.sqrt(3))
    assert mean - low == pytest.approx(high - mean)
    assert t_interval([5.0]) == (5.0, -math.inf, math.inf)
