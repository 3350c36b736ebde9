"""Discrete offline learners: losses by hand, the twin of Mlp, and a chain whose values are known."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch import nn

from tacit.agents.discrete_offline import Agent, Descent, encode_rows, gradient, train
from tacit.agents.features import OneHot, Scaled
from tacit.agents.learners import BC, CQL, DQN
from tacit.agents.networks import Mlp
from tacit.errors import DataError, PlanError
from tacit.serialization import read


class Fixed(nn.Module):
    """Outputs looked up by the first input: a table of values that are known."""

    def __init__(self, values: list[list[float]]) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.values[x[..., 0].long()]


class Two:
    """Online values (1, 3), (5, 2); target values (10, 20), (30, 40)."""

    online = Fixed([[1.0, 3.0], [5.0, 2.0]])
    target = Fixed([[10.0, 20.0], [30.0, 40.0]])


def rows(terminated: bool = False, reward: float = 0.5) -> dict[str, torch.Tensor]:
    """One row: state 0, action 1, state 1."""
    return {
        "inputs": torch.tensor([[0.0]]),
        "next_inputs": torch.tensor([[1.0]]),
        "actions": torch.tensor([1]),
        "rewards": torch.tensor([reward]),
        "terminations": torch.tensor([terminated]),
    }


def test_double_dqn_takes_the_online_choice_and_the_target_s_value() -> None:
    # online prefers action 0 in state 1 (5 > 2), whose target value is 30: y = 0.5 + 0.9 * 30 = 27.5, |3 - y| - 1/2
    loss = DQN(gamma=0.9).losses(Two(), rows())
    torch.testing.assert_close(loss, torch.tensor([24.5 - 0.5]))


def test_a_termination_cuts_the_value_and_small_errors_are_squared() -> None:
    loss = DQN(gamma=0.9, reward_scale=5.0).losses(Two(), rows(terminated=True))
    torch.testing.assert_close(loss, torch.tensor([0.5 * (3.0 - 2.5) ** 2]))


def test_the_conservative_term_is_minus_the_log_probability() -> None:
    surplus = np.log(np.exp(1.0) + np.exp(3.0)) - 3.0
    dqn = DQN(gamma=0.9).losses(Two(), rows())
    torch.testing.assert_close(CQL(alpha=2.0, gamma=0.9).losses(Two(), rows()), dqn + 2.0 * surplus)
    torch.testing.assert_close(BC().losses(Two(), rows()), torch.tensor([surplus], dtype=torch.float32))


def test_goals_have_no_gradient() -> None:
    pair = Two()
    (slope,) = torch.autograd.grad(DQN(gamma=0.9).losses(pair, rows()).sum(), [pair.online.values])
    assert slope.tolist() == [[0.0, -1.0], [0.0, 0.0]]


@pytest.mark.parametrize("sizes", [(3, 2), (5, 7, 4), (4, 16, 8, 3)])
def test_the_twin_computes_what_mlp_computes_and_gives_its_parameters_back(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    mlp = Mlp(sizes)
    theta = rng.normal(size=mlp.parameters).astype(np.float32)
    agent, x = Agent(mlp, theta), rng.normal(size=(50, sizes[0])).astype(np.float32)
    np.testing.assert_array_equal(agent.theta(), theta)
    expected = mlp.forward(theta[None], x[None])[0][0]
    for network in (agent.online, agent.target):
        np.testing.assert_allclose(network(torch.from_numpy(x)).detach().numpy(), expected, atol=1e-5)


def test_the_vector_is_the_network_and_the_target_waits() -> None:
    mlp = Mlp((2, 3, 2))
    agent = Agent(mlp, np.zeros(mlp.parameters, np.float32))
    agent.vector.copy_(torch.arange(mlp.parameters))
    flat = torch.cat([p.detach().reshape(-1) for p in agent.parameters()])
    torch.testing.assert_close(flat, agent.vector)
    x = torch.ones(1, 2)
    assert not agent.target(x).any()
    assert agent.online(x).requires_grad
    agent.update_target()
    with torch.no_grad():
        assert torch.equal(agent.target(x), agent.online(x))
    torch.testing.assert_close(agent.target(x), agent.online(x).detach())
    assert not agent.target(x).requires_grad


def test_the_gradient_is_that_of_the_numpy_network() -> None:
    """For BC the slope by the outputs is (softmax - indicator) / N, which Mlp.backward turns into one by theta."""
    rng = np.random.default_rng(1)
    mlp = Mlp((3, 5, 4), gain=1.0)
    theta, x = mlp.initial_parameters(rng, 1), rng.normal(size=(20, 3)).astype(np.float32)
    actions = rng.integers(4, size=20)
    out, cache = mlp.forward(theta, x[None])
    p = np.exp(out - out.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    slope = ((p - np.eye(4)[actions]) / 20).astype(np.float32)
    expected = mlp.backward(theta, cache, slope)[0, 0]
    agent = Agent(mlp, theta[0])
    found = gradient(agent, BC(), {"inputs": torch.from_numpy(x), "actions": torch.from_numpy(actions)})
    agent.vector.copy_(found)  # in the order of the vector: read it back in that of theta
    np.testing.assert_allclose(agent.theta(), expected, atol=1e-6)


def chain() -> dict[str, np.ndarray]:
    """Four states in a row: 1 goes on, 0 stays; arriving at the last ends and pays 1. Every pair equally often."""
    state, action = (a.ravel() for a in np.meshgrid(np.arange(3), np.arange(2), indexing="ij"))
    after = state + action
    return {
        "observations": np.tile(state, 20),
        "actions": np.tile(action, 20),
        "rewards": np.tile((after == 3) * 1.0, 20),
        "next_observations": np.tile(after, 20),
        "terminations": np.tile(after == 3, 20),
    }


def test_dqn_finds_the_values_of_a_chain() -> None:
    mlp = Mlp((4, 2), gain=0.0)
    fit = {"steps": 1_500, "batch": 60, "learning_rate": 0.03, "target_every": 20}
    theta = train(DQN(gamma=0.5), mlp, OneHot(4), chain(), **fit)
    values = mlp.forward(theta[None], np.eye(4, dtype=np.float32)[None, :3])[0][0]
    np.testing.assert_allclose(values, [[0.125, 0.25], [0.25, 0.5], [0.5, 1.0]], atol=0.03)


def test_training_again_gives_the_same_bits_and_another_seed_others() -> None:
    mlp = Mlp((4, 8, 2))
    one, same, other = (train(CQL(), mlp, OneHot(4), chain(), steps=20, batch=16, seed=seed) for seed in (3, 3, 4))
    assert one.tobytes() == same.tobytes() != other.tobytes()


def test_rows_without_weight_teach_nothing() -> None:
    columns = chain()
    good = columns["actions"] == 1
    mlp = Mlp((4, 2), gain=0.0)
    theta = train(BC(), mlp, OneHot(4), columns, steps=200, learning_rate=0.03, weights=good)
    outputs = mlp.forward(theta[None], np.eye(4, dtype=np.float32)[None, :3])[0][0]
    assert (outputs[:, 1] > outputs[:, 0] + 1.0).all()


def test_kinds_of_slopes_keep_their_own_moments_and_the_last_iterates_are_averaged() -> None:
    mlp = Mlp((1, 2), gain=0.0)
    agent = Agent(mlp, np.zeros(4, np.float32))
    descent = Descent(agent, steps=4, target_every=2, average=0.5)
    seen = []
    for kind, size in (("noisy", 1.0), ("rows", 1e-3), ("noisy", 1.0)):
        descent.step(torch.full((4,), size), 0.1, kind=kind)
        seen.append(float(agent.vector[0]))
    # Adam's first steps have the length of the rate, whatever the slope's; the rate falls only after the half
    np.testing.assert_allclose(np.diff([0.0, *seen]), -0.1, rtol=0.02)
    descent.skip_step()
    np.testing.assert_allclose(descent.theta(), np.full(4, seen[2]), rtol=1e-6)  # the iterates after steps 3 and 4


def test_encoded_rows_have_inputs_in_place_of_observations() -> None:
    seen = torch.tensor([[[0.0], [1.0]]])
    own = encode_rows(
        Scaled((0.0,), (2.0,)), {"observations": seen, "next_observations": seen + 1, "mask": seen[..., 0]}
    )
    assert set(own) == {"inputs", "next_inputs", "mask"}
    assert own["inputs"].tolist() == [[[-1.0], [0.0]]]
    assert own["next_inputs"].tolist() == [[[0.0], [1.0]]]


@pytest.mark.parametrize("learner", [CQL(alpha=0.5, reward_scale=0.1), DQN(gamma=0.9), BC()])
def test_learners_survive_json(learner: CQL | DQN | BC) -> None:
    assert read(CQL | DQN | BC, json.loads(json.dumps(asdict(learner)))) == learner


def test_impossible_numbers_are_refused() -> None:
    for wrong in (lambda: CQL(alpha=-1.0), lambda: DQN(gamma=1.0), lambda: CQL(reward_scale=float("inf"))):
        with pytest.raises(PlanError, match="learner"):
            wrong()
    with pytest.raises(TypeError):
        read(CQL | DQN | BC, {"kind": "sarsa"})
    with pytest.raises(PlanError, match=r"\[6\]"):
        Agent(Mlp((2, 2)), np.zeros(5, np.float32))
    with pytest.raises(PlanError, match="out of range"):
        train(BC(), Mlp((4, 2)), OneHot(4), chain(), steps=0)
    short = {name: column[:0] for name, column in chain().items()}
    with pytest.raises(DataError, match="no rows"):
        train(BC(), Mlp((4, 2)), OneHot(4), short, steps=1)
    with pytest.raises(DataError, match="differ in length"):
        train(BC(), Mlp((4, 2)), OneHot(4), chain(), steps=1, weights=np.ones(3))


def test_learners_load_no_torch() -> None:
    code = "import sys; import tacit.agents.learners; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
