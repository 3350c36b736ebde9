"""`predict` as Stable-Baselines3 has it: one observation or many, the best action or a drawn one, no state."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tacit.agents.features import OneHot, Scaled
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, PolicyActor
from tacit.agents.policy_files import FeedForward
from tacit.errors import PlanError
from tacit.methods.experts import ReturnWeighted
from tacit.methods.experts.learned import LearnedPolicies as Taught
from tacit.methods.off_policy_evaluation import Network
from tacit.methods.policy_gradient import PolicyGradientPlan, TrainedPolicies

PLACES = Policy(OneHot(3), Mlp((3, 2), gain=0.0), Categorical(2))
ODDS = np.log(np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5001]], np.float32))
"""Of both actions in each of the three places."""
THETA = np.concatenate([ODDS.ravel(), np.zeros(2, np.float32)])[None]
DOSE = Policy(Scaled((0.0, 0.0), (2.0, 2.0)), Mlp((2, 1), gain=0.0), Gaussian((0.0,), (10.0,), (4.0,), 1.0))
STEEP = np.array([[3.0, 20.0, 0.0]], np.float32)
"""The mean dose is 4 + 3 x + 20 y of the scaled observation."""


def learned(theta: np.ndarray) -> TrainedPolicies:
    plan = PolicyGradientPlan(rounds=1, users=1, horizon=1, reward_rate=1.0)
    few = {"norms": np.zeros((1, 1)), "iterates": theta[None], "people": np.zeros(1, np.int64)}
    return TrainedPolicies(plan=plan, policy=PLACES, last=theta, average=theta, **few)


KINDS: dict[str, Any] = {
    "served": PolicyActor(PLACES, THETA),
    "people": learned(THETA),
    "network": Network.of(FeedForward.of(PLACES, THETA)),
    "experts": Taught(plan=ReturnWeighted(policy=PLACES), policy=PLACES, theta=THETA),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_actions_of_one_and_of_many(kind: str) -> None:
    actions, state = KINDS[kind].predict(np.array([0, 1, 2]), deterministic=True)
    assert actions.tolist() == [0, 1, 1]
    assert state is None
    one, state = KINDS[kind].predict(1, deterministic=True)
    assert (np.shape(one), int(one), state) == ((), 1, None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_arguments_are_those_of_stable_baselines3(kind: str) -> None:
    names = list(inspect.signature(KINDS[kind].predict).parameters)
    assert names[:4] == ["observation", "state", "episode_start", "deterministic"]
    actions, _ = KINDS[kind].predict(np.array([0]), None, np.array([True]), True)
    assert actions.tolist() == [0]


@pytest.mark.parametrize("kind", ["served", "network"])
def test_drawn_actions_have_their_probabilities(kind: str) -> None:
    actions, _ = KINDS[kind].predict(np.repeat([0, 1], 20_000), generator=np.random.default_rng(4))
    assert actions[:20_000].mean() == pytest.approx(0.1, abs=0.01)
    assert actions[20_000:].mean() == pytest.approx(0.8, abs=0.01)


def test_what_experts_taught_takes_its_best_action_always() -> None:
    actions, _ = KINDS["experts"].predict(np.repeat(0, 200))
    assert actions.tolist() == [0] * 200


def test_continuous_actions_are_the_clipped_mean_of_one_and_of_many() -> None:
    policy = PolicyActor(DOSE, STEEP)
    one, _ = policy.predict(np.array([1.0, 1.0]), deterministic=True)
    assert (one.shape, one.tolist()) == ((1,), [4.0])
    many, _ = policy.predict(np.array([[2.0, 1.0], [1.0, 2.0]]), deterministic=True)
    assert many.tolist() == [[7.0], [10.0]]


def test_several_replicates_have_no_one_answer() -> None:
    with pytest.raises(PlanError, match="policies of 2 replicates"):
        PolicyActor(PLACES, np.repeat(THETA, 2, axis=0)).predict(0)
    assert learned(np.repeat(THETA, 2, axis=0)).replicate(1).predict(0, deterministic=True)[0] == 0
