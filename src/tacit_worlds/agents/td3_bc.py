"""TD3+BC (Fujimoto and Gu 2021, arXiv:2106.06860), several agents trained at once; how they are stacked: `offline`.

As in the paper: twin delayed critics with smoothed target actions (TD3, arXiv:1802.09477), and a policy that maximises
lambda Q(s, pi(s)) - |pi(s) - a|^2 with lambda = alpha / mean |Q| over the batch. Choices of our own: rewards
standardised as states are, and a learning rate that falls to 0 at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit_worlds.agents import offline, perceptrons
from tacit_worlds.agents.offline import Batch, OfflinePolicies, Watch, train, train_tables
from tacit_worlds.agents.perceptrons import Layers, backward, forward, forward_critics, layer_slopes, network_outputs

__all__ = ["OfflinePolicies", "Td3BcConfig", "Watch", "train", "train_tables"]


@dataclass(frozen=True, kw_only=True)
class Td3BcConfig(offline.OfflineConfig):
    """Hyper-parameters (see `OfflineConfig`); mazes want `features` too (`experiments`: `synthesis_agents`)."""

    steps: offline.Count = 10_000
    batch: offline.Count = 128
    width: offline.Count = 64
    alpha: offline.Positive = 20.0
    """weight of the value against imitation."""
    policy_noise: offline.NotNegative = 0.2
    """standard deviation of the noise on target actions."""
    noise_clip: offline.NotNegative = 0.5
    """its largest size."""
    policy_every: offline.Count = 2
    """steps between two steps of the policy and the targets."""
    layer_norm: bool = False
    """LayerNorm before every ReLU of the critics; the paper has none."""

    def learner(self, members: offline.Members) -> offline.OfflineLearner:
        """Two critics and the policy, with the targets of both."""
        d, d_a, hidden = members.input_width, members.action_width, (self.width, self.width)
        q, policy = members.networks((d + d_a, *hidden, 1), copies=2), members.networks((d, *hidden, d_a))
        target, actor = q.copy(), policy.copy()
        noises = members.draw_normals((self.batch, d_a))

        def step(number: int, batch: Batch) -> tuple[Tensor, Tensor | None]:
            noise = (self.policy_noise * next(noises)).clamp_(-self.noise_clip, self.noise_clip)
            updates_policy = number % self.policy_every == 0
            return (
                critic_gradient(q.layers, target.layers, actor.layers, batch, noise, self),
                policy_gradient(policy.layers, q.layers, batch, self) if updates_policy else None,
            )

        def update_targets(number: int) -> None:
            if number % self.policy_every == 0:
                target.soft_update(q, self.target_rate)
                actor.soft_update(policy, self.target_rate)

        return offline.OfflineLearner([q.theta, policy.theta], policy.layers, step, update_targets)


def critic_gradient(
    q: Layers, target: Layers, actor: Layers, batch: Batch, noise: Tensor, config: Td3BcConfig
) -> Tensor:
    """Of both critics' mean squared errors against the smaller target at a noisy target action, [2K, P]."""
    s, a, r, s_next, alive = batch
    next_actions = (torch.tanh(network_outputs(actor, s_next, norm=False)) + noise).clamp_(-1.0, 1.0)
    next_values = forward_critics(target, s_next, next_actions, norm=config.layer_norm).outputs
    lowest_value = next_values.view(len(s), 2, -1).amin(1)
    td_target = torch.addcmul(r, alive, lowest_value, value=config.discount)
    critics = forward_critics(q, s, a, norm=config.layer_norm)
    td_error = critics.outputs.view(len(s), 2, -1) - td_target[:, None]
    return backward(q, critics, (2.0 / s.shape[1]) * td_error.view_as(critics.outputs))


def policy_gradient(policy: Layers, q: Layers, batch: Batch, config: Td3BcConfig) -> Tensor:
    """Of -lambda Q_1(s, pi(s)) + |pi(s) - a|^2 (equations 3 to 5 of the paper), means over the batch, [K, P]."""
    s, a = batch[:2]
    actor_trace, first = forward(policy, s, norm=False), [tensor[::2] for tensor in q]
    policy_actions = torch.tanh(actor_trace.outputs)
    critic_trace = forward(first, torch.cat([s, policy_actions], -1), norm=config.layer_norm)
    weight = config.alpha / critic_trace.outputs.abs().mean(1, keepdim=True).clamp(min=1e-6)
    by_value = (-weight / s.shape[1]).expand_as(critic_trace.outputs)
    by_action = (2.0 / a[0].numel()) * (policy_actions - a)
    by_action += perceptrons.input_slopes(first, layer_slopes(first, critic_trace, by_value), a.shape[-1])
    return backward(policy, actor_trace, by_action * (1.0 - policy_actions.square()))
