"""What an evaluation hands out."""

import json

import numpy as np
import pytest

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.features import OneHot
from tacit.methods.off_policy_evaluation.problem import Evaluation, Interval

INTERVAL = Interval(low=0.1, high=0.4, level=0.95, kind="two_sided", words="both ends")


def test_values_are_linear_and_stay_in_the_public_range():
    free = Evaluation(method="test", theta=np.array([0.5, 2.0, -1.0]), features=OneHot(3))
    assert free.values(np.array([2, 0, 1])).tolist() == [-1.0, 0.5, 2.0]
    held = Evaluation(method="test", theta=np.array([0.5, 2.0, -1.0]), features=OneHot(3), limits=(0.0, 1.0))
    assert held.values(np.array([2, 0, 1])).tolist() == [0.0, 0.5, 1.0]


def test_a_scalar_has_no_values_at_states():
    with pytest.raises(PlanError, match="no value function"):
        Evaluation(method="test", value=0.3, interval=INTERVAL).values(np.array([0]))


def test_evaluations_come_back_from_json():
    whole = Evaluation(
        method="test",
        value=0.25,
        interval=INTERVAL,
        theta=np.array([0.1, 1 / 3]),
        features=OneHot(2),
        limits=(0.0, 1.0),
        diagnostics={"clips": [0.5, 0.25]},
    )
    back = Evaluation.from_json(json.loads(json.dumps(whole.to_json())))
    assert back.to_json() == whole.to_json()
    assert back.interval == INTERVAL
    assert back.values(np.array([1])).tolist() == [1 / 3]
    empty = Evaluation.from_json(Evaluation(method="test").to_json())
    assert (empty.value, empty.interval, empty.theta, empty.limits) == (None, None, None, None)
    with pytest.raises(PlanError, match="missing or unknown"):
        Evaluation.from_json({"method": "test"})


@pytest.mark.parametrize("fields", [{"low": 1.0}, {"level": 1.0}, {"level": 0.0}, {"low": np.nan}])
def test_intervals_that_are_none_are_refused(fields):
    with pytest.raises(PlanError):
        Interval(**{"low": 0.1, "high": 0.4, "level": 0.95, "kind": "two_sided", "words": "", **fields})
