"""Public states at which experts are asked."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from pole_experts import HIGH, LOW, POLICY

from tacit.agents.policies import PolicyActor
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.experts import anchors
from tacit.methods.experts.anchors import GivenAnchors, UniformAnchors, anchor_states, sample_visited_states
from tacit.serialization import read
from tacit_worlds.cart_pole import CartPole, spec
from tacit_worlds.river_swim import RiverSwim
from tacit_worlds.river_swim import spec as river

POINTS = np.array([[0.1, 0.2, 0.0, 0.0], [1.0, -1.0, 0.1, 0.2]], np.float32)


def test_uniform_anchors_fill_their_box_and_follow_their_seed() -> None:
    states = anchor_states(UniformAnchors(low=LOW, high=HIGH, count=5_000), None, spec())
    np.testing.assert_allclose(states.min(axis=0), LOW, atol=0.01)
    np.testing.assert_allclose(states.max(axis=0), HIGH, atol=0.01)
    np.testing.assert_allclose(states.mean(axis=0), 0.0, atol=0.1)
    again, other = (UniformAnchors(low=LOW, high=HIGH, count=5_000, seed=seed).points() for seed in (0, 1))
    np.testing.assert_array_equal(states, again)
    assert (states != other).any()


def test_given_anchors_are_those_that_the_plan_declares() -> None:
    np.testing.assert_array_equal(anchor_states(GivenAnchors.of(POINTS), POINTS.tolist(), spec()), POINTS)
    with pytest.raises(PlanError, match="not those that the plan declares"):
        anchor_states(GivenAnchors.of(POINTS), POINTS[::-1], spec())
    for declared, given in ((GivenAnchors.of(POINTS), None), (UniformAnchors(low=LOW, high=HIGH), POINTS)):
        with pytest.raises(PlanError, match="do not fit each other"):
            anchor_states(declared, given, spec())


def test_states_of_a_table_can_be_anchors() -> None:
    states = np.array([0, 5, 2])
    assert anchor_states(GivenAnchors.of(states), states, river()).tolist() == [0, 5, 2]
    for wrong in (np.array([6]), np.array([-1]), np.array([[1]]), np.array([0.5])):
        with pytest.raises(PlanError, match="outside the public bounds"):
            anchor_states(GivenAnchors.of(wrong), wrong, river())


@pytest.mark.parametrize(
    "states",
    [
        np.full((1, 4), 99.0),
        np.full((1, 4), np.nan),
        np.zeros((1, 3)),
        np.zeros(4),
    ],
)
def test_anchors_outside_the_public_bounds_are_refused(states: Any) -> None:
    with pytest.raises(PlanError, match="outside the public bounds"):
        anchor_states(GivenAnchors.of(states), states, spec())


def test_a_box_that_is_wider_than_the_bounds_is_refused() -> None:
    with pytest.raises(PlanError, match="outside the public bounds"):
        anchor_states(UniformAnchors(low=LOW, high=(99.0, *HIGH[1:])), None, spec())


@pytest.mark.parametrize(
    "fields",
    [{"low": HIGH, "high": LOW}, {"low": (), "high": ()}, {"count": 0}, {"count": True}, {"high": (np.inf, *HIGH[1:])}],
)
def test_boxes_that_are_none_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        UniformAnchors(**{"low": LOW, "high": HIGH} | fields)


def test_visited_states_are_those_of_each_replicates_own_policy() -> None:
    theta = np.zeros((2, POLICY.parameters), np.float32)
    theta[0, -2:], theta[1, -2:] = (1.0, 0.0), (0.0, 1.0)  # always to the left; always to the right
    known = {"horizon": 30, "explore": 0.0, "seed": 1}
    states = sample_visited_states(PolicyActor(POLICY, theta, greedy=True), CartPole(), 200, spec(), **known)
    assert states.shape == (2, 200, 4)
    assert np.median(states[0, :, 1]) < -0.5 < 0.5 < np.median(states[1, :, 1])
    again = sample_visited_states(PolicyActor(POLICY, theta, greedy=True), CartPole(), 200, spec(), **known)
    np.testing.assert_array_equal(states, again)
    random = sample_visited_states(
        PolicyActor(POLICY, theta, greedy=True), CartPole(), 200, spec(), horizon=30, explore=1.0, seed=1
    )
    assert abs(np.median(random[0, :, 1])) < 0.3


def test_visited_states_are_clipped_to_the_public_bounds() -> None:
    narrow = PublicSpec(Box((-0.01,) * 4, (0.01,) * 4), Discrete(2), Box((0.0,), (1.0,)), source="declared")
    actor = PolicyActor(POLICY, np.zeros((1, POLICY.parameters), np.float32), greedy=True)
    assert np.abs(sample_visited_states(actor, CartPole(), 50, narrow, horizon=20, explore=0.5, seed=0)).max() <= 0.01


def test_visited_states_of_a_table_stay_whole_numbers() -> None:
    from tacit.agents.features import OneHot
    from tacit.agents.heads import Categorical
    from tacit.agents.networks import Mlp
    from tacit.agents.policies import Policy

    policy = Policy(OneHot(6), Mlp((6, 2), gain=0.0), Categorical(2))
    actor = PolicyActor(policy, np.zeros((1, policy.parameters), np.float32), greedy=True)
    states = sample_visited_states(actor, RiverSwim(), 40, river(), horizon=20, explore=0.5, seed=0)
    assert states.dtype == np.int64
    assert states.shape == (1, 40)


@pytest.mark.parametrize("made", [UniformAnchors(low=LOW, high=HIGH, count=3, seed=4), GivenAnchors.of(POINTS)])
def test_anchors_come_back_from_json(made: anchors.Anchors) -> None:
    assert read(UniformAnchors | GivenAnchors, json.loads(json.dumps(dataclasses.asdict(made)))) == made
