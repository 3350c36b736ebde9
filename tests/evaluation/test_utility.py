"""Returns of policies in the maze, and intervals over seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from tacit.evaluation.statistics import evaluate, interval
from tacit_worlds import maze
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
    assert maze.normalised(LAYOUTS["umaze"], [68.537689, 193.662856]) == pytest.approx([0, 100])


def test_interval_is_students() -> None:
    mean, low, high = interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert high - mean == pytest.approx(4.302652729911275 * 1.0 / math.sqrt(3))
    assert mean - low == pytest.approx(high - mean)
    assert interval([5.0]) == (5.0, -math.inf, math.inf)
