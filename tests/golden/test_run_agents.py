"""Golden runs of the agents: offline with continuous and discrete actions, online, Q-learning, and their tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.golden import runs
from tests.golden.runs import TRAINED, Numbers, Run

from tacit.agents import discrete_offline, heads
from tacit.agents.features import OneHot, Quadratic, Scaled
from tacit.agents.learners import BC, CQL, DQN
from tacit.agents.networks import Mlp
from tacit.agents.stacked import StackedPolicies
from tacit.agents.torch_network import TorchNetwork
from tacit_worlds.agents import edac, iql, ppo, q_learning, td3_bc
from tacit_worlds.agents.offline import RandomFourier, TrainingTable

AREA = "agents"
LOW, HIGH = (-1.0, -1.0), (1.0, 1.0)


def rows(seed: int = 0, *, discrete: bool = False) -> dict[str, np.ndarray]:
    """Steps of a point that is pushed; it is paid for being near the middle, and an episode ends there."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(-1, 1, (600, 2)).astype(np.float32)
    push = rng.uniform(-1, 1, (600, 2)).astype(np.float32)
    action = rng.integers(3, size=600)
    if discrete:
        push = np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.5]], np.float32)[action]
    after = np.clip(place + 0.1 * push, -1, 1)
    distance = np.sqrt((after**2).sum(1))
    return {
        "observations": place,
        "actions": action if discrete else push,
        "rewards": -distance,
        "next_observations": after,
        "terminations": distance < 0.1,
    }


def offline(config: Any, seeds: tuple[int, ...] = (1, 2), tables: int = 1) -> Run:
    """An agent of continuous actions with few steps of a small network; the defaults are its own."""

    def make(folder: Path) -> Numbers:
        module = {iql.IqlConfig: iql, td3_bc.Td3BcConfig: td3_bc, edac.EdacConfig: edac}[type(config)]
        policies = module.train_tables([rows(seed) for seed in range(tables)], config, seeds=seeds)
        test = rows(9)["observations"][:50]
        found: dict[str, Any] = {}
        for number, policy in enumerate(policies):
            found |= {f"table {number}, {name}": runs.summary(array) for name, array in policy.arrays.items()}
            found[f"table {number}, actions"] = runs.summary(policy.act(test))
        return found

    return Run(make, lambda: (type(config)(),), TRAINED)


def discrete(learner: Any) -> Run:
    def make(folder: Path) -> Numbers:
        mlp, columns = Mlp((2, 16, 3)), rows(discrete=True)
        theta = discrete_offline.train(
            learner, mlp, Scaled(LOW, HIGH), columns, steps=20, batch=32, target_every=5, seed=3
        )
        weighted = discrete_offline.train(
            learner, mlp, Scaled(LOW, HIGH), columns, steps=6, batch=32, weights=np.linspace(0, 1, 600), seed=3
        )
        return {"theta": runs.summary(theta), "weighted": runs.summary(weighted)}

    return Run(make, lambda: (learner, discrete_offline.train), TRAINED)


class Line:
    """Three places on [0, 1]; action 1 goes right (from the last one to the end, paid 1), action 0 stays (paid 0)."""

    def step(self, state: Any, action: Any, generator: np.random.Generator) -> tuple[Any, Any, Any]:
        after = state + action
        return after, (after == 3).astype(float), after == 3

    def observe(self, state: Any) -> Any:
        return state[:, None] / 2.0

    def starts(self, units: int, generator: np.random.Generator) -> Any:
        return generator.integers(3, size=units)


class Push(Line):
    """A place on a line that is pushed by a number; it is paid for being near the middle."""

    def step(self, state: Any, action: Any, generator: np.random.Generator) -> tuple[Any, Any, Any]:
        after = np.clip(state + 0.3 * action[:, 0], -3, 3)
        return after, -np.abs(after), np.abs(after) > 2.9

    def starts(self, units: int, generator: np.random.Generator) -> Any:
        return generator.uniform(-2, 2, units)


def online(simulator: Any, head: Any, config: ppo.PpoConfig) -> Run:
    def make(folder: Path) -> Numbers:
        agent = ppo.learn(simulator, head, config, observation=1, horizon=20, agents=2, seed=4)
        found = {"theta": agent.theta, "free": agent.free, "mean": agent.mean, "deviation": agent.deviation}
        return {name: runs.summary(array) for name, array in found.items()}

    default = ppo.PpoConfig(1_000_000) if config.adam else ppo.PpoConfig.a2c(1_000_000)
    return Run(make, lambda: (default,), TRAINED)


def q_values(folder: Path) -> Numbers:
    line = Line()
    found = q_learning.learn(
        line, line.starts, actions=2, low=(0.0,), high=(1.0,), order=2, gamma=0.8, rate=0.5, trace=0.5, epsilon=0.5,
        episodes=16, horizon=8, steps=300, seed=0,
    )  # fmt: skip
    places = np.array([[0.0], [0.5], [1.0]])
    return {
        "weights": found.weights.ravel().tolist(),
        "softmax": q_learning.softmax(found, 0.5)(places).ravel().tolist(),
        "epsilon-greedy": q_learning.epsilon_greedy(found, 0.2)(places).ravel().tolist(),
    }


def fitted(folder: Path) -> Numbers:
    found = q_learning.fit(
        [rows(discrete=True), rows(1, discrete=True)], actions=3, low=LOW, high=HIGH, order=2, coupled=True, gamma=0.9,
        value=(-10.0, 0.0), iterations=20,
    )  # fmt: skip
    return {"weights": runs.summary(found.weights)}


def tables(folder: Path) -> Numbers:
    table = TrainingTable.from_columns(rows(), torch.device("cpu"), "golden")
    return {"rows": runs.summary(table.rows), "mean": table.mean.tolist(), "scale": table.scale.tolist()}


def stacked(folder: Path) -> Numbers:
    mlp, seen = Mlp((2, 8, 3)), rows()["observations"][:40]
    theta = mlp.initial_parameters(np.random.default_rng(0), 5)
    policies = StackedPolicies.from_mlp(Scaled(LOW, HIGH), mlp, theta, floor=0.1)
    action = np.arange(40) % 3
    return {
        "greedy": runs.summary(policies.greedy(seen)),
        "disagreements": int(policies.disagreements(seen, action).sum()),
        "chances": runs.summary(policies.likelihoods(seen, action)),
    }


def parts_of_policies(folder: Path) -> Numbers:
    """Networks forwards and backwards, features, and distributions of actions."""
    rng, x = np.random.default_rng(0), rows()["observations"][None, :40]
    mlp = Mlp((2, 8, 3))
    theta = mlp.initial_parameters(rng, 1)
    outputs, cache = mlp.forward(theta, x)
    categorical = heads.Categorical(3)
    drawn = categorical.draw(outputs, np.zeros((1, 0), np.float32), np.random.default_rng(1))
    gaussian = heads.Gaussian((-1.0,) * 3, (1.0,) * 3, (0.0,) * 3, 0.5)
    played = gaussian.draw(outputs, np.zeros((1, gaussian.parameters), np.float32), np.random.default_rng(1))
    own = TorchNetwork(torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)), inputs=2)
    fixed = np.linspace(-1, 1, own.parameters, dtype=np.float32)[None]
    return {
        "outputs": runs.summary(outputs),
        "slopes": runs.summary(mlp.backward(theta, cache, np.ones_like(outputs))),
        "drawn": runs.summary(drawn),
        "played": runs.summary(played),
        "log-probability": runs.summary(gaussian.log_probability(outputs, np.zeros((1, 0), np.float32), played)),
        "outputs of torch": runs.summary(own.forward(fixed, x)[0]),
        "quadratic features": runs.summary(Quadratic(LOW, HIGH)(x[0])),
        "one-hot features": runs.summary(OneHot(4)(np.array([0, 3, 1]))),
    }


SHORT: dict[str, Any] = {"steps": 8, "batch": 32, "width": 16}
WAVES = RandomFourier(4, (1.0, 0.5))
RUNS = {
    "IQL": offline(iql.IqlConfig(**SHORT)),
    "IQL, Fourier features, two tables": offline(iql.IqlConfig(**SHORT, features=WAVES), tables=2),
    "TD3+BC": offline(td3_bc.Td3BcConfig(**SHORT)),
    "TD3+BC, LayerNorm": offline(td3_bc.Td3BcConfig(**SHORT, layer_norm=True)),
    "EDAC": offline(edac.EdacConfig(**SHORT)),
    "discrete CQL": discrete(CQL()),
    "double DQN": discrete(DQN()),
    "behaviour cloning": discrete(BC()),
    "PPO": online(Line(), heads.Categorical(2), ppo.PpoConfig(256, environments=4, rollout=32, hidden=(8,))),
    "PPO, continuous actions": online(
        Push(),
        heads.Gaussian((-1.0,), (1.0,), (0.0,), 0.5, learned_std=True),
        ppo.PpoConfig(256, environments=4, rollout=32, hidden=(8,)),
    ),
    "A2C": online(Line(), heads.Categorical(2), ppo.PpoConfig.a2c(400, environments=4)),
    "Q-learning": Run(q_values, lambda: (q_learning.learn,)),
    "fitted Q iteration": Run(fitted, lambda: (q_learning.fit,)),
    "tables": Run(tables, lambda: ()),
    "stacked policies": Run(stacked, lambda: (StackedPolicies.from_mlp,), TRAINED),
    "networks, features and heads": Run(
        parts_of_policies, lambda: (Mlp((2, 3)), heads.Gaussian((-1.0,), (1.0,), (0.0,), 0.5)), TRAINED
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_stored_numbers(name: str, tmp_path: Path) -> None:
    runs.check_numbers(AREA, name, RUNS[name], tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_default_parameters_are_the_stored_ones(name: str) -> None:
    runs.check_parameters(AREA, name, RUNS[name])


def test_every_stored_run_is_run() -> None:
    assert list(runs.stored(AREA)) == list(RUNS)


if __name__ == "__main__":
    runs.write(AREA, RUNS, sys.argv[1:])
