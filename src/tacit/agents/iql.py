"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169), several agents trained at once.

As in the paper: V(s) is an expectile of Q(s, a) over the data's actions, Q regresses to r + gamma V(s'), and the policy
imitates the data's actions weighted by exp(beta * advantage). Choices that the paper leaves open: LayerNorm in Q and V,
the smaller of two target networks, advantages in units of their own standard deviation within the batch, and a
deterministic tanh policy.

How members are stacked: `tacit.agents.offline`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.agents.offline import (
    Batch,
    Fourier,
    Layers,
    Learner,
    Members,
    Policy,
    Watch,
    approach,
    network,
    train,
    train_tables,
)
from tacit.agents.tables import COUNT, DISCOUNT, INSIDE, NOT_NEGATIVE, POSITIVE, SHARE, TWO, in_range

__all__ = ["IqlConfig", "Policy", "Watch", "train", "train_tables"]


@dataclass(frozen=True)
class IqlConfig:
    """Hyper-parameters, chosen on public mazes (never on those of an evaluation).

    Args:
        steps: number of steps.
        batch: rows per step and member; at least two, since advantages have a standard deviation.
        width: units of the two hidden layers of every network.
        discount: gamma.
        expectile: IQL's tau, the expectile of Q that V is.
        inverse_temperature: IQL's beta, for advantages in units of their standard deviation.
        weight_cap: largest weight of one row in the policy's loss.
        learning_rate: of Adam, until it falls.
        fall: share of the steps, at the end, in which the learning rate falls to 0 along a half cosine.
        target_rate: step of the moving averages that the targets of Q are.
        layer_norm: LayerNorm before every ReLU of Q and V; the paper has none.
        features: Fourier features of the states, for values that are cut by walls; the paper has none.

    Raises:
        PlanError: a value is outside its range.
    """

    steps: int = 10_000
    batch: int = 256
    width: int = 128
    discount: float = 0.99
    expectile: float = 0.7
    inverse_temperature: float = 3.0
    weight_cap: float = 100.0
    learning_rate: float = 1e-3
    fall: float = 1.0
    target_rate: float = 0.01
    layer_norm: bool = True
    features: Fourier | None = None

    def __post_init__(self) -> None:
        in_range(
            self,
            steps=COUNT,
            batch=TWO,
            width=COUNT,
            discount=DISCOUNT,
            expectile=INSIDE,
            inverse_temperature=NOT_NEGATIVE,
            weight_cap=POSITIVE,
            learning_rate=POSITIVE,
            fall=SHARE,
            target_rate=INSIDE,
        )

    def learner(self, members: Members) -> Learner:
        """Two critics with their targets, V and the policy."""
        d, d_a, hidden = members.observation, members.action, (self.width, self.width)
        q, value = members.layers((d + d_a, *hidden, 1), copies=2), members.layers((d, *hidden, 1))
        policy = members.layers((d, *hidden, d_a))
        target = [tensor.detach().clone() for tensor in q]
        return Learner(
            q + value + policy,
            policy,
            lambda number, batch: losses(q, target, value, policy, batch, self).sum(),
            lambda number: approach(target, q, self.target_rate),
        )


def losses(q: Layers, target: Layers, value: Layers, policy: Layers, batch: Batch, config: IqlConfig) -> Tensor:
    """IQL's losses of V, Q and the policy (equations 5 to 7), [3], each summed over members."""
    s, a, r, s_next, alive = batch
    norm = config.layer_norm
    pairs = torch.cat([s, a], -1).repeat_interleave(2, dim=0)
    with torch.no_grad():
        least = network(target, pairs, norm=norm).view(len(s), 2, -1).amin(1)
        goal = r + config.discount * alive * network(value, s_next, norm=norm)[..., 0]
    surplus = least - network(value, s, norm=norm)[..., 0]
    above = torch.where(surplus > 0, config.expectile, 1.0 - config.expectile)
    error = network(q, pairs, norm=norm).view(len(s), 2, -1) - goal[:, None]
    advantage = surplus.detach() / (surplus.detach().std(-1, keepdim=True) + 1e-6)
    weight = (config.inverse_temperature * advantage).exp().clamp(max=config.weight_cap)
    distance = (torch.tanh(network(policy, s, norm=False)) - a).square().sum(-1)
    parts = (above * surplus.square()).mean(-1), error.square().mean((1, 2)) * 2, (weight * distance).mean(-1)
    return torch.stack([loss.sum() for loss in parts])
