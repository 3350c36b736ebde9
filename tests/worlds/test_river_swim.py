"""RiverSwim: its exact values, by hand and by Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.envs.serving import returns
from tacit.errors import DataError
from tacit_worlds.river_swim import RiverSwim, optimal_values, policy_values, spec

LEFT, RIGHT = np.tile([1.0, 0.0], (6, 1)), np.tile([0.0, 1.0], (6, 1))


def test_the_published_values() -> None:
    assert optimal_values(RiverSwim())[0, 0] == pytest.approx(3.3973, abs=1e-4)
    assert optimal_values(RiverSwim(0.9))[0, 0] == pytest.approx(5.195, abs=1e-3)
    assert policy_values(LEFT, RiverSwim())[0, 0] == pytest.approx(0.1)
    assert policy_values(RIGHT, RiverSwim())[0, 0] == pytest.approx(3.397, abs=1e-3)
    assert policy_values(np.full((6, 2), 0.5), RiverSwim())[0, 0] == pytest.approx(0.044, abs=1e-3)


def test_values_by_hand() -> None:
    """From the right bank two steps are worth 1 + last; a swimmer next to it needs one lucky step of 0.35."""
    values = optimal_values(RiverSwim(0.8), horizon=2)
    assert values[:, 5] == pytest.approx([1.8, 1.0, 0.0])
    assert values[:, 4] == pytest.approx([0.35, 0.0, 0.0])
    assert values[:, 0] == pytest.approx([0.01, 0.005, 0.0])
    changing = np.stack([RIGHT, LEFT])
    assert policy_values(changing, RiverSwim(0.8), horizon=2)[0] == pytest.approx(
        [0.4 * 0.005, 0.05 * 0.005, 0, 0, 0, 1.0]
    )


def test_the_moves_are_those_of_the_model() -> None:
    """40,000 moves from every place and action; standard errors are below 0.0025."""
    river, generator = RiverSwim(0.7), np.random.default_rng(0)
    moves, paid = river.transition_model()
    assert moves.sum(axis=2) == pytest.approx(np.ones((6, 2)))
    for s in range(6):
        for a in range(2):
            after, reward, ended = river.step(np.full(40_000, s), np.full(40_000, a), generator)
            assert np.bincount(after, minlength=6) / 40_000 == pytest.approx(moves[s, a], abs=0.01)
            assert set(reward.tolist()) == {paid[s, a]}
            assert not ended.any()
    assert after.dtype == np.int64


def test_returns_of_swimming_right() -> None:
    """Standard error 0.04."""
    got = returns(
        RiverSwim(),
        lambda observations, replicate, generator: np.ones(len(observations), dtype=np.int64),
        2,
        4_000,
        horizon=20,
        generator=np.random.default_rng(1),
    )
    assert got.mean() == pytest.approx(3.397, abs=0.15)
    assert not spec().terminals


def test_bad_arguments() -> None:
    with pytest.raises(DataError, match="no probability"):
        RiverSwim(1.5)
    for wrong in (np.full((6, 2), 0.6), np.zeros((5, 2)), np.tile([2.0, -1.0], (6, 1))):
        with pytest.raises(DataError, match="does not give probabilities"):
            policy_values(wrong, RiverSwim())
