"""Whole trajectories as plain columns, and how those of two tables are distributed: returns, lengths and ways.

What looks at real trajectories is not differentially private: outside `vault.nonprivate` only for simulated or public
data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import Trajectories
from tacit.errors import DataError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sequences:
    """E trajectories of different lengths, as columns of T rows.

    Args:
        columns: by name, [T, ...] each, as of `Trajectories.columns`; the rows of a trajectory one after another.
        episodes: [E + 1], as of `Trajectories.episodes`: trajectory e has the rows `episodes[e]:episodes[e + 1]`.
        seams: [S] rising rows at which a stitched fragment begins; the first row of a trajectory is none.

    Raises:
        DataError: the columns are empty or of different lengths, a trajectory is empty, the episodes do not cover the
            rows, or a seam is not inside a trajectory.
    """

    columns: Mapping[str, NDArray[np.generic]]
    episodes: Indices
    seams: Indices = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        rows = {len(column) for column in self.columns.values()}
        ends, seams = np.asarray(self.episodes), np.asarray(self.seams)
        whole = all(one.ndim == 1 and np.issubdtype(one.dtype, np.integer) for one in (ends, seams))
        if not whole or len(rows) != 1 or len(ends) < 2 or ends[0] != 0 or {int(ends[-1])} != rows or _falls(ends):
            raise _bad("the episodes do not fit the columns", "[E + 1] rising whole numbers from 0 to the rows' number")
        if _falls(seams) or np.isin(seams, ends).any() or not ((seams > 0) & (seams < ends[-1])).all():
            raise _bad("a seam is not inside a trajectory", "rising rows, none of them the first of a trajectory")

    @classmethod
    def of(cls, trajectories: Trajectories, seams: Indices | None = None) -> Sequences:
        """The trajectories of a set.

        Raises:
            SealedError: the records are sealed in a vault.
            DataError: as the class.
        """
        none = np.zeros(0, np.int64)
        return cls(trajectories.columns, trajectories.episodes, none if seams is None else seams)

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
        return Sequences(columns, episodes, np.flatnonzero(np.isin(rows, self.seams)))

    def some(self, count: int, seed: int) -> Sequences:
        """`count` random trajectories without repetition, or all of them."""
        return self.pick(np.random.default_rng(seed).permutation(len(self))[:count])

    def halves(self, seed: int) -> tuple[Sequences, Sequences]:
        """Two disjoint random halves, for real-against-real ceilings; an odd last trajectory is left out.

        Raises:
            DataError: there is one trajectory only.
        """
        half = len(self) // 2
        if half == 0:
            raise _bad("there is one trajectory only", "at least two, to be split into disjoint halves")
        order = np.random.default_rng(seed).permutation(len(self))
        return self.pick(order[:half]), self.pick(order[half : 2 * half])

    def shuffled(self, seed: int) -> Sequences:
        """The floor of a measure of sequences: the same lengths, and rows drawn from all trajectories in any order.

        Every distribution of single rows stays as it is, and nothing of their order or of who they belong to does.
        """
        order = np.random.default_rng(seed).permutation(self.episodes[-1])
        return Sequences({name: np.asarray(column)[order] for name, column in self.columns.items()}, self.episodes)

    def states(self) -> tuple[NDArray[np.generic], Indices]:
        """Every state of every trajectory, with the last next observation: ([T + E, d], [E + 1] as `episodes`)."""
        following = np.asarray(self.columns["next_observations"])[self.episodes[1:] - 1]
        states = np.insert(np.asarray(self.columns["observations"]), self.episodes[1:], following, axis=0)
        return states.reshape(len(states), -1), self.episodes + np.arange(len(self) + 1)


@dataclass(frozen=True, eq=False)
class Ways:
    """Figures of E trajectories, [E] each.

    Attributes:
        returns: sum of the rewards, undiscounted.
        lengths: steps.
        travelled: length of the way through the states, from the first to the last next observation, in units of the
            observation; where a stitched trajectory jumps, the jump counts.
        end_to_end: distance from the first to the last state.
        repeated: share of the states, the last next observation among them, that the trajectory was in before.
    """

    returns: Floats
    lengths: Floats
    travelled: Floats
    end_to_end: Floats
    repeated: Floats


def ways(sequences: Sequences, *, resolution: float | None = None, position: Sequence[int] | None = None) -> Ways:
    """Returns, lengths and ways of trajectories.

    Args:
        sequences: with `observations` and `next_observations` ([T, d] or [T]) and `rewards` [T].
        resolution: states are the same if they lie in the same cube of this side; None means equal numbers.
        position: which entries of the observation the way is measured in (the plane of a maze is (0, 1)); None takes
            all. Two different values of a discrete observation are one unit apart.

    Raises:
        DataError: the resolution is not positive, or there is no such entry.
    """
    states, episodes = sequences.states()
    entries = range(states.shape[1]) if position is None else position
    if (resolution is not None and not resolution > 0) or not set(entries) <= set(range(states.shape[1])):
        raise _bad("the resolution or the entries of the position are out of range", "resolution > 0, entries below d")
    discrete = np.issubdtype(states.dtype, np.integer)
    states = states[:, list(entries)]
    first, last = episodes[:-1], episodes[1:] - 1
    within = np.ones(len(states) - 1, np.bool_)
    within[last[:-1]] = False
    owners = np.repeat(np.arange(len(sequences)), np.diff(episodes))
    steps = _apart(states[1:], states[:-1], discrete)
    cells = states if resolution is None else np.floor(states.astype(np.float64) / resolution)
    distinct = np.unique(np.column_stack([owners, cells]), axis=0)[:, 0].astype(np.int64)
    rewards = np.asarray(sequences.columns["rewards"], np.float64)
    return Ways(
        returns=np.add.reduceat(rewards, sequences.episodes[:-1]),
        lengths=sequences.lengths.astype(np.float64),
        travelled=np.add.reduceat(steps[within], sequences.episodes[:-1]),
        end_to_end=_apart(states[last], states[first], discrete),
        repeated=1.0 - np.bincount(distinct, minlength=len(sequences)) / np.diff(episodes),
    )


def _apart(one: NDArray[np.generic], other: NDArray[np.generic], discrete: bool) -> Floats:
    """[N] distances of states [N, d]."""
    if discrete:
        return np.asarray((one != other).any(axis=1), np.float64)
    return np.asarray(np.linalg.norm(one.astype(np.float64) - other.astype(np.float64), axis=1))


def _falls(rows: NDArray[np.generic]) -> bool:
    return bool((np.diff(rows.astype(np.int64)) <= 0).any())


def _bad(what: str, expected: str) -> DataError:
    return DataError(what, where="measure.sequences", expected=expected, remedy="pass whole trajectories of one spec")
