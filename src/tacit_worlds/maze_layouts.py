"""Mazes of the Maze2D tasks: the four of D4RL, and others of tacit's own for tuning and pre-training.

Coordinates are those of D4RL (Fu et al. 2020, arXiv 2004.07219): x grows with the row and y with the column of the
maze. The centre of the ball in a free cell of row r spans x in [r - 0.6, r + 0.2], because the walls are moved by 0.3
against the whole numbers and the ball has a radius of 0.1.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tacit.errors import DataError

CELL_ORIGIN = 0.7
"""Cell r covers qpos in [r - 0.7, r + 0.3]."""
RADIUS = 0.1
"""Radius of the ball, in cells."""

_EDGE_SLACK = 1e-5  # a float32 position that touches a wall is not inside it


@dataclass(frozen=True)
class MazeLayout:
    """One maze and its evaluation task. Raises DataError of ragged rows, another character, an open border, or a goal
    inside a wall."""

    name: str  # the name under which `LAYOUTS` lists it
    cells: tuple[str, ...]  # one string per row, `#` for a wall and `O` for a free cell; the border is wall
    goal: tuple[int, int]  # (row, column) of the evaluation goal; the reward is exp(-distance to this point)
    horizon: int  # steps of an evaluation episode
    # returns (random agent, waypoint controller) that the normalised return maps to 0 and 100
    reference: tuple[float, float]

    def __post_init__(self) -> None:
        width = len(self.cells[0]) if self.cells else 0
        border = "".join((*self.cells[:1], *self.cells[-1:], *(row[:1] + row[-1:] for row in self.cells)))
        sound = (
            len(self.cells) >= 3
            and all(len(row) == width for row in self.cells)
            and set("".join(self.cells)) == {"#", "O"}
            and set(border) == {"#"}
            and 0 <= self.goal[0] < len(self.cells)
            and 0 <= self.goal[1] < width
            and self.cells[self.goal[0]][self.goal[1]] == "O"
        )
        if not sound:
            what = "the maze is not a walled rectangle of '#' and 'O' with its goal in a free cell"
            expected = "rows of one length, a border of '#', and a goal on an 'O'"
            remedy = "correct the rows or the goal"
            raise DataError(what, where=f"Layout({self.name!r})", expected=expected, remedy=remedy)

    @property
    def goal_position(self) -> npt.NDArray[np.float64]:
        """The goal, [2] float64, in the coordinates of the observations."""
        return np.array(self.goal, dtype=np.float64)


@lru_cache
def walls(layout: MazeLayout) -> npt.NDArray[np.bool_]:
    """[rows, columns], True where the cell is a wall."""
    return np.array([[cell == "#" for cell in row] for row in layout.cells])


@lru_cache
def free_cells(layout: MazeLayout) -> npt.NDArray[np.int64]:
    """[F, 2] (row, column) of the free cells, row by row."""
    return np.argwhere(~walls(layout))


@lru_cache
def distances(layout: MazeLayout) -> npt.NDArray[np.int64]:
    """[F, F] steps on the grid (four neighbours) from free cell i to free cell j; -1 where there is no way."""
    cells = free_cells(layout)
    index = {(int(row), int(column)): i for i, (row, column) in enumerate(cells)}
    table = np.full((len(cells), len(cells)), -1, dtype=np.int64)
    for start in range(len(cells)):
        table[start, start] = 0
        queue = deque([start])
        while queue:
            cell = queue.popleft()
            row, column = cells[cell]
            for move in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                there = index.get((int(row) + move[0], int(column) + move[1]))
                if there is not None and table[start, there] < 0:
                    table[start, there] = table[start, cell] + 1
                    queue.append(there)
    return table


def far_cells(layout: MazeLayout) -> npt.NDArray[np.int64]:
    """[M, 2] free cells whose shortest way to the goal is at least half of the longest one."""
    cells = free_cells(layout)
    goal = int(np.flatnonzero((cells == layout.goal).all(axis=1))[0])
    steps = distances(layout)[:, goal]
    far: npt.NDArray[np.int64] = cells[2 * steps >= steps.max()]
    return far


@lru_cache
def blocked_zones(layout: MazeLayout) -> npt.NDArray[np.bool_]:
    """[3 rows, 3 columns], True where a ball whose centre lies in the zone overlaps a wall."""
    # Every cell is cut at one radius from its edges, so that a wall blocks its own three zones and the nearest one of
    # its neighbours. Corners are square.
    fine = np.kron(walls(layout), np.ones((3, 3), dtype=bool)).astype(bool)
    padded = np.pad(fine, 1, constant_values=True)
    rows, columns = fine.shape
    grown = np.zeros_like(fine)
    for i in range(3):
        for j in range(3):
            grown |= padded[i : i + rows, j : j + columns]
    return grown


def zone(coordinate: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Zone index along one axis (see `blocked_zones`) of positions of any shape."""
    u = coordinate + CELL_ORIGIN
    low = np.floor(u - (RADIUS - _EDGE_SLACK))
    index: npt.NDArray[np.int64] = (np.floor(u) + low + np.floor(u + (RADIUS - _EDGE_SLACK))).astype(np.int64)
    return index + 1


def zone_edge(index: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Lower edge of the zones, as a position along the axis."""
    cell, part = np.divmod(index, 3)
    offsets = np.array([0.0, RADIUS, 1.0 - RADIUS])
    edge: npt.NDArray[np.float64] = cell + offsets[part] - CELL_ORIGIN
    return edge


def _layout(name: str, rows: str, goal: tuple[int, int], horizon: int, reference: tuple[float, float]) -> MazeLayout:
    return MazeLayout(name, tuple(rows.split()), goal, horizon, reference)


LAYOUTS: dict[str, MazeLayout] = {
    layout.name: layout
    for layout in (
        # D4RL's own. The references of umaze, medium and large are D4RL's (dense, v1); all others are the mean returns
        # of uniform actions and of `controller_policy` over 2,000 starts (D4RL has none for open with this horizon).
        _layout("open", "####### #OOOOO# #OOOOO# #OOOOO# #######", (2, 3), 300, (72.0, 264.4)),
        _layout("umaze", "##### #OOO# ###O# #OOO# #####", (1, 1), 300, (68.537689, 193.662856)),
        _layout(
            "medium",
            "######## #OO##OO# #OO#OOO# ##OOO### #OO#OOO# #O#OO#O# #OOO#OO# ########",
            (6, 6),
            600,
            (44.264742, 297.455255),
        ),
        _layout(
            "large",
            "############ #OOOO#OOOOO# #O##O#O#O#O# #OOOOOO#OOO# #O####O###O# #OO#O#OOOOO# ##O#O#O#O### #OO#OOO#OOO# "
            "############",
            (7, 9),
            800,
            (30.569041, 303.485738),
        ),
        # tacit's own: none is umaze or medium, turned or mirrored.
        _layout("ring", "##### #OOO# #O#O# #OOO# #####", (3, 3), 300, (73.0, 260.8)),
        _layout("tee", "##### #OOO# ##O## ##O## #####", (3, 2), 300, (83.1, 263.3)),
        _layout("zigzag", "####### #OO#OO# ##OOO## #OO#OO# #######", (3, 5), 400, (63.8, 318.6)),
        _layout(
            "comb",
            "######## #OOOOOO# #O#O##O# #O#O#OO# #O#O##O# #O#OO#O# #OOO##O# ########",
            (5, 4),
            600,
            (63.8, 451.5),
        ),
        _layout(
            "rooms",
            "######## #OO#OOO# #OOOOOO# #OO#OOO# ##O##O## #OO#OOO# #OOOO#O# ########",
            (6, 6),
            600,
            (41.9, 454.4),
        ),
    )
}
"""All layouts by name. `umaze` and `medium` serve the evaluation; hyper-parameters come from the others."""
