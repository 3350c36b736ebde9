"""The maze against real rows, MuJoCo, closed forms and its own map."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.utils.env_checker import check_env

from tacit.data.spec import Box
from tacit.errors import DataError
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS, MazeLayout, distances, far_cells, free_cells

NAMES = sorted(LAYOUTS)


def state(*values: float) -> npt.NDArray[np.float64]:
    return np.array([values])


def test_equal_to_the_real_rows(real_data: Path) -> None:
    """1,000 rows of maze2d-medium-dense-v1: at most the contacts and D4RL's skipped steps differ."""
    rows = np.load(real_data / "maze2d_medium_dense_1000.npy").astype(np.float64)
    before, action, paid, after = rows[:, :4], rows[:, 4:6], rows[:, 6], rows[:, 7:11]
    error = np.abs(maze.step(before, action, LAYOUTS["medium"]) - after).max(axis=1)
    assert (error <= 1e-3).mean() >= 0.99
    assert np.median(error) < 1e-6
    assert np.abs(maze.reward(LAYOUTS["medium"], before[:, :2]) - paid).max() < 1e-6
    assert maze.in_wall(LAYOUTS["medium"], before[:, :2]).mean() <= 0.005


def test_collected_rows_look_like_the_real_ones(real_data: Path) -> None:
    rows = np.load(real_data / "maze2d_medium_dense_1000.npy")
    columns = maze.collect(LAYOUTS["medium"], 50_000, agents=64, seed=0)
    speed, action = np.abs(columns["observations"][:, 2:]), columns["actions"]
    assert speed.mean() == pytest.approx(np.abs(rows[:, 2:4]).mean(), abs=0.1)
    assert action.std() == pytest.approx(rows[:, 4:6].std(), abs=0.02)
    assert (np.abs(action) == 1).mean() == pytest.approx((np.abs(rows[:, 4:6]) == 1).mean(), abs=0.03)


def test_free_motion_is_that_of_mujoco() -> None:
    """gymnasium-robotics' PointMaze, 60 steps without contact: same ball, other coordinates."""
    robotics = pytest.importorskip("gymnasium_robotics")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium.register_envs(robotics)
        other = gymnasium.make("PointMaze_OpenDense-v3", continuing_task=True).unwrapped
        first, _ = other.reset(seed=0, options={"reset_cell": np.array([2, 3]), "goal_cell": np.array([1, 1])})
    ours = state(2.0, 3.0, *first["observation"][2:])
    origin = first["observation"][:2]
    rng = np.random.default_rng(0)
    for _ in range(60):
        action = rng.uniform(-1, 1, 2)
        seen, *_ = other.step(action)
        ours = maze.step(ours, action[None], LAYOUTS["open"])
        moved = seen["observation"][:2] - origin
        assert ours[0, :2] - (2.0, 3.0) == pytest.approx(moved, abs=1e-9)
        assert ours[0, 2:] == pytest.approx(seen["observation"][2:], abs=1e-9)


def test_one_step_by_hand() -> None:
    """m = 4/3 pi 0.1^3 1000; v' = (m clip(v, 5) + 0.01 * 100 clip(a, 1)) / (m + 0.01); x' = x + 0.01 v'."""
    mass = 4 / 3 * math.pi
    got = maze.step(state(2.0, 3.0, 6.0, -1.0), state(2.0, -0.5), LAYOUTS["open"])[0]
    vx, vy = (mass * 5 + 1) / (mass + 0.01), (-mass - 0.5) / (mass + 0.01)
    assert got == pytest.approx([2 + 0.01 * vx, 3 + 0.01 * vy, vx, vy], abs=1e-12)
    assert vx == pytest.approx(maze.SPEED_BOUND) == pytest.approx(5.22626, abs=1e-5)


def test_a_ball_stops_at_a_wall_and_slides_along_it() -> None:
    """umaze: from (1, 1), the wall of row 2 lets the ball's centre go to x = 1.2; the border to x = 0.4."""
    ball = state(1.0, 1.0, 0.0, 0.0)
    for _ in range(40):
        ball = maze.step(ball, state(1.0, 0.3), LAYOUTS["umaze"])
    assert ball[0, 0] == 1.2
    assert ball[0, 2] == 0.0
    assert ball[0, 1] > 1.5
    for _ in range(300):
        ball = maze.step(ball, state(-1.0, -1.0), LAYOUTS["umaze"])
    assert ball[0] == pytest.approx([0.4, 0.4, 0.0, 0.0])


def test_a_float32_position_at_a_wall_is_free_and_can_leave() -> None:
    for position in (1.2, 0.4):
        ball = state(np.float32(position), np.float32(0.4), 0.0, 0.0)
        assert not maze.in_wall(LAYOUTS["umaze"], ball[:, :2], tolerance=1e-6)[0]
        along = maze.step(ball, state(0.0, 1.0), LAYOUTS["umaze"])[0]
        assert along[3] > 0.2
        assert along[1] > 0.402


def test_no_ball_enters_a_wall() -> None:
    """20,000 fast random balls with random forces, 60 steps, in every maze."""
    rng = np.random.default_rng(0)
    for layout in LAYOUTS.values():
        ball = maze.random_start(layout, 2_000, rng)
        ball[:, 2:] = rng.uniform(-5.2, 5.2, (2_000, 2))
        force = rng.uniform(-1, 1, (2_000, 2))
        for _ in range(60):
            ball = maze.step(ball, force, layout)
        assert not maze.in_wall(layout, ball[:, :2], tolerance=1e-9).any()
        assert np.abs(ball[:, 2:]).max() <= maze.SPEED_BOUND


def test_in_wall_knows_the_map() -> None:
    """Free cell r spans [r - 0.6, r + 0.2] beside walls; between free cells there is no gap; outside is wall."""
    inside = [(1.0, 1.0), (0.4, 0.4), (1.2, 3.2), (2.0, 3.0), (1.25, 3.0), (1.203, 1.0)]
    walls = [(2.0, 1.0), (1.21, 1.0), (0.39, 1.0), (2.0, 2.39), (9.0, 1.0), (-3.0, 1.0), (1.0, 99.0)]
    assert not maze.in_wall(LAYOUTS["umaze"], inside).any()
    assert maze.in_wall(LAYOUTS["umaze"], walls).all()


def test_inside_a_wall_a_ball_moves_freely() -> None:
    moved = maze.step(state(2.0, 1.5, 1.0, 1.0), state(0.0, 0.0), LAYOUTS["umaze"])[0]
    assert moved[2:] == pytest.approx([0.9976, 0.9976], abs=1e-4)
    assert moved[:2] - (2.0, 1.5) == pytest.approx(0.01 * moved[2:])


@pytest.mark.parametrize("name", NAMES)
def test_collected_rows_keep_their_promises(name: str) -> None:
    layout = LAYOUTS[name]
    columns = maze.collect(layout, 10_007, agents=16, seed=3)
    assert {len(column) for column in columns.values()} == {10_007}
    following = maze.step(columns["observations"], columns["actions"], layout)
    assert np.abs(following - columns["next_observations"]).max() < 5e-6
    assert columns["rewards"] == pytest.approx(maze.reward(layout, columns["observations"][:, :2]), abs=1e-6)
    assert not columns["terminations"].any()
    bounds = maze.spec(layout)
    for column, space in (("observations", bounds.observation), ("actions", bounds.action)):
        assert isinstance(space, Box)
        assert (columns[column] >= np.float32(space.low)).all()
        assert (columns[column] <= np.float32(space.high)).all()
    same = columns["episode_ids"][1:] == columns["episode_ids"][:-1]
    assert np.array_equal(~same, columns["truncations"][:-1])
    assert np.array_equal(columns["observations"][1:][same], columns["next_observations"][:-1][same])
    goals = columns["observations"][columns["truncations"]][:, :2]
    assert len({tuple(cell) for cell in np.round(goals).astype(int).tolist()}) >= len(free_cells(layout)) // 2


def test_the_same_seed_gives_the_same_rows() -> None:
    first, again, other = (maze.collect(LAYOUTS["ring"], 500, agents=4, seed=seed) for seed in (0, 0, 1))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["actions"], other["actions"])


@pytest.mark.parametrize("name", ["umaze", "medium", "ring", "rooms"])
def test_references_are_those_of_random_actions_and_of_the_controller(name: str) -> None:
    """tacit's own references are reached; D4RL's controller did worse than ours (D4RL issue 215)."""
    layout, rng = LAYOUTS[name], np.random.default_rng(5)
    starts = maze.random_start(layout, 600, rng)
    idle = maze.normalized_returns(
        layout, maze.rollout(layout, lambda seen: rng.uniform(-1, 1, (len(seen), 2)), starts)
    )
    expert = maze.normalized_returns(
        layout, maze.rollout(layout, maze.controller_policy(layout, starts, seed=0), starts)
    )
    assert idle.mean() == pytest.approx(0, abs=5)
    assert expert.mean() > 120 if name in ("umaze", "medium") else expert.mean() == pytest.approx(100, abs=4)


def test_rollout_pays_the_next_position_of_every_policy() -> None:
    """Two policies at once: one stays at the goal (1 each step), one is pushed away."""
    layout = LAYOUTS["umaze"]
    start = np.zeros((2, 1, 4))
    start[..., :2] = layout.goal
    push = np.array([[[0.0, 0.0]], [[0.0, -1.0]]])
    returns = maze.rollout(layout, lambda seen: np.broadcast_to(push, (2, 1, 2)), start, horizon=3)
    assert returns.shape == (2, 1)
    assert returns[0, 0] == pytest.approx(3.0)
    seen, total = start[1], 0.0
    for _ in range(3):
        seen = maze.step(seen, push[1], layout)
        total += math.exp(-abs(seen[0, 1] - 1.0))
    assert returns[1, 0] == pytest.approx(total)


def test_far_cells() -> None:
    """umaze: seven cells, one to six steps from the goal; three or more is far."""
    assert {tuple(cell) for cell in far_cells(LAYOUTS["umaze"]).tolist()} == {(2, 3), (3, 1), (3, 2), (3, 3)}


def test_every_maze_is_connected() -> None:
    for layout in LAYOUTS.values():
        assert distances(layout).min() == 0


def test_no_public_maze_is_one_of_the_evaluation() -> None:
    reserved = {
        turned
        for name in ("umaze", "medium")
        for flip, turns in itertools.product((1, -1), range(4))
        for turned in [np.rot90(np.array([list(row)[::flip] for row in LAYOUTS[name].cells]), turns).tobytes()]
    }
    for name in set(NAMES) - {"umaze", "medium"}:
        assert np.array([list(row) for row in LAYOUTS[name].cells]).tobytes() not in reserved


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_finds_nothing_to_complain_about(name: str) -> None:
    env = maze.MazeEnv(name)
    env.spec = gymnasium.envs.registration.EnvSpec("tacit/Maze-v0", entry_point=maze.MazeEnv, kwargs={"layout": name})
    check_env(env)


def test_the_environment_follows_the_same_dynamics() -> None:
    env = maze.MazeEnv("umaze")
    seen, info = env.reset(seed=4, options={"cell": (3, 1)})
    assert info == {}
    assert seen[:2] == pytest.approx([3, 1], abs=0.1)
    action = np.array([0.2, 1.0], np.float32)
    following, paid, terminated, truncated, _ = env.step(action)
    expected = maze.step(seen[None], action[None], LAYOUTS["umaze"])[0]
    assert following == pytest.approx(expected, abs=1e-6)
    assert paid == pytest.approx(float(maze.reward(LAYOUTS["umaze"], expected[:2])), abs=1e-6)
    assert not terminated
    steps: list[Any] = [truncated] + [env.step(action)[3] for _ in range(299)]
    assert steps == [False] * 299 + [True]


def test_an_unknown_layout_is_named() -> None:
    with pytest.raises(DataError, match="there is no layout 'nowhere'"):
        maze.MazeEnv("nowhere")


@pytest.mark.parametrize(
    "change",
    [
        {"cells": ("###", "#O", "###")},
        {"cells": ("###", "#x#", "###")},
        {"cells": ("###", "OO#", "###")},
        {"cells": ()},
        {"goal": (0, 0)},
        {"goal": (7, 7)},
    ],
)
def test_a_bad_layout_is_refused(change: dict[str, Any]) -> None:
    sound = MazeLayout("one", ("###", "#O#", "###"), (1, 1), 10, (0.0, 1.0))
    with pytest.raises(DataError, match="walled rectangle"):
        dataclasses.replace(sound, **change)
