"""Fitted Q iteration against values that are known."""

from __future__ import annotations

import numpy as np
import pytest

from tacit_worlds.agents.q_learning import FourierQ, fit


def line(value: tuple[float, float] = (0.0, 10.0), ridge: float = 0.0, iterations: int = 80) -> FourierQ:
    """Three places on [0, 1]: action 1 goes right, from the last one to the end, paid 1; action 0 stays, paid 0."""
    state = np.repeat([0, 1, 2], 4)
    action = np.tile([0, 1], 6)
    after = state + action
    columns = {
        "observations": state[:, None] / 2.0,
        "actions": action,
        "rewards": (after == 3).astype(np.float32),
        "next_observations": after[:, None] / 2.0,
        "terminations": after == 3,
    }
    return fit(
        [columns, columns],
        actions=2,
        low=(0.0,),
        high=(1.0,),
        order=2,
        coupled=True,
        gamma=0.8,
        value=value,
        ridge=ridge,
        iterations=iterations,
    )


def test_it_finds_the_optimal_values() -> None:
    q = line()(np.array([[0.0], [0.5], [1.0]]))
    assert q == pytest.approx(np.array([[0.512, 0.64], [0.64, 0.8], [0.8, 1.0]]), abs=1e-6)


def test_iterations_look_that_far_ahead() -> None:
    q = line(iterations=2)(np.array([[0.0], [0.5], [1.0]]))
    assert q == pytest.approx(np.array([[0.0, 0.0], [0.0, 0.8], [0.8, 1.0]]), abs=1e-9)


def test_goals_stay_in_their_bounds_and_the_penalty_shrinks() -> None:
    assert line(value=(0.0, 0.5))(np.array([[1.0]]))[0, 1] == pytest.approx(0.5)
    assert np.abs(line(ridge=1.0).weights).sum() < 0.9 * np.abs(line().weights).sum()
