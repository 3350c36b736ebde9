"""TD3+BC (Fujimoto and Gu 2021, arXiv:2106.06860), several agents trained at once.

As in the paper: twin delayed critics with smoothed target actions (TD3, arXiv:1802.09477), and a policy that maximises
lambda Q(s, pi(s)) - |pi(s) - a|^2 with lambda = alpha / mean |Q| over the batch. Choices of our own: rewards
standardised as states are, and a learning rate that falls to 0 at the end.

How members are stacked: `tacit_worlds.agents.offline`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit_worlds.agents.offline import (
    Batch,
    Fourier,
    Learner,
    Members,
    Policy,
    Watch,
    train,
    train_tables,
)
from tacit_worlds.agents.perceptrons import Layers, Trace, backward, forward, input_slopes, layer_slopes, network
from tacit_worlds.agents.tables import COUNT, DISCOUNT, NOT_NEGATIVE, POSITIVE, SHARE, in_range

__all__ = ["Policy", "Td3BcConfig", "Watch", "train", "train_tables"]


@dataclass(frozen=True)
class Td3BcConfig:
    """Hyper-parameters, chosen on public mazes, where they want `features` too (`experiments.synthesis_agents`).

    Args:
        steps: number of steps.
        batch: rows per step and member.
        width: units of the two hidden layers of every network.
        discount: gamma.
        alpha: weight of the value against imitation.
        policy_noise, noise_clip: standard deviation and largest size of the noise on target actions.
        policy_every: steps between two steps of the policy and the targets.
        learning_rate: of Adam, until it falls.
        fall: share of the steps, at the end, in which the learning rate falls to 0 along a half cosine.
        target_rate: step of the moving averages that the targets are.
        layer_norm: LayerNorm before every ReLU of the critics; the paper has none.
        features: Fourier features of the states, for values that are cut by walls; the paper has none.

    Raises:
        PlanError: a value is outside its range.
    """

    steps: int = 10_000
    batch: int = 128
    width: int = 64
    discount: float = 0.99
    alpha: float = 20.0
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    policy_every: int = 2
    learning_rate: float = 1e-3
    fall: float = 0.3
    target_rate: float = 0.01
    layer_norm: bool = False
    features: Fourier | None = None

    def __post_init__(self) -> None:
        in_range(
            self,
            steps=COUNT,
            batch=COUNT,
            width=COUNT,
            discount=DISCOUNT,
            alpha=POSITIVE,
            policy_noise=NOT_NEGATIVE,
            noise_clip=NOT_NEGATIVE,
            policy_every=COUNT,
            learning_rate=POSITIVE,
            fall=SHARE,
            target_rate=SHARE,
        )

    def learner(self, members: Members) -> Learner:
        """Two critics and the policy, with the targets of both."""
        d, d_a, hidden = members.observation, members.action, (self.width, self.width)
        q, policy = members.networks((d + d_a, *hidden, 1), copies=2), members.networks((d, *hidden, d_a))
        target, actor = q.copy(), policy.copy()
        noises = members.normal((self.batch, d_a))

        def step(number: int, batch: Batch) -> tuple[Tensor, Tensor | None]:
            noise = (self.policy_noise * next(noises)).clamp_(-self.noise_clip, self.noise_clip)
            moves = number % self.policy_every == 0
            return (
                critic_gradient(q.layers, target.layers, actor.layers, batch, noise, self),
                policy_gradient(policy.layers, q.layers, batch, self) if moves else None,
            )

        def follow(number: int) -> None:
            if number % self.policy_every == 0:
                target.approach(q, self.target_rate)
                actor.approach(policy, self.target_rate)

        return Learner([q.theta, policy.theta], policy.layers, step, follow)


def critic_gradient(
    q: Layers, target: Layers, actor: Layers, batch: Batch, noise: Tensor, config: Td3BcConfig
) -> Tensor:
    """Of both critics' mean squared errors against the smaller target at a noisy target action, [2K, P]."""
    s, a, r, s_next, alive = batch
    following = (torch.tanh(network(actor, s_next, norm=False)) + noise).clamp_(-1.0, 1.0)
    least = _twins(target, s_next, following, config.layer_norm).outputs.view(len(s), 2, -1).amin(1)
    goal = torch.addcmul(r, alive, least, value=config.discount)
    found = _twins(q, s, a, config.layer_norm)
    error = found.outputs.view(len(s), 2, -1) - goal[:, None]
    return backward(q, found, (2.0 / s.shape[1]) * error.view_as(found.outputs))


def policy_gradient(policy: Layers, q: Layers, batch: Batch, config: Td3BcConfig) -> Tensor:
    """Of -lambda Q_1(s, pi(s)) + |pi(s) - a|^2 (equations 3 to 5 of the paper), means over the batch, [K, P]."""
    s, a = batch[:2]
    found, first = forward(policy, s, norm=False), [tensor[::2] for tensor in q]
    chosen = torch.tanh(found.outputs)
    judged = forward(first, torch.cat([s, chosen], -1), norm=config.layer_norm)
    weight = config.alpha / judged.outputs.abs().mean(1, keepdim=True).clamp(min=1e-6)
    by_value = (-weight / s.shape[1]).expand_as(judged.outputs)
    by_action = (2.0 / a[0].numel()) * (chosen - a)
    by_action += input_slopes(first, layer_slopes(first, judged, by_value), a.shape[-1])
    return backward(policy, found, by_action * (1.0 - chosen.square()))


def _twins(q: Layers, s: Tensor, a: Tensor, norm: bool) -> Trace:
    """Both critics of every member, [2K, B, 1]."""
    return forward(q, torch.cat([s, a], -1).repeat_interleave(2, dim=0), norm=norm)
