"""How much an expert counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tacit.errors import PlanError
from tacit.methods.experts.learned import ReturnWeight, mean_returns


def rows(rewards: list[list[float]], starts: list[list[int]], ended: list[list[int]], held: list[int]) -> Any:
    shape = np.shape(rewards)
    return {
        "rewards": np.array(rewards),
        "starts": np.array(starts, bool),
        "terminations": np.array(ended, bool),
        "truncations": np.zeros(shape, bool),
        "mask": np.arange(shape[1]) < np.array(held)[:, None],
    }


def test_mean_returns_are_those_of_whole_episodes() -> None:
    found = mean_returns(
        rows(
            [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [1, 2, 3, 9, 9], [1, 2, 3, 4, 5]],
            [[1, 0, 1, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 1], [1, 0, 0, 0, 0]],
            [[0, 1, 0, 0, 1], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
            [5, 5, 3, 5],
        )
    )
    # two whole ones; the second broken off by the end of what is read; two in three rows; a single broken one
    assert found.tolist() == [7.5, 3.0, 3.0, 15.0]


def test_weights_are_between_those_of_the_public_bounds() -> None:
    many = rows([[-5.0], [0.0], [5.0], [10.0], [99.0]], [[1]] * 5, [[1]] * 5, [1] * 5)
    found = ReturnWeight(low=0.0, high=10.0, sharpness=2.0)(many)
    assert found.tolist() == pytest.approx([math.exp(-2), math.exp(-2), math.exp(-1), 1.0, 1.0])
    assert ReturnWeight(low=0.0, high=10.0, sharpness=0.0)(many).tolist() == [1.0] * 5


@pytest.mark.parametrize(
    "fields", [{"low": 1.0, "high": 1.0}, {"low": 0.0, "high": math.inf}, {"low": 0.0, "high": 1.0, "sharpness": -1.0}]
)
def test_bounds_that_are_none_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(PlanError):
        ReturnWeight(**fields)
