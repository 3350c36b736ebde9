"""The curator's diagnostics, against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.evaluation.off_policy import diagnostics, importance_ratios, mspbe
from tacit.methods.off_policy_evaluation import Behaviour, Evaluation, OneHot, Problem, Tabular, Uniform

SPEC = PublicSpec(Discrete(3), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True)
ROWS = {  # three episodes: one terminates, one is cut without a flag, one is truncated
    "observations": np.array([0, 1, 0, 0, 1]),
    "next_observations": np.array([1, 2, 1, 1, 2]),
    "actions": np.array([0, 1, 1, 0, 0]),
    "rewards": np.array([0.0, 1.0, 0.5, 0.25, 1.0], np.float32),
    "terminations": np.array([False, True, False, False, False]),
    "truncations": np.array([False, False, False, False, True]),
    "propensities": np.array([0.5, 0.25, 0.5, 0.5, 0.75], np.float32),
}


def test_ratios_come_from_propensities_or_a_known_policy() -> None:
    np.testing.assert_allclose(importance_ratios(ROWS, Uniform(2), None), [1.0, 2.0, 1.0, 1.0, 2 / 3])
    known = Tabular(np.array([[0.5, 0.5], [0.8, 0.2]]))
    np.testing.assert_allclose(importance_ratios(ROWS, Uniform(2), known), [1.0, 2.5, 1.0, 1.0, 0.625])
    np.testing.assert_allclose(importance_ratios(ROWS, Behaviour(), None), 1.0)


def test_weights_and_returns_are_those_of_episodes() -> None:
    problem = Problem(gamma=0.5, horizon=2, return_range=(0.0, 0.75))
    found = diagnostics(ROWS, Evaluation(method="m"), problem, SPEC, Uniform(2))
    # The weights of the episodes are 2, 1 and 2/3; their returns 1/2, 1/2 and 3/4.
    assert found["episodes"] == 3
    assert found["effective_episodes"] == pytest.approx((11 / 3) ** 2 / (4 + 1 + 4 / 9))
    assert found["mean_ratio"] == pytest.approx(17 / 15)
    assert found["largest_ratio"] == pytest.approx(2.0)
    assert found["returns_outside_range"] == 0.0
    assert found["weighted_returns_outside_range"] == pytest.approx(1 / 3)
    assert found["rewards_at_bounds"] == pytest.approx(3 / 5)
    assert "mspbe" not in found


def test_steps_beyond_the_horizon_do_not_count() -> None:
    problem = Problem(gamma=1.0, horizon=1, return_range=(0.0, 0.3))
    found = diagnostics(ROWS, Evaluation(method="m"), problem, SPEC, Uniform(2))
    assert found["effective_episodes"] == pytest.approx(3.0)
    assert found["returns_outside_range"] == pytest.approx(1 / 3)  # the returns are 0, 1/2 and 1/4


def test_the_bellman_error_is_that_of_the_rows() -> None:
    evaluation = Evaluation(method="m", theta=np.array([0.5, 0.25, 1.0]), features=OneHot(3))
    ratio = importance_ratios(ROWS, Uniform(2), None)
    delta = np.array([0 + 0.125 - 0.5, 1 - 0.25, 0.5 + 0.125 - 0.5, 0.25 + 0.125 - 0.5, 1 + 0.5 - 0.25]) * ratio
    first, second = delta[[0, 2, 3]].sum() / 5, delta[[1, 4]].sum() / 5
    expected = first**2 / (3 / 5) + second**2 / (2 / 5)
    assert mspbe(ROWS, evaluation, 0.5, ratio) == pytest.approx(expected)
    problem = Problem(gamma=0.5, horizon=2)
    assert diagnostics(ROWS, evaluation, problem, SPEC, Uniform(2))["mspbe"] == pytest.approx(expected)
