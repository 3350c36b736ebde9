"""IQL and TD3+BC against d3rlpy's: the losses of one step with the same weights and rows, and what is learnt.

Skipped where d3rlpy is not installed (`benchmarks.peers.d3rlpy_agents` says how). Both sides get the same standardised
rows, and networks without LayerNorm, since d3rlpy puts it elsewhere. One loss differs by design and is not
compared: d3rlpy's IQL policy has a standard deviation of its own, and its advantages are not scaled by their spread.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from tests.worlds.agents import losses
from torch import nn

from tacit_worlds import maze
from tacit_worlds.agents import iql, td3_bc
from tacit_worlds.agents.offline import Batch, Members
from tacit_worlds.agents.perceptrons import Layers
from tacit_worlds.maze_evaluation import evaluate

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    d3rlpy = pytest.importorskip("d3rlpy")
    from benchmarks.peers import d3rlpy_agents
    from d3rlpy.torch_utility import TorchMiniBatch

pytestmark = pytest.mark.filterwarnings("ignore")

WIDTH, BATCH, RING = 64, 128, maze.LAYOUTS["ring"]
OURS = {
    "iql": (iql, iql.IqlConfig(width=WIDTH, batch=BATCH, layer_norm=False)),
    "td3_bc": (td3_bc, td3_bc.Td3BcConfig(width=WIDTH, batch=BATCH, layer_norm=False)),
}


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    return maze.collect(RING, 100_000, seed=900)


def peer(name: str, members: Members) -> Any:
    """d3rlpy's agent with our hyper-parameters."""
    agent = d3rlpy_agents.learner(OURS[name][1])
    agent.create_impl((members.input_width,), members.action_width)
    return agent


def linear(module: nn.Module) -> list[nn.Linear]:
    """Its linear layers, from the inputs to the outputs (an IQL policy's own standard deviation is no layer)."""
    return [part for part in module.modules() if isinstance(part, nn.Linear)]


def stacked(modules: list[nn.Module]) -> Layers:
    """d3rlpy's networks as one stack of ours."""
    layers: Layers = []
    for same in zip(*(linear(module) for module in modules), strict=True):
        layers.append(torch.stack([layer.weight.detach().T for layer in same]).requires_grad_())
        layers.append(torch.stack([layer.bias.detach()[None] for layer in same]).requires_grad_())
    return layers


def minibatch(batch: Batch) -> Any:
    """The rows of member 0 in d3rlpy's form."""
    s, a, r, s_next, alive = (column[0] for column in batch)
    ones = torch.ones(len(r), 1)
    return TorchMiniBatch(
        observations=s,
        actions=a,
        rewards=r[:, None],
        next_observations=s_next,
        next_actions=a,
        returns_to_go=0.0 * ones,
        terminals=1.0 - alive[:, None],
        intervals=ones,
        device="cpu:0",
    )


def ending(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Some rows end."""
    return rows | {"terminations": np.arange(len(rows["rewards"])) % 3 == 0}


def test_losses_of_iql_are_equal(rows: dict[str, np.ndarray]) -> None:
    members = Members([ending(rows)], [0], "cpu", "test")
    batch, own = next(members.draw_batches(BATCH)), peer("iql", members)
    modules, given = own.impl.modules, minibatch(batch)
    for module in modules.targ_q_funcs:  # targets of their own, else both sides would hide a mistake
        nn.init.normal_(linear(module)[-1].weight)
    with torch.no_grad():
        theirs = own.impl.compute_critic_loss(given, own.impl.compute_target(given))
    q, target = stacked(list(modules.q_funcs)), stacked(list(modules.targ_q_funcs))
    value, policy = stacked([modules.value_func]), members.networks((4, WIDTH, WIDTH, 2)).layers
    found = losses.iql(q, target, value, policy, batch, OURS["iql"][1]).detach()
    assert float(found[0]) == pytest.approx(float(theirs.v_loss), rel=1e-4)
    assert float(found[1]) == pytest.approx(float(theirs.q_loss), rel=1e-4)


def test_losses_of_td3_bc_are_equal(rows: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    members = Members([ending(rows)], [0], "cpu", "test")
    batch, own = next(members.draw_batches(BATCH)), peer("td3_bc", members)
    modules, given, config = own.impl.modules, minibatch(batch), OURS["td3_bc"][1]
    for module in (*modules.targ_q_funcs, modules.targ_policy):
        nn.init.normal_(linear(module)[-1].weight)
    drawn = torch.randn(BATCH, 2, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(torch, "randn", lambda *args, **kwargs: drawn)
    with torch.no_grad():
        critic = own.impl.compute_critic_loss(given, own.impl.compute_target(given)).critic_loss
        actor = own.impl.compute_actor_loss(given, modules.policy(given.observations)).actor_loss
    monkeypatch.undo()
    q, target = stacked(list(modules.q_funcs)), stacked(list(modules.targ_q_funcs))
    policy, target_policy = stacked([modules.policy]), stacked([modules.targ_policy])
    noise = (config.policy_noise * drawn[None]).clamp(-config.noise_clip, config.noise_clip)
    loss = losses.td3_bc_critic(q, target, target_policy, batch, noise, config).detach()
    assert float(loss) == pytest.approx(float(critic), rel=1e-4)
    assert float(losses.td3_bc_policy(policy, q, batch, config).detach()) == pytest.approx(float(actor), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("iql", 3_000), ("td3_bc", 5_000)])
def test_both_learn_the_maze(name: str, steps: int, rows: dict[str, np.ndarray]) -> None:
    """Means over two seeds, in normalised returns (0 random, 100 the controller), lie within 25 of each other."""
    module, config = OURS[name]
    ours = module.train(rows, replace(config, steps=steps), seeds=[900, 901])
    own = evaluate(RING, ours, starts="all", seed=950, episodes=100)
    theirs = np.concatenate([_learnt_there(name, steps, rows, seed) for seed in (900, 901)])
    print(f"\n{name}: tacit {own.round(1)}, d3rlpy {theirs.round(1)}")
    assert min(own.mean(), theirs.mean()) > 10.0
    assert abs(own.mean() - theirs.mean()) < 25.0


def _learnt_there(name: str, steps: int, rows: dict[str, np.ndarray], seed: int) -> np.ndarray:
    """Normalised return of d3rlpy's policy after as many steps on rows of the same table."""
    d3rlpy.seed(seed)
    members = Members([rows], [seed], "cpu", "test")
    own = peer(name, members)
    for step, batch in enumerate(islice(members.draw_batches(BATCH), steps)):
        own.impl.update(minibatch(batch), step)
    (policy,) = members.policies(stacked([own.impl.modules.policy]))
    return evaluate(RING, policy, starts="all", seed=950, episodes=100)
