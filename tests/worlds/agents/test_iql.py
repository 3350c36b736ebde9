"""IQL's losses against the paper's equations, row by row, and its gradients against those of the losses."""

from __future__ import annotations

import math

import pytest
import torch
from tests.worlds.agents import losses

from tacit_worlds.agents import iql

CONFIG = iql.IqlConfig(width=1, expectile=0.7, inverse_temperature=2.0, discount=0.5, weight_cap=3.0, layer_norm=False)


def constant(*outputs: float) -> list[torch.Tensor]:
    """Networks [K, 1, 1, 1] that answer a number each, whatever they are asked."""
    zeros = [torch.zeros(len(outputs), *shape) for shape in ((2, 1), (1, 1), (1, 1))]
    return [*zeros, torch.tensor(outputs)[:, None, None]]


def batch(rewards: list[float], alive: list[float]) -> tuple[torch.Tensor, ...]:
    """One member, states and actions 0 (widths 1 and 1)."""
    rows = len(rewards)
    return (
        torch.zeros(1, rows, 1),
        torch.zeros(1, rows, 1),
        torch.tensor([rewards]),
        torch.zeros(1, rows, 1),
        torch.tensor([alive]),
    )


def one(outputs: float) -> list[torch.Tensor]:
    """A network of the state alone."""
    first, *others = constant(outputs)
    return [first[:, :1], *others]


@pytest.mark.parametrize(("targets", "weight"), [((5.0, 3.0), 0.7), ((1.0, 9.0), 0.3)])
def test_the_value_is_an_expectile_of_the_smaller_target(targets: tuple[float, float], weight: float) -> None:
    value, _, _ = losses.iql(
        constant(0.0, 0.0), constant(*targets), one(2.0), one(0.0), batch([0.0] * 2, [1.0] * 2), CONFIG
    )
    assert float(value) == pytest.approx(weight * (min(targets) - 2.0) ** 2)


def test_q_regresses_to_the_reward_and_the_value_after_it() -> None:
    _, q, _ = losses.iql(
        constant(1.0, 4.0), constant(2.0, 2.0), one(2.0), one(0.0), batch([3.0, 3.0], [1.0, 0.0]), CONFIG
    )
    squares = [(1.0 - 4.0) ** 2 + (4.0 - 4.0) ** 2, (1.0 - 3.0) ** 2 + (4.0 - 3.0) ** 2]
    assert float(q) == pytest.approx(sum(squares) / 2)


def test_imitation_is_weighted_by_advantages_in_units_of_their_spread() -> None:
    """Q = relu(a), V = 0, so that actions 0 and 4 have advantages 0 and 4, of standard deviation sqrt(8)."""
    q = [torch.tensor([[[0.0], [1.0]]]), torch.zeros(1, 1, 1), torch.ones(1, 1, 1), torch.zeros(1, 1, 1)]
    twins = [tensor.repeat(2, 1, 1) for tensor in q]
    s, _, r, s_next, alive = batch([0.0, 0.0], [1.0, 1.0])
    rows = s, torch.tensor([[[0.0], [4.0]]]), r, s_next, alive
    _, _, policy = losses.iql(twins, twins, one(0.0), one(0.5), rows, CONFIG)
    weights = 1.0, min(math.exp(2.0 * 4.0 / math.sqrt(8.0)), 3.0)
    played = math.tanh(0.5)
    assert float(policy) == pytest.approx((weights[0] * played**2 + weights[1] * (played - 4.0) ** 2) / 2, rel=1e-5)


def test_members_add_up() -> None:
    both = losses.iql(
        constant(1.0, 4.0, 0.0, 0.0),
        constant(2.0, 2.0, 1.0, 3.0),
        [torch.cat(pair) for pair in zip(one(2.0), one(0.0), strict=True)],
        [torch.cat(pair) for pair in zip(one(0.0), one(0.5), strict=True)],
        tuple(torch.cat([column, column]) for column in batch([3.0, 1.0], [1.0, 0.0])),
        CONFIG,
    )
    first = losses.iql(
        constant(1.0, 4.0), constant(2.0, 2.0), one(2.0), one(0.0), batch([3.0, 1.0], [1.0, 0.0]), CONFIG
    )
    second = losses.iql(
        constant(0.0, 0.0), constant(1.0, 3.0), one(0.0), one(0.5), batch([3.0, 1.0], [1.0, 0.0]), CONFIG
    )
    torch.testing.assert_close(both, first + second)


@pytest.mark.parametrize("norm", [False, True])
def test_gradients_are_those_of_the_losses(norm: bool) -> None:
    config = iql.IqlConfig(layer_norm=norm, inverse_temperature=1.0, weight_cap=2.0, discount=0.8)
    q, target = losses.random_layers(4, 5, 12, 12, 1), losses.random_layers(4, 5, 12, 12, 1, seed=1)
    value, policy = losses.random_layers(2, 3, 12, 12, 1), losses.random_layers(2, 3, 12, 12, 2)
    rows = losses.random_batch(2, 16, 3, 2)
    found = iql.gradients(q, target, value, policy, rows, config)
    losses.check(found[0], lambda q: losses.iql(q, target, value, policy, rows, config)[1], q)
    losses.check(found[1], lambda value: losses.iql(q, target, value, policy, rows, config)[0], value)
    losses.check(found[2], lambda policy: losses.iql(q, target, value, policy, rows, config)[2], policy)
