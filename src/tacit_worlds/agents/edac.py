"""EDAC (An et al. 2021, arXiv:2110.01548), several agents trained at once; how they are stacked: `offline`.

As in the paper: soft actor-critic whose value is the smallest of N critics, and critics that are trained to disagree
outside the data: the cosines between their slopes in the action are penalised at the data's actions (equation 7).
Choices of our own: standardised states and rewards, fewer critics, a learning rate that falls to 0 at the end; what is
returned is the mean action, tanh(mean), without noise.

The critics are piecewise linear in their inputs (ReLU, no LayerNorm): where the units that are on stay on, a value and
its slope in the action are linear in what enters. So the gradient of any sum of values and slopes is that of one pass
with other rows, and needs no second differentiation (`critic_gradient`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit_worlds.agents import offline, perceptrons
from tacit_worlds.agents.offline import Batch, OfflinePolicies, Watch, train, train_tables
from tacit_worlds.agents.perceptrons import Layers

__all__ = ["EdacConfig", "OfflinePolicies", "Watch", "train", "train_tables"]

_LOG_STD = (-5.0, 2.0)  # smallest and largest logarithm of the policy's standard deviation


@dataclass(frozen=True, kw_only=True)
class EdacConfig(offline.OfflineConfig):
    """Hyper-parameters (see `OfflineConfig`); mazes want `features` too (`experiments`: `synthesis_agents`)."""

    steps: offline.Count = 5_000
    batch: offline.Count = 128
    width: offline.Count = 64
    critics: offline.Two = 5
    """N."""
    diversity: offline.NotNegative = 1.0
    """eta, weight of the critics' cosines."""
    temperature: offline.Positive = 0.1
    """first weight of the policy's entropy; it then keeps the entropy near minus the width of an action."""
    target_rate: offline.Share = 0.02

    def learner(self, members: offline.Members) -> offline.OfflineLearner:
        """N critics with their targets, the policy and the weight of its entropy."""
        d, d_a, hidden = members.input_width, members.action_width, (self.width, self.width)
        q = members.networks((d + d_a, *hidden, 1), copies=self.critics)
        policy, target = members.networks((d, *hidden, 2 * d_a)), q.copy()
        level = torch.full_like(policy.theta[:, :1], math.log(self.temperature))
        noises = members.draw_normals((2, self.batch, d_a))

        def step(number: int, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
            noise, next_noise = next(noises).unbind(1)
            temperature = level.exp()
            policy_slope, log_probability = policy_gradient(policy.layers, q.layers, temperature, batch, noise)
            critic_slope = critic_gradient(q.layers, target.layers, policy.layers, temperature, batch, next_noise, self)
            return critic_slope, policy_slope, d_a - log_probability

        *below, weight, bias = policy.layers
        return offline.OfflineLearner(
            [q.theta, policy.theta, level],
            [*below, weight[..., :d_a], bias[..., :d_a]],
            step,
            lambda number: target.soft_update(q, self.target_rate),
        )


def critic_gradient(
    q: Layers,
    target: Layers,
    policy: Layers,
    temperature: Tensor,
    batch: Batch,
    noise: Tensor,
    config: EdacConfig,
) -> Tensor:
    """Of all critics' mean squared errors and eta times the cosines of their slopes, [K N, P]. A row has the
    derivatives `by_value` in its value and `by_slope` in its slope. With the same units on, its share is the gradient
    of the output for the row by_value (s, a) + (0, by_slope), where biases are multiplied with by_value."""
    s, a, r, s_next, alive = batch
    members, rows, actions = a.shape
    next_actions, log_probability = act(perceptrons.network_outputs(policy, s_next, norm=False), noise)
    lowest_value = (
        perceptrons.forward_critics(target, s_next, next_actions, norm=False).outputs.view(members, -1, rows).amin(1)
    )
    td_target = torch.addcmul(r, alive, lowest_value - temperature * log_probability, value=config.discount)
    critics = perceptrons.forward_critics(q, s, a, norm=False)
    slopes = perceptrons.layer_slopes(q, critics, torch.ones_like(critics.outputs))
    slope = perceptrons.input_slopes(q, slopes, actions)
    td_error = critics.outputs.view(members, -1, rows) - td_target[:, None]
    by_value = (2.0 / rows) * td_error.view_as(critics.outputs)
    by_slope = config.diversity * cosine_gradient(slope.view(members, -1, rows, actions)).view_as(slope)

    pairs, *hidden = critics.inputs
    entering = [torch.addcmul(F.pad(by_slope, (s.shape[-1], 0)), pairs, by_value)]
    for units, weight in zip(hidden, (q[0][:, -actions:], *q[2:-2:2]), strict=True):
        by_slope = perceptrons.relu_backward(units, perceptrons.product(by_slope, weight))
        entering.append(torch.addcmul(by_slope, units, by_value))
    return perceptrons.parameter_slopes(entering, slopes, by_value)


def cosine_gradient(slope: Tensor) -> Tensor:
    """Derivatives [K, N, B, d_a] of the cosines between the slopes of each two critics, summed over pairs / (N - 1), a
    mean over the batch; sum_{i != j} <u_i, u_j> of unit vectors has the derivative 2 (sum_j u_j - u_i) in u_i."""
    critics, rows = slope.shape[1:3]
    length = (slope.square().sum(-1, keepdim=True) + 1e-12).sqrt()
    unit = slope / length
    by_unit = (unit.sum(1, keepdim=True) - unit) * (2.0 / (rows * (critics - 1)))
    return (by_unit - unit * (unit * by_unit).sum(-1, keepdim=True)) / length


def policy_gradient(
    policy: Layers, q: Layers, temperature: Tensor, batch: Batch, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Of the mean temperature log pi(a|s) - min_j Q_j(s, a), [K, P], and the mean log pi(a|s), [K, 1]."""
    s = batch[0]
    members, rows, actions = noise.shape
    actor_trace = perceptrons.forward(policy, s, norm=False)
    policy_actions, log_probability = act(actor_trace.outputs, noise)
    critics = perceptrons.forward_critics(q, s, policy_actions, norm=False)
    values = critics.outputs.view(members, -1, rows)
    by_value = torch.zeros_like(values).scatter_(1, values.min(1, keepdim=True).indices, -1.0 / rows)
    by_action = perceptrons.input_slopes(
        q, perceptrons.layer_slopes(q, critics, by_value.view_as(critics.outputs)), actions
    )
    share = temperature[..., None] / rows
    by_action = by_action.view(members, -1, rows, actions).sum(1)
    by_before = by_action * (1.0 - policy_actions.square()) + 2.0 * share * policy_actions
    log_std = actor_trace.outputs[..., actions:]
    held = log_std.clamp(*_LOG_STD)
    by_log_std = (by_before * held.exp() * noise - share) * (log_std == held)
    return perceptrons.backward(policy, actor_trace, torch.cat([by_before, by_log_std], -1)), log_probability.mean(
        -1, keepdim=True
    )


def act(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions [K, B, d_a] of tanh-normal policies and their log densities [K, B], from their outputs, means and
    logarithms of standard deviations [K, B, 2 d_a], and standard normal noise [K, B, d_a]."""
    mean, log_std = outputs.chunk(2, -1)
    log_std = log_std.clamp(*_LOG_STD)
    pre_tanh = mean + log_std.exp() * noise
    slope = 2.0 * (math.log(2.0) - pre_tanh - F.softplus(-2.0 * pre_tanh))  # of tanh, its logarithm
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi) - slope
    return torch.tanh(pre_tanh), density.sum(-1)
