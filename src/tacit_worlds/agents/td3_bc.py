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
    Count,
    LearningStep,
    Members,
    NotNegative,
    OfflineConfig,
    OfflinePolicies,
    Positive,
    Watch,
    train,
    train_tables,
)
from tacit_worlds.agents.perceptrons import Layers, backward, forward, input_slopes, judge, layer_slopes, network

__all__ = ["OfflinePolicies", "Td3BcConfig", "Watch", "train", "train_tables"]


@dataclass(frozen=True, kw_only=True)
class Td3BcConfig(OfflineConfig):
    """Hyper-parameters (see `OfflineConfig`); mazes want `features` too (`experiments.synthesis_agents`)."""

    steps: Count = 10_000
    batch: Count = 128
    width: Count = 64
    alpha: Positive = 20.0
    """weight of the value against imitation."""
    policy_noise: NotNegative = 0.2
    """standard deviation of the noise on target actions."""
    noise_clip: NotNegative = 0.5
    """its largest size."""
    policy_every: Count = 2
    """steps between two steps of the policy and the targets."""
    layer_norm: bool = False
    """LayerNorm before every ReLU of the critics; the paper has none."""

    def learner(self, members: Members) -> LearningStep:
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

        return LearningStep([q.theta, policy.theta], policy.layers, step, follow)


def critic_gradient(
    q: Layers, target: Layers, actor: Layers, batch: Batch, noise: Tensor, config: Td3BcConfig
) -> Tensor:
    """Of both critics' mean squared errors against the smaller target at a noisy target action, [2K, P]."""
    s, a, r, s_next, alive = batch
    following = (torch.tanh(network(actor, s_next, norm=False)) + noise).clamp_(-1.0, 1.0)
    least = judge(target, s_next, following, norm=config.layer_norm).outputs.view(len(s), 2, -1).amin(1)
    goal = torch.addcmul(r, alive, least, value=config.discount)
    found = judge(q, s, a, norm=config.layer_norm)
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
