"""Serving people of a small process whose every row is known, and of the cart-pole against Gymnasium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest

from tacit.envs.serving import returns, serve
from tacit.errors import DataError
from tacit_worlds.acrobot import Acrobot
from tacit_worlds.cart_pole import CartPole

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Counter:
    """A state is (steps left, steps made); a step pays the action; the episode of a start with k left has k steps."""

    lengths: tuple[int, ...] = (2, 3)
    limit: int = 1_000

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        return np.stack([np.resize(self.lengths, units), np.zeros(units)], axis=1).astype(np.float64)

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> tuple[Array, Array, Array]:
        assert (state[:, 0] > 0).all(), "an episode that is over was stepped"
        after = state + np.array([-1.0, 1.0])
        return after, action.astype(np.float64), after[:, 0] == 0.0

    def observe(self, state: Array) -> Array:
        return state.astype(np.float32)

    def truncated(self, state: Array) -> Array:
        return np.asarray(state[:, 1] >= self.limit)


def ones(observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
    return np.ones(len(observations), dtype=np.int64)


def which_replicate(observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
    return replicate + 1


def play(domain: Any, actor: Any = ones, replicate: Any = (0, 0), **options: Any) -> dict[str, Array]:
    return serve(domain, actor, replicate, generator=np.random.default_rng(0), **options)


def test_an_episode_each() -> None:
    rows = play(Counter(), horizon=4)
    assert rows["mask"].tolist() == [[True, True, False, False], [True, True, True, False]]
    assert rows["terminations"].tolist() == [[False, True, False, False], [False, False, True, False]]
    assert not rows["truncations"].any()
    assert rows["observations"][:, :, 1].tolist() == [[0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 2.0, 0.0]]
    assert rows["next_observations"][:, :, 0].tolist() == [[1.0, 0.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0]]
    assert rows["rewards"].tolist() == [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]]
    types = {name: str(column.dtype) for name, column in rows.items()}
    assert types == {
        "observations": "float32",
        "actions": "int64",
        "rewards": "float32",
        "next_observations": "float32",
        "terminations": "bool",
        "truncations": "bool",
        "mask": "bool",
    }


def test_the_end_of_the_slot_truncates() -> None:
    rows = play(Counter((2, 9)), horizon=2)
    assert rows["terminations"].tolist() == [[False, True], [False, False]]
    assert rows["truncations"].tolist() == [[False, False], [False, True]]


def test_a_limit_of_the_domain_truncates() -> None:
    """With a limit of 3, a start with 3 left terminates there and one with 9 is truncated."""
    rows = play(Counter((3, 9), limit=3), horizon=7)
    assert rows["mask"].sum(axis=1).tolist() == [3, 3]
    assert rows["terminations"][:, 2].tolist() == [True, False]
    assert rows["truncations"][:, 2].tolist() == [False, True]
    again = play(Counter((9,), limit=3), replicate=(0,), horizon=7, restarts=True)
    assert again["truncations"][0].tolist() == [False, False, True, False, False, True, True]
    assert again["observations"][0, :, 1].tolist() == [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 0.0]


def test_restarts_fill_the_slot() -> None:
    rows = play(Counter((2,)), replicate=(0,), horizon=5, restarts=True)
    assert rows["mask"].all()
    assert rows["terminations"][0].tolist() == [False, True, False, True, False]
    assert rows["truncations"][0].tolist() == [False, False, False, False, True]
    assert rows["observations"][0, :, 0].tolist() == [2.0, 1.0, 2.0, 1.0, 2.0]
    assert rows["next_observations"][0, :, 0].tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]


def test_an_action_is_repeated() -> None:
    """Five steps in decisions of two: rewards 2, 2, 1, and the last decision has one step. An end within a decision
    stops its sum and is not stepped on.
    """
    rows = play(Counter((9, 3)), horizon=5, repeat=2)
    assert rows["rewards"].tolist() == [[2.0, 2.0, 1.0], [2.0, 1.0, 0.0]]
    assert rows["observations"][:, :, 1].tolist() == [[0.0, 2.0, 4.0], [0.0, 2.0, 0.0]]
    assert rows["next_observations"][0, :, 1].tolist() == [2.0, 4.0, 5.0]
    assert rows["next_observations"][1, 1].tolist() == [0.0, 3.0]
    assert rows["truncations"].tolist() == [[False, False, True], [False, False, False]]
    assert rows["terminations"][1].tolist() == [False, True, False]
    filled = play(Counter((3,)), replicate=(0,), horizon=8, repeat=2, restarts=True)
    assert filled["rewards"][0].tolist() == [2.0, 1.0, 2.0, 1.0]


def test_people_leave_in_order() -> None:
    """Forty people of four replicates whose episodes last 1 to 40 steps, whatever the batch still holds."""
    domain, replicate, seen = Counter(tuple(range(1, 41))), np.repeat(np.arange(4), 10), []

    def actor(observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
        seen.append(replicate)
        return replicate + 1

    rows = play(domain, actor, replicate, horizon=50)
    assert rows["mask"].sum(axis=1).tolist() == list(range(1, 41))
    expected = np.where(rows["mask"], replicate[:, None] + 1, 0)
    assert np.array_equal(rows["actions"], expected)
    assert np.array_equal(rows["rewards"], expected)
    assert all((np.diff(codes) >= 0).all() for codes in seen)
    sizes = [len(codes) for codes in seen]
    assert sizes[0] == 40
    assert max(len(codes) - (40 - t) for t, codes in enumerate(seen)) <= 5
    assert len(set(sizes)) < 25
    total = returns(domain, which_replicate, 4, 10, horizon=50, generator=np.random.default_rng(0))
    assert np.array_equal(total, rows["rewards"].sum(axis=1).reshape(4, 10))


def test_the_rows_are_those_of_gymnasium() -> None:
    """Replay the actions of five served carts in Gymnasium, from the same starts."""
    domain, actions = CartPole(), np.random.default_rng(5)

    def actor(observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
        return actions.integers(2, size=len(observations))

    rows = play(domain, actor, np.zeros(5, dtype=int), horizon=30)
    starts = domain.starts(5, np.random.default_rng(0))
    other: Any = gymnasium.make("CartPole-v1").unwrapped
    for i in range(5):
        other.reset(seed=0)
        other.state, t, over = starts[i], 0, False
        while not over and t < 30:
            assert rows["observations"][i, t] == pytest.approx(np.array(other.state, dtype=np.float32), abs=1e-6)
            after, paid, over, _, _ = other.step(int(rows["actions"][i, t]))
            assert rows["next_observations"][i, t] == pytest.approx(after, abs=1e-6)
            assert (rows["rewards"][i, t], rows["terminations"][i, t]) == (paid, over)
            t += 1
        assert rows["mask"][i].sum() == t
        assert rows["truncations"][i].any() == (not over)


def test_returns_of_long_and_short_episodes() -> None:
    """An acrobot that is not driven never swings up; a cart pushed to one side falls in 8 to 11 steps."""
    generator = np.random.default_rng(0)
    assert returns(Acrobot(), ones, 2, 3, horizon=20, generator=generator).tolist() == [[-20.0] * 3] * 2
    fallen = returns(CartPole(), ones, 1, 200, horizon=500, generator=generator)
    assert (fallen >= 8).all()
    assert (fallen <= 11).all()


def test_numbers_that_are_not_finite_stay_in_the_rows() -> None:
    class Broken(Counter):
        def step(self, state: Array, action: Array, generator: np.random.Generator) -> tuple[Array, Array, Array]:
            after, paid, ended = super().step(state, action, generator)
            paid[0] = np.inf * (-1.0) ** after[0, 1]
            after[0, 1] = np.nan
            return after, paid, ended

    def actor(observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
        assert np.isfinite(observations).all()
        return np.ones(len(observations), dtype=np.int64)

    rows = play(Broken((3, 3)), actor, horizon=4, repeat=2)
    assert np.isnan(rows["next_observations"][0, 0, 1])
    assert not np.isfinite(rows["rewards"][0, 0])
    assert rows["rewards"][1].tolist() == [2.0, 1.0]
    assert rows["mask"].sum() == 4


def test_bad_arguments() -> None:
    with pytest.raises(DataError, match="nobody to serve"):
        play(Counter(), replicate=(), horizon=3)
    with pytest.raises(DataError, match="nothing to serve"):
        play(Counter(), horizon=0)
    with pytest.raises(DataError, match="do not fit the observations"):
        play(Counter(), lambda observations, replicate, generator: np.zeros(3), horizon=3)
