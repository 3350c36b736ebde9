"""People who stay for several rounds: whose turn it is, and how their episodes go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.serving import LastingUsers
from tacit.errors import DataError

SPEC = PublicSpec(observation=Box((0.0,), (99.0,)), action=Discrete(2), reward=Box((0.0,), (99.0,)), source="declared")


class Clock:
    """A state counts its steps; an episode whose length is above 0 terminates after so many, by the first state."""

    def __init__(self, length: int = 0) -> None:
        self.length = length

    def starts(self, units: int, generator: np.random.Generator) -> np.ndarray:
        return np.zeros((units, 1))

    def step(self, state: np.ndarray, action: np.ndarray, generator: np.random.Generator) -> Any:
        after = state + 1
        return after, after[:, 0].copy(), after[:, 0] == self.length

    def observe(self, state: np.ndarray) -> np.ndarray:
        return state.astype(np.float32)


def still(observations: np.ndarray, replicate: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return np.zeros(len(observations), np.int64)


def rounds(users: LastingUsers, slots: int, count: int) -> list[Any]:
    found = []
    for _ in range(count):
        people = users.arrive(slots)
        found.append((people, users.serve(people, still)))
    return found


def test_a_person_stays_for_a_public_number_of_rounds_in_turn() -> None:
    users = LastingUsers(Clock(), SPEC, horizon=4, episode=12, replicates=2, seed=7)
    seen = [people for people, _ in rounds(users, 3, 7)]
    assert users.stay == 3
    turns = [[name.rpartition("-")[2] for name in people[0]] for people in seen]
    assert ["".join(turn) for turn in turns] == ["000", "001", "011", "111", "112", "122", "222"]
    everybody = [name for people in seen for replicate in people for name in replicate]
    assert max(everybody.count(name) for name in everybody) == 3


def test_an_episode_goes_on_with_the_next_round_and_ends_with_the_stay() -> None:
    users = LastingUsers(Clock(), SPEC, horizon=4, episode=12, seed=0)
    rows = [columns for _, columns in rounds(users, 1, 6)]
    assert np.concatenate([r["observations"][0, :, 0] for r in rows]).tolist() == [*range(12), *range(12)]
    assert [r["truncations"][0, -1] for r in rows] == [False, False, True] * 2
    assert not any(r["terminations"].any() for r in rows)


def test_who_falls_begins_again_in_the_same_round() -> None:
    users = LastingUsers(Clock(3), SPEC, horizon=4, episode=8, seed=0)
    rows = [columns for _, columns in rounds(users, 1, 3)]
    assert [r["observations"][0, :, 0].tolist() for r in rows] == [[0, 1, 2, 0], [1, 2, 0, 1], [0, 1, 2, 0]]
    assert rows[0]["terminations"][0].tolist() == [False, False, True, False]
    assert rows[1]["truncations"][0].tolist() == [False, False, False, True]  # the stay of two rounds is over
    assert rows[0]["next_observations"][0, :, 0].tolist() == [1, 2, 3, 1]
    assert rows[0]["rewards"].tolist() == [[1, 2, 3, 1]]


def test_slots_and_parameters_that_do_not_fit_are_refused() -> None:
    users = LastingUsers(Clock(), SPEC, horizon=4, episode=8, seed=0)
    rounds(users, 2, 1)
    with pytest.raises(DataError, match="3 people of 1 replicates are to be served"):
        users.serve(users.arrive(3), still)
    with pytest.raises(DataError, match="a parameter is out of range"):
        LastingUsers(Clock(), SPEC, horizon=0, episode=8, seed=0)
