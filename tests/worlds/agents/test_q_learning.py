"""Q-learning against values that are known, and its soft policies by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tacit.errors import PlanError
from tacit_worlds.agents.q_learning import FourierQ, epsilon_greedy, learn, softmax

Array = npt.NDArray[Any]


class Line:
    """Three places on [0, 1]; action 1 goes right (from the last one to the end, paid 1), action 0 stays (paid 0)."""

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> tuple[Array, Array, Array]:
        after = state + action
        ended = after == 3
        return after, ended.astype(float), ended

    def observe(self, state: Array) -> Array:
        return state[:, None] / 2.0

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        return generator.integers(3, size=units)


def trained(rate: float = 0.5, trace: float = 0.5, horizon: int = 8) -> FourierQ:
    line = Line()
    return learn(
        line,
        line.starts,
        actions=2,
        low=(0.0,),
        high=(1.0,),
        order=2,
        gamma=0.8,
        rate=rate,
        trace=trace,
        epsilon=0.5,
        episodes=16,
        horizon=horizon,
        steps=3_000,
        seed=0,
    )


@pytest.mark.parametrize(("trace", "horizon"), [(0.0, 8), (0.9, 8), (0.9, 1)])
def test_q_learning_finds_the_optimal_values(trace: float, horizon: int) -> None:
    """Q(k steps before the end, right) = 0.8^k, and staying costs one more factor; a cut does not end the values."""
    q = trained(trace=trace, horizon=horizon)(np.array([[0.0], [0.5], [1.0]]))
    assert q[:, 1] == pytest.approx([0.64, 0.8, 1.0], abs=0.01)
    assert q[:, 0] == pytest.approx([0.512, 0.64, 0.8], abs=0.01)


def test_the_same_arguments_give_the_same_weights() -> None:
    assert np.array_equal(trained().weights, trained().weights)


def test_divergence_is_an_error() -> None:
    with np.errstate(all="ignore"), pytest.raises(PlanError, match="diverged"):
        trained(rate=500.0)


def test_soft_policies_by_hand() -> None:
    def q(observations: Array) -> Array:
        return np.array([[0.0, 2.0, 1.0], [1_000.0, 0.0, 0.0]])

    greedy = epsilon_greedy(q, 0.3)(np.zeros((2, 1)))
    assert greedy == pytest.approx(np.array([[0.1, 0.8, 0.1], [0.8, 0.1, 0.1]]))
    soft = softmax(q, 2.0)(np.zeros((2, 1)))
    total = 1.0 + np.exp(1.0) + np.exp(0.5)
    assert soft[0] == pytest.approx(np.array([1.0, np.exp(1.0), np.exp(0.5)]) / total)
    assert soft[1] == pytest.approx([1.0, 0.0, 0.0])
