"""Whether synthetic transitions obey a public simulator of any kind: the error of one step, column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

Simulate = Callable[
    [NDArray[np.generic], NDArray[np.generic]], tuple[NDArray[np.generic], NDArray[np.generic]]
]  # states [N, d], actions [N, a] -> next states [N, d], rewards [N]


@dataclass(frozen=True)
class OneStepErrors:
    """How far synthetic transitions are from the simulator's."""

    next_state: float  # mean of `column_errors`. 0 is exact; 1 is as bad as a table whose states never change.
    reward: float  # mean |r - r*|, in units of reward
    # of each column of the state, mean |s' - s*| / mean |s* - s|; columns that the simulator never moves are left out
    column_errors: tuple[float, ...]


def one_step_errors(columns: Mapping[str, NDArray[np.generic]], simulate: Simulate) -> OneStepErrors:
    """Errors of sampled transitions (s, a, r, s') against the simulator's (s*, r*) from the same s and a.

    Args:
        columns: `observations` and `next_observations` [T, d], `actions` [T, a] or [T], `rewards` [T].
        simulate: (states [T, d], actions) -> (next states [T, d], rewards [T]); pure.

    Raises:
        DataError: the shapes are others, the simulator moves nothing, or gives a value that is not finite.
    """
    states, next_states, rewards = (
        np.asarray(columns[name], np.float64) for name in ("observations", "next_observations", "rewards")
    )
    if states.ndim != 2 or not len(states) or next_states.shape != states.shape or rewards.shape != states.shape[:1]:
        raise _error("the table has other shapes", "observations and next_observations [T, d], rewards [T], T >= 1")
    simulated = simulate(np.asarray(columns["observations"]), np.asarray(columns["actions"]))
    true, true_rewards = (np.asarray(values, np.float64) for values in simulated)
    if true.shape != states.shape or true_rewards.shape != rewards.shape or not np.isfinite(true).all():
        raise _error("the simulator gives other shapes, or values that are not finite", "one finite next state a row")
    displacements = np.abs(true - states).mean(axis=0)
    if not displacements.any():
        raise _error("the simulator moves no row at all", "a mean true displacement above zero in some column")
    errors = np.abs(next_states - true).mean(axis=0)[displacements > 0] / displacements[displacements > 0]
    return OneStepErrors(
        next_state=float(errors.mean()),
        reward=float(np.abs(rewards - true_rewards).mean()),
        column_errors=tuple(errors.tolist()),
    )


def _error(what: str, expected: str) -> DataError:
    remedy = "pass a sampled table and the simulator of its own spec"
    return DataError(what, where="one_step", expected=expected, remedy=remedy)
