"""What the baselines count of a day, and how they read a noisy mean of it."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.mobility.days import SLOTS, actions
from tacit.data.mobility.grids import RegularGrid
from tacit.envs.movement import play
from tacit.envs.spaces import JumpLaw
from tacit.methods.mobility import baselines as models
from tacit.methods.mobility.baselines import MeanStatistic
from tacit.methods.mobility.moves import MoveContribution
from tacit.methods.mobility.plan import ZeroContribution

GRID = RegularGrid(30.0, 100.0, 30.99, 100.99, 0.01)
SPACE = JumpLaw(GRID, (1.0, 5.0, 20.0), (0.7, 0.3))
HERE, THERE, ELSEWHERE = 5050, 5054, 1010


def days(count: int = 400, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rhythm = models.Rhythm((0.02, 0.05, 0.3, 0.1, 0.1, 0.1, 0.3, 0.2), burst=1.5, onward=3.0, rho=0.6, gamma=0.5)
    return play(rhythm.policy(), SPACE, rng.integers(GRID.size, size=count), rng)


def day(*stays: tuple[int, int]) -> np.ndarray:
    return np.repeat([cell for cell, _ in stays], [length for _, length in stays])[None]


def test_fractions_of_a_day_by_hand() -> None:
    one = day((HERE, 10), (THERE, 10), (ELSEWHERE, 10), (THERE, 10), (HERE, 8))
    assert models.ActionFractions()(one)[0] * 47 == pytest.approx([43, 2, 1, 1])


def test_four_numbers_are_played_back_as_they_were_released() -> None:
    """In the papers' meaning of actions, where all are possible often enough: many places, seldom at home."""
    released = np.array([0.5, 0.3, 0.05, 0.15])
    rng = np.random.default_rng(1)
    played = play(models.epr_policy(released), SPACE, rng.integers(GRID.size, size=2_000), rng)
    assert models.ActionFractions()(played).mean(axis=0) == pytest.approx(released, abs=0.03)
    assert models.epr_policy(np.array([0.5, -0.2, 0.3, 0.1])).table.min() > 0


def test_moments_of_a_day_by_hand() -> None:
    one = day((HERE, 12), (THERE, 6), (ELSEWHERE, 6), (THERE, 12), (HERE, 12))
    found = (models.RhythmMoments()(one)[0] * 47).round(9)
    staying, leaving, away = found[:24].reshape(3, 8)
    assert leaving.sum() == 1
    assert staying.sum() == 22
    assert away.sum() == 24
    assert list(found[24:26]) == [2, 1]
    assert found[26:].sum() == 1  # the only choice, from three places and not at home: a place of today
    assert list(found[30:34]) == [0, 1, 0, 0]


def test_the_rhythm_that_was_played_is_found_again() -> None:
    found = models.rhythm(models.RhythmMoments()(days(20_000)).mean(axis=0), noise=0.0)
    assert found.leave == pytest.approx((0.02, 0.05, 0.3, 0.1, 0.1, 0.1, 0.3, 0.2), abs=0.01)
    assert found.burst == pytest.approx(1.5, abs=0.1)
    assert found.onward == pytest.approx(3.0, abs=0.2)
    assert found.rho == pytest.approx(0.6, abs=0.1)
    assert found.gamma == pytest.approx(0.5, abs=0.15)


def test_noise_flattens_the_rhythm_and_cannot_break_it() -> None:
    moments, rng = models.RhythmMoments()(days()).mean(axis=0), np.random.default_rng(2)
    loud = [models.rhythm(moments + rng.normal(0, 0.05, 34), noise=0.05) for _ in range(30)]
    calm = models.rhythm(moments, noise=0.0)
    assert np.mean([np.std(policy.leave) for policy in loud]) < np.std(calm.leave)
    for policy in loud:
        play(policy.policy(), SPACE, np.full(5, HERE), rng)
    models.rhythm(-np.ones(34), noise=1.0)


def test_transitions_of_a_day_by_hand() -> None:
    blocks = GRID.coarsen(np.array([HERE, ELSEWHERE]), 20)
    statistic = models.BlockTransitions(GRID, 20, tuple(int(b) for b in blocks))
    one = day((HERE, 10), (THERE, 10), (ELSEWHERE, 10), (THERE, 10), (9_999, 8))
    found = (statistic(one)[0] * 47).round(9)
    assert found.size == statistic.size == 5
    assert found[0] == 2
    assert found[1:] == pytest.approx([(19 + 9) * models.STAYING, 1, 1, 9 * models.STAYING])


def test_the_chain_that_was_played_is_found_again() -> None:
    vocabulary = (0, 1, 2)
    matrix = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.3, 0.0, 0.7]])
    chain = models.BlockChain(GRID, 20, vocabulary, np.array([0.6, 0.3, 0.1]), matrix)
    played = chain.generate(20_000)
    statistic = models.BlockTransitions(GRID, 20, vocabulary)
    found = models.block_chain(statistic, chain.starts, statistic(played.cells).mean(axis=0), 0.0)
    assert found.matrix == pytest.approx(matrix, abs=0.01)
    first = GRID.coarsen(played.cells[:, 0], 20)
    assert np.bincount(first, minlength=3)[:3] / len(first) == pytest.approx(chain.starts, abs=0.02)
    assert played.cells.shape == (20_000, SLOTS)
    per_day = np.array([len(np.unique(row)) for row in played.cells[:200]])
    assert (per_day <= 3).all()  # a block is one and the same place throughout a day


def test_a_block_without_a_share_follows_the_common_law() -> None:
    statistic = models.BlockTransitions(GRID, 20, (0, 1, 2))
    noisy = np.array([0.1, 0.27, 0.05, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    chain = models.block_chain(statistic, np.array([0.5, 0.25, 0.25]), noisy, noise=0.01)
    assert chain.matrix.sum(axis=1) == pytest.approx(np.ones(3))
    assert chain.matrix[1] == pytest.approx([0.05, 0.9 + 0.025, 0.025])
    assert chain.matrix[0, 0] > 0.8


def rows(cells: np.ndarray, owner: np.ndarray, people: int) -> dict[str, np.ndarray]:
    """As a door gives them; people without days have one row of no day."""
    longest = max(np.bincount(owner, minlength=people)) * 47
    shape = (people, int(longest))
    found: dict[str, np.ndarray] = {"observations": np.zeros(shape, int), "next_observations": np.zeros(shape, int)}
    found |= {"mask": np.zeros(shape, bool), "starts": np.zeros(shape, bool)}
    found["mask"][:, 0] = True
    for person in range(people):
        own = cells[owner == person]
        size = own.shape[0] * 47
        found["observations"][person, :size] = own[:, :-1].ravel()
        found["next_observations"][person, :size] = own[:, 1:].ravel()
        found["mask"][person, :size] = True
        found["starts"][person, :size:47] = True
    return found


def test_people_count_by_their_own_mean() -> None:
    cells = days(6)
    owner = np.array([0, 0, 0, 1, 1, 3])
    contribution = MoveContribution(MeanStatistic(models.ActionFractions()))
    found = contribution(contribution.summary(rows(cells, owner, 4)))
    each = np.stack([(actions(cells, last=False) == a).mean(axis=1) for a in range(4)], axis=1)
    assert found == pytest.approx(np.stack([each[:3].mean(0), each[3:5].mean(0), np.zeros(4), each[5]]))
    silent = ZeroContribution(contribution)
    assert np.array_equal(silent(silent.summary(rows(cells, owner, 4))), np.zeros((4, 4)))
