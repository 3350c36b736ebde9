"""Trajectories as columns: cutting, picking and shuffling them, and how their returns, lengths and ways compare."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.evaluation.sequences import Sequences

# Two trajectories in the plane: east, east, back west; and one step of (3, 4).
STATES = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
NEXTS = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0], [3.0, 4.0]])
REWARDS = np.array([1.0, 2.0, 4.0, 8.0])
TWO = Sequences({"observations": STATES, "next_observations": NEXTS, "rewards": REWARDS}, np.array([0, 3, 4]))


def wandering(count: int, seed: int) -> Sequences:
    """Random walks of different lengths."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(5, 30, count)
    ends = np.append(0, np.cumsum(lengths))
    states = generator.normal(size=(ends[-1], 3)).cumsum(axis=0)
    columns = {"observations": states, "next_observations": states + 0.1, "rewards": generator.normal(size=ends[-1])}
    return Sequences(columns, ends)


def test_returns_and_lengths_of_two_small_trajectories() -> None:
    assert (TWO.returns.tolist(), TWO.lengths.tolist()) == ([7.0, 8.0], [3, 1])


def test_picking_keeps_rows_and_seams_together() -> None:
    seamed = Sequences(TWO.columns, TWO.episodes, np.array([2]))
    picked = seamed.pick(np.array([1, 0, 0]))
    assert picked.columns["rewards"].tolist() == [8.0, 1.0, 2.0, 4.0, 1.0, 2.0, 4.0]
    assert picked.episodes.tolist() == [0, 1, 4, 7]
    assert picked.stitches.tolist() == [3, 6]
    assert (picked.owners.tolist(), picked.times.tolist()) == ([0, 1, 1, 1, 2, 2, 2], [0, 0, 1, 2, 0, 1, 2])


def test_halves_are_disjoint_and_shuffling_keeps_rows_and_lengths() -> None:
    real = wandering(21, 3)
    one, other = real.split_halves(0)
    assert (len(one), len(other)) == (10, 10)
    assert not set(one.columns["rewards"]) & set(other.columns["rewards"])
    mixed = real.shuffle_rows(0)
    assert sorted(mixed.columns["rewards"]) == sorted(real.columns["rewards"])
    assert mixed.columns["rewards"].tolist() != real.columns["rewards"].tolist()
    assert mixed.episodes.tolist() == real.episodes.tolist()
    here = {
        reward: tuple(state)
        for reward, state in zip(real.columns["rewards"], real.columns["observations"], strict=True)
    }
    assert here == dict(zip(mixed.columns["rewards"], map(tuple, mixed.columns["observations"]), strict=True))
    assert len(real.sample(5, 0)) == 5
    assert len(real.sample(99, 0)) == 21


def test_they_are_those_of_a_set_of_trajectories() -> None:
    bounds = Box((-20.0,) * 2, (20.0,) * 2)
    trajectories = Trajectories.from_arrays(
        observations=STATES,
        actions=np.zeros((4, 2)),
        rewards=REWARDS,
        next_observations=NEXTS,
        terminations=np.array([False, False, True, True]),
        unit_ids=":episode",
        spec=PublicSpec(bounds, bounds, Box((0.0,), (10.0,)), "declared"),
        simulated=True,
    )
    assert Sequences.of(trajectories).returns.tolist() == [7.0, 8.0]


@pytest.mark.parametrize(
    ("episodes", "stitches", "complaint"),
    [
        ([0, 3], [], "do not fit"),
        ([1, 3, 4], [], "do not fit"),
        ([0, 3, 3, 4], [], "do not fit"),
        ([0.0, 4.0], [], "do not fit"),
        ([0, 3, 4], [3], "stitch"),
        ([0, 3, 4], [0], "stitch"),
        ([0, 3, 4], [2, 1], "stitch"),
        ([0, 3, 4], [4], "stitch"),
    ],
)
def test_what_is_no_trajectory_is_refused(episodes: list[int], stitches: list[int], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        Sequences(TWO.columns, np.array(episodes), np.array(stitches, np.int64))


def test_ragged_columns_and_one_trajectory_are_refused() -> None:
    with pytest.raises(DataError, match="do not fit"):
        Sequences({**TWO.columns, "rewards": np.zeros(3)}, TWO.episodes)
    with pytest.raises(DataError, match="one trajectory only"):
        TWO.pick(np.array([0])).split_halves(0)
