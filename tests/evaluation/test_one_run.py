"""One-run audits against closed forms, and their coverage on mechanisms of known privacy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from tacit.data.spec import Box, PublicSpec
from tacit.errors import DataError
from tacit.evaluation.canaries import leap_canaries
from tacit.evaluation.one_run import MAX_EPSILON, audit, lower_bound, max_detectable_epsilon, p_value, plant


def test_without_delta_the_p_value_is_a_binomial_tail() -> None:
    assert p_value(20, 17, 50, epsilon=0.0, delta=0.0) == pytest.approx(stats.binom.sf(16, 20, 0.5))
    assert p_value(20, 17, 50, epsilon=1.0, delta=0.0) == pytest.approx(stats.binom.sf(16, 20, special.expit(1.0)))
    assert p_value(20, 0, 50, epsilon=0.0, delta=0.0) == 1.0


def test_delta_adds_the_largest_mean_step_of_the_tail() -> None:
    """By hand for two guesses, both right, at epsilon 0: f(2), f(1), f(0) = 1/4, 3/4, 1."""
    expected = 0.25 + 2 * 10 * 0.01 * max((0.75 - 0.25) / 1, (1 - 0.25) / 2)
    assert p_value(2, 2, 10, epsilon=0.0, delta=0.01) == pytest.approx(expected)
    assert p_value(2, 2, 10, epsilon=0.0, delta=0.5) == 1.0


def test_the_bound_is_where_the_p_value_meets_the_error() -> None:
    found = lower_bound(100, 90, 400, delta=1e-5, error=0.05)
    assert p_value(100, 90, 400, epsilon=found, delta=1e-5) == pytest.approx(0.05, rel=1e-6)
    assert lower_bound(100, 55, 400, delta=1e-5, error=0.05) == 0.0
    assert lower_bound(100, 90, 400, delta=1e-3, error=0.05) < found


def test_all_right_guesses_give_what_can_be_found_at_most() -> None:
    sure = audit(np.arange(100.0), np.arange(100) >= 50, delta=0.0)
    assert max_detectable_epsilon(100) == pytest.approx(sure.epsilon, abs=1e-6)
    assert max_detectable_epsilon(100) == pytest.approx(math.log(100 / -math.log(0.05 / 8)), abs=0.03)
    assert max_detectable_epsilon(1) == pytest.approx(0.0)
    assert lower_bound(10**15, 10**15, 10**15, delta=0.0, error=0.05) == MAX_EPSILON


def responses(epsilon: float, canaries: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Randomised response of every canary's bit, which is exactly epsilon-DP, with a little jitter against ties."""
    present = rng.random(canaries) < 0.5
    told = np.where(rng.random(canaries) < special.expit(epsilon), present, ~present)
    return told + 1e-3 * rng.random(canaries), present


def test_randomised_response_is_found_and_never_exceeded_more_often_than_promised() -> None:
    rng, truth, above, best = np.random.default_rng(0), 1.0, 0, 0.0
    for _ in range(60):
        found = audit(*responses(truth, 1_000, rng), delta=0.0, confidence=0.8)
        above += found.epsilon > truth
        best = max(best, found.epsilon)
    assert above <= 20, "a bound of 80 % fails more often than a third of the time"
    assert best > 0.7


def test_a_confident_few_are_worth_more_than_many_coins() -> None:
    """A tenth of the canaries is told for certain, the rest not at all: few guesses are chosen, and all are right."""
    rng = np.random.default_rng(1)
    present = rng.random(2_000) < 0.5
    scores = rng.normal(size=2_000) + np.where(np.arange(2_000) % 5 == 0, np.where(present, 10.0, -10.0), 0.0)
    found = audit(scores, present, delta=1e-6)
    assert (found.kind, found.guesses) == ("both", found.correct) == ("both", 250)
    assert 3.5 < found.epsilon < max_detectable_epsilon(250)
    assert (found.canaries, found.delta, found.confidence) == (2_000, 1e-6, 0.95)


def test_a_trace_that_is_seen_or_not_is_told_by_guesses_of_in_alone() -> None:
    """A quarter of those that are in leave a trace that is always seen; of all others nothing is known."""
    rng = np.random.default_rng(4)
    present = rng.random(400) < 0.5
    scores = rng.random(400) + 10.0 * (present & (np.arange(400) % 2 == 0))
    found = audit(scores, present, delta=1e-6)
    assert (found.kind, found.correct) == ("in", found.guesses)
    halved = lower_bound(2 * found.guesses, int(1.5 * found.guesses), 400, delta=1e-6, error=0.05 / 8)
    assert found.epsilon > 2 * halved > 0


def test_at_an_error_of_a_fifth_no_more_than_a_fifth_of_blind_scores_find_something() -> None:
    """And no more than a fifth find above 1 under a response of 1 whose answer "in" alone says much."""
    rng, found, above = np.random.default_rng(5), 0, 0
    for _ in range(200):
        present = rng.random(60) < 0.5
        found += audit(rng.random(60), present, delta=0.0, confidence=0.8).epsilon > 0
        told = rng.random(60) < np.where(present, 0.5, 0.5 * math.exp(-1.0))
        above += audit(told + rng.random(60), present, delta=0.0, confidence=0.8).epsilon > 1.0
    assert max(found, above) <= stats.binom.ppf(0.999, 200, 0.2)
    assert found > 0


def test_scores_that_know_nothing_find_nothing() -> None:
    rng = np.random.default_rng(2)
    assert audit(rng.normal(size=500), rng.random(500) < 0.5, delta=1e-6, confidence=0.99).epsilon == 0.0


def test_planting_puts_a_fair_half_behind_the_rows_in_their_own_types() -> None:
    rows = {"rewards": np.zeros(5, np.float32), "observations": np.zeros((5, 2), np.float32)}
    canaries = {"rewards": np.arange(1.0, 401.0), "observations": np.ones((400, 2)), "truncations": np.zeros(400)}
    planted, present = plant(rows, canaries, seed=3)
    assert 150 < present.sum() < 250
    assert list(planted) == ["rewards", "observations"]
    assert planted["rewards"].dtype == np.float32
    np.testing.assert_array_equal(planted["rewards"][5:], canaries["rewards"][present])
    assert not np.array_equal(present, plant(rows, canaries, seed=4)[1])


def test_canaries_of_the_same_seed_say_nothing_of_the_coins() -> None:
    one = Box((0.0,), (1.0,))
    spec = PublicSpec(one, one, one, source="physics", difference=(0.1,))
    canaries = leap_canaries(spec, 400, seed=7)
    rows = {name: column[:0] for name, column in canaries.items()}
    present = plant(rows, canaries, seed=7)[1]
    assert not np.array_equal(present, np.random.default_rng(7).random(400) < 0.5)
    for name in ("observations", "actions", "rewards"):
        values = np.asarray(canaries[name], np.float64).reshape(400, -1)[:, 0]
        for shift in range(5):
            assert abs(np.corrcoef(np.roll(values, shift), present)[0, 1]) < 0.25


def test_bad_arguments_are_named() -> None:
    with pytest.raises(DataError, match="do not fit"):
        audit(np.zeros(10), np.zeros(9, bool), delta=0.0)
    with pytest.raises(DataError, match="do not fit"):
        audit(np.full(10, np.nan), np.zeros(10, bool), delta=0.0)
    with pytest.raises(DataError, match="out of range"):
        audit(np.zeros(10), np.zeros(10, bool), delta=1.0)
    with pytest.raises(DataError, match="counts"):
        p_value(3, 4, 5, epsilon=0.0, delta=0.0)
    with pytest.raises(DataError, match="no guess"):
        max_detectable_epsilon(0)
