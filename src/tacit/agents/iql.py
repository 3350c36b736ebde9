"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169), several agents trained at once.

As in the paper: V(s) is an expectile of Q(s, a) over the data's actions, Q regresses to r + gamma V(s'), and the policy
imitates the data's actions weighted by exp(beta * advantage). Choices that the paper leaves open: LayerNorm in Q and V,
the smaller of two target networks, advantages in units of their own standard deviation within the batch, and a
deterministic tanh policy.

All networks of all members (tables x seeds) are stacked along a first axis, one batched product per layer. A member's
numbers depend on its own table and seed only (up to the rounding of the batched products). Nothing is evaluated during
training and no checkpoint is chosen: the policy is the one after the last step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.errors import DataError, PlanError

Columns = Mapping[str, npt.NDArray[Any]]
Layers = list[Tensor]  # weight [K, in, out], bias [K, 1, out], weight, ...

_BLOCK = 64  # steps whose batches are drawn together


@dataclass(frozen=True)
class IqlConfig:
    """Hyper-parameters, chosen on public mazes (never on those of an evaluation).

    Args:
        steps: steps; the learning rate falls to 0 along a half cosine.
        batch: rows per step and member.
        width: units of the two hidden layers of every network.
        discount: gamma.
        expectile: IQL's tau, the expectile of Q that V is.
        inverse_temperature: IQL's beta, for advantages in units of their standard deviation.
        weight_cap: largest weight of one row in the policy's loss.
        learning_rate: of Adam.
        target_rate: step of the moving averages that the targets of Q are.

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
    target_rate: float = 0.01

    def __post_init__(self) -> None:
        positive = (self.learning_rate, self.weight_cap)
        if (
            min(self.steps, self.batch, self.width) < 1
            or not all(0.0 < value < 1.0 for value in (self.expectile, self.target_rate))
            or not 0.0 <= self.discount < 1.0
            or not self.inverse_temperature >= 0.0
            or not all(value > 0.0 for value in positive)
        ):
            raise PlanError(
                "a hyper-parameter is outside its range",
                where="IqlConfig",
                expected="counts >= 1, expectile and target_rate in (0, 1), discount in [0, 1), the others > 0",
                remedy="correct the value",
            )


@dataclass(frozen=True)
class Policy:
    """Deterministic policies of K members, tanh(network((observation - mean) / scale)).

    Args:
        arrays: `mean` and `scale` [K, 1, d], `weight0`, `bias0`, ... [K, in, out] and [K, 1, out], float32.
    """

    arrays: Mapping[str, npt.NDArray[np.float32]]

    @property
    def members(self) -> int:
        """K."""
        return len(self.arrays["mean"])

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Actions [K, N, d_a] in [-1, 1] of all members for observations [N, d], or [K, N, d] with one set for each."""
        arrays = self.arrays
        x = (np.asarray(observations, dtype=np.float32) - arrays["mean"]) / arrays["scale"]
        depth = (len(arrays) - 2) // 2
        for i in range(depth):
            x = x @ arrays[f"weight{i}"] + arrays[f"bias{i}"]
            x = np.tanh(x) if i == depth - 1 else np.maximum(x, 0.0)
        return np.asarray(x, dtype=np.float32)


def train(
    columns: Columns,
    config: IqlConfig,
    *,
    seeds: Sequence[int],
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Policy:
    """One agent per seed, all on one table.

    Args:
        columns: observations [T, d], actions [T, d_a] in [-1, 1], rewards [T], next_observations [T, d] and
            terminations [T] (a terminal row has no value after it). States and rewards are standardised by this table's
            own means and standard deviations.
        config: hyper-parameters.
        seeds: one per member: of its first weights and its batches.
        device: where torch computes.
        progress: called as progress(done, total) every 64 steps.

    Returns:
        The policies of the K = len(seeds) members, after the last step.

    Raises:
        DataError: a column is missing, empty, of another shape, not finite, or an action is outside [-1, 1].
        PlanError: no seed.
    """
    return train_tables([columns], config, seeds=seeds, device=device, progress=progress)[0]


def train_tables(
    tables: Sequence[Columns],
    config: IqlConfig,
    *,
    seeds: Sequence[int],
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> list[Policy]:
    """`train` on several tables of the same widths at once, every seed on every table; one `Policy` per table."""
    if not seeds or not tables:
        raise PlanError(
            "there is nothing to train",
            where="iql.train",
            expected="at least one table and one seed",
            remedy="pass seeds= one number per agent",
        )
    stacks = [_Table.of(columns, device) for columns in tables]
    d, d_a = stacks[0].observation, stacks[0].action
    if any((table.observation, table.action) != (d, d_a) for table in stacks):
        raise DataError(
            "the tables have observations or actions of different widths",
            where="iql.train_tables",
            expected="tables of one task",
            remedy="train them one by one",
        )
    members = [(table, torch.Generator().manual_seed(seed)) for table in stacks for seed in seeds]
    generators = [generator for _, generator in members]
    twins = [generator for generator in generators for _ in range(2)]
    report = progress or (lambda done, total: None)

    hidden = (config.width, config.width)
    q, value = _layers(twins, (d + d_a, *hidden, 1), device), _layers(generators, (d, *hidden, 1), device)
    policy = _layers(generators, (d, *hidden, d_a), device)
    target = [tensor.detach().clone() for tensor in q]
    batches = _batches(members, config.batch)
    optimiser = torch.optim.Adam(q + value + policy, fused=True)
    for step in range(config.steps):
        s, a, r, s_next, alive = next(batches)
        _set_rate(optimiser, config.learning_rate, step / config.steps)
        loss = _loss(q, target, value, policy, s, a, r, s_next, alive, config)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        torch._foreach_lerp_(target, [tensor.detach() for tensor in q], config.target_rate)
        if step % _BLOCK == 0:
            report(step, config.steps)
    report(config.steps, config.steps)
    return [_policy(table, policy, range(i * len(seeds), (i + 1) * len(seeds))) for i, table in enumerate(stacks)]


def _loss(
    q: Layers,
    target: Layers,
    value: Layers,
    policy: Layers,
    s: Tensor,
    a: Tensor,
    r: Tensor,
    s_next: Tensor,
    alive: Tensor,
    config: IqlConfig,
) -> Tensor:
    """IQL's three losses (equations 5 to 7), summed over members [K]; s [K, B, d], r [K, B]."""
    pairs = torch.cat([s, a], -1).repeat_interleave(2, dim=0)
    with torch.no_grad():
        least = _network(target, pairs, norm=True).view(len(s), 2, -1).amin(1)
        goal = r + config.discount * alive * _network(value, s_next, norm=True)[..., 0]
    surplus = least - _network(value, s, norm=True)[..., 0]
    above = torch.where(surplus > 0, config.expectile, 1.0 - config.expectile)
    error = _network(q, pairs, norm=True).view(len(s), 2, -1) - goal[:, None]
    advantage = surplus.detach() / (surplus.detach().std(-1, keepdim=True) + 1e-6)
    weight = (config.inverse_temperature * advantage).exp().clamp(max=config.weight_cap)
    distance = (torch.tanh(_network(policy, s, norm=False)) - a).square().sum(-1)
    losses = (above * surplus.square()).mean(-1), error.square().mean((1, 2)) * 2, (weight * distance).mean(-1)
    return torch.stack([loss.sum() for loss in losses]).sum()


def _layers(generators: Sequence[torch.Generator], sizes: Sequence[int], device: str) -> Layers:
    """Weights and biases of K networks, U(-1, 1) / sqrt(fan in), each member from its own generator."""
    layers = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        for shape in ((fan_in, fan_out), (1, fan_out)):
            draws = [(2.0 * torch.rand(shape, generator=g) - 1.0) * fan_in**-0.5 for g in generators]
            layers.append(torch.stack(draws).to(device).requires_grad_())
    return layers


def _network(layers: Layers, x: Tensor, *, norm: bool) -> Tensor:
    """Outputs [K, B, out] of K multilayer perceptrons for x [K, B, in]."""
    *hidden, last = zip(layers[::2], layers[1::2], strict=True)
    for weight, bias in hidden:
        x = torch.baddbmm(bias, x, weight)
        if norm:
            x = F.layer_norm(x, x.shape[-1:])
        x = F.relu(x)
    return torch.baddbmm(last[1], x, last[0])


def _set_rate(optimiser: torch.optim.Optimizer, rate: float, done: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = 0.5 * rate * (1.0 + float(np.cos(np.pi * done)))


@dataclass(frozen=True)
class _Table:
    """A table's rows as one tensor [T, d + d_a + 1 + d + 1], standardised, and what standardised it."""

    rows: Tensor
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    action: int

    @property
    def observation(self) -> int:
        return len(self.mean)

    @classmethod
    def of(cls, columns: Columns, device: str) -> Self:
        names = ("observations", "actions", "rewards", "next_observations", "terminations")
        s, a, r, s_next, end = (np.asarray(columns.get(name, ()), dtype=np.float32) for name in names)
        rows = len(r)
        sound = (
            rows > 0
            and s.ndim == a.ndim == 2
            and r.shape == end.shape == (rows,)
            and len(s) == len(a) == rows
            and s_next.shape == s.shape
            and all(np.isfinite(column).all() for column in (s, a, r, s_next))
            and np.abs(a).max() <= 1.0
        )
        if not sound:
            raise DataError(
                "a column is missing, empty, of another shape, not finite, or an action is outside [-1, 1]",
                where="iql.train",
                expected="observations [T, d], actions [T, d_a] in [-1, 1], rewards [T], next_observations [T, d], "
                "terminations [T]",
                remedy="pass the columns of one Trajectories with continuous observations and actions",
            )
        mean, scale = s.mean(axis=0, dtype=np.float64), s.std(axis=0, dtype=np.float64) + 1e-6
        paid = (r - r.mean(dtype=np.float64)) / (r.std(dtype=np.float64) + 1e-6)
        table = np.concatenate(
            [(s - mean) / scale, a, paid[:, None], (s_next - mean) / scale, 1.0 - end[:, None]],
            axis=1,
            dtype=np.float32,
        )
        return cls(torch.from_numpy(table).to(device), mean.astype(np.float32), scale.astype(np.float32), a.shape[1])


def _batches(members: Sequence[tuple[_Table, torch.Generator]], batch: int) -> Iterator[tuple[Tensor, ...]]:
    """Endless (s, a, r, s', alive), [K, B, ...], each member's rows drawn from its own table by its own generator."""
    d, d_a = members[0][0].observation, members[0][0].action
    while True:
        blocks = [torch.randint(len(table.rows), (_BLOCK, batch), generator=g) for table, g in members]
        for i in range(_BLOCK):
            rows = torch.stack([table.rows[block[i]] for (table, _), block in zip(members, blocks, strict=True)])
            s, a, r, s_next, alive = torch.split(rows, [d, d_a, 1, d, 1], dim=-1)
            yield s, a, r[..., 0], s_next, alive[..., 0]


def _policy(table: _Table, layers: Layers, members: range) -> Policy:
    arrays = {
        "mean": np.repeat(table.mean[None, None], len(members), axis=0),
        "scale": np.repeat(table.scale[None, None], len(members), axis=0),
    }
    for i, tensor in enumerate(layers):
        name = f"{'bias' if i % 2 else 'weight'}{i // 2}"
        arrays[name] = tensor.detach()[members.start : members.stop].cpu().numpy().copy()
    return Policy(arrays)
