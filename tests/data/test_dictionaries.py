"""Dictionaries of scope-rl and OBP: episodes of any lengths, declared bounds and units, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tacit.data import Box, Discrete, PublicSpec
from tacit.data.sources.dictionaries import from_obp, from_scope_rl
from tacit.errors import DataError

SPEC = PublicSpec(
    observation=Box((0.0, 0.0), (10.0, 10.0)),
    action=Discrete(3),
    reward=Box((-1.0,), (1.0,)),
    source="declared",
    propensities=True,
)
STATES = np.arange(14.0).reshape(7, 2) / 2


def dataset(**changes: Any) -> dict[str, Any]:
    """What `SyntheticDataset.obtain_episodes` of scope-rl 0.2.1 returns, for trajectories of 3, 2 and 2 steps."""
    return {
        "size": 7,
        "n_trajectories": 3,
        "step_per_trajectory": 3,
        "action_type": "discrete",
        "n_actions": 3,
        "action_dim": None,
        "action_meaning": np.array([0.1, 1.0, 10.0]),
        "action_keys": None,
        "state_dim": 2,
        "state_keys": ["budget", "rate"],
        "state": STATES,
        "action": np.array([0, 1, 2, 0, 1, 2, 0]),
        "reward": np.array([0.5, -0.5, 1.0, 0.0, 0.25, -1.0, 0.75]),
        "done": np.array([0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]),
        "terminal": np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]),
        "info": {},
        "pscore": np.array([0.5, 0.25, 0.25, 0.5, 0.25, 0.125, 0.5]),
        "behavior_policy": "ddqn_epsilon_0.3",
        "dataset_id": 0,
        **changes,
    }


def feedback(**changes: Any) -> dict[str, Any]:
    """What `SyntheticBanditDataset.obtain_batch_bandit_feedback` of OBP 0.4.1 returns."""
    return {
        "n_rounds": 4,
        "n_actions": 3,
        "context": STATES[:4],
        "action_context": np.eye(3),
        "action": np.array([2, 0, 1, 1]),
        "position": None,
        "reward": np.array([1, 0, 0, 1]),
        "expected_reward": np.full((4, 3), 0.5),
        "pscore": np.array([0.5, 0.25, 0.125, 1.0]),
        **changes,
    }


def test_scope_rls_trajectories_of_any_lengths_become_episodes() -> None:
    data = from_scope_rl(dataset(), unit_ids=["a", "a", "a", "b", "b", "a", "a"], spec=SPEC, simulated=True)
    columns = data.columns
    assert data.episodes.tolist() == [0, 3, 5, 7]
    assert columns["terminations"].tolist() == [False, False, False, False, True, False, False]
    assert columns["truncations"].tolist() == [False, False, True, False, False, False, True]
    np.testing.assert_array_equal(columns["observations"], STATES.astype(np.float32))
    np.testing.assert_array_equal(columns["next_observations"], STATES[[1, 2, 2, 4, 4, 6, 6]].astype(np.float32))
    assert columns["propensities"].tolist() == [0.5, 0.25, 0.25, 0.5, 0.25, 0.125, 0.5]
    assert data.spec == SPEC
    assert data.counts()["units"] == 2


def test_the_last_row_of_a_trajectory_that_was_cut_may_be_dropped() -> None:
    columns = from_scope_rl(dataset(), unit_ids=":episode", spec=SPEC, last="drop").columns
    np.testing.assert_array_equal(columns["observations"], STATES[[0, 1, 3, 4, 5]].astype(np.float32))
    np.testing.assert_array_equal(columns["next_observations"], STATES[[1, 2, 4, 4, 6]].astype(np.float32))
    assert columns["terminations"].tolist() == [False, False, False, True, False]
    assert columns["truncations"].tolist() == [False, True, False, False, True]


def test_what_lies_behind_an_end_in_a_padded_dictionary_is_no_record() -> None:
    rows = [0, 1, 2, 3, 4, 4, 5, 6, 6]
    padded = {name: dataset()[name][rows] for name in ("state", "action", "reward", "done", "terminal", "pscore")}
    units = np.array([1, 1, 1, 2, 2, 9, 3, 3, 9])
    data = from_scope_rl({**dataset(), **padded}, unit_ids=units, spec=SPEC, padded=True, simulated=True)
    assert data.episodes.tolist() == [0, 3, 5, 7]
    assert data.counts()["units"] == 3
    np.testing.assert_array_equal(data.columns["observations"], STATES.astype(np.float32))
    with pytest.raises(DataError, match="no whole trajectories"):
        from_scope_rl(dataset(), unit_ids=":episode", spec=SPEC, padded=True)


def test_a_log_that_ends_within_an_episode_cuts_it() -> None:
    open_end = dataset(done=np.array([0, 0, 1, 0, 1, 0, 0]), terminal=np.zeros(7))
    columns = from_scope_rl(open_end, unit_ids=":episode", spec=SPEC).columns
    assert columns["terminations"].tolist() == [False, False, True, False, True, False, False]
    assert columns["truncations"].tolist() == [False] * 6 + [True]


def test_bounds_are_declared_and_never_those_of_the_dictionary() -> None:
    narrow = dataclasses.replace(SPEC, observation=Box((0.0, 0.0), (4.0, 4.0)))
    columns = from_scope_rl(dataset(state_dim=99, n_actions=99), unit_ids=":episode", spec=narrow).columns
    assert columns["observations"].max() == 4.0
    two = dataclasses.replace(SPEC, action=Discrete(2))
    with pytest.raises(DataError, match="actions has a value out of range"):
        from_scope_rl(dataset(), unit_ids=":episode", spec=two)
    with pytest.raises(DataError, match="actions has a value out of range"):
        from_obp(feedback(), unit_ids=":transition", spec=two)


def test_without_declared_propensities_they_are_left_out() -> None:
    none = dataclasses.replace(SPEC, propensities=False)
    assert "propensities" not in from_scope_rl(dataset(pscore=None), unit_ids=":episode", spec=none).columns
    assert "propensities" not in from_obp(feedback(), unit_ids=":transition", spec=none).columns
    with pytest.raises(DataError, match="no entry 'pscore'"):
        from_scope_rl(dataset(pscore=None), unit_ids=":episode", spec=SPEC)


def test_obps_rounds_become_episodes_of_one_step() -> None:
    data = from_obp(feedback(), unit_ids=["u", "v", "u", "u"], spec=SPEC, simulated=True)
    columns = data.columns
    np.testing.assert_array_equal(columns["observations"], STATES[:4].astype(np.float32))
    assert columns["actions"].tolist() == [2, 0, 1, 1]
    assert columns["rewards"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert columns["terminations"].tolist() == [True] * 4
    assert columns["propensities"].tolist() == [0.5, 0.25, 0.125, 1.0]
    assert (data.counts()["units"], data.counts()["episodes"]) == (2, 4)
    assert from_obp(feedback(), unit_ids=":transition", spec=SPEC).unit_kind == "transition"


def test_positions_are_seen_alone_or_behind_the_context() -> None:
    placed = feedback(position=np.array([0, 2, 1, 0]))
    positions = dataclasses.replace(SPEC, observation=Discrete(3))
    alone = from_obp(placed, unit_ids=":transition", spec=positions, seen="position")
    assert alone.columns["observations"].tolist() == [0, 2, 1, 0]
    wider = dataclasses.replace(SPEC, observation=Box((0.0, 0.0, 0.0), (10.0, 10.0, 2.0)))
    both = from_obp(placed, unit_ids=":transition", spec=wider, seen="both").columns["observations"]
    assert both[:, 2].tolist() == [0.0, 2.0, 1.0, 0.0]
    with pytest.raises(DataError, match="no entry 'position'"):
        from_obp(feedback(), unit_ids=":transition", spec=positions, seen="position")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": None}, "there is no entry 'state'"),
        ({"reward": np.zeros(6)}, "'state' is of another length than the reward"),
        ({"done": np.zeros(3)}, "'done' is of another length"),
    ],
)
def test_a_dictionary_that_is_not_whole_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_scope_rl(dataset(**changes), unit_ids=":episode", spec=SPEC)


def test_words_and_units_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="last= keep or drop"):
        from_scope_rl(dataset(), unit_ids=":episode", spec=SPEC, last="both")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="seen= context, position or both"):
        from_obp(feedback(), unit_ids=":transition", spec=SPEC, seen="all")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="'unit_ids' is of another length"):
        from_scope_rl(dataset(), unit_ids=["a"], spec=SPEC)
    for read, given in ((from_obp, feedback()), (from_scope_rl, dataset())):
        with pytest.raises(DataError, match="there is no unit id"):
            read(given, unit_ids=None, spec=SPEC)  # type: ignore[operator]
        data = read(given, unit_ids=np.zeros(len(given["reward"]), np.int64), spec=SPEC, unit_name="user")  # type: ignore[operator]
        assert (data.unit_kind, data.simulated) == ("id", False)
