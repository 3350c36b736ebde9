"""Weights of trajectories: the means that were asked for, unless that would leave only a few of them."""

from __future__ import annotations

import numpy as np

from tacit.methods.synthesis.histograms import effective
from tacit.methods.synthesis.trajectories.stitching import Stitched
from tacit.methods.synthesis.trajectories.weighting import FEWEST, picked, spread, tilted

ONE = np.ones(2_000)
OWN = np.random.default_rng(0).dirichlet(np.ones(6), size=2_000).astype(np.float32)


def test_weighted_means_are_the_goal() -> None:
    goal = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    weights = tilted(OWN, goal, 1e-4, ONE)
    np.testing.assert_allclose(weights.sum(), 1.0)
    np.testing.assert_allclose(weights @ OWN, goal, atol=2e-3)
    assert np.array_equal(weights, spread(OWN, goal, 1e-4, ONE))


def test_of_people_with_many_trajectories_long_ones_count_for_more() -> None:
    goal, lengths = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1]), np.random.default_rng(1).integers(1, 30, 2_000) * 1.0
    weights = tilted(OWN, goal, 1e-4, lengths)
    rows = weights * lengths
    np.testing.assert_allclose(rows @ OWN / rows.sum(), goal, atol=2e-3)
    assert np.array_equal(tilted(OWN, goal, 1e-4, ONE), tilted(OWN, goal, 1e-4, 7 * ONE))


def test_a_goal_that_few_trajectories_reach_is_approached_only() -> None:
    goal = np.array([0.9, 0.02, 0.02, 0.02, 0.02, 0.02])
    assert effective(tilted(OWN, goal, 1e-4, ONE)) < FEWEST * len(OWN)
    weights = spread(OWN, goal, 1e-4, ONE)
    assert effective(weights) >= FEWEST * len(OWN)
    assert (weights @ OWN)[0] > 1.5 * OWN[:, 0].mean()


def test_trajectories_are_picked_with_their_rows_and_seams() -> None:
    stitched = Stitched({"rewards": np.arange(6.0)}, np.array([0, 3, 4, 6]), np.array([2, 5]))
    found = picked(stitched, np.array([2, 0, 2]))
    assert found.columns["rewards"].tolist() == [4, 5, 0, 1, 2, 4, 5]
    assert found.episodes.tolist() == [0, 2, 5, 7]
    assert found.seams.tolist() == [1, 4, 6]
