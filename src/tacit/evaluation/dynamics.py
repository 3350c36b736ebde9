"""Whether synthetic transitions obey the world they come from: errors against a public simulator, rows inside walls.
Only synthetic rows and a public simulator are looked at, so these figures are post-processing of a release and free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Dynamics:
    """How far synthetic transitions are from the simulator's. With (x, v) the position and velocity of a row's state,
    (x', v') those of its next state and (x*, v*) those of the simulator's next state from the row's own state and
    action, over the rows that start outside walls:"""

    # mean |x' - x*| / mean |x* - x| ("dx"): the error of the next position in units of the mean true displacement of
    # one step. 0 is exact; 1 is as bad as a table whose next position is the present one.
    next_position: float
    next_velocity: float  # mean |v' - v*| / mean |v* - v| ("dv"), alike
    reward: float  # mean |r - r*|, in units of reward
    # share of all rows whose position x lies inside a wall, in [0, 1]. The simulator has no true next state there, so
    # these rows count here and not in the errors.
    in_wall: float


def dynamics(
    columns: Mapping[str, NDArray[np.generic]],
    *,
    step: Callable[[Array, Array], NDArray[np.generic]],
    reward: Callable[[Array, Array, Array], NDArray[np.generic]],
    in_wall: Callable[[Array], NDArray[np.generic]],
) -> Dynamics:
    """Errors of sampled transitions against a public simulator of point masses in the plane.

    Args:
        columns: `observations` and `next_observations` [T, 4] (x, y, v_x, v_y), `actions` [T, a], `rewards` [T].
        step: (states [N, 4], actions [N, a]) -> next states [N, 4]; pure.
        reward: (states [N, 4], actions [N, a], the simulator's next states [N, 4]) -> [N]; pure.
        in_wall: positions [N, 2] -> bool [N].

    Raises:
        DataError: the shapes are others, every row starts inside a wall, or the simulator moves nothing.
    """
    states, actions, rewards, next_states = (
        np.asarray(columns[name], dtype=np.float64)
        for name in ("observations", "actions", "rewards", "next_observations")
    )
    rows = len(states)
    if rows == 0 or states.shape != (rows, 4) or next_states.shape != (rows, 4) or rewards.shape != (rows,):
        what = "the table is not one of point masses in the plane"
        expected = "observations and next_observations [T, 4] as (x, y, v_x, v_y) and rewards [T], with T >= 1"
        raise DataError(what, where="dynamics", expected=expected, remedy="use these measures on maze data only")
    walled = np.asarray(in_wall(states[:, :2]), dtype=bool)
    free = ~walled
    if not free.any():
        expected, remedy = "at least one row in free space", "check that the layout is the one of the table"
        raise DataError("every row starts inside a wall", where="dynamics", expected=expected, remedy=remedy)
    states, actions, rewards, next_states = states[free], actions[free], rewards[free], next_states[free]
    true = np.asarray(step(states, actions), dtype=np.float64)
    true_rewards = np.asarray(reward(states, actions, true), dtype=np.float64)
    return Dynamics(
        next_position=_relative_error(next_states[:, :2], true[:, :2], states[:, :2]),
        next_velocity=_relative_error(next_states[:, 2:], true[:, 2:], states[:, 2:]),
        reward=float(np.mean(np.abs(rewards - true_rewards))),
        in_wall=float(np.mean(walled)),
    )


def _relative_error(sampled: Array, true: Array, start: Array) -> float:
    """mean |sampled - true| / mean |true - start| of points [N, 2]."""
    displacement = float(np.mean(np.linalg.norm(true - start, axis=1)))
    if displacement == 0.0:
        what, expected = "the simulator moves no row at all", "a mean true displacement above zero"
        remedy = "check that the states and the step function use the same units"
        raise DataError(what, where="dynamics", expected=expected, remedy=remedy)
    return float(np.mean(np.linalg.norm(sampled - true, axis=1))) / displacement
