"""How a round's budget is split, and rewards smoothed with the known noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tacit.errors import PlanError
from tacit.methods.mobility.pategail.asking import MOST_RATIO, SPREAD, GaussianProcess, weights
from tacit.methods.mobility.pategail.critics import ACTIONS, Embedding

SIZE = 9


@settings(max_examples=150, deadline=None)
@given(
    pilot=arrays.arrays(np.float64, SIZE, elements=st.floats(-2.0, 2.0)),
    share=arrays.arrays(np.float64, SIZE, elements=st.floats(0.0, 1.0)),
    rewards=arrays.arrays(np.float64, SIZE, elements=st.floats(-0.5, 0.5)),
    rule=st.sampled_from(["uniform", "paper", "utility", "own"]),
)
def test_every_split_costs_the_same(pilot: Any, share: Any, rewards: Any, rule: Any) -> None:
    """Weights are positive, sum w^2 = B, their ratio is bounded, and so the norm of bounded rewards is sqrt(B) / 2."""
    own = (lambda pilot, share: np.exp(3 * pilot) + share) if rule == "own" else None
    found = weights(rule, pilot, share, own)
    assert (found > 0).all()
    assert np.square(found).sum() == pytest.approx(SIZE)
    assert found.max() / found.min() <= MOST_RATIO * (1 + 1e-9)
    assert np.linalg.norm(found * rewards) <= np.sqrt(SIZE) / 2 + 1e-9


def test_the_paper_gives_less_budget_to_what_looks_real() -> None:
    found = weights("paper", np.array([-0.5, 0.0, 0.4]), np.ones(3) / 3)
    assert found[0] > found[1] > found[2]
    np.testing.assert_allclose(found[0] / found[1], 1.05 / 0.55)


def test_utility_is_the_best_split() -> None:
    """sum (share_i / w_i)^2 is least among splits of the same cost."""
    share, rng = np.array([0.4, 0.3, 0.2, 0.1]), np.random.default_rng(0)

    def error(w: np.ndarray) -> float:
        return float(np.square(share / w).sum())

    best = error(weights("utility", np.zeros(4), share))
    for _ in range(200):
        other = weights("own", np.zeros(4), share, lambda pilot, share: rng.uniform(0.2, 1.0, 4))
        assert best <= error(other) + 1e-12
    assert best < error(np.ones(4))


@pytest.mark.parametrize("bad", [np.zeros(SIZE), np.ones(SIZE - 1), np.full(SIZE, np.nan), -np.ones(SIZE)])
def test_a_caller_s_split_is_checked(bad: np.ndarray) -> None:
    with pytest.raises(PlanError, match="allocation"):
        weights("own", np.zeros(SIZE), np.ones(SIZE), lambda pilot, share: bad)


def pairs(count: int) -> np.ndarray:
    return np.sort(np.random.default_rng(0).choice(Embedding().codes, count, replace=False))


def test_without_noise_smoothing_keeps_what_was_released() -> None:
    codes = pairs(40)
    rewards = np.random.default_rng(1).uniform(-0.3, 0.3, 40)
    found = GaussianProcess.of(Embedding(), codes, rewards, np.zeros(40))
    np.testing.assert_allclose(found(codes), rewards, atol=0.02)


def test_much_noise_is_smoothed_away() -> None:
    codes, rng = pairs(40), np.random.default_rng(1)
    noisy = GaussianProcess.of(Embedding(), codes, rng.normal(scale=10.0, size=40), np.full(40, 100.0))
    assert np.abs(noisy(codes)).max() < 0.3 * SPREAD


def test_neighbours_say_together_what_none_says_alone() -> None:
    """A reward of the action alone, under noise twice its size, at 200 pairs: the mean error shrinks."""
    codes, rng = pairs(200), np.random.default_rng(2)
    truth = 0.2 * (codes % ACTIONS == 0) - 0.05
    noisy = truth + rng.normal(scale=0.2, size=200)
    found = GaussianProcess.of(Embedding(), codes, noisy, np.full(200, 0.04))(codes)
    assert np.square(found - truth).mean() < 0.3 * np.square(noisy - truth).mean()
