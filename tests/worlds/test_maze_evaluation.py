"""What policies are worth in a maze, and what it tells a report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from tacit_worlds import maze
from tacit_worlds.maze_evaluation import evaluate, world
from tacit_worlds.maze_layouts import LAYOUTS, far_cells


@dataclass(frozen=True)
class Constant:
    """K policies that never move, or always push one way."""

    actions: tuple[tuple[float, float], ...]

    @property
    def members(self) -> int:
        return len(self.actions)

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        shape = np.asarray(observations).shape[:-1]
        return np.broadcast_to(np.float32(self.actions)[:, None], (*shape, 2))


def test_known_constant_policies_get_their_known_returns() -> None:
    """On umaze, pushing to the goal's corner is worth about 32 and standing still about 5 (D4RL's scale)."""
    still, corner = evaluate(LAYOUTS["umaze"], Constant(((0, 0), (-1, -1))), starts="all", seed=0, episodes=600)
    assert still == pytest.approx(5, abs=4)
    assert corner == pytest.approx(32, abs=5)


def test_far_starts_are_far() -> None:
    layout = LAYOUTS["umaze"]
    cells = {tuple(cell) for cell in far_cells(layout)}
    assert tuple(layout.goal) not in cells
    all_starts, far = (
        evaluate(layout, Constant(((0, 0),)), starts=starts, seed=0)[0]  # type: ignore[arg-type]
        for starts in ("all", "far")
    )
    assert far < all_starts


def test_the_scale_is_d4rls() -> None:
    assert maze.normalized_returns(LAYOUTS["umaze"], [68.537689, 193.662856]) == pytest.approx([0, 100])


def test_a_world_is_asked_as_its_maze_is() -> None:
    layout, shown = LAYOUTS["umaze"], world(LAYOUTS["umaze"])
    rows = maze.collect(layout, 50, seed=0)
    states, actions = (np.asarray(rows[name], np.float64) for name in ("observations", "actions"))
    assert (shown.step(states, actions) == maze.step(states, actions, layout)).all()
    assert (shown.reward(states) == maze.reward(layout, states[:, :2])).all()
    assert not shown.in_wall(states[:, :2]).any()
    assert shown.in_wall(np.zeros((1, 2))).all()
    assert shown.goal == tuple(layout.goal)
    still = Constant(((0, 0),))
    assert shown.starts == ("all", "far")
    assert shown.evaluate(still, starts="far", seed=3, episodes=5) == evaluate(
        layout, still, starts="far", seed=3, episodes=5
    )
    label, straight = shown.baseline
    assert label == "Straight at the goal"
    assert (straight.act(np.float32([[0.0, 0.0, 0.0, 0.0]])) == 1.0).all()
