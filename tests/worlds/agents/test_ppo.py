"""PPO and A2C: the objective's slope against torch, advantages by hand, and a pole that stays up."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tacit.agents.heads import Categorical, Gaussian, Head
from tacit.agents.networks import Mlp
from tacit.errors import PlanError
from tacit_worlds.agents.ppo import (
    Episodes,
    PpoAgents,
    PpoConfig,
    PpoObjective,
    RolloutRows,
    RunningMoments,
    advantages,
    learn,
    normalize,
    ratio_weights,
)
from tacit_worlds.cart_pole import CartPole

Array = npt.NDArray[Any]

GAUSSIAN = Gaussian((-9.0, -9.0), (9.0, 9.0), mean=(0.0, 0.5), std=1.0, learned_std=True)
SMALL = PpoConfig(1_024, environments=4, rollout=32, hidden=(8,))


def test_advantages_by_hand() -> None:
    """The second episode ends in a terminal state, the third is cut: the cut keeps its value, the end does not."""
    paid, value = np.array([[1.0], [1.0], [1.0]]), np.array([[2.0], [4.0], [8.0]])
    after = np.array([[4.0], [100.0], [16.0]])
    end = np.array([[False], [True], [False]])
    cut = np.array([[False], [True], [True]])
    # errors: 1 + .5 * 4 - 2 = 1, 1 - 4 = -3, 1 + .5 * 16 - 8 = 1; the first adds .5 * .5 * -3
    assert advantages(paid, value, after, end, cut, 0.5, 0.5)[:, 0] == pytest.approx([0.25, -3.0, 1.0])
    assert advantages(paid, value, after, end, cut, 0.5, 0.0)[:, 0] == pytest.approx([1.0, -3.0, 1.0])


def test_the_bound_on_the_ratio_is_in_force_only_where_it_lowers_the_objective() -> None:
    log_ratio = np.log(np.array([[1.5, 0.5, 1.5, 0.5, 1.1]], dtype=np.float32))
    gain = np.array([[1.0, 1.0, -1.0, -1.0, 2.0]], dtype=np.float32)
    assert ratio_weights(log_ratio, gain, 0.2)[0] == pytest.approx([0.0, 0.5, -1.5, 0.0, 2.2])
    assert ratio_weights(log_ratio, gain, None)[0] == pytest.approx([1.5, 0.5, -1.5, -0.5, 2.2])


def rows_for(head: Head, agents: int, count: int, generator: np.random.Generator) -> RolloutRows:
    """Rows whose old probabilities differ enough from the new ones for the bound to be in force on some."""
    if isinstance(head, Categorical):
        actions: Array = generator.integers(head.actions, size=(agents, count))
        old = generator.normal(-np.log(head.actions), 0.5, (agents, count))
    else:
        actions = generator.normal(size=(agents, count, head.outputs)).astype(np.float32)
        old = -0.5 * np.square(actions).sum(axis=2) - np.log(2.0 * np.pi) + generator.normal(0.0, 0.5, (agents, count))
    draw = [generator.normal(size=(agents, count)).astype(np.float32) for _ in range(2)]
    x = generator.normal(size=(agents, count, 3)).astype(np.float32)
    return RolloutRows(x, actions, old.astype(np.float32), *draw)


def through_torch(objective: PpoObjective, theta: Array, rows: RolloutRows, config: PpoConfig) -> Array:
    """The slope of one agent's objective by automatic differentiation; theta [P + e + Q], rows of one agent."""
    parameters = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
    x, gain, goal, old = (
        torch.tensor(column, dtype=torch.float64)
        for column in (rows.x, rows.advantage, rows.value_target, rows.log_probability)
    )
    at = 0

    def network(mlp: Mlp) -> torch.Tensor:
        nonlocal at
        out = x
        for k, (n, m) in enumerate(itertools.pairwise(mlp.sizes)):
            layer = parameters[at : at + (n + 1) * m].reshape(n + 1, m)
            at += (n + 1) * m
            out = (torch.tanh(out) if k else out) @ layer[:-1] + layer[-1]
        return out

    outputs = network(objective.actor)
    free = parameters[at : at + objective.head.parameters]
    at += objective.head.parameters
    values = network(objective.critic)[:, 0]
    if objective.head.parameters:
        normal = torch.distributions.Normal(outputs + torch.tensor(GAUSSIAN.mean), free.exp())
        logs = normal.log_prob(torch.tensor(rows.actions, dtype=torch.float64)).sum(1)
        entropy = normal.entropy().sum(1)
    else:
        categorical = torch.distributions.Categorical(logits=outputs)
        logs, entropy = categorical.log_prob(torch.tensor(rows.actions)), categorical.entropy()
    ratio = (logs - old).exp()
    surrogate = ratio * gain
    if config.ratio_clip is not None:
        surrogate = torch.min(surrogate, ratio.clamp(1.0 - config.ratio_clip, 1.0 + config.ratio_clip) * gain)
    (surrogate + config.entropy * entropy - 0.25 * (values - goal).square()).mean().backward()  # type: ignore[no-untyped-call]
    assert parameters.grad is not None
    return parameters.grad.numpy()


@pytest.mark.parametrize("head", [Categorical(3), GAUSSIAN])
@pytest.mark.parametrize("clip", [0.2, None])
def test_the_slope_is_that_of_automatic_differentiation(head: Head, clip: float | None) -> None:
    generator = np.random.default_rng(0)
    config = replace(SMALL, ratio_clip=clip, entropy=0.1)
    objective = PpoObjective(Mlp((3, 8, head.outputs), gain=1.0), Mlp((3, 8, 1), gain=1.0), head, config)
    theta = objective.initial_parameters(generator, 2)
    theta += generator.normal(0.0, 0.1, theta.shape).astype(np.float32)
    rows = rows_for(head, 2, 40, generator)
    slope = objective.slope(theta, rows)
    for g in range(2):
        own = RolloutRows(rows.x[g], rows.actions[g], rows.log_probability[g], rows.advantage[g], rows.value_target[g])
        assert slope[g] == pytest.approx(through_torch(objective, theta[g], own, config), abs=2e-6)


def test_running_statistics_are_those_of_all_values_and_the_prior_one() -> None:
    generator = np.random.default_rng(2)
    values = generator.normal(3.0, 2.0, (2, 60, 3))
    running = RunningMoments.from_prior(2, 3)
    for part in np.split(values, 4, axis=1):
        running.add(part)
    mean = values.sum(axis=1) / 61.0
    second = (np.square(values).sum(axis=1) + 1.0) / 61.0
    assert running.mean == pytest.approx(mean)
    assert running.variance == pytest.approx(second - mean**2)
    assert normalize(np.array([[[1.0], [900.0]]]), np.array([[3.0]]), np.array([[2.0]])).ravel().tolist() == [-1, 10]


class Stairs:
    """A state counts its steps; the third one ends the episode, and is paid 1."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        return np.zeros(units)

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> tuple[Array, Array, Array]:
        return state + 1.0, (state == 2.0).astype(float), state == 2.0

    def observe(self, state: Array) -> Array:
        return state[:, None].astype(np.float32)


@pytest.mark.parametrize(("horizon", "length"), [(9, 3), (2, 2)])
def test_a_rollout_goes_on_where_the_last_one_stopped(horizon: int, length: int) -> None:
    """Two episodes of one agent: rows are one episode after another in time, and begin again at the end or the cut."""
    episodes = Episodes(
        Stairs(), agents=1, environments=2, observation=1, horizon=horizon, generator=np.random.default_rng(0)
    )

    def act(x: Array) -> tuple[Array, Array]:
        return np.zeros((1, 2), np.int64), np.zeros((1, 2), np.float32)

    def zero(x: Array) -> Array:
        return np.zeros(x.shape[:2], np.float32)

    gains = [episodes.rollout(4, act, zero, 0.5, 0.5).advantage.reshape(4, 2) for _ in range(2)]
    paid = np.concatenate(gains)[:, 0] > 0.5
    assert (np.concatenate(gains)[:, 0] == np.concatenate(gains)[:, 1]).all()
    assert paid.tolist() == [length == 3 and t % 3 == 2 for t in range(8)]


def test_an_agent_serves_the_episodes_of_several_in_any_order() -> None:
    network = Mlp((1, 2), gain=0.0)
    theta = np.array([[0.0, 0.0, 0.0, 9.0], [0.0, 0.0, 9.0, 0.0]], dtype=np.float32)  # the bias decides
    agent = PpoAgents(
        network, Categorical(2), theta, np.zeros((2, 0), np.float32), np.zeros((2, 1)), np.ones((2, 1)), True
    )
    replicate = np.array([1, 0, 0, 1, 1])
    assert agent(np.zeros((5, 1)), replicate, np.random.default_rng(0)).tolist() == [0, 1, 1, 0, 0]
    assert agent(np.zeros((1, 1)), np.array([1]), np.random.default_rng(0)).tolist() == [0]


def mean_length(agent: PpoAgents, agents: int, episodes: int) -> Array:
    """Mean steps of the episodes of every agent until the pole falls, 500 at most."""
    cart, generator = CartPole(), np.random.default_rng(3)
    replicate = np.repeat(np.arange(agents), episodes)
    state, alive = cart.starts(len(replicate), generator), np.ones(len(replicate), dtype=bool)
    length = np.zeros(len(replicate))
    for _ in range(500):
        state, _, ended = cart.step(state, agent(cart.observe(state), replicate, generator), generator)
        length += alive
        alive &= ~ended
    return length.reshape(agents, episodes).mean(axis=1)


@pytest.mark.parametrize(
    "config",
    [
        PpoConfig(40_000, rollout=64, epochs=8, rate=2e-3, hidden=(16,)),
        replace(PpoConfig.a2c(60_000, rate=3e-3), hidden=(16,)),
    ],
    ids=["ppo", "a2c"],
)
def test_the_pole_stays_up(config: PpoConfig) -> None:
    """A random policy keeps it for 22 steps."""
    agent = learn(CartPole(), Categorical(2), config, observation=4, horizon=500, agents=2, seed=0)
    assert mean_length(agent, 2, 20).min() > 200.0


@pytest.mark.parametrize("config", [SMALL, PpoConfig.a2c(1_024)])
def test_the_same_arguments_give_the_same_parameters(config: PpoConfig) -> None:
    def trained(seed: int) -> PpoAgents:
        return learn(CartPole(), Categorical(2), config, observation=4, horizon=500, seed=seed)

    assert np.array_equal(trained(0).theta, trained(0).theta)
    assert not np.array_equal(trained(0).theta, trained(1).theta)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"rate": 0.0}, {"gamma": 1.0}, {"steps": 100}, {"ratio_clip": -0.1}])
def test_a_config_outside_its_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="outside its range"):
        replace(SMALL, **wrong)


def test_divergence_is_an_error() -> None:
    with np.errstate(all="ignore"), pytest.raises(PlanError, match="diverged"):
        learn(CartPole(), Categorical(2), replace(SMALL, rate=1e30), observation=4, horizon=500)
