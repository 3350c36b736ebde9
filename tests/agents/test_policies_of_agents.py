"""Policies: features by hand, scores against finite differences, acting of several replicates at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from tacit.agents import features
from tacit.agents.features import OneHot, Quadratic, Scaled
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, PolicyActor, ValueFunction
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.serialization import read, to_json

SPEC = PublicSpec(Box((-2.0, 0.0), (2.0, 10.0)), Discrete(3), Box((0.0,), (1.0,)), "declared")
LINEAR = Policy(Scaled((-2.0, 0.0), (2.0, 10.0)), Mlp((2, 3), gain=0.0), Categorical(3))
DEEP = Policy(LINEAR.features, Mlp((2, 4, 3), gain=1.0), Categorical(3))
DOSES = Policy(
    OneHot(4), Mlp((4, 5, 2), gain=1.0), Gaussian((-1.0,) * 2, (1.0,) * 2, (0.0,) * 2, 0.5, learned_std=True)
)


def test_features_by_hand() -> None:
    seen = np.array([[1.0, 0.0], [9.0, 5.0], [-3.0, 7.5]])
    assert Scaled((-2.0, 0.0), (2.0, 10.0))(seen) == pytest.approx(np.array([[0.5, -1], [1, 0], [-1, 0.5]]))
    assert Quadratic((-2.0, 0.0), (2.0, 10.0))(seen[:1])[0] == pytest.approx([0.5, -1.0, 0.25, -0.5, 1.0])
    assert OneHot(3)(np.array([[2, 0]])).tolist() == [[[0, 0, 1], [1, 0, 0]]]
    assert Quadratic((0.0,) * 4, (1.0,) * 4).size == 14


def test_features_of_spaces_and_back_from_json() -> None:
    assert features.default_features(SPEC.observation) == Scaled((-2.0, 0.0), (2.0, 10.0))
    assert features.default_features(Discrete(6)) == OneHot(6)
    assert features.is_compatible(OneHot(6), Discrete(6))
    assert not features.is_compatible(OneHot(6), Discrete(7))
    assert not features.is_compatible(OneHot(2), SPEC.observation)
    assert not features.is_compatible(Quadratic((0.0,), (1.0,)), SPEC.observation)
    for one in (OneHot(4), Quadratic((0.0,), (1.0,)), Scaled((0.0, 1.0), (1.0, 2.0))):
        assert read(features.Features, to_json(one)) == one
    with pytest.raises(TypeError):
        read(features.Features, {"kind": "fourier"})


@pytest.mark.parametrize("bounds", [((0.0,), (0.0,)), ((0.0,), (1.0, 2.0)), ((), ()), ((np.nan,), (1.0,))])
def test_bounds_are_checked(bounds: Any) -> None:
    with pytest.raises(PlanError, match="low, high"):
        Scaled(*bounds)


@pytest.mark.parametrize("policy", [DEEP, DOSES], ids=["categorical", "gaussian"])
def test_the_gradient_is_that_of_weighted_log_probabilities(policy: Policy) -> None:
    rng = np.random.default_rng(0)
    theta = policy.initial_parameters(rng, 2) + 0.1 * rng.normal(size=(2, policy.parameters)).astype(np.float32)
    seen = rng.integers(4, size=(2, 6)) if policy is DOSES else rng.uniform((-2, 0), (2, 10), (2, 6, 2))
    weights = rng.normal(size=(2, 6)).astype(np.float32)

    def outputs_of(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        network, own = policy.split(parameters)
        return policy.network.forward(network, policy.features(seen))[0], own

    actions = policy.head.draw(*outputs_of(theta), rng)
    gradient = policy.gradient(theta, seen, actions, weights)
    assert gradient.shape == (2, policy.parameters)
    for at in range(0, policy.parameters, 3):
        ends = []
        for step in (0.01, -0.01):
            moved = theta.copy()
            moved[:, at] += step
            ends.append((weights * policy.head.log_probability(*outputs_of(moved), actions)).sum(axis=1))
        assert gradient[:, at] == pytest.approx((ends[0] - ends[1]) / 0.02, rel=0.05, abs=0.02)


def test_the_entropy_joins_the_gradient() -> None:
    theta = np.zeros((1, LINEAR.parameters), np.float32)
    theta[0, -3:] = (1.0, 0.0, 0.0)  # the biases
    seen, actions, none = np.zeros((1, 1, 2)), np.zeros((1, 1), int), np.zeros((1, 1), np.float32)
    assert not LINEAR.gradient(theta, seen, actions, none).any()
    uniform_pull = LINEAR.gradient(theta, seen, actions, none, 0.5)[0, -3:]
    assert uniform_pull[0] < 0 < uniform_pull[1] == pytest.approx(uniform_pull[2])


def test_each_row_acts_under_its_replicate_in_any_order() -> None:
    theta = np.zeros((4, LINEAR.parameters), np.float32)
    for replicate, action in enumerate((2, 0, 1, 2)):
        theta[replicate, -3 + action] = 50.0
    replicate = np.array([3, 0, 0, 2, 3, 0])  # replicate 1 has nobody
    seen, rng = np.zeros((6, 2), np.float32), np.random.default_rng(0)
    assert PolicyActor(LINEAR, theta)(seen, replicate, rng).tolist() == [2, 2, 2, 1, 2, 2]
    assert PolicyActor(LINEAR, theta, greedy=True)(seen[:2], np.array([1, 2]), rng).tolist() == [0, 1]


def test_actions_follow_the_policy() -> None:
    theta = np.zeros((2, LINEAR.parameters), np.float32)
    theta[1, -3:] = np.log([0.2, 0.5, 0.3])
    replicate = np.repeat([0, 1], 20_000)
    drawn = LINEAR.act(theta, np.zeros((40_000, 2)), replicate, np.random.default_rng(1))
    for r, chances in enumerate(([1 / 3] * 3, [0.2, 0.5, 0.3])):
        counts = np.bincount(drawn[replicate == r], minlength=3)
        assert stats.chisquare(counts, 20_000 * np.array(chances)).pvalue > 1e-4


def test_doses_are_vectors_within_bounds() -> None:
    theta = DOSES.initial_parameters(np.random.default_rng(0), 1)
    drawn = DOSES.act(theta, np.array([0, 3, 1]), np.zeros(3, int), np.random.default_rng(1))
    assert (drawn.shape, drawn.dtype) == ((3, 2), np.float32)
    assert (np.abs(drawn) <= 1).all()


def test_first_parameters_do_not_depend_on_how_many_follow() -> None:
    one, three = (DOSES.initial_parameters(np.random.default_rng(5), groups) for groups in (1, 3))
    assert np.array_equal(one[0], three[0])
    assert not one[0, -2:].any()
    assert DOSES.parameters == 5 * 5 + 6 * 2 + 2


def test_policies_fit_records_or_say_why_not() -> None:
    LINEAR.require_fit(SPEC)
    for policy in (DOSES, Policy(LINEAR.features, Mlp((2, 2)), Categorical(2))):
        with pytest.raises(PlanError, match="2 dimensions and actions of 3 values"):
            policy.require_fit(SPEC)
    assert Policy.default(SPEC, ()).network == Mlp((2, 3), gain=0.0)
    assert Policy.default(SPEC).network == Mlp((2, 64, 64, 3), gain=0.01)
    with pytest.raises(PlanError, match="2 inputs and 4 outputs"):
        Policy(LINEAR.features, Mlp((2, 4)), Categorical(3))
    with pytest.raises(PlanError, match="one output"):
        ValueFunction(LINEAR.features, Mlp((2, 2)))


def test_json_gives_back_an_equal_policy() -> None:
    for policy in (LINEAR, DEEP, DOSES):
        assert Policy.from_json(policy.to_json()) == policy
    with pytest.raises(PlanError, match="from_json"):
        Policy.from_json({"features": {"kind": "one_hot", "n": 3}})


def test_values_and_their_gradient_by_hand() -> None:
    value = ValueFunction(Scaled((-1.0,), (1.0,)), Mlp((1, 1), gain=0.0))
    phi = np.array([[2.0, 1.0], [0.0, 3.0]], np.float32)  # slope, intercept
    seen = np.array([[[0.5], [-1.0]], [[0.0], [1.0]]])
    assert value(phi, seen) == pytest.approx(np.array([[2.0, -1.0], [3.0, 3.0]]))
    weights = np.array([[1.0, 2.0], [1.0, -1.0]])
    assert value.gradient(phi, seen, weights) == pytest.approx(np.array([[-1.5, 3.0], [-1.0, 0.0]]))
