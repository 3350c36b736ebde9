"""Whether synthetic trajectories obey a public simulator: step by step along them, at their seams, and as a whole.

Only synthetic trajectories and a public simulator are looked at, so these figures are post-processing of a release and
free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.evaluation.sequences import Floats, Sequences

Step = Callable[[Floats, NDArray[np.generic]], NDArray[np.generic]]
"""States [N, d] and actions [N, a] or [N] -> next states [N, d]; pure."""
Known = Callable[[Floats], NDArray[np.bool_]]
"""States [N, d] -> [N], whether the simulator has a next state there (it has none inside a wall)."""


@dataclass(frozen=True, eq=False)
class SequenceDynamics:
    """How far synthetic trajectories are from the simulator's, in units of the mean true displacement of one step.

    The error of a step is between the state that follows in the trajectory (the next row's, or the last row's next
    observation) and the simulator's next state: per column |s' - s*| / mean |s* - s|, and the mean over the columns
    that the simulator moves. 0 is exact; 1 is as bad as trajectories that stand still.

    Attributes:
        along: [H] mean error of step t, over the trajectories that have one; H is the longest one's steps.
        drift: [H] mean distance, measured alike, between the state after step t and where the simulator alone gets to
            from the trajectory's first state with its actions; a step that is not known ends a trajectory's count.
        reaching: [H] how many trajectories `drift` is a mean of.
        at_seams: mean error of the steps that lead from one fragment to the next; nan where there is no seam.
        elsewhere: mean error of all other steps.
        gap: mean distance, measured alike, between the next observation of a fragment's last row and the first
            observation of the fragment that is stitched to it; nan where there is no seam.
        unknown: share of rows that start where the simulator has no next state. They count here alone.

    A mean over nothing is nan.
    """

    along: Floats
    drift: Floats
    reaching: NDArray[np.int64]
    at_seams: float
    elsewhere: float
    gap: float
    unknown: float


def sequence_dynamics(sequences: Sequences, step: Step, *, known: Known | None = None) -> SequenceDynamics:
    """Errors of sampled trajectories against a public simulator.

    Args:
        sequences: with `observations` and `next_observations` [T, d] numbers and `actions` [T, a] or [T].
        step: the simulator.
        known: where it has a next state; None is everywhere. `step` sees only such states.

    Raises:
        DataError: the shapes are others, no row is known, or the simulator moves nothing or gives a value that is not
            finite.
    """
    states, nexts = (np.asarray(sequences.columns[name], np.float64) for name in ("observations", "next_observations"))
    if states.ndim != 2 or nexts.shape != states.shape:
        raise _bad("the table has other shapes", "observations and next_observations [T, d]")
    actions = np.asarray(sequences.columns["actions"])
    valid = np.ones(len(states), np.bool_) if known is None else np.asarray(known(states), np.bool_)
    if not valid.any():
        raise _bad("the simulator knows no state of the table", "at least one row that it can step from")
    true = np.full_like(states, np.nan)
    true[valid] = _stepped(step, states[valid], actions[valid])
    unit = np.abs(true[valid] - states[valid]).mean(axis=0)
    moved = unit > 0
    if not moved.any():
        raise _bad("the simulator moves no row at all", "a mean true displacement above zero in some column")

    def apart(one: Floats, other: Floats) -> Floats:
        return np.asarray((np.abs(one - other)[:, moved] / unit[moved]).mean(axis=1))

    seams = np.asarray(sequences.seams, np.int64)
    following = np.roll(states, -1, axis=0)
    following[sequences.episodes[1:] - 1] = nexts[sequences.episodes[1:] - 1]
    errors = apart(following, true)
    leads = np.zeros(len(states), np.bool_)
    leads[seams - 1] = True
    horizon = int(sequences.lengths.max())
    times = sequences.times[valid]
    counts = np.bincount(times, minlength=horizon)
    sums = np.asarray(np.bincount(times, weights=errors[valid], minlength=horizon), np.float64)
    drift, reaching = _drift(sequences, following, actions, step, known, apart)
    return SequenceDynamics(
        along=_mean(sums, counts),
        drift=drift,
        reaching=reaching,
        at_seams=float(_mean(errors[valid & leads].sum(), (valid & leads).sum())),
        elsewhere=float(_mean(errors[valid & ~leads].sum(), (valid & ~leads).sum())),
        gap=float(_mean(apart(states[seams], nexts[seams - 1]).sum(), len(seams))),
        unknown=float(np.mean(~valid)),
    )


def _drift(
    sequences: Sequences,
    following: Floats,
    actions: NDArray[np.generic],
    step: Step,
    known: Known | None,
    apart: Callable[[Floats, Floats], Floats],
) -> tuple[Floats, NDArray[np.int64]]:
    """[H] mean distances to the simulator's own trajectories, and [H] how many of them there still were."""
    starts, lengths = sequences.episodes[:-1], sequences.lengths
    own = np.asarray(sequences.columns["observations"], np.float64)[starts]
    going = np.arange(len(starts))
    sums, reaching = np.zeros(lengths.max()), np.zeros(lengths.max(), np.int64)
    for time in range(len(sums)):
        going = going[lengths[going] > time]
        if known is not None:
            going = going[np.asarray(known(own[going]), np.bool_)]
        if not len(going):
            break
        rows = starts[going] + time
        own[going] = _stepped(step, own[going], actions[rows])
        sums[time], reaching[time] = apart(following[rows], own[going]).sum(), len(going)
    return _mean(sums, reaching), reaching


def _stepped(step: Step, states: Floats, actions: NDArray[np.generic]) -> Floats:
    true = np.asarray(step(states, actions), np.float64)
    if true.shape != states.shape or not np.isfinite(true).all():
        raise _bad("the simulator gives another shape, or values that are not finite", "one finite next state a row")
    return true


def _mean(total: Floats | np.floating, count: NDArray[np.int64] | np.integer | int) -> Floats:
    """Sums over counts; nan over none."""
    return np.asarray(np.where(np.asarray(count) > 0, total, np.nan) / np.maximum(count, 1))


def _bad(what: str, expected: str) -> DataError:
    return DataError(
        what, where="sequence_dynamics", expected=expected, remedy="pass trajectories and the simulator of their spec"
    )
