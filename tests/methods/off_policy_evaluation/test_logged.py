"""Rows as episodes: cuts, successors and ratios, by hand."""

import numpy as np
import pytest

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.logged import cut_episodes, horizon_values
from tacit.methods.off_policy_evaluation.policies import Behaviour, Tabular
from tacit.methods.off_policy_evaluation.problem import Problem

TARGET = Tabular(np.array([[0.9, 0.1], [1.0, 0.0]]))


def rows():
    """One unit with episodes of 3 (terminated) and 2 steps and a row of padding; another with one of 6, cut at 4."""
    return {
        "observations": np.array([[0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0]]),
        "actions": np.array([[0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0]]),
        "rewards": np.arange(12, dtype=np.float32).reshape(2, 6) + 1,
        "next_observations": np.zeros((2, 6), np.int64),
        "terminations": np.array([[0, 0, 1, 0, 0, 0], [0] * 6], bool),
        "truncations": np.zeros((2, 6), bool),
        "propensities": np.full((2, 6), 0.5, np.float32),
        "mask": np.array([[1, 1, 1, 1, 1, 0], [1] * 6], bool),
        "starts": np.array([[1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0]], bool),
    }


PROBLEM = Problem(gamma=0.9, horizon=4, episodes_per_unit=2)


def test_episodes_steps_and_successors():
    log = cut_episodes(rows(), PROBLEM, Behaviour())
    assert log.alive.astype(int).tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0]]
    assert log.step.tolist() == [[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5]]
    assert log.follows.astype(int).tolist() == [[1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0]]
    assert log.episodes.tolist() == [2, 1]
    assert log.lengths.tolist() == [[3, 3, 3, 2, 2, 2], [4] * 6]
    assert log.rewards.tolist() == [[1, 2, 3, 4, 5, 0], [7, 8, 9, 10, 0, 0]]
    assert (log.ratio == 1).all()


def test_later_episodes_are_cut():
    log = cut_episodes(rows(), Problem(gamma=0.9, horizon=6, episodes_per_unit=1), Behaviour())
    assert log.alive.astype(int).tolist() == [[1, 1, 1, 0, 0, 0], [1] * 6]
    assert log.episodes.tolist() == [1, 1]


def test_ratios_from_propensities_and_from_a_known_behaviour():
    log = cut_episodes(rows(), PROBLEM, TARGET)
    assert log.ratio[0] == pytest.approx([1.8, 2.0, 0.2, 0.2, 0.0, 1.0])
    known = Tabular(np.array([[0.3, 0.7], [0.5, 0.5]]))
    assert cut_episodes(rows(), PROBLEM, TARGET, known).ratio[0] == pytest.approx([3.0, 2.0, 1 / 7, 1 / 7, 0.0, 1.0])


def test_ratios_stay_finite_where_the_behaviour_is_impossible():
    impossible = Tabular(np.array([[0.0, 1.0], [0.0, 1.0]]))
    log = cut_episodes(rows(), PROBLEM, TARGET, impossible)
    assert log.ratio[0, 0] == pytest.approx(np.exp(50.0))
    assert np.isfinite(log.ratio).all()


def test_without_propensities_there_are_no_ratios():
    without = rows()
    del without["propensities"]
    cut_episodes(without, PROBLEM, Behaviour())
    with pytest.raises(PlanError, match="behaviour policy is unknown"):
        cut_episodes(without, PROBLEM, TARGET)


def test_the_rows_themselves_are_left_alone():
    given = rows()
    given["starts"][:, 0] = False
    before = {name: column.copy() for name, column in given.items()}
    cut_episodes(given, PROBLEM, TARGET)
    assert all(np.array_equal(given[name], column) for name, column in before.items())


def test_an_episode_that_the_rows_may_not_hold_does_not_count():
    """Two episodes of 2 steps at most from 4 rows: after one of 3 rows, the next could only be seen in part."""
    columns = {name: column[:, :4] for name, column in rows().items()}
    log = cut_episodes(columns, Problem(gamma=0.9, horizon=2, episodes_per_unit=2), Behaviour())
    assert log.alive.astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0]]
    assert log.episodes.tolist() == [1, 1]
    columns["starts"] = np.array([[1, 0, 1, 0], [1, 1, 0, 0]], bool)
    log = cut_episodes(columns, Problem(gamma=0.9, horizon=2, episodes_per_unit=2), Behaviour())
    assert log.alive.astype(int).tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert log.episodes.tolist() == [2, 2]


def test_what_comes_after_the_horizon_is_taken_off_the_value():
    """Unit 0: two episodes that stay below the horizon. Unit 1 reaches it: V(s_0) - 0.9^4 V(s_4)."""
    here, after = np.full((2, 6), 10.0), np.full((2, 6), 20.0)
    found = horizon_values(cut_episodes(rows(), PROBLEM, Behaviour()), PROBLEM, here, after)
    assert found == pytest.approx([10.0, 10.0 - 0.9**4 * 20.0])
    ended = rows()
    ended["terminations"][1, 3] = True
    found = horizon_values(cut_episodes(ended, PROBLEM, Behaviour()), PROBLEM, here, after)
    assert found == pytest.approx([10.0, 10.0])
