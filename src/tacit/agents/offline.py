"""What the offline agents with continuous actions share: checked tables, stacked networks, one loop, the policies.

All networks of all members (tables x seeds) are stacked along a first axis, one batched product per layer. A member's
numbers depend on its own table and seed only (up to the rounding of the batched products). Nothing is evaluated during
training and no checkpoint is chosen: the policy is the one after the last step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.errors import DataError, PlanError
from tacit.hardware import torch_device

__all__ = ["Batch", "Columns", "Layers", "Members", "Policy", "Schedule", "Watch", "in_range"]

Columns = Mapping[str, npt.NDArray[Any]]
Layers = list[Tensor]  # weight [K, in, out], bias [K, 1, out], weight, ...
Batch = tuple[
    Tensor, Tensor, Tensor, Tensor, Tensor
]  # s [K, B, d], a [K, B, d_a], r [K, B], s' [K, B, d], alive [K, B]
Progress = Callable[[int, int], None]

_BLOCK = 64  # steps whose batches are drawn together


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


@dataclass(frozen=True)
class Watch:
    """Looks at the policies while they learn, for learning curves; what it sees changes nothing.

    Args:
        every: steps between two looks; there is one after the last step too.
        call: called as call(steps done, one `Policy` per table).

    Raises:
        PlanError: `every` is below 1.
    """

    every: int
    call: Callable[[int, list[Policy]], None]

    def __post_init__(self) -> None:
        in_range(self.every >= 1, where="Watch", expected="every >= 1")


class Schedule(Protocol):
    """What the loop needs to know of an agent's configuration."""

    @property
    def steps(self) -> int:
        """Steps; the learning rate falls to 0 along a half cosine."""

    @property
    def batch(self) -> int:
        """Rows per step and member."""

    @property
    def learning_rate(self) -> float:
        """Of Adam, at the first step."""


def in_range(sound: bool, *, where: str, expected: str) -> None:
    """Refuse a hyper-parameter that is outside its range.

    Raises:
        PlanError: `sound` is false.
    """
    if not sound:
        raise PlanError(
            "a hyper-parameter is outside its range", where=where, expected=expected, remedy="correct the value"
        )


@dataclass(frozen=True)
class _Table:
    """A table's rows as one tensor [T, d + d_a + 1 + d + 1], standardised, and what standardised it."""

    rows: Tensor
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    action: int

    @classmethod
    def of(cls, columns: Columns, device: torch.device, where: str) -> Self:
        given = {
            name: np.asarray(columns.get(name, ()))
            for name in ("observations", "actions", "rewards", "next_observations", "terminations")
        }
        if given["actions"].size and given["actions"].dtype.kind in "biu":
            raise DataError(
                "the actions are whole numbers, of a discrete space",
                where=where,
                expected="continuous actions [T, d_a] in [-1, 1]",
                remedy="train a discrete agent instead (tacit.agents.discrete_offline)",
            )
        s, a, r, s_next, end = (column.astype(np.float32, copy=False) for column in given.values())
        rows = len(r) if r.ndim else 0
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
                where=where,
                expected="observations [T, d], actions [T, d_a] in [-1, 1], rewards [T], next_observations [T, d], "
                "terminations [T]",
                remedy="pass the columns of one Trajectories with continuous observations and actions",
            )
        mean, scale = s.mean(axis=0, dtype=np.float64), _scale(s)
        level = 0.0 if end.any() else r.mean(dtype=np.float64)
        table = np.concatenate(
            [(s - mean) / scale, a, ((r - level) / _scale(r))[:, None], (s_next - mean) / scale, 1.0 - end[:, None]],
            axis=1,
            dtype=np.float32,
        )
        return cls(torch.from_numpy(table).to(device), mean.astype(np.float32), scale.astype(np.float32), a.shape[1])


def _scale(column: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Standard deviations over the rows; 1 for a constant column, which another value may meet later."""
    spread = np.asarray(column.std(axis=0, dtype=np.float64))
    floor = 1e-6 * (1.0 + np.abs(column.mean(axis=0, dtype=np.float64)))
    return np.where(spread > floor, spread, 1.0) + 1e-6


class Members:
    """K agents that learn at once: every seed on every table.

    Args:
        tables: columns of the same widths: observations [T, d], actions [T, d_a] in [-1, 1], rewards [T],
            next_observations [T, d] and terminations [T] (a terminal row has no value after it). States are
            standardised by a table's own means and standard deviations, rewards too; their mean stays where a row is
            terminal, since there a shift of all rewards would change what is best.
        seeds: one per member of a table: of its first weights, its batches and its noise.
        device: where torch computes.
        where: the caller, for errors.

    Raises:
        DataError: a column is missing, empty, of another shape, not finite, an action is discrete or outside [-1, 1],
            or tables differ in their widths.
        HardwareError: there is no such device here.
        PlanError: no table or no seed.
    """

    def __init__(self, tables: Sequence[Columns], seeds: Sequence[int], device: str, where: str) -> None:
        if not seeds or not tables:
            raise PlanError(
                "there is nothing to train",
                where=where,
                expected="at least one table and one seed",
                remedy="pass seeds= one number per agent",
            )
        self._device = torch_device(device, where=where)
        self._tables = [_Table.of(columns, self._device, where) for columns in tables]
        if len({(len(table.mean), table.action) for table in self._tables}) > 1:
            raise DataError(
                "the tables have observations or actions of different widths",
                where=where,
                expected="tables of one task",
                remedy="train them one by one",
            )
        self.observation, self.action = len(self._tables[0].mean), self._tables[0].action
        self._seeds = len(seeds)
        self.generators = [torch.Generator().manual_seed(seed) for _ in self._tables for seed in seeds]

    def layers(self, sizes: Sequence[int], *, copies: int = 1) -> Layers:
        """Weights and biases of K x `copies` networks, U(-1, 1) / sqrt(fan in), each from its member's generator."""
        generators = [generator for generator in self.generators for _ in range(copies)]
        layers = []
        for fan_in, fan_out in itertools.pairwise(sizes):
            for shape in ((fan_in, fan_out), (1, fan_out)):
                draws = [(2.0 * torch.rand(shape, generator=g) - 1.0) * fan_in**-0.5 for g in generators]
                layers.append(torch.stack(draws).to(self._device).requires_grad_())
        return layers

    def normal(self, shape: Sequence[int]) -> Iterator[Tensor]:
        """Endless standard normal [K, *shape], each member's from its own generator."""
        while True:
            draws = torch.stack([torch.randn(_BLOCK, *shape, generator=g) for g in self.generators], 1)
            yield from draws.to(self._device)

    def train(
        self,
        config: Schedule,
        parameters: Layers,
        policy: Layers,
        step: Callable[[int, Batch], Tensor],
        follow: Callable[[int], None],
        *,
        progress: Progress | None,
        watch: Watch | None,
    ) -> list[Policy]:
        """The loop of all agents: Adam down the loss that step(number, batch) returns, then follow(number).

        Where a loss leaves out some of the parameters, they keep still in that step. Returns the policies whose layers
        are `policy`, one `Policy` of all seeds for each table.
        """
        report = progress or (lambda done, total: None)
        batches = self.batches(config.batch)
        optimiser = torch.optim.Adam(parameters, fused=True)
        for number in range(config.steps):
            batch = next(batches)
            for group in optimiser.param_groups:
                group["lr"] = 0.5 * config.learning_rate * (1.0 + float(np.cos(np.pi * (number / config.steps))))
            loss = step(number, batch)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            follow(number)
            if number % _BLOCK == 0:
                report(number, config.steps)
            done = number + 1
            if watch is not None and (done % watch.every == 0 or done == config.steps):
                watch.call(done, self.policies(policy))
        report(config.steps, config.steps)
        return self.policies(policy)

    def batches(self, batch: int) -> Iterator[Batch]:
        """Endless batches, each member's rows drawn from its own table by its own generator."""
        d, d_a = self.observation, self.action
        members = [
            (table, self.generators[i * self._seeds + j])
            for i, table in enumerate(self._tables)
            for j in range(self._seeds)
        ]
        while True:
            blocks = [torch.randint(len(table.rows), (_BLOCK, batch), generator=g) for table, g in members]
            for i in range(_BLOCK):
                rows = torch.stack([table.rows[block[i]] for (table, _), block in zip(members, blocks, strict=True)])
                s, a, r, s_next, alive = torch.split(rows, [d, d_a, 1, d, 1], dim=-1)
                yield s, a, r[..., 0], s_next, alive[..., 0]

    def policies(self, layers: Layers) -> list[Policy]:
        policies = []
        for i, table in enumerate(self._tables):
            own = slice(i * self._seeds, (i + 1) * self._seeds)
            arrays = {
                name: np.repeat(values[None, None], self._seeds, axis=0)
                for name, values in (("mean", table.mean), ("scale", table.scale))
            }
            for j, tensor in enumerate(layers):
                arrays[f"{'bias' if j % 2 else 'weight'}{j // 2}"] = tensor.detach()[own].cpu().numpy().copy()
            policies.append(Policy(arrays))
        return policies


def network(layers: Layers, x: Tensor, *, norm: bool) -> Tensor:
    """Outputs [K, B, out] of K multilayer perceptrons for x [K, B, in]; `norm` puts a LayerNorm before every ReLU."""
    return torch.baddbmm(layers[-1], _hidden(layers, x, norm), layers[-2])


def scalar(layers: Layers, x: Tensor, *, norm: bool) -> Tensor:
    """`network` with one output, [K, B]: a product and a sum, five times as fast as a batched product of one column."""
    return (_hidden(layers, x, norm) * layers[-2].transpose(1, 2)).sum(-1) + layers[-1][..., 0]


def _hidden(layers: Layers, x: Tensor, norm: bool) -> Tensor:
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        x = torch.baddbmm(bias, x, weight)
        if norm:
            x = F.layer_norm(x, x.shape[-1:])
        x = F.relu(x)
    return x


def detached(layers: Layers) -> Layers:
    """The same numbers (no copy) where no gradient arrives."""
    return [tensor.detach() for tensor in layers]


def approach(target: Layers, source: Layers, rate: float) -> None:
    """One step of a moving average: target += rate (source - target), in place."""
    torch._foreach_lerp_(target, detached(source), rate)
