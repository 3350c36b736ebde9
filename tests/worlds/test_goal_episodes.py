"""Whole episodes in a maze: their lengths, their ends, and who owns them."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import DataError
from tacit_worlds import maze
from tacit_worlds.maze import LONGEST, SHORTEST, goal_episodes

RING = maze.LAYOUTS["ring"]


def test_episodes_end_at_the_first_late_target() -> None:
    data = goal_episodes(RING, 60, seed=1)
    columns = data.columns
    lengths = np.bincount(np.concatenate([[0], np.cumsum(columns["truncations"][:-1])]))
    assert len(lengths) == 60 == data.counts()["units"]
    assert lengths.min() >= SHORTEST
    assert lengths.max() <= LONGEST
    assert 110 < lengths.mean() < 220
    assert not columns["terminations"].any()


def test_rows_are_the_mazes_own_and_follow_one_another() -> None:
    columns = goal_episodes(RING, 5, seed=2).columns
    within = ~columns["truncations"][:-1]
    following = columns["next_observations"][:-1][within]
    np.testing.assert_array_equal(following, columns["observations"][1:][within])
    np.testing.assert_allclose(columns["rewards"], maze.reward(RING, columns["observations"][:, :2]), atol=1e-6)
    assert not maze.in_wall(RING, columns["observations"][:, :2]).any()


def test_a_person_may_own_several_episodes_and_a_seed_repeats_them() -> None:
    one, again, other = (goal_episodes(RING, 7, episodes_per_person=3, seed=seed) for seed in (4, 4, 5))
    assert one.counts()["units"] == 3
    np.testing.assert_array_equal(one.columns["observations"], again.columns["observations"])
    assert len(one.columns["rewards"]) != len(other.columns["rewards"]) or not np.array_equal(
        one.columns["observations"], other.columns["observations"]
    )


@pytest.mark.parametrize("arguments", [{"episodes": 0}, {"episodes": 4, "episodes_per_person": 0}])
def test_no_episodes_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(DataError, match="no episodes"):
        goal_episodes(RING, **arguments, seed=0)
