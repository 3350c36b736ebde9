"""EDAC (An et al. 2021, arXiv:2110.01548), several agents trained at once.

As in the paper: soft actor-critic whose value is the smallest of N critics, and critics that are trained to disagree
outside the data: the cosines between their slopes in the action are penalised at the data's actions (equation 7).
Choices of our own: standardised states and rewards, fewer critics, a learning rate that falls to 0 at the end; what is
returned is the mean action, tanh(mean), without noise.

The critics are piecewise linear in the action (ReLU, no LayerNorm). So a slope is itself a product of the weights, with
the units that are off left out, and needs no second differentiation.

How members are stacked: `tacit.agents.offline`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
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
    detached,
    network,
    scalar,
    train,
    train_tables,
)
from tacit.agents.tables import COUNT, DISCOUNT, NOT_NEGATIVE, POSITIVE, SHARE, TWO, in_range

__all__ = ["EdacConfig", "Policy", "Watch", "train", "train_tables"]

_LOG_STD = (-5.0, 2.0)  # smallest and largest logarithm of the policy's standard deviation


@dataclass(frozen=True)
class EdacConfig:
    """Hyper-parameters, chosen on public mazes, where they want `features` too (`experiments.synthesis_agents`).

    Args:
        steps: number of steps.
        batch: rows per step and member.
        width: units of the two hidden layers of every network.
        critics: N.
        discount: gamma.
        diversity: eta, weight of the critics' cosines.
        temperature: first weight of the policy's entropy; it then keeps the entropy near minus the width of an action.
        learning_rate: of Adam, until it falls.
        fall: share of the steps, at the end, in which the learning rate falls to 0 along a half cosine.
        target_rate: step of the moving averages that the targets are.
        features: Fourier features of the states, for values that are cut by walls; the paper has none.

    Raises:
        PlanError: a value is outside its range.
    """

    steps: int = 5_000
    batch: int = 128
    width: int = 64
    critics: int = 5
    discount: float = 0.99
    diversity: float = 1.0
    temperature: float = 0.1
    learning_rate: float = 1e-3
    fall: float = 0.3
    target_rate: float = 0.02
    features: Fourier | None = None

    def __post_init__(self) -> None:
        in_range(
            self,
            steps=COUNT,
            batch=COUNT,
            width=COUNT,
            critics=TWO,
            discount=DISCOUNT,
            diversity=NOT_NEGATIVE,
            temperature=POSITIVE,
            learning_rate=POSITIVE,
            fall=SHARE,
            target_rate=SHARE,
        )

    def learner(self, members: Members) -> Learner:
        """N critics with their targets, the policy and the weight of its entropy."""
        d, d_a, hidden = members.observation, members.action, (self.width, self.width)
        q = members.layers((d + d_a, *hidden, 1), copies=self.critics)
        policy = members.layers((d, *hidden, 2 * d_a))
        target = [tensor.detach().clone() for tensor in q]
        level = torch.full_like(policy[-1][:, 0, :1], math.log(self.temperature)).requires_grad_()
        noises = members.normal((2, self.batch, d_a))

        def step(number: int, batch: Batch) -> Tensor:
            now, following = next(noises).unbind(1)
            temperature = level.detach().exp()
            loss = critic_loss(q, target, policy, temperature, batch, following, self)
            gain, log_chance = policy_loss(policy, q, temperature, batch, now)
            return loss + gain - (level * (log_chance - d_a)).sum()

        mean = [*policy[:-2], policy[-2][..., :d_a], policy[-1][..., :d_a]]
        return Learner([*q, *policy, level], mean, step, lambda number: approach(target, q, self.target_rate))


def critic_loss(
    q: Layers, target: Layers, policy: Layers, temperature: Tensor, batch: Batch, noise: Tensor, config: EdacConfig
) -> Tensor:
    """Squared errors of all critics [K N] and eta times the cosines of their slopes, summed over members."""
    s, a, r, s_next, alive = batch
    with torch.no_grad():
        following, log_chance = act(policy, s_next, noise)
        least = _all(target, s_next, following, config.critics).amin(1)
        goal = torch.addcmul(r, alive, least - temperature * log_chance, value=config.discount)
    value, slope = values_and_slopes(q, _pairs(s, a, config.critics), a.shape[-1])
    error = (value.view(len(s), config.critics, -1) - goal[:, None]).square().mean(-1).sum()
    return error + config.diversity * cosines(slope.view(len(s), config.critics, *a.shape[1:]))


def cosines(slope: Tensor) -> Tensor:
    """Cosines between the slopes [K, N, B, d_a] of each two critics: sum over pairs / (N - 1), mean over the batch.

    sum_{i != j} <u_i, u_j> of unit vectors is |sum_i u_i|^2 - N.
    """
    critics = slope.shape[1]
    unit = slope / (slope.square().sum(-1, keepdim=True) + 1e-12).sqrt()
    apart = unit.sum(1).square().sum(-1) - unit.square().sum((1, 3))
    return apart.mean(-1).sum() / (critics - 1)


def policy_loss(policy: Layers, q: Layers, temperature: Tensor, batch: Batch, noise: Tensor) -> tuple[Tensor, Tensor]:
    """temperature log pi(a|s) - min_j Q_j(s, a), summed over members, and the mean log pi(a|s) [K, 1], detached."""
    s = batch[0]
    chosen, log_chance = act(policy, s, noise)
    least = _all(detached(q), s, chosen, len(q[0]) // len(s)).amin(1)
    return (temperature * log_chance - least).mean(-1).sum(), log_chance.detach().mean(-1, keepdim=True)


def act(policy: Layers, s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions [K, B, d_a] of tanh-normal policies for standard normal noise, and their log densities [K, B]."""
    mean, log_std = network(policy, s, norm=False).chunk(2, -1)
    log_std = log_std.clamp(*_LOG_STD)
    before = mean + log_std.exp() * noise
    slope = 2.0 * (math.log(2.0) - before - F.softplus(-2.0 * before))  # of tanh, its logarithm
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi) - slope
    return torch.tanh(before), density.sum(-1)


def values_and_slopes(q: Layers, x: Tensor, actions: int) -> tuple[Tensor, Tensor]:
    """Values [K N, B] for x [K N, B, d + d_a] and their derivatives [K N, B, d_a] in the last inputs."""
    hidden = []
    for weight, bias in zip(q[:-2:2], q[1:-2:2], strict=True):
        x = F.relu(torch.baddbmm(bias, x, weight))
        hidden.append(x.detach())
    last = q[-2].transpose(1, 2)
    value = (x * last).sum(-1) + q[-1][..., 0]
    slope = _where_on(hidden[-1], last.expand_as(x))
    for weight, below in zip(q[-4:0:-2], hidden[-2::-1], strict=True):
        slope = _where_on(below, torch.bmm(slope, weight.transpose(1, 2)))
    return value, torch.bmm(slope, q[0][:, -actions:].transpose(1, 2))


def _where_on(hidden: Tensor, slope: Tensor) -> Tensor:
    """`slope` where a unit is on, 0 elsewhere (ReLU's own derivative: one pass)."""
    masked: Tensor = torch.ops.aten.threshold_backward(slope, hidden, 0.0)
    return masked


def _all(q: Layers, s: Tensor, a: Tensor, critics: int) -> Tensor:
    """Values [K, N, B] of all critics."""
    return scalar(q, _pairs(s, a, critics), norm=False).view(len(s), critics, -1)


def _pairs(s: Tensor, a: Tensor, critics: int) -> Tensor:
    return torch.cat([s, a], -1).repeat_interleave(critics, dim=0)
