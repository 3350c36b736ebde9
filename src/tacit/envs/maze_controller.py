"""The waypoint controller that makes Maze2D data: shortest ways on the grid, followed by a PD law (D4RL)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tacit.envs.maze_layouts import CELL_ORIGIN, Layout, distances, free_cells, walls

FloatArray = npt.NDArray[np.float64]

P_GAIN, D_GAIN = 10.0, -1.0
"""Gains of D4RL's `WaypointController`."""
REACHED = 0.1
"""Distance at which a waypoint, or the goal, counts as reached."""
JITTER = 0.2
"""A waypoint before the last one is its cell's point minus U(0, 0.2) on each axis."""


@lru_cache
def _next_cells(layout: Layout) -> npt.NDArray[np.int64]:
    """[F, F] the free cell after i on a shortest way to j (j itself at the end).

    The greedy policy of q-iteration with a reward at the goal only follows shortest ways, so counting steps gives the
    same cells as D4RL's q-iteration does.
    """
    cells, steps = free_cells(layout), distances(layout)
    adjacent = np.abs(cells[:, None] - cells[None, :]).sum(axis=2) == 1
    closer = adjacent[:, :, None] & (steps[None, :, :] == steps[:, None, :] - 1)
    following: npt.NDArray[np.int64] = closer.argmax(axis=1)
    np.fill_diagonal(following, np.arange(len(cells)))
    return following


class WaypointController:
    """Drives many balls, each to its own goal cell, by jittered waypoints and a PD law.

    Args:
        layout: the maze.
        agents: how many balls (N).
        generator: source of the jitter and of the goals.
    """

    def __init__(self, layout: Layout, agents: int, generator: np.random.Generator) -> None:
        self._cells = free_cells(layout).astype(np.float64)
        self._following = _next_cells(layout)
        self._index = np.full(walls(layout).shape, -1, dtype=np.int64)
        self._index[tuple(free_cells(layout).T)] = np.arange(len(self._cells))
        self._generator = generator
        self._target = np.zeros(agents, dtype=np.int64)
        self._cell = np.zeros(agents, dtype=np.int64)
        self._waypoint = np.zeros((agents, 2))

    def cell_of(self, positions: FloatArray) -> npt.NDArray[np.int64]:
        """Free-cell index [N] of positions [N, 2] (-1 inside a wall)."""
        row, column = np.floor(positions + CELL_ORIGIN).astype(np.int64).T
        index: npt.NDArray[np.int64] = self._index[row, column]
        return index

    def aim(self, positions: FloatArray, agents: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]) -> None:
        """Gives the `agents` [M], now at `positions` [M, 2], new goal cells `targets` [M] (free-cell indices)."""
        self._target[agents] = targets
        self._advance(agents, self.cell_of(positions))

    def aim_anywhere(self, positions: FloatArray, agents: npt.NDArray[np.int64]) -> None:
        """Gives the `agents` [M] new goal cells, uniform over the free cells other than their own."""
        here = self.cell_of(positions)
        step = self._generator.integers(1, len(self._cells), size=len(agents))
        self.aim(positions, agents, (here + step) % len(self._cells))

    def _advance(self, agents: npt.NDArray[np.int64], here: npt.NDArray[np.int64]) -> None:
        target = self._target[agents]
        following = self._following[here, target]
        jitter = self._generator.random((len(agents), 2)) * JITTER
        jitter[following == target] = 0.0
        self._cell[agents] = following
        self._waypoint[agents] = self._cells[following] - jitter

    def act(self, state: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Actions [N, 2] in [-1, 1] for states [N, 4], and the indices of the agents that stand at their goal."""
        offset = self._waypoint - state[:, :2]
        action = np.clip(P_GAIN * offset + D_GAIN * state[:, 2:], -1.0, 1.0)
        reached = np.flatnonzero(np.einsum("nd,nd->n", offset, offset) < REACHED**2)
        final = self._cell[reached] == self._target[reached]
        passing = reached[~final]
        self._advance(passing, self._cell[passing])
        return action, reached[final]
