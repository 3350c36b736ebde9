"""What is evaluated: ranges and lengths in closed form, and values that are refused."""

import math

import pytest

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.problem import Problem


def spec(low, high):
    return PublicSpec(observation=Discrete(2), action=Discrete(2), reward=Box((low,), (high,)), source="declared")


def test_the_discounted_length_is_the_return_of_ones():
    assert Problem(gamma=0.5, horizon=3).discounted_length == 1.75
    assert Problem(gamma=1.0, horizon=7).discounted_length == 7.0
    assert Problem(gamma=0.0, horizon=7).discounted_length == 1.0
    assert Problem(gamma=0.99, horizon=5).discounted_length == pytest.approx(sum(0.99**t for t in range(5)))


def test_rows_are_those_of_every_counting_episode():
    assert Problem(gamma=0.9, horizon=20, episodes_per_unit=3).rows_per_unit == 60


@pytest.mark.parametrize(
    ("bounds", "expected"), [((-1.0, 2.0), (-1.75, 3.5)), ((1.0, 2.0), (0.0, 3.5)), ((-2.0, -1.0), (-3.5, 0.0))]
)
def test_the_range_follows_from_the_rewards_with_an_ended_episode_worth_nothing(bounds, expected):
    assert Problem(gamma=0.5, horizon=3).value_range(spec(*bounds)) == expected


def test_a_declared_range_is_taken_as_it_is():
    assert Problem(gamma=0.5, horizon=3, return_range=(0, 1)).value_range(spec(-1.0, 2.0)) == (0.0, 1.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"gamma": -0.1},
        {"gamma": 1.1},
        {"gamma": math.nan},
        {"horizon": 0},
        {"horizon": 2.0},
        {"episodes_per_unit": 0},
        {"return_range": (1.0, 1.0)},
        {"return_range": (2.0, 1.0)},
        {"return_range": (0.0, math.inf)},
        {"return_range": (math.nan, 1.0)},
    ],
)
def test_values_out_of_range_are_refused(fields):
    with pytest.raises(PlanError, match=next(iter(fields))):
        Problem(**{"gamma": 0.9, "horizon": 5, **fields})
