"""Losses of the offline agents as their papers write them, for automatic differentiation; tacit has gradients only.

Networks are lists of layers, weight [K, in, out], bias [K, 1, out], weight, ...; batches are those of
`tacit_worlds.agents.offline`, sums are over members.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit_worlds.agents import edac
from tacit_worlds.agents.edac import EdacConfig
from tacit_worlds.agents.iql import IqlConfig
from tacit_worlds.agents.offline import Batch
from tacit_worlds.agents.td3_bc import Td3BcConfig

Layers = list[Tensor]


def network(layers: Layers, x: Tensor, norm: bool = False) -> Tensor:
    """Outputs [K, B, out], with torch's LayerNorm before every ReLU."""
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        x = x @ weight + bias
        x = F.relu(F.layer_norm(x, x.shape[-1:]) if norm else x)
    return x @ layers[-2] + layers[-1]


def ensemble(q: Layers, s: Tensor, a: Tensor, norm: bool = False) -> Tensor:
    """Values [K, N, B] of all critics of every member."""
    pairs = torch.cat([s, a], -1).repeat_interleave(len(q[0]) // len(s), dim=0)
    return network(q, pairs, norm)[..., 0].view(len(s), -1, s.shape[1])


def iql(q: Layers, target: Layers, value: Layers, policy: Layers, batch: Batch, config: IqlConfig) -> Tensor:
    """IQL's losses of V, Q and the policy (equations 5 to 7), [3]."""
    s, a, r, s_next, alive = batch
    norm = config.layer_norm
    with torch.no_grad():
        goal = r + config.discount * alive * network(value, s_next, norm)[..., 0]
        least = ensemble(target, s, a, norm).amin(1)
    surplus = least - network(value, s, norm)[..., 0]
    above = torch.where(surplus > 0, config.expectile, 1.0 - config.expectile)
    error = ensemble(q, s, a, norm) - goal[:, None]
    advantage = surplus.detach() / (surplus.detach().std(-1, keepdim=True) + 1e-6)
    weight = (config.inverse_temperature * advantage).exp().clamp(max=config.weight_cap)
    distance = (torch.tanh(network(policy, s)) - a).square().sum(-1)
    parts = (above * surplus.square()).mean(-1), error.square().mean((1, 2)) * 2, (weight * distance).mean(-1)
    return torch.stack([loss.sum() for loss in parts])


def td3_bc_critic(q: Layers, target: Layers, actor: Layers, batch: Batch, noise: Tensor, config: Td3BcConfig) -> Tensor:
    """Squared errors of both critics against the smaller target at a noisy target action."""
    s, a, r, s_next, alive = batch
    with torch.no_grad():
        following = (torch.tanh(network(actor, s_next)) + noise).clamp(-1.0, 1.0)
        goal = r + config.discount * alive * ensemble(target, s_next, following, config.layer_norm).amin(1)
    return (ensemble(q, s, a, config.layer_norm) - goal[:, None]).square().mean(-1).sum()


def td3_bc_policy(policy: Layers, q: Layers, batch: Batch, config: Td3BcConfig) -> Tensor:
    """-lambda Q_1(s, pi(s)) + |pi(s) - a|^2 (equations 3 to 5)."""
    s, a = batch[:2]
    chosen = torch.tanh(network(policy, s))
    value = ensemble(q, s, chosen, config.layer_norm)[:, 0]
    weight = config.alpha / value.detach().abs().mean(-1).clamp(min=1e-6)
    return (chosen - a).square().mean((1, 2)).sum() - (weight * value.mean(-1)).sum()


def edac_critic(
    q: Layers, target: Layers, policy: Layers, temperature: Tensor, batch: Batch, noise: Tensor, config: EdacConfig
) -> Tensor:
    """Squared errors of all critics and eta times the cosines of their slopes (equation 7)."""
    s, a, r, s_next, alive = batch
    with torch.no_grad():
        following, log_chance = edac.act(network(policy, s_next), noise)
        least = ensemble(target, s_next, following).amin(1)
        goal = r + config.discount * alive * (least - temperature * log_chance)
    copies = a[:, None].expand(-1, config.critics, -1, -1).clone().requires_grad_()
    states = s[:, None].expand(-1, config.critics, -1, -1)
    value = network(q, torch.cat([states, copies], -1).flatten(0, 1)).view(len(s), config.critics, -1)
    (slope,) = torch.autograd.grad(value.sum(), copies, create_graph=True)
    return (value - goal[:, None]).square().mean(-1).sum() + config.diversity * cosines(slope)


def cosines(slope: Tensor) -> Tensor:
    """Of the slopes [K, N, B, d_a] of each two critics: sum over pairs / (N - 1), mean over the batch."""
    critics = slope.shape[1]
    pairs = [(i, j) for i in range(critics) for j in range(critics) if i != j]
    angles = [F.cosine_similarity(slope[:, i], slope[:, j], dim=-1).mean(-1) for i, j in pairs]
    return torch.stack(angles).sum() / (critics - 1)


def edac_policy(policy: Layers, q: Layers, temperature: Tensor, batch: Batch, noise: Tensor) -> Tensor:
    """temperature log pi(a|s) - min_j Q_j(s, a)."""
    s = batch[0]
    chosen, log_chance = edac.act(network(policy, s), noise)
    return (temperature * log_chance - ensemble(q, s, chosen).amin(1)).mean(-1).sum()


def random_layers(count: int, *sizes: int, seed: int = 0) -> Layers:
    """In float64."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [shape for n, m in itertools.pairwise(sizes) for shape in ((count, n, m), (count, 1, m))]
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def random_batch(members: int, rows: int, d: int, d_a: int) -> Batch:
    """In float64; some rows end."""
    generator = torch.Generator().manual_seed(9)

    def normal(*shape: int) -> Tensor:
        return torch.randn(members, rows, *shape, generator=generator, dtype=torch.float64)

    return normal(d), normal(d_a).tanh(), normal(), normal(d), (normal() > -0.5).double()


def check(found: Tensor, loss: Callable[[Layers], Tensor], layers: Layers) -> None:
    """A gradient [K, P] is that of automatic differentiation, to 1e-6 of its largest number."""
    leaves = [layer.clone().requires_grad_() for layer in layers]
    parts = torch.autograd.grad(loss(leaves), leaves)
    expected = torch.cat([part.flatten(1) for part in parts], 1)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6 * float(expected.abs().max()))
