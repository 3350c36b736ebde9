"""Simulated people: who comes, who is missing, and that a resumed run meets the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tacit.data.spec import Box, Discrete
from tacit.envs.serving import SimulatedUsers
from tacit.errors import DataError
from tacit_worlds import acrobot, cart_pole

Array = npt.NDArray[Any]


def randomly(observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
    return generator.integers(2, size=len(observations))


def users(**options: Any) -> SimulatedUsers:
    return SimulatedUsers(cart_pole.CartPole(), cart_pole.spec(), **{"horizon": 40, "seed": 7, **options})


def test_everybody_comes_once() -> None:
    crowd = users(replicates=2)
    ids = [person for _ in range(3) for people in crowd.arrive(4) for person in people]
    assert len(set(ids)) == len(ids) == 24
    assert crowd.arrive(0) == [[], []]
    assert (crowd.replicates, crowd.simulated, crowd.slot, crowd.pool) == (2, True, 40, ())
    assert set(ids).isdisjoint(person for people in users(replicates=2, seed=8).arrive(4) for person in people)


def test_rows_are_in_order_of_the_people() -> None:
    crowd = users(replicates=3)
    seen = []

    def actor(observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
        seen.append(replicate)
        return randomly(observations, replicate, generator)

    rows = crowd.serve([["a", "b"], [], ["c"]], actor)
    assert rows["observations"].shape == (3, 40, 4)
    assert seen[0].tolist() == [0, 0, 2]
    assert rows["mask"][:, 0].all()


def test_a_resumed_run_meets_the_same_people() -> None:
    whole, second = users(), users(rounds=1)
    first = whole.serve(whole.arrive(5), randomly)
    ids = whole.arrive(5)
    rows = whole.serve(ids, randomly)
    assert second.arrive(5) == ids
    again = second.serve(ids, randomly)
    assert all(np.array_equal(rows[name], again[name]) for name in rows)
    assert not np.array_equal(first["observations"], rows["observations"])


def test_the_missing_have_no_rows() -> None:
    crowd = users(missing=0.5)
    rows = crowd.serve(crowd.arrive(200), randomly)
    here = rows["mask"].any(axis=1)
    assert 70 < here.sum() < 130
    assert all(not column[~here].any() for column in rows.values())
    assert not users(missing=1.0).serve([["a"]], randomly)["mask"].any()


def test_a_pool_can_be_asked_again() -> None:
    crowd = users(pool=10, replicates=2)
    assert [len(set(people)) for people in crowd.pool] == [10, 10]
    assert not set(crowd.pool[0]) & set(crowd.pool[1])
    asked = [crowd.pool[0][2:4], crowd.pool[1][:1]]
    first, second = crowd.serve(asked, randomly), crowd.serve(asked, randomly)
    assert not np.array_equal(first["observations"], second["observations"])
    empty = crowd.serve([[], []], randomly)
    assert {name: column.dtype for name, column in empty.items()} == {n: c.dtype for n, c in first.items()}
    assert {column.shape[:2] for column in empty.values()} == {(0, 40)}
    assert empty["observations"].shape == (0, 40, 4)


def test_the_rewards_of_repeated_actions_are_bounded() -> None:
    swing = SimulatedUsers(acrobot.Acrobot(), acrobot.spec(), horizon=9, repeat=4, seed=0)
    assert swing.spec.reward == Box((-4.0,), (0.0,))
    assert swing.spec.action == Discrete(3)
    rows = swing.serve(swing.arrive(2), randomly)
    assert rows["rewards"].tolist() == [[-4.0, -4.0, -1.0]] * 2
    assert swing.slot == 3
    assert users(restarts=True).serve([["a", "b"]], randomly)["mask"].all()


def test_bad_arguments() -> None:
    for wrong in ({"horizon": 0}, {"repeat": 0}, {"replicates": 0}, {"missing": 1.5}, {"pool": -1}, {"seed": -1}):
        with pytest.raises(DataError, match="out of range"):
            users(**wrong)
    with pytest.raises(DataError, match="people of 2 replicates"):
        users().serve([["a"], ["b"]], randomly)
