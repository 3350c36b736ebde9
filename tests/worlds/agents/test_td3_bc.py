"""TD3+BC's losses against the paper's equations, its gradients against those of the losses, and its delays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.worlds.agents import losses

from tacit_worlds.agents import td3_bc
from tacit_worlds.agents.offline import Members

CONFIG = td3_bc.Td3BcConfig(steps=1, batch=8, width=4, discount=0.5, alpha=2.5, layer_norm=False)


def members(seeds: list[int]) -> Members:
    rng = np.random.default_rng(0)
    columns = {
        "observations": rng.normal(size=(64, 3)),
        "actions": rng.uniform(-1, 1, (64, 2)),
        "rewards": rng.normal(size=64),
        "next_observations": rng.normal(size=(64, 3)),
        "terminations": rng.random(64) < 0.3,
    }
    return Members([columns], seeds, "cpu", "test")


def mlp(layers: list[torch.Tensor], k: int, x: torch.Tensor) -> torch.Tensor:
    """Network k of a stack, written out."""
    w0, b0, w1, b1 = (tensor[k] for tensor in layers)
    return torch.relu(x @ w0 + b0) @ w1 + b1


def test_critics_regress_to_the_smaller_target_at_a_noisy_action() -> None:
    stack = members([0, 1])
    q, target = (stack.networks((5, 4, 1), copies=2).layers for _ in range(2))
    actor, rows = stack.networks((3, 4, 2)).layers, next(stack.draw_batches(8))
    noise = torch.full((2, 8, 2), 0.4)
    expected = torch.zeros(())
    for k in range(2):
        s, a, r, s_next, alive = (column[k] for column in rows)
        following = (torch.tanh(mlp(actor, k, s_next)) + 0.4).clamp(-1, 1)
        x = torch.cat([s_next, following], -1)
        least = torch.minimum(mlp(target, 2 * k, x), mlp(target, 2 * k + 1, x))[:, 0]
        goal = r + 0.5 * alive * least
        for j in (2 * k, 2 * k + 1):
            expected += (mlp(q, j, torch.cat([s, a], -1))[:, 0] - goal).square().mean().detach()
    torch.testing.assert_close(losses.td3_bc_critic(q, target, actor, rows, noise, CONFIG), expected)


def test_the_policy_climbs_the_first_critic_and_stays_near_the_data() -> None:
    stack = members([0, 1])
    q, actor = stack.networks((5, 4, 1), copies=2).layers, stack.networks((3, 4, 2)).layers
    rows = next(stack.draw_batches(8))
    expected = torch.zeros(())
    for k in range(2):
        s, a = rows[0][k], rows[1][k]
        chosen = torch.tanh(mlp(actor, k, s))
        value = mlp(q, 2 * k, torch.cat([s, chosen], -1))
        expected += ((chosen - a).square().mean() - 2.5 * value.mean() / value.abs().mean()).detach()
    torch.testing.assert_close(losses.td3_bc_policy(actor, q, rows, CONFIG), expected)


@pytest.mark.parametrize("norm", [False, True])
def test_gradients_are_those_of_the_losses(norm: bool) -> None:
    config = td3_bc.Td3BcConfig(layer_norm=norm, discount=0.8, alpha=2.5)
    q, target = losses.random_layers(4, 5, 12, 12, 1), losses.random_layers(4, 5, 12, 12, 1, seed=1)
    policy, actor = losses.random_layers(2, 3, 12, 12, 2), losses.random_layers(2, 3, 12, 12, 2, seed=1)
    rows, noise = losses.random_batch(2, 16, 3, 2), torch.full((2, 16, 2), 0.3, dtype=torch.float64)
    found = td3_bc.critic_gradient(q, target, actor, rows, noise, config)
    losses.check(found, lambda q: losses.td3_bc_critic(q, target, actor, rows, noise, config), q)
    found = td3_bc.policy_gradient(policy, q, rows, config)
    losses.check(found, lambda policy: losses.td3_bc_policy(policy, q, rows, config), policy)


def test_the_policy_moves_in_every_other_step_only() -> None:
    rng = np.random.default_rng(1)
    columns = {
        "observations": rng.normal(size=(64, 3)),
        "actions": rng.uniform(-1, 1, (64, 2)),
        "rewards": rng.normal(size=64),
        "next_observations": rng.normal(size=(64, 3)),
        "terminations": np.zeros(64, bool),
    }
    seen: list[np.ndarray] = []
    watch = td3_bc.Watch(1, lambda step, policies: seen.append(policies[0].arrays["weight0"].copy()))
    td3_bc.train(columns, td3_bc.Td3BcConfig(steps=4, batch=8, width=4), seeds=[0], watch=watch)
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[2], seen[3])
    assert not np.array_equal(seen[1], seen[2])
