"""IQL, TD3+BC and EDAC as a single-file implementation has them: one agent, an `nn.Module` and an Adam per network.

The updates, sizes and hyper-parameters are those of `tacit.agents` (Fourier features, LayerNorm, falling rates,
normalised rows), so that the time is compared and nothing else. The style is the field's: twin critics as two modules
that are called one after the other, EDAC's ensemble as one module with a leading axis, its slopes by
`torch.autograd.grad` with a graph of the graph, targets moved parameter by parameter, a buffer of columns that are
indexed one by one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from tacit_worlds.agents.edac import EdacConfig
from tacit_worlds.agents.iql import IqlConfig
from tacit_worlds.agents.offline import OfflineConfig
from tacit_worlds.agents.td3_bc import Td3BcConfig

Columns = Mapping[str, np.ndarray]


class Buffer:
    """Normalised columns, and batches of them, with random Fourier features of the states."""

    def __init__(self, columns: Columns, config: OfflineConfig) -> None:
        s, r = columns["observations"], columns["rewards"]
        mean, scale = s.mean(0), s.std(0) + 1e-6
        given = (
            (s - mean) / scale,
            columns["actions"],
            (r - r.mean()) / (r.std() + 1e-6),
            (columns["next_observations"] - mean) / scale,
            1.0 - columns["terminations"],
        )
        self.columns = [torch.as_tensor(column, dtype=torch.float32) for column in given]
        self.frequencies = torch.zeros(s.shape[1], 0)
        if config.features is not None:
            width = torch.tensor(config.features.bandwidth)[:, None]
            self.frequencies = torch.randn(s.shape[1], config.features.count) * width

    @property
    def widths(self) -> tuple[int, int]:
        """Of states with their features, and of actions."""
        return self.columns[0].shape[1] + 2 * self.frequencies.shape[1], self.columns[1].shape[1]

    def embed(self, states: Tensor) -> Tensor:
        """States beside their features."""
        angles = states @ self.frequencies
        return torch.cat([states, torch.sin(angles), torch.cos(angles)], -1)

    def sample(self, batch: int) -> list[Tensor]:
        """s, a, r, s', alive."""
        rows = np.random.randint(0, len(self.columns[0]), size=batch)  # noqa: NPY002 (the style under comparison)
        s, a, r, s_next, alive = (column[rows] for column in self.columns)
        return [self.embed(s), a, r, self.embed(s_next), alive]


class Critic(nn.Module):
    """Q(s, a), or V(s) where no action is given."""

    def __init__(self, inputs: int, width: int, norm: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for fan_in in (inputs, width):
            layers += [nn.Linear(fan_in, width), nn.LayerNorm(width, elementwise_affine=False), nn.ReLU()]
        if not norm:
            layers = [layer for layer in layers if not isinstance(layer, nn.LayerNorm)]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, *parts: Tensor) -> Tensor:
        return self.net(torch.cat(parts, -1)).squeeze(-1)


class Actor(nn.Module):
    """Deterministic actions in [-1, 1]."""

    def __init__(self, inputs: int, outputs: int, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(inputs, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, outputs),
            nn.Tanh(),
        )

    def forward(self, s: Tensor) -> Tensor:
        return self.net(s)


class Optimiser:
    """Adam with its schedule."""

    def __init__(self, module: nn.Module, config: OfflineConfig) -> None:
        self.adam = torch.optim.Adam(module.parameters(), lr=config.learning_rate)
        held = (1 - config.fall) * config.steps
        self.schedule = LambdaLR(
            self.adam,
            lambda step: 0.5 * (1 + math.cos(math.pi * max(0.0, step - held) / (config.steps - held))),
        )

    def step(self, loss: Tensor) -> None:
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        self.schedule.step()


def soft_update(target: nn.Module, source: nn.Module, rate: float) -> None:
    """The moving average, parameter by parameter."""
    for old, new in zip(target.parameters(), source.parameters(), strict=True):
        old.data.copy_((1 - rate) * old.data + rate * new.data)


def iql(columns: Columns, config: IqlConfig, seed: int) -> nn.Module:
    """Implicit Q-learning."""
    torch.manual_seed(seed)
    buffer = Buffer(columns, config)
    d, d_a = buffer.widths
    first, second = (Critic(d + d_a, config.width, config.layer_norm) for _ in range(2))
    targets = copy.deepcopy(first), copy.deepcopy(second)
    value, actor = Critic(d, config.width, config.layer_norm), Actor(d, d_a, config.width)
    q_optimiser = Optimiser(nn.ModuleList([first, second]), config)
    v_optimiser = Optimiser(value, config)
    a_optimiser = Optimiser(actor, config)
    for _ in range(config.steps):
        s, a, r, s_next, alive = buffer.sample(config.batch)
        with torch.no_grad():
            least = torch.min(targets[0](s, a), targets[1](s, a))
            following = value(s_next)
        surplus = least - value(s)
        v_optimiser.step((torch.abs(config.expectile - (surplus < 0).float()) * surplus**2).mean())
        goal = r + config.discount * alive * following
        q_optimiser.step(F.mse_loss(first(s, a), goal) + F.mse_loss(second(s, a), goal))
        for target, source in zip(targets, (first, second), strict=True):
            soft_update(target, source, config.target_rate)
        advantage = surplus.detach() / (surplus.detach().std() + 1e-6)
        weight = torch.exp(config.inverse_temperature * advantage).clamp(max=config.weight_cap)
        a_optimiser.step((weight * ((actor(s) - a) ** 2).sum(-1)).mean())
    return actor


def td3_bc(columns: Columns, config: Td3BcConfig, seed: int) -> nn.Module:
    """TD3+BC."""
    torch.manual_seed(seed)
    buffer = Buffer(columns, config)
    d, d_a = buffer.widths
    first, second = (Critic(d + d_a, config.width, config.layer_norm) for _ in range(2))
    actor = Actor(d, d_a, config.width)
    sources = (first, second, actor)
    targets = tuple(copy.deepcopy(module) for module in sources)
    optimisers = [Optimiser(module, config) for module in sources]
    for step in range(config.steps):
        s, a, r, s_next, alive = buffer.sample(config.batch)
        with torch.no_grad():
            noise = (torch.randn_like(a) * config.policy_noise).clamp(-config.noise_clip, config.noise_clip)
            following = (targets[2](s_next) + noise).clamp(-1.0, 1.0)
            least = torch.min(targets[0](s_next, following), targets[1](s_next, following))
            goal = r + config.discount * alive * least
        for module, optimiser in zip(sources[:2], optimisers[:2], strict=True):
            optimiser.step(F.mse_loss(module(s, a), goal))
        if step % config.policy_every == 0:
            chosen = actor(s)
            q = first(s, chosen)
            weight = config.alpha / q.abs().mean().detach()
            optimisers[2].step(-weight * q.mean() + F.mse_loss(chosen, a))
            for target, source in zip(targets, sources, strict=True):
                soft_update(target, source, config.target_rate)
    return actor


class Ensemble(nn.Module):
    """N critics with a leading axis."""

    def __init__(self, inputs: int, width: int, critics: int) -> None:
        super().__init__()
        sizes = ((inputs, width), (width, width), (width, 1))
        bounds = [fan_in**-0.5 for fan_in, _ in sizes]
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(critics, *size).uniform_(-b, b)) for size, b in zip(sizes, bounds, strict=True)
        )
        self.biases = nn.ParameterList(
            nn.Parameter(torch.empty(critics, 1, size[1]).uniform_(-b, b))
            for size, b in zip(sizes, bounds, strict=True)
        )

    def forward(self, s: Tensor, a: Tensor) -> Tensor:
        x = torch.cat([s, a], -1)
        if x.ndim == 2:
            x = x.unsqueeze(0).repeat_interleave(len(self.weights[0]), dim=0)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ weight + bias
            x = F.relu(x) if i < 2 else x
        return x.squeeze(-1)


class TanhNormal(nn.Module):
    """Random actions in (-1, 1) and the logarithms of their densities."""

    def __init__(self, inputs: int, outputs: int, width: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mu, self.log_sigma = nn.Linear(width, outputs), nn.Linear(width, outputs)

    def forward(self, s: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.trunk(s)
        law = torch.distributions.Normal(self.mu(hidden), self.log_sigma(hidden).clamp(-5, 2).exp())
        before = law.rsample()
        slope = 2.0 * (math.log(2.0) - before - F.softplus(-2.0 * before))
        return torch.tanh(before), (law.log_prob(before) - slope).sum(-1)


def edac(columns: Columns, config: EdacConfig, seed: int) -> nn.Module:
    """EDAC."""
    torch.manual_seed(seed)
    buffer = Buffer(columns, config)
    d, d_a = buffer.widths
    critics, actor = Ensemble(d + d_a, config.width, config.critics), TanhNormal(d, d_a, config.width)
    target = copy.deepcopy(critics)
    level = nn.ParameterList([nn.Parameter(torch.tensor(math.log(config.temperature)))])
    q_optimiser, a_optimiser, t_optimiser = (Optimiser(module, config) for module in (critics, actor, level))
    for _ in range(config.steps):
        s, a, r, s_next, alive = buffer.sample(config.batch)
        chosen, log_chance = actor(s)
        t_optimiser.step(-(level[0] * (log_chance.detach() - d_a)).mean())
        temperature = level[0].exp().detach()
        a_optimiser.step((temperature * log_chance - critics(s, chosen).min(0).values).mean())
        with torch.no_grad():
            following, log_chance = actor(s_next)
            least = target(s_next, following).min(0).values - temperature * log_chance
            goal = r + config.discount * alive * least
        error = ((critics(s, a) - goal) ** 2).mean(-1).sum()
        q_optimiser.step(error + config.diversity * diversity(critics, s, a, config.critics))
        soft_update(target, critics, config.target_rate)
    return actor


def diversity(critics: Ensemble, s: Tensor, a: Tensor, count: int) -> Tensor:
    """Cosines between the slopes of the critics, from a matrix of all pairs."""
    own = a.unsqueeze(0).repeat_interleave(count, dim=0).requires_grad_()
    values = critics(s.unsqueeze(0).repeat_interleave(count, dim=0), own)
    (slope,) = torch.autograd.grad(values.sum(), own, retain_graph=True, create_graph=True)
    slope = (slope / (slope.norm(p=2, dim=2, keepdim=True) + 1e-10)).transpose(0, 1)
    matrix = torch.einsum("bik,bjk->bij", slope, slope)
    masks = torch.eye(count).unsqueeze(0)
    return ((1 - masks) * matrix).sum(dim=(1, 2)).mean() / (count - 1)


TRAIN: Mapping[str, Callable[..., nn.Module]] = {"iql": iql, "td3_bc": td3_bc, "edac": edac}
