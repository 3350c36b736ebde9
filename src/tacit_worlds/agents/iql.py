"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169), several agents trained at once; stacked as `offline`
says.

As in the paper: V(s) is an expectile of Q(s, a) over the data's actions, Q regresses to r + gamma V(s'), and the policy
imitates the data's actions weighted by exp(beta * advantage). Choices that the paper leaves open: LayerNorm in Q and V,
the smaller of two target networks, advantages in units of their own standard deviation within the batch, and a
deterministic tanh policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit_worlds.agents import offline
from tacit_worlds.agents.offline import Batch, OfflinePolicies, Watch, train, train_tables
from tacit_worlds.agents.perceptrons import Layers, backward, forward, network_outputs

__all__ = ["IqlConfig", "OfflinePolicies", "Watch", "train", "train_tables"]


@dataclass(frozen=True, kw_only=True)
class IqlConfig(offline.OfflineConfig):
    """Hyper-parameters (see `OfflineConfig`)."""

    steps: offline.Count = 10_000
    batch: offline.Two = 256
    """rows per step and member; at least two, since advantages have a standard deviation."""
    width: offline.Count = 128
    expectile: offline.Inside = 0.7
    """IQL's tau, the expectile of Q that V is."""
    inverse_temperature: offline.NotNegative = 3.0
    """IQL's beta, for advantages in units of their standard deviation."""
    weight_cap: offline.Positive = 100.0
    """largest weight of one row in the policy's loss."""
    fall: offline.Share = 1.0
    target_rate: offline.Inside = 0.01
    layer_norm: bool = True
    """LayerNorm before every ReLU of Q and V; the paper has none."""

    def learner(self, members: offline.Members) -> offline.OfflineLearner:
        """Two critics with their targets, V and the policy."""
        d, d_a, hidden = members.input_width, members.action_width, (self.width, self.width)
        q, value = members.networks((d + d_a, *hidden, 1), copies=2), members.networks((d, *hidden, 1))
        policy, target = members.networks((d, *hidden, d_a)), q.copy()
        return offline.OfflineLearner(
            [q.theta, value.theta, policy.theta],
            policy.layers,
            lambda number, batch: gradients(q.layers, target.layers, value.layers, policy.layers, batch, self),
            lambda number: target.soft_update(q, self.target_rate),
        )


def gradients(
    q: Layers, target: Layers, value: Layers, policy: Layers, batch: Batch, config: IqlConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the losses of Q, V and the policy (equations 6, 5 and 7), each with respect to its own parameters, [., P].

    L_V = E |tau - 1(u < 0)| u^2 with u = min Q_target(s, a) - V(s); L_Q = E (Q(s, a) - r - gamma V(s'))^2, summed over
    both critics; L_pi = E min(exp(beta u / std u), cap) |pi(s) - a|^2. Expectations are means over the batch.
    """
    s, a, r, s_next, alive = batch
    norm, rows = config.layer_norm, s.shape[1]
    pairs = torch.cat([s, a], -1).repeat_interleave(2, dim=0)
    lowest_value = network_outputs(target, pairs, norm=norm).view(len(s), 2, rows).amin(1)
    td_target = torch.addcmul(r, alive, network_outputs(value, s_next, norm=norm)[..., 0], value=config.discount)
    critics, value_trace = forward(q, pairs, norm=norm), forward(value, s, norm=norm)
    actor_trace = forward(policy, s, norm=False)

    residual = lowest_value - value_trace.outputs[..., 0]
    expectile_weight = torch.where(residual > 0, config.expectile, 1.0 - config.expectile)
    td_error = critics.outputs.view(len(s), 2, rows) - td_target[:, None]
    advantage = residual / (residual.std(-1, keepdim=True) + 1e-6)
    weight = (config.inverse_temperature * advantage).exp().clamp(max=config.weight_cap)
    action = torch.tanh(actor_trace.outputs)
    by_q = (2.0 / rows) * td_error.view(-1, rows, 1)
    by_value = (-2.0 / rows) * (expectile_weight * residual)[..., None]
    by_policy = (2.0 / rows) * weight[..., None] * (action - a) * (1.0 - action.square())
    value_slope = backward(value, value_trace, by_value)
    return backward(q, critics, by_q), value_slope, backward(policy, actor_trace, by_policy)
