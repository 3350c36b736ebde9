"""Structure of tables against closed forms, and what shuffled and misplaced rows lose of it."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from tacit.data import PublicSpec
from tacit.data.spec import Box, Discrete
from tacit.errors import DataError
from tacit.evaluation.sequences import Sequences
from tacit.evaluation.structure import lag_closeness, structure
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

GRID = PublicSpec(
    observation=Box((0.0, 0.0), (4.0, 4.0)),
    action=Box((-3.0,), (3.0,)),
    reward=Box((0.0,), (1.0,)),
    source="declared",
    terminals=False,
    difference=(1.0, 1.0),
)
"""Sixteen places, of which the action is the sum of a rule and a sign."""


def grid(sign: float = 1.0) -> dict[str, np.ndarray]:
    """Every place and sign equally often; the rule is +-1 by the first column, the sign adds +-1."""
    x, y, other = (part.ravel() for part in np.meshgrid(np.arange(4), np.arange(4), (-1.0, 1.0), indexing="ij"))
    x, y, other = (np.tile(part, 50) for part in (x, y, other))
    state = np.stack([x + 0.5, y + 0.5], axis=1).astype(np.float32)
    action = np.where(x >= 2, 1.0, -1.0) * sign + other
    change = np.stack([action / 10, np.zeros(len(x))], axis=1)
    reward = (x == 3) & (y == 3)
    return {
        "observations": state,
        "actions": action[:, None].astype(np.float32),
        "rewards": reward.astype(np.float32),
        "next_observations": (state + change).astype(np.float32),
    }


def test_real_rows_against_themselves_have_their_own_figures_in_closed_form() -> None:
    found = structure(grid(), grid(), spec=GRID)
    rows, cells = 1_600, 4  # the first column alone is cut
    share = 1 - 0.5 * (rows - 1) / (rows - cells)  # rule and sign have the same variance
    assert found.action_explained == found.real_action_explained == pytest.approx(share)
    assert found.action_follows == found.real_action_follows == pytest.approx(np.sqrt(0.5))
    assert found.next_explained == found.real_next_explained == pytest.approx(1.0)
    assert (found.rare_reward_error, found.impossible) == (0.0, 0.0)


def test_an_action_against_the_rule_is_explained_as_well_and_follows_in_reverse() -> None:
    found = structure(grid(), grid(sign=-1.0), spec=GRID)
    assert found.action_explained == found.real_action_explained
    assert found.action_follows == pytest.approx(-found.real_action_follows)


def test_rewards_that_are_lost_where_they_are_rare_are_an_error_in_deviations() -> None:
    paid = grid()
    lost = {**paid, "rewards": np.zeros_like(paid["rewards"])}
    deviation = np.sqrt(1 / 16 * 15 / 16)
    assert structure(paid, lost, spec=GRID).rare_reward_error == pytest.approx(1 / deviation)


def test_rows_where_no_real_one_lies_are_counted() -> None:
    real = grid()
    corner = (real["observations"] > 3).all(axis=1)
    some = {name: column[~corner] for name, column in real.items()}
    assert structure(some, real, spec=GRID).impossible == pytest.approx(1 / 16)
    assert structure(some, some, spec=GRID).impossible == 0.0


def test_discrete_actions_are_one_number_a_value() -> None:
    spec = replace(GRID, observation=Discrete(4), action=Discrete(2), difference=None)
    state = np.tile(np.arange(4), 400)
    real = {
        "observations": state,
        "actions": (state >= 2).astype(np.int64),
        "rewards": np.zeros(len(state), np.float32),
        "next_observations": (state + 1) % 4,
    }
    found = structure(real, {**real, "actions": np.zeros(len(state), np.int64)}, spec=spec)
    assert (found.real_action_explained, found.action_explained) == (1.0, 0.0)
    assert (found.real_action_follows, found.action_follows) == (pytest.approx(1.0), 0.0)
    assert found.real_next_explained == 1.0
    assert np.isnan(found.rare_reward_error)


def test_in_a_maze_shuffled_actions_keep_nothing_and_independent_columns_lie_in_walls() -> None:
    layout = LAYOUTS["umaze"]
    real, other = (maze.collect(layout, 40_000, seed=seed) for seed in (0, 1))
    spec = maze.spec(layout)
    same = structure(real, real, spec=spec)
    assert same.action_explained / same.real_action_explained == 1.0
    assert same.action_explained > 0.3
    fresh = structure(real, other, spec=spec)
    assert fresh.action_explained == pytest.approx(same.action_explained, abs=0.02)
    assert 0.9 < fresh.action_follows / same.action_follows < 1.0
    assert fresh.impossible < 0.01
    order = np.random.default_rng(0).permutation(len(other["rewards"]))
    shuffled = structure(real, {**other, "actions": other["actions"][order]}, spec=spec)
    assert shuffled.action_explained < 0.01
    assert abs(shuffled.action_follows) < 0.02
    assert shuffled.next_explained < same.next_explained - 0.2
    places = {**other, "observations": np.random.default_rng(0).permuted(other["observations"], axis=0)}
    assert structure(real, places, spec=spec).impossible > 0.1


def test_tables_of_other_columns_are_refused() -> None:
    with pytest.raises(DataError, match="different columns"):
        structure(grid(), {**grid(), "rewards": np.zeros(1_600, np.int64)}, spec=GRID)


def test_all_figures_are_finite_on_few_rows() -> None:
    few = {name: column[:20] for name, column in grid().items()}
    assert np.isfinite(list(asdict(structure(grid(), few, spec=GRID)).values())).all()


def test_numbers_one_row_later_are_compared_inside_trajectories_alone() -> None:
    def ways(values: list[float], length: int) -> Sequences:
        column = np.array(values, np.float32)
        flat = np.zeros(len(column), np.float32)  # r = 0 in either
        columns = {
            "observations": column[:, None],
            "actions": flat,
            "rewards": flat,
            "next_observations": column[:, None],
        }
        return Sequences(columns, np.arange(0, len(column) + 1, length))

    steady, turning = ways([1, 1, -1, -1] * 3, 2), ways([1, -1, -1, 1] * 3, 2)
    assert lag_closeness(steady, steady) == 1.0
    assert lag_closeness(steady, turning) == pytest.approx((0.0 + 1.0 + 1.0) / 3)  # r is 1 and -1
    assert np.isnan(lag_closeness(ways([1, -1], 1), steady))
