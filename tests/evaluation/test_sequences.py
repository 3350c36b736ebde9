"""Trajectories as columns: cutting, picking and shuffling them, and how their returns, lengths and ways compare."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.evaluation.sequences import Sequences, trajectory_statistics

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


def test_statistics_of_two_small_trajectories() -> None:
    found = trajectory_statistics(TWO)
    np.testing.assert_array_equal(found.returns, [7.0, 8.0])
    np.testing.assert_array_equal(found.lengths, [3.0, 1.0])
    np.testing.assert_array_equal(found.path_lengths, [3.0, 5.0])
    np.testing.assert_array_equal(found.displacements, [1.0, 5.0])
    np.testing.assert_array_equal(found.revisit_shares, [0.25, 0.0])  # one of 0, 1, 2, 1; none of (0, 0), (3, 4)


def test_resolution_and_position_choose_what_is_the_same_place() -> None:
    assert trajectory_statistics(TWO, resolution=1.5).revisit_shares.tolist() == [
        0.5,
        0.0,
    ]  # 0 and 1 fall together: two places in 0, 1, 2, 1
    height = trajectory_statistics(TWO, position=(1,))
    assert (height.path_lengths.tolist(), height.revisit_shares.tolist()) == ([0.0, 4.0], [0.75, 0.0])


def test_a_jump_between_fragments_is_part_of_the_way() -> None:
    jumping = STATES.copy()
    jumping[1] = [1.0, 10.0]
    columns = {**TWO.columns, "observations": jumping}
    assert trajectory_statistics(Sequences(columns, TWO.episodes)).path_lengths[0] == pytest.approx(
        2 * np.hypot(1, 10) + 1.0
    )


def test_different_discrete_states_are_one_apart() -> None:
    columns = {"observations": np.array([4, 4, 9]), "next_observations": np.array([4, 9, 4]), "rewards": np.zeros(3)}
    found = trajectory_statistics(Sequences(columns, np.array([0, 3])))
    assert (found.path_lengths[0], found.displacements[0], found.revisit_shares[0]) == (2.0, 0.0, 0.5)


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
    assert trajectory_statistics(Sequences.of(trajectories)).returns.tolist() == [7.0, 8.0]


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


def test_ragged_columns_and_bad_settings_are_refused() -> None:
    with pytest.raises(DataError, match="do not fit"):
        Sequences({**TWO.columns, "rewards": np.zeros(3)}, TWO.episodes)
    with pytest.raises(DataError, match="one trajectory only"):
        TWO.pick(np.array([0])).split_halves(0)
    for settings in ({"resolution": 0.0}, {"position": (2,)}):
        with pytest.raises(DataError, match="out of range"):
            trajectory_statistics(TWO, **settings)  # type: ignore[arg-type]
