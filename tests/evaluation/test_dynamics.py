"""Dynamics errors against literal numbers, and the control tables."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import DataError
from tacit.evaluation.dynamics import dynamics
from tacit.evaluation.fidelity import independent_columns, uniform_table


def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """A free point: v' = v + a, x' = x + v'."""
    velocity = states[:, 2:] + actions
    return np.concatenate([states[:, :2] + velocity, velocity], axis=1)


def reward(states: np.ndarray, actions: np.ndarray, following: np.ndarray) -> np.ndarray:
    return following[:, 0]


def in_wall(xy: np.ndarray) -> np.ndarray:
    return xy[:, 0] < 0


def rows(count: int = 200, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    states = np.concatenate([generator.uniform(0.1, 5, (count, 2)), generator.normal(size=(count, 2))], axis=1)
    actions = generator.uniform(-1, 1, (count, 2))
    following = step(states, actions)
    return {
        "observations": states,
        "actions": actions,
        "rewards": reward(states, actions, following),
        "next_observations": following,
    }


def measure(columns: dict[str, np.ndarray]):
    return dynamics(columns, step=step, reward=reward, in_wall=in_wall)


def test_exact_transitions_have_no_error() -> None:
    result = measure(rows())
    assert (result.next_position, result.next_velocity, result.reward, result.in_wall) == (0.0, 0.0, 0.0, 0.0)


def test_errors_of_literals() -> None:
    columns = {
        "observations": np.array([[1.0, 1.0, 3.0, 4.0], [1.0, 1.0, 0.0, 0.0]]),
        "actions": np.array([[0.0, 0.0], [0.0, 1.0]]),
        # true next states: (4, 5, 3, 4) and (1, 2, 0, 1); true displacements 5 and 1, of velocity 0 and 1
        "next_observations": np.array([[4.0, 5.6, 3.0, 4.0], [1.0, 2.0, 0.3, 1.4]]),
        "rewards": np.array([4.5, 0.5]),  # true: 4, 1
    }
    result = measure(columns)
    assert result.next_position == pytest.approx(0.3 / 3.0)
    assert result.next_velocity == pytest.approx(0.25 / 0.5)
    assert result.reward == pytest.approx(0.5)


def test_a_table_that_never_moves_has_error_one() -> None:
    columns = rows()
    columns["next_observations"] = columns["observations"]
    result = measure(columns)
    assert (result.next_position, result.next_velocity) == (pytest.approx(1.0), pytest.approx(1.0))


def test_rows_in_walls_are_counted_and_have_no_error() -> None:
    columns = rows(4)
    columns["observations"][0, 0] = -1.0
    columns["next_observations"][0] = 1e6
    result = measure(columns)
    assert result.in_wall == 0.25
    assert result.next_position == 0.0


def test_errors_do_not_depend_on_the_unit_of_length() -> None:
    columns = rows()
    columns["next_observations"] = columns["next_observations"] + np.random.default_rng(1).normal(size=(200, 4))
    scaled = {name: values * 1000.0 for name, values in columns.items()}
    assert measure(scaled).next_position == pytest.approx(measure(columns).next_position)


def test_tables_without_an_answer_are_refused() -> None:
    walls = rows(3)
    walls["observations"][:, 0] = -1.0
    with pytest.raises(DataError, match="inside a wall"):
        measure(walls)
    still = rows(3)
    still["observations"][:, 2:] = 0.0
    still["actions"] = np.zeros((3, 2))
    with pytest.raises(DataError, match="moves no row"):
        measure(still)
    with pytest.raises(DataError, match="point masses"):
        measure({**rows(3), "rewards": np.zeros(2)})


def test_independent_columns_permute_every_entry_on_its_own() -> None:
    columns = {**rows(500), "terminations": np.arange(500) % 7 == 0}
    shuffled = independent_columns(columns, seed=0)
    for name, values in columns.items():
        np.testing.assert_array_equal(np.sort(shuffled[name], axis=0), np.sort(values, axis=0))
    xy, mixed = columns["observations"], shuffled["observations"]
    order = {tuple(pair) for pair in xy[:, :2].tolist()}
    assert len(order & {tuple(pair) for pair in mixed[:, :2].tolist()}) < 10  # x and y part company
    again = independent_columns(columns, seed=0)
    np.testing.assert_array_equal(again["actions"], shuffled["actions"])
    assert measure(columns).next_position == 0.0
    assert measure(shuffled).next_position > 0.5


def test_uniform_table_fills_the_public_bounds() -> None:
    box = Box((-1.0, 0.0), (1.0, 10.0))
    spec = PublicSpec(observation=box, action=Discrete(3), reward=Box((2.0,), (3.0,)), source="declared")
    table = uniform_table(spec, rows=3000, seed=0)
    assert table["observations"].shape == (3000, 2)
    assert table["observations"].dtype == np.float32
    assert table["rewards"].shape == (3000,)
    np.testing.assert_allclose(table["observations"].mean(0), [0.0, 5.0], atol=0.25)
    assert (table["observations"].min(0) >= [-1, 0]).all()
    assert (table["observations"].max(0) <= [1, 10]).all()
    assert (table["rewards"].min(), table["rewards"].max()) == (pytest.approx(2, abs=0.01), pytest.approx(3, abs=0.01))
    np.testing.assert_array_equal(np.unique(table["actions"]), [0, 1, 2])
    assert not table["terminations"].any()
