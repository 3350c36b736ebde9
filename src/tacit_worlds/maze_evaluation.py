"""What policies are worth in a maze, and what a report draws and measures of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tacit.envs.rollouts import PlaneWorld, Policies
from tacit_worlds import maze
from tacit_worlds.maze_layouts import CELL_ORIGIN, MazeLayout, far_cells

Starts = Literal["all", "far"]


@dataclass(frozen=True)
class StraightController:
    """A controller that runs at the goal (a cell) of a maze as if there were no walls: a policy that learns nothing."""

    goal: tuple[int, int]
    members = 1

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Actions [1, N, 2] for observations [1, N, 4] or [N, 4]."""
        states = np.asarray(observations, np.float32)
        wanted = 10.0 * (np.array(self.goal, np.float32) - states[..., :2]) - 1.5 * states[..., 2:]
        return np.clip(wanted, -1.0, 1.0).reshape(1, -1, 2)


def evaluate(
    layout: MazeLayout, policies: Policies, *, starts: Starts, seed: int, episodes: int = 300
) -> npt.NDArray[np.float64]:
    """Mean normalised return of each policy in a maze, [K]: 0 is D4RL's random policy, 100 its controller.

    Args:
        layout: the maze; episodes last its horizon and never end early (D4RL's dense evaluation).
        policies: K of them, all from the same starts.
        starts: `all` draws them from every free cell as D4RL does; `far` only from cells whose shortest way to the
            goal is at least half the longest one, where a policy that runs straight at the goal meets walls.
        seed: of the starts.
        episodes: how many starts.
    """
    cells = far_cells(layout) if starts == "far" else None
    first = maze.random_start(layout, episodes, np.random.default_rng(seed), cells=cells)
    returns = maze.rollout(layout, policies.act, np.broadcast_to(first, (policies.members, *first.shape)))
    return np.asarray(maze.normalized_returns(layout, returns).mean(axis=-1))


COLUMNS = (
    ("x", "cells"),
    ("y", "cells"),
    ("x velocity", "cells/s"),
    ("y velocity", "cells/s"),
    ("x force", ""),
    ("y force", ""),
    ("reward", ""),
    ("next x", "cells"),
    ("next y", "cells"),
    ("next x vel.", "cells/s"),
    ("next y vel.", "cells/s"),
)
"""Name and unit of each scalar column of a maze's rows."""


def world(layout: MazeLayout) -> PlaneWorld:
    """A maze as a report asks it."""
    x, y = layout.goal_position.tolist()
    return PlaneWorld(
        columns=COLUMNS,
        cells=layout.cells,
        origin=CELL_ORIGIN,
        goal=(x, y),
        starts=get_args(Starts),
        baseline=("Straight at the goal", StraightController(layout.goal)),
        step=lambda state, action: maze.step(state, action, layout),
        reward=lambda state: maze.reward(layout, state[:, :2]),  # of a row's own observation, as in its data
        in_wall=partial(maze.in_wall, layout),
        evaluate=partial(evaluate, layout),
    )
