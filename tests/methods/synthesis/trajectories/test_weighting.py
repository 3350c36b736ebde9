"""Which trajectories are taken: so many, none twice, with the means that were asked for if they can."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.methods.synthesis.table_matching import resample
from tacit.methods.synthesis.trajectories.algorithm import candidate_count
from tacit.methods.synthesis.trajectories.stitching import (
    Stitched,
    inclusion_probabilities,
    pick_trajectories,
    trajectory_shares,
)

ONE = np.ones(2_000)
OWN = np.random.default_rng(0).dirichlet(np.ones(6), size=2_000).astype(np.float32)
GOAL = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])


def test_those_taken_have_the_goal_as_their_mean() -> None:
    taken = inclusion_probabilities(OWN, GOAL, 1e-4, ONE, 500)
    np.testing.assert_allclose(taken.sum(), 500)
    np.testing.assert_allclose(taken @ OWN / 500, GOAL, atol=2e-3)
    chosen = resample(taken, 500, np.random.default_rng(0))
    np.testing.assert_allclose(OWN[chosen].mean(axis=0), GOAL, atol=0.02)


def test_nothing_is_taken_differently_where_the_means_are_right_already() -> None:
    taken = inclusion_probabilities(OWN, OWN.mean(axis=0).astype(np.float64), 1e-4, ONE, 500)
    np.testing.assert_allclose(taken, 0.25, atol=1e-3)


def test_of_people_with_many_trajectories_long_ones_count_for_more() -> None:
    lengths = np.random.default_rng(1).integers(1, 30, 2_000) * 1.0
    rows = inclusion_probabilities(OWN, GOAL, 1e-4, lengths, 500) * lengths
    np.testing.assert_allclose(rows @ OWN / rows.sum(), GOAL, atol=2e-3)
    np.testing.assert_array_equal(
        inclusion_probabilities(OWN, GOAL, 1e-4, ONE, 500), inclusion_probabilities(OWN, GOAL, 1e-4, 7 * ONE, 500)
    )


def test_a_trajectory_counts_by_its_share_of_its_owners_rows() -> None:
    assert trajectory_shares(np.array([1, 3]), 1).tolist() == [1.0, 1.0]
    np.testing.assert_allclose(trajectory_shares(np.array([1, 3]), 3), [1 / 5, 3 / 7])
    people = np.random.default_rng(2).integers(1, 30, size=(100_000, 3))
    shares = people[:, 0] / people.sum(axis=1)
    found = trajectory_shares(people[:, 0], 3)
    for length in (2, 15, 29):
        there = people[:, 0] == length
        assert found[there].mean() == pytest.approx(shares[there].mean(), rel=0.2)


def test_a_goal_that_few_trajectories_reach_is_approached_and_none_is_taken_twice() -> None:
    goal = np.array([0.9, 0.02, 0.02, 0.02, 0.02, 0.02])
    taken = inclusion_probabilities(OWN, goal, 1e-4, ONE, 500)
    np.testing.assert_allclose(taken.sum(), 500)
    assert taken.max() <= 1.0
    chosen = resample(taken, 500, np.random.default_rng(0))
    assert len(np.unique(chosen)) == 500
    best = np.sort(OWN[:, 0])[-500:].mean()
    assert 0.9 * best < OWN[chosen, 0].mean() <= best


def test_a_loose_goal_changes_little() -> None:
    near, far = (
        np.abs(inclusion_probabilities(OWN, GOAL, deviation, ONE, 500) - 0.25).mean() for deviation in (10.0, 1e-2)
    )
    assert near < 0.01 * far


@pytest.mark.parametrize(("count", "expected"), [(1, 6), (1_500, 9_000), (1_800, 10_000), (10_000, 20_000)])
def test_several_candidates_are_drawn_for_each_that_is_taken(count: int, expected: int) -> None:
    assert candidate_count(count) == expected


def test_trajectories_are_picked_with_their_rows_and_seams() -> None:
    stitched = Stitched({"rewards": np.arange(6.0)}, np.array([0, 3, 4, 6]), np.array([2, 5]))
    found = pick_trajectories(stitched, np.array([2, 0, 2]))
    assert found.columns["rewards"].tolist() == [4, 5, 0, 1, 2, 4, 5]
    assert found.episodes.tolist() == [0, 2, 5, 7]
    assert found.stitches.tolist() == [1, 4, 6]
