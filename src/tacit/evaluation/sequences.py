"""Whole trajectories as plain columns, and how those of two tables are distributed: returns, lengths and ways. What
looks at real trajectories is not differentially private: outside `vault.nonprivate` only for simulated or public
data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import Trajectories
from tacit.errors import DataError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sequences:
    """E trajectories of different lengths, as columns of T rows. Raises DataError where the columns are empty or of
    different lengths, a trajectory is empty, the episodes do not cover the rows, or a stitch is not inside a
    trajectory."""

    # by name, [T, ...] each, as of `Trajectories.columns`; the rows of a trajectory one after another
    columns: Mapping[str, NDArray[np.generic]]
    episodes: Indices  # [E + 1], as of `Trajectories.episodes`: trajectory e has the rows `episodes[e]:episodes[e + 1]`
    # [S] rising rows at which a stitched fragment begins; the first row of a trajectory is none
    stitches: Indices = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        rows = {len(column) for column in self.columns.values()}
        ends, stitches = np.asarray(self.episodes), np.asarray(self.stitches)
        whole = all(array.ndim == 1 and np.issubdtype(array.dtype, np.integer) for array in (ends, stitches))
        if not whole or len(rows) != 1 or len(ends) < 2 or ends[0] != 0 or {int(ends[-1])} != rows or _descends(ends):
            expected = "[E + 1] rising whole numbers from 0 to the rows' number"
            raise _error("the episodes do not fit the columns", expected)
        if _descends(stitches) or np.isin(stitches, ends).any() or not ((stitches > 0) & (stitches < ends[-1])).all():
            raise _error("a stitch is not inside a trajectory", "rising rows, none of them the first of a trajectory")

    @classmethod
    def of(cls, trajectories: Trajectories, stitches: Indices | None = None) -> Sequences:
        """The trajectories of a set. Raises SealedError where the records are sealed in a vault."""
        none = np.zeros(0, np.int64)
        return cls(trajectories.columns, trajectories.episodes, none if stitches is None else stitches)

    def __len__(self) -> int:
        """E."""
        return len(self.episodes) - 1

    @property
    def lengths(self) -> Indices:
        """[E] steps."""
        return np.diff(self.episodes)

    @property
    def owners(self) -> Indices:
        """[T] the trajectory that each row belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def times(self) -> Indices:
        """[T] how many steps of its trajectory lie before each row."""
        return np.arange(self.episodes[-1]) - np.repeat(self.episodes[:-1], self.lengths)

    def pick(self, chosen: Indices) -> Sequences:
        """The trajectories with these numbers, in this order; a number may come again."""
        lengths = self.lengths[chosen]
        episodes = np.append(0, np.cumsum(lengths))
        rows = np.arange(episodes[-1]) + np.repeat(self.episodes[chosen] - episodes[:-1], lengths)
        columns = {name: np.asarray(column)[rows] for name, column in self.columns.items()}
        return Sequences(columns, episodes, np.flatnonzero(np.isin(rows, self.stitches)))

    def sample(self, count: int, seed: int) -> Sequences:
        """`count` random trajectories without repetition, or all of them."""
        return self.pick(np.random.default_rng(seed).permutation(len(self))[:count])

    def split_halves(self, seed: int) -> tuple[Sequences, Sequences]:
        """Two disjoint random halves, for real-against-real ceilings; an odd last trajectory is left out."""
        half = len(self) // 2
        if half == 0:
            raise _error("there is one trajectory only", "at least two, to be split into disjoint halves")
        order = np.random.default_rng(seed).permutation(len(self))
        return self.pick(order[:half]), self.pick(order[half : 2 * half])

    def shuffle_rows(self, seed: int) -> Sequences:
        """The floor of a measure of sequences: the same lengths, and rows drawn from all trajectories in any order.
        Every distribution of single rows stays as it is, and nothing of their order or of who they belong to does."""
        order = np.random.default_rng(seed).permutation(self.episodes[-1])
        return Sequences({name: np.asarray(column)[order] for name, column in self.columns.items()}, self.episodes)

    @property
    def returns(self) -> Floats:
        """[E] sums of the rewards, undiscounted."""
        return np.add.reduceat(np.asarray(self.columns["rewards"], np.float64), self.episodes[:-1])


def _descends(rows: NDArray[np.generic]) -> bool:
    return bool((np.diff(rows.astype(np.int64)) <= 0).any())


def _error(what: str, expected: str) -> DataError:
    return DataError(what, where="measure.sequences", expected=expected, remedy="pass whole trajectories of one spec")


# Whether synthetic trajectories obey a public simulator: step by step along them, at their stitch points, and as a
# whole.


Step = Callable[[Floats, NDArray[np.generic]], NDArray[np.generic]]
"""States [N, d] and actions [N, a] or [N] -> next states [N, d]; pure."""
Known = Callable[[Floats], NDArray[np.bool_]]
"""States [N, d] -> [N], whether the simulator has a next state there (it has none inside a wall)."""


@dataclass(frozen=True, eq=False)
class SequenceDynamics:
    """How far synthetic trajectories are from the simulator's, in units of the mean true displacement of one step.

    The error of a step is between the state that follows in the trajectory (the next row's, or the last row's next
    observation) and the simulator's next state: per column |s' - s*| / mean |s* - s|, and the mean over the columns
    that the simulator moves. 0 is exact; 1 is as bad as trajectories that stand still. A mean over nothing is nan.
    """

    step_errors: Floats  # [H] mean error of step t, over the trajectories that have one; H is the longest one's steps
    # [H] mean distance, measured alike, between the state after step t and where the simulator alone gets to from the
    # trajectory's first state with its actions; a step that is not known ends a trajectory's count
    drift: Floats
    stitch_error: float  # mean error of the steps that lead from one fragment to the next; nan where there is no stitch
    inner_error: float  # mean error of all other steps
    # mean distance, measured alike, between the next observation of a fragment's last row and the first observation of
    # the fragment that is stitched to it; nan where there is no stitch
    stitch_gap: float


def sequence_dynamics(sequences: Sequences, step: Step, *, known: Known | None = None) -> SequenceDynamics:
    """Errors of sampled trajectories against a public simulator."""
    # sequences: with `observations` and `next_observations` [T, d] numbers and `actions` [T, a] or [T]; known: where it
    # has a next state, None is everywhere. `step` sees only such states
    states, nexts = (np.asarray(sequences.columns[name], np.float64) for name in ("observations", "next_observations"))
    if states.ndim != 2 or nexts.shape != states.shape:
        raise _step_error("the table has other shapes", "observations and next_observations [T, d]")
    actions = np.asarray(sequences.columns["actions"])
    valid = np.ones(len(states), np.bool_) if known is None else np.asarray(known(states), np.bool_)
    if not valid.any():
        raise _step_error("the simulator knows no state of the table", "at least one row that it can step from")
    true = np.full_like(states, np.nan)
    true[valid] = _simulate_step(step, states[valid], actions[valid])
    unit = np.abs(true[valid] - states[valid]).mean(axis=0)
    moved = unit > 0
    if not moved.any():
        raise _step_error("the simulator moves no row at all", "a mean true displacement above zero in some column")

    def relative_error(first: Floats, second: Floats) -> Floats:
        return np.asarray((np.abs(first - second)[:, moved] / unit[moved]).mean(axis=1))

    stitches = np.asarray(sequences.stitches, np.int64)
    next_states = np.roll(states, -1, axis=0)
    next_states[sequences.episodes[1:] - 1] = nexts[sequences.episodes[1:] - 1]
    errors = relative_error(next_states, true)
    into_stitch = np.zeros(len(states), np.bool_)
    into_stitch[stitches - 1] = True
    horizon = int(sequences.lengths.max())
    times = sequences.times[valid]
    counts = np.bincount(times, minlength=horizon)
    sums = np.asarray(np.bincount(times, weights=errors[valid], minlength=horizon), np.float64)
    return SequenceDynamics(
        step_errors=_mean(sums, counts),
        drift=_drift(sequences, next_states, actions, step, known, relative_error),
        stitch_error=float(_mean(errors[valid & into_stitch].sum(), (valid & into_stitch).sum())),
        inner_error=float(_mean(errors[valid & ~into_stitch].sum(), (valid & ~into_stitch).sum())),
        stitch_gap=float(_mean(relative_error(states[stitches], nexts[stitches - 1]).sum(), len(stitches))),
    )


def _drift(
    sequences: Sequences,
    next_states: Floats,
    actions: NDArray[np.generic],
    step: Step,
    steppable: Known | None,
    distance: Callable[[Floats, Floats], Floats],
) -> Floats:
    """[H] mean distances to the simulator's own trajectories, of those that there still are."""
    starts, lengths = sequences.episodes[:-1], sequences.lengths
    simulated = np.asarray(sequences.columns["observations"], np.float64)[starts]
    active = np.arange(len(starts))
    sums, counts = np.zeros(lengths.max()), np.zeros(lengths.max(), np.int64)
    for time in range(len(sums)):
        active = active[lengths[active] > time]
        if steppable is not None:
            active = active[np.asarray(steppable(simulated[active]), np.bool_)]
        if not len(active):
            break
        rows = starts[active] + time
        simulated[active] = _simulate_step(step, simulated[active], actions[rows])
        sums[time], counts[time] = distance(next_states[rows], simulated[active]).sum(), len(active)
    return _mean(sums, counts)


def _simulate_step(step: Step, states: Floats, actions: NDArray[np.generic]) -> Floats:
    true = np.asarray(step(states, actions), np.float64)
    if true.shape != states.shape or not np.isfinite(true).all():
        what = "the simulator gives another shape, or values that are not finite"
        raise _step_error(what, "one finite next state a row")
    return true


def _mean(total: Floats | np.floating, count: NDArray[np.int64] | np.integer | int) -> Floats:
    """Sums over counts; nan over none."""
    return np.asarray(np.where(np.asarray(count) > 0, total, np.nan) / np.maximum(count, 1))


def _step_error(what: str, expected: str) -> DataError:
    remedy = "pass trajectories and the simulator of their spec"
    return DataError(what, where="sequence_dynamics", expected=expected, remedy=remedy)
