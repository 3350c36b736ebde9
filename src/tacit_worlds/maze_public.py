"""Public rows to pre-train on: other mazes of the same outer size.

Somebody who knows the task but not the private maze knows its outer walls (they bound the observations) and its
physics. So they can simulate rows in any maze of that size; the inner walls and the goal are what only the private rows
tell. (With the private goal, pre-training alone would already train agents as good as the private rows do.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacit_worlds.maze import collect
from tacit_worlds.maze_layouts import MazeLayout, distances

WALL_SHARE = 0.35
"""Probability that an inner cell of a random maze is wall (D4RL's mazes: 0.3 to 0.4)."""
FEWEST_FREE = 3


def other_mazes(layout: MazeLayout, count: int, *, seed: int) -> list[MazeLayout]:
    """`count` random connected mazes with the outer size and horizon of `layout`, none with its walls.

    Args:
        layout: gives the size, horizon and reference. Its own walls are left out, because rows from the private maze
            itself would make an experiment void; goals are random free cells.
        count: how many; repetitions are possible.
        seed: of the inner walls and the goals.
    """
    rng = np.random.default_rng(seed)
    rows, columns = len(layout.cells), len(layout.cells[0])
    mazes: list[MazeLayout] = []
    while len(mazes) < count:
        wall = np.ones((rows, columns), dtype=bool)
        wall[1:-1, 1:-1] = rng.random((rows - 2, columns - 2)) < WALL_SHARE
        free = np.argwhere(~wall)
        if len(free) < FEWEST_FREE:
            continue
        goal_row, goal_column = (int(index) for index in free[rng.integers(len(free))])
        cells = tuple("".join("#" if filled else "O" for filled in row) for row in wall)
        if cells == layout.cells:
            continue
        name = f"other-{seed}-{len(mazes)}"
        maze = MazeLayout(name, cells, (goal_row, goal_column), layout.horizon, layout.reference)
        if distances(maze).min() >= 0:
            mazes.append(maze)
    return mazes


def other_rows(layout: MazeLayout, steps: int, *, mazes: int = 32, seed: int) -> dict[str, npt.NDArray[Any]]:
    """About `steps` transitions of the waypoint controller, spread evenly over `other_mazes`: columns of
    `maze.collect`, without episode ids."""
    parts = [
        collect(maze, steps // mazes, agents=8, seed=seed + 1 + index)
        for index, maze in enumerate(other_mazes(layout, mazes, seed=seed))
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "episode_ids"}
