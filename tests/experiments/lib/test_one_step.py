"""One-step errors against a simulator that doubles the state."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lib.one_step import one_step_errors

from tacit.errors import DataError

STATES = np.arange(1.0, 13.0, dtype=np.float32).reshape(4, 3)


def doubled(states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    following = 2.0 * states
    following[:, 2] = states[:, 2]  # never moves
    return following, actions


def table(following: np.ndarray, rewards: np.ndarray) -> dict[str, np.ndarray]:
    actions = np.zeros(len(rewards), np.int64)
    return {"observations": STATES, "actions": actions, "rewards": rewards, "next_observations": following}


def test_exact_rows_have_no_error_and_still_ones_have_one() -> None:
    exact = one_step_errors(table(doubled(STATES.copy(), np.zeros(4))[0], np.zeros(4)), doubled)
    assert (exact.next_state, exact.reward, exact.column_errors) == (0.0, 0.0, (0.0, 0.0))
    still = one_step_errors(table(STATES, np.full(4, -2.0)), doubled)
    assert (still.next_state, still.reward) == (1.0, 2.0)


def test_each_column_counts_in_its_own_displacement() -> None:
    following = doubled(STATES.copy(), np.zeros(4))[0]
    following[:, 0] += STATES[:, 0].mean() / 2
    assert one_step_errors(table(following, np.zeros(4)), doubled).column_errors == pytest.approx((0.5, 0.0))


def test_bad_tables_and_simulators_are_refused() -> None:
    good = table(STATES, np.zeros(4))
    with pytest.raises(DataError, match="other shapes"):
        one_step_errors(good | {"rewards": np.zeros((4, 1))}, doubled)
    with pytest.raises(DataError, match="moves no row"):
        one_step_errors(good, lambda states, actions: (states, actions))
    with pytest.raises(DataError, match="not finite"):
        one_step_errors(good, lambda states, actions: (states * np.nan, actions))
