"""Scores: exact expectations by enumeration, norms, estimates, and intervals around a known value."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import beta
from small_mdp import (
    BEHAVIOUR,
    PROBLEM,
    REWARDS,
    SPEC,
    TARGET,
    Silent,
    enumerate_episodes,
    exact_value,
    open_vault,
    padded,
    simulate,
)

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.scores import ScoreVector

EPISODES, CHANCES = enumerate_episodes()
ROWS = padded(EPISODES)
LENGTH = PROBLEM.discounted_length


def vector_of(policy, *, clip=1.0, problem=PROBLEM, spec=SPEC, point=None):
    return ScoreVector(problem, policy, None, spec, clip, point)


def test_the_enumeration_is_a_distribution_and_its_mean_return_is_exact():
    assert CHANCES.sum() == pytest.approx(1)
    log = cut_episodes(ROWS, PROBLEM, Behaviour())
    assert CHANCES @ scores.returns(log, 0.9) == pytest.approx(exact_value(BEHAVIOUR), abs=1e-6)


@pytest.mark.parametrize("policy", [TARGET, BEHAVIOUR])
def test_expectations_of_the_two_scores_are_the_value_exactly(policy):
    """E X_low = J - c_low D and E X_high = c_high D - J with terminations and rewards of both signs."""
    low, high = scores.bound_scores(cut_episodes(ROWS, PROBLEM, policy), PROBLEM, SPEC)
    assert (low >= 0).all()
    assert (high >= 0).all()
    assert CHANCES @ low == pytest.approx(exact_value(policy) + 2 * LENGTH, abs=1e-5)
    assert CHANCES @ high == pytest.approx(LENGTH - exact_value(policy), abs=1e-5)


def test_truncated_episodes_can_only_lower_both_scores():
    log = cut_episodes(ROWS, PROBLEM, TARGET)
    low, high = scores.bound_scores(log, PROBLEM, SPEC)
    cut = {**ROWS, "mask": ROWS["mask"] & (np.arange(3) < 2)}
    cut_low, cut_high = scores.bound_scores(cut_episodes(cut, PROBLEM, TARGET), PROBLEM, SPEC)
    assert (cut_low <= low + 1e-12).all()
    assert (cut_high <= high + 1e-12).all()
    assert CHANCES @ cut_low < CHANCES @ low - 0.1


def test_weights_start_anew_with_each_episode_and_units_average_their_episodes():
    problem = Problem(gamma=0.9, horizon=3, episodes_per_unit=2)
    first, second = [(0, 0, 0, True)], [(1, 1, 0, False), (0, 1, 1, True)]
    rows = padded([first + second], Problem(gamma=0.9, horizon=6))
    rows["starts"][0, 1] = True
    log = cut_episodes(rows, problem, TARGET)
    np.testing.assert_allclose(scores.weights(log)[0, :3], [0.9 / 0.6, 0.8 / 0.5, 0.8 / 0.5 * 0.1 / 0.4], rtol=1e-6)
    assert log.ratio[0, 2] == pytest.approx(0.1 / 0.4)  # the records stay as they are
    assert scores.returns(log, 0.9)[0] == pytest.approx((1.0 + (-0.25 + 0.9 * -2.0)) / 2)
    apart = scores.bound_scores(cut_episodes(padded([first, second]), PROBLEM, TARGET), PROBLEM, SPEC)
    both = scores.bound_scores(log, problem, SPEC)
    np.testing.assert_allclose([one[0] for one in both], [one.mean() for one in apart], rtol=1e-6)


def test_weights_are_capped_at_every_step() -> None:
    ones = np.ones((2, 4))
    ratio = np.array([[2.0, 3.0, 0.5, 1.0], [1e14, 1e14, 1e-3, 2.0]])
    log = dataclasses.replace(
        cut_episodes(padded([[(0, 0, 0, True)]] * 2, Problem(gamma=0.9, horizon=4)), PROBLEM, TARGET),
        ratio=ratio,
        alive=ones > 0,
        starts=np.arange(4) + 0 * ones == 0,
    )
    expected = [[2.0, 6.0, 3.0, 3.0], [1e14, 1e15, 1e12, 2e12]]
    np.testing.assert_allclose(scores.weights(log), expected, rtol=1e-12)
    alone = dataclasses.replace(log, ratio=ratio[:1], alive=log.alive[:1], starts=log.starts[:1])
    np.testing.assert_array_equal(scores.weights(alone), expected[:1])


@pytest.mark.parametrize("clip", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("policy", [TARGET, Behaviour()])
def test_every_vector_has_norm_at_most_one_and_a_shorter_one_than_the_clip(policy, clip):
    vectors = vector_of(policy, clip=clip)(ROWS, None)
    assert vectors.shape == (len(EPISODES), 3 if isinstance(policy, Behaviour) else 5)
    assert np.linalg.norm(vectors, axis=1).max() <= 1 - 1e-4


def test_hostile_propensities_keep_the_norm_and_stay_finite():
    rows = {**ROWS, "propensities": np.full_like(ROWS["propensities"], 1e-30)}
    vectors = vector_of(TARGET)(rows, None)
    assert np.isfinite(vectors).all()
    assert np.linalg.norm(vectors, axis=1).max() <= 1


@pytest.mark.parametrize("return_range", [None, (-1.0, 0.5), (-3.0, 0.2)])
def test_weights_of_one_are_never_clipped_within_the_range(return_range):
    """Both scores of the behaviour itself fit into the pair, whatever the public range."""
    problem = Problem(gamma=0.9, horizon=3, return_range=return_range)
    vector = vector_of(BEHAVIOUR, problem=problem)
    rows = padded(EPISODES, problem)
    pair = np.stack(scores.bound_scores(cut_episodes(rows, problem, BEHAVIOUR), problem, SPEC), axis=1)
    inside = np.abs(scores.returns(cut_episodes(rows, problem, Behaviour()), 0.9) + 0.4) < 0.5
    u = pair / np.array(vector.offsets_and_scales()[1])
    assert inside.sum() > 5
    assert np.linalg.norm(u[inside], axis=1).max() <= 1 + 1e-9


def exact_scores(vector, units=10_000, sigma=1e-6):
    """Scores without noise, of units that follow the enumeration exactly."""
    noisy = units * CHANCES @ vector(ROWS, None)
    return scores.read(noisy, vector, sigma, units)


def test_without_clip_and_noise_the_estimates_are_exact():
    wide = exact_scores(vector_of(TARGET, clip=50.0))
    assert wide.value("pdis") == pytest.approx(exact_value(TARGET), abs=1e-4)
    assert wide.value("wpdis") == pytest.approx(exact_value(TARGET), abs=1e-4)
    assert exact_scores(vector_of(Behaviour())).value() == pytest.approx(exact_value(BEHAVIOUR), abs=1e-4)


def test_a_clip_lowers_pdis_and_leaves_wpdis_much_closer():
    truth = exact_value(TARGET)
    tight = exact_scores(vector_of(TARGET, clip=0.5))
    assert tight.value("pdis") < truth - 0.3
    assert abs(tight.value("wpdis") - truth) < 0.25 * abs(tight.value("pdis") - truth)
    interval = tight.interval(0.95)
    assert interval.low < truth < interval.high


def test_a_normal_interval_around_the_clipped_mean_does_not_cover():
    """The control: without noise and with 10,000 units, mean +- 1.96 standard errors misses; ours does not."""
    vector, units = vector_of(TARGET, clip=0.6), 10_000
    u = vector(ROWS, None)[:, 0] / (scores.FIT * math.sqrt(scores.SHARES[0])) * vector.offsets_and_scales()[1][0]
    mean = CHANCES @ u
    error = math.sqrt((CHANCES @ u**2 - mean**2) / units)
    assert vector.offsets_and_scales()[0][0] + mean + 1.96 * error < exact_value(TARGET)
    assert exact_scores(vector, units).interval(0.95).high > exact_value(TARGET)


def test_a_second_number_is_averaged_with_the_scores():
    vector = vector_of(TARGET, clip=50.0, point=StepCount())
    found = exact_scores(vector)
    lengths = np.array([len(steps) for steps in EPISODES])
    assert found.point == pytest.approx(CHANCES @ lengths / 10, abs=1e-5)
    assert found.value("pdis") == pytest.approx(exact_value(TARGET), abs=1e-4)
    assert np.linalg.norm(vector(ROWS, None), axis=1).max() <= 1


class StepCount:
    def __call__(self, log, state):
        return log.alive.sum(axis=1) / 10


@pytest.mark.parametrize("policy", [TARGET, Behaviour()])
@pytest.mark.parametrize(("units", "sigma"), [(300, 3.7307), (300, 30.75), (40, 3.7307)])
def test_intervals_cover(policy, units, sigma):
    truth = exact_value(TARGET if policy is TARGET else BEHAVIOUR)
    vector = vector_of(policy, clip=0.8)
    vectors = vector(ROWS, None)
    rng = np.random.default_rng(0)
    two_sided = lower = 0
    for _ in range(300):
        counts = rng.multinomial(units, CHANCES)
        noisy = counts @ vectors + rng.normal(size=vectors.shape[1]) * sigma
        found = scores.read(noisy, vector, sigma, units)
        interval, bound = found.interval(0.9), found.lower_bound(0.9)
        two_sided += interval.low <= truth <= interval.high
        lower += bound.low <= truth
        assert interval.kind == "two_sided"
        assert bound.kind == "lower"
    for hits in (two_sided, lower):
        assert hits == 300 or beta.ppf(0.995, hits + 1, 300 - hits) >= 0.9


def test_the_same_numbers_come_through_the_door(tmp_path):
    unit_count = 500
    vault = open_vault(tmp_path, units=unit_count, seed=4, noise=Silent())
    plan = ImportanceSampling(problem=PROBLEM, noise_multiplier=1.0).account(unit=vault.unit, delta=1e-4)
    run = vault.reserve(plan)
    vector = vector_of(TARGET)
    found = scores.release(vault, run, vector)
    columns = simulate(unit_count, 4)
    episodes = [
        list(zip(*(columns[n][columns["unit_ids"] == i] for n in NAMES), strict=True)) for i in range(unit_count)
    ]
    expected = vector(padded(episodes), None).sum(axis=0)
    again = scores.read(expected, vector, 1.0, unit_count)
    assert found.sums[0].count == pytest.approx(unit_count, abs=0.02)
    assert found.value("pdis") == pytest.approx(again.value("pdis"), abs=1e-3)
    assert found.value("wpdis") == pytest.approx(again.value("wpdis"), abs=1e-3)


NAMES = ("observations", "actions", "next_observations", "terminations")


def test_a_range_that_the_rewards_cannot_reach_is_refused():
    spec = PublicSpec(Discrete(2), Discrete(2), Box((0.0,), (1.0,)), "declared")
    vector = vector_of(TARGET, problem=Problem(gamma=0.9, horizon=3, return_range=(-5.0, -1.0)), spec=spec)
    with pytest.raises(PlanError, match="return_range"):
        vector.offsets_and_scales()


def test_the_rewards_of_the_example_have_both_signs():
    assert REWARDS.min() < 0 < REWARDS.max()
