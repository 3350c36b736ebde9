"""What the offline agents with continuous actions share: checked tables, stacked networks, one loop, the policies.

All networks of all members (tables x seeds) are stacked along a first axis, one batched product per layer. A member's
numbers depend on its own table and seed only (up to the rounding of the batched products). Nothing is evaluated during
training and no checkpoint is chosen: the policy is the one after the last step.
"""

from __future__ import annotations

import itertools
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self, get_type_hints

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import DataError, PlanError
from tacit.hardware import torch_device
from tacit_worlds.agents.perceptrons import Layers, NetworkStack

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Limit:
    """What a number must be, in words, and whether it is."""

    description: str
    holds: Callable[[float], bool]


Count = Annotated[int, Limit("a whole number of at least 1", lambda value: value >= 1 and value == int(value))]
Two = Annotated[int, Limit("a whole number of at least 2", lambda value: value >= 2 and value == int(value))]
Positive = Annotated[float, Limit("a finite number above 0", lambda value: 0.0 < value < math.inf)]
NotNegative = Annotated[float, Limit("a finite number of at least 0", lambda value: 0.0 <= value < math.inf)]
Discount = Annotated[float, Limit("a number in [0, 1)", lambda value: 0.0 <= value < 1.0)]
Share = Annotated[float, Limit("a number in (0, 1]", lambda value: 0.0 < value <= 1.0)]
Inside = Annotated[float, Limit("a number in (0, 1)", lambda value: 0.0 < value < 1.0)]


def require_limits(config: object) -> None:
    """Refuse the first field of `config` that is outside the limit of its type."""
    for name, hint in get_type_hints(type(config), include_extras=True).items():
        value = getattr(config, name)
        for limit in getattr(hint, "__metadata__", ()):
            if not isinstance(value, numbers.Real) or not math.isfinite(value) or not limit.holds(float(value)):
                what, remedy = f"{name} is {value!r}", f"choose another {name}"
                raise PlanError(what, where=type(config).__name__, expected=limit.description, remedy=remedy)


@dataclass(frozen=True)
class TrainingTable:
    """A table's rows as one tensor [T, d + d_a + 1 + d + 1], standardised, and what standardised it."""

    rows: Tensor
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    action_width: int

    @classmethod
    def from_columns(cls, columns: Columns, device: torch.device, where: str) -> Self:
        arrays = {
            name: np.asarray(columns.get(name, ()))
            for name in ("observations", "actions", "rewards", "next_observations", "terminations")
        }
        if arrays["actions"].size and arrays["actions"].dtype.kind in "biu":
            what = "the actions are whole numbers, of a discrete space"
            remedy = "train a discrete agent instead (tacit.agents.discrete_offline)"
            raise DataError(what, where=where, expected="continuous actions [T, d_a] in [-1, 1]", remedy=remedy)
        if wrong := _find_fault(arrays):
            raise DataError(
                wrong,
                where=where,
                expected="observations [T, d], actions [T, d_a] in [-1, 1], rewards [T], next_observations [T, d], "
                "terminations [T]",
                remedy="pass the columns of one Trajectories with continuous observations and actions",
            )
        s, a, r, s_next, terminated = (column.astype(np.float32, copy=False) for column in arrays.values())
        mean, scale = s.mean(axis=0, dtype=np.float64), _scale(s)
        level = 0.0 if terminated.any() else r.mean(dtype=np.float64)
        reward, alive = ((r - level) / _scale(r))[:, None], 1.0 - terminated[:, None]
        parts = [(s - mean) / scale, a, reward, (s_next - mean) / scale, alive]
        table = np.concatenate(parts, axis=1, dtype=np.float32)
        return cls(torch.from_numpy(table).to(device), mean.astype(np.float32), scale.astype(np.float32), a.shape[1])


def _find_fault(columns: Columns) -> str | None:
    for name, column in columns.items():
        flat = name in ("rewards", "terminations")
        if not column.size:
            return f"{name} is missing or empty"
        if column.dtype.kind not in "biuf":
            return f"{name} is no column of numbers"
        if column.ndim != (1 if flat else 2):
            return f"{name} has {column.ndim} axes and not {1 if flat else 2}"
        with np.errstate(over="ignore"):
            held = np.isfinite(column.astype(np.float32, copy=False)).all()
        if not held:
            return f"{name} has a value that is NaN, infinite or above what float32 holds"
    rows = len(columns["rewards"])
    for name, column in columns.items():
        if len(column) != rows:
            return f"{name} has {len(column):,} rows, and there are {rows:,} rewards"
    if columns["next_observations"].shape != columns["observations"].shape:
        return "next_observations has another width than observations"
    if np.abs(columns["actions"]).max() > 1.0:
        return "actions has a value outside [-1, 1]: scale the actions to it first"
    return None


def _scale(column: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Standard deviations over the rows; 1 for a constant column, which another value may meet later."""
    spread = np.asarray(column.std(axis=0, dtype=np.float64))
    floor = 1e-6 * (1.0 + np.abs(column.mean(axis=0, dtype=np.float64)))
    return np.where(spread > floor, spread, 1.0) + 1e-6


# Random Fourier features of states (Tancik et al. 2020, arXiv:2006.10739; for values Yang et al. 2022, ICLR).


@dataclass(frozen=True)
class RandomFourier:
    """Inputs sin(z w) and cos(z w) beside the standardised state z, with frequencies w that are drawn once a member.
    `count` frequencies are 2 F more inputs; `bandwidth` is the standard deviation of the normal frequencies along each
    dimension, in radians per standard deviation of that dimension; 0 leaves a dimension out. Raises PlanError of no
    frequency, a negative or infinite bandwidth, or none above 0."""

    count: int
    bandwidth: tuple[float, ...]

    def __post_init__(self) -> None:
        width = np.asarray(self.bandwidth, np.float64)
        wide = bool(np.isfinite(width).all() and (width >= 0.0).all() and width.any())
        for name, sound, expected in (
            ("count", self.count >= 1, "a count of at least 1"),
            ("bandwidth", wide, "a finite number >= 0 for each dimension, one of them above 0"),
        ):
            if not sound:
                remedy = f"choose another {name}, or pass features=None"
                what = f"{name} is {getattr(self, name)!r}"
                raise PlanError(what, where="RandomFourier", expected=expected, remedy=remedy)

    def frequencies(self, dimensions: int, generators: list[torch.Generator]) -> Tensor:
        """[K, d, F], those of a member from its own generator. Raises PlanError of states with another number of
        dimensions."""
        if dimensions != len(self.bandwidth):
            what = f"{len(self.bandwidth)} bandwidths for states of {dimensions} dimensions"
            remedy = "give each dimension its bandwidth, or pass features=None"
            raise PlanError(what, where="RandomFourier", expected="one bandwidth for each dimension", remedy=remedy)
        width = torch.tensor(self.bandwidth)[:, None]
        return torch.stack([torch.randn(dimensions, self.count, generator=g) * width for g in generators])


def with_fourier_features(states: Tensor, frequencies: Tensor | None) -> Tensor:
    """States [K, B, d] and, beside them, their features: [K, B, d + 2 F]."""
    if frequencies is None:
        return states
    angles = states @ frequencies
    return torch.cat([states, angles.sin(), angles.cos()], -1)


def with_fourier_arrays(
    states: npt.NDArray[np.float32], frequencies: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The same of arrays."""
    angles = states @ frequencies
    return np.concatenate([states, np.sin(angles), np.cos(angles)], axis=-1)


Batch = tuple[
    Tensor, Tensor, Tensor, Tensor, Tensor
]  # s [K, B, d], a [K, B, d_a], r [K, B], s' [K, B, d], alive [K, B]
Progress = Callable[[int, int], None]

_BLOCK = 64  # steps whose batches are drawn together
_RESERVE = 2**24  # bytes: glibc keeps twice its largest freed block; without it every step pages its memory in again


@dataclass(frozen=True)
class OfflinePolicies:
    """Deterministic policies of K members, tanh(network((observation - mean) / scale)): `mean` and `scale` [K, 1, d],
    `weight0`, `bias0`, ... [K, in, out] and [K, 1, out], float32; with Fourier features `frequencies` [K, d, F] too."""

    arrays: Mapping[str, npt.NDArray[np.float32]]

    @property
    def members(self) -> int:
        """K."""
        return len(self.arrays["mean"])

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Actions [K, N, d_a] in [-1, 1] of all members for observations [N, d], or [K, N, d] with one set for each."""
        arrays = self.arrays
        x = (np.asarray(observations, dtype=np.float32) - arrays["mean"]) / arrays["scale"]
        if "frequencies" in arrays:
            x = with_fourier_arrays(np.broadcast_to(x, (self.members, *x.shape[-2:])), arrays["frequencies"])
        depth = sum(name.startswith("weight") for name in arrays)
        for i in range(depth):
            x = x @ arrays[f"weight{i}"] + arrays[f"bias{i}"]
            x = np.tanh(x) if i == depth - 1 else np.maximum(x, 0.0)
        return np.asarray(x, dtype=np.float32)


@dataclass(frozen=True)
class Watch:
    """Looks at the policies while they learn, for learning curves; what it sees changes nothing. Every so many steps,
    and after the last, `call` gets the steps done and one `OfflinePolicies` per table. Raises PlanError where `every`
    is below 1."""

    every: Count
    call: Callable[[int, list[OfflinePolicies]], None]

    def __post_init__(self) -> None:
        require_limits(self)


@dataclass(frozen=True)
class OfflineLearner:
    """What an agent brings to the loop."""

    parameters: list[Tensor]  # all that Adam moves, a tensor a network
    policy: Layers  # of these, the layers of the policy
    # step(number, batch) -> for each of the parameters the gradient of the members' losses, or None where they keep
    # still in this step
    step: Callable[[int, Batch], Sequence[Tensor | None]]
    update_targets: Callable[[int], None]  # update_targets(number), after Adam's step


@dataclass(frozen=True, kw_only=True)
class OfflineConfig(ABC):
    """Hyper-parameters of an agent, chosen on public mazes (never on those of an evaluation)."""

    steps: Count
    """number of steps."""
    batch: Count
    """rows per step and member."""
    width: Count
    """units of the two hidden layers of every network."""
    discount: Discount = 0.99
    """gamma."""
    learning_rate: Positive = 1e-3
    """of Adam, until it falls."""
    fall: Share = 0.3
    """share of the steps, at the end, in which the learning rate falls to 0 along a half cosine."""
    target_rate: Share = 0.01
    """step of the moving averages that the targets are."""
    features: RandomFourier | None = None
    """Fourier features of the states, for values that are cut by walls; the papers have none."""

    def __post_init__(self) -> None:
        require_limits(self)

    @abstractmethod
    def learner(self, members: Members) -> OfflineLearner:
        """The agent's networks and gradients."""


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
        features: of the states, drawn before the weights.

    Raises:
        DataError: a column is missing, empty, of another shape, not finite, an action is discrete or outside [-1, 1],
            or tables differ in their widths.
        HardwareError: there is no such device here.
        PlanError: no table, no seed, or features of states of another width.
    """

    def __init__(
        self,
        tables: Sequence[Columns],
        seeds: Sequence[int],
        device: str,
        where: str,
        features: RandomFourier | None = None,
    ) -> None:
        if not seeds or not tables:
            what, expected = "there is nothing to train", "at least one table and one seed"
            raise PlanError(what, where=where, expected=expected, remedy="pass seeds= one number per agent")
        self._device = torch_device(device, where=where)
        self._tables = [TrainingTable.from_columns(columns, self._device, where) for columns in tables]
        if len({(len(table.mean), table.action_width) for table in self._tables}) > 1:
            what, expected = "the tables have observations or actions of different widths", "tables of one task"
            raise DataError(what, where=where, expected=expected, remedy="train them one by one")
        self._state_width, self.action_width = len(self._tables[0].mean), self._tables[0].action_width
        self._seeds = len(seeds)
        self.generators = [torch.Generator().manual_seed(seed) for _ in self._tables for seed in seeds]
        self._frequencies = (
            None if features is None else features.frequencies(self._state_width, self.generators).to(self._device)
        )
        self.input_width = self._state_width + (0 if features is None else 2 * features.count)

    def networks(self, sizes: tuple[int, ...], *, copies: int = 1) -> NetworkStack:
        """K x `copies` networks; weights and biases are U(-1, 1) / sqrt(fan in), each from its member's generator."""
        generators = [generator for generator in self.generators for _ in range(copies)]
        parts = []
        for fan_in, fan_out in itertools.pairwise(sizes):
            for count in (fan_in * fan_out, fan_out):
                draws = [(2.0 * torch.rand(count, generator=g) - 1.0) * fan_in**-0.5 for g in generators]
                parts.append(torch.stack(draws))
        return NetworkStack(torch.cat(parts, 1).to(self._device), sizes)

    def draw_normals(self, shape: Sequence[int]) -> Iterator[Tensor]:
        """Endless standard normal [K, *shape], each member's from its own generator."""
        while True:
            draws = torch.stack([torch.randn(_BLOCK, *shape, generator=g) for g in self.generators], 1)
            yield from draws.to(self._device)

    def train(self, config: OfflineConfig, *, progress: Progress | None, watch: Watch | None) -> list[OfflinePolicies]:
        """The loop of all agents: Adam down the learner's gradients; returns one `OfflinePolicies` of all seeds for
        each table. Raises PlanError where a batch has more rows than a table."""
        rows = min(len(table.rows) for table in self._tables)
        if config.batch > rows:
            what = f"batch is {config.batch:,}, and a table has {rows:,} rows"
            expected, remedy = "a batch of at most the rows of the smallest table", "lower batch=, or sample more rows"
            raise PlanError(what, where=type(config).__name__, expected=expected, remedy=remedy)
        torch.empty(_RESERVE, dtype=torch.uint8)
        learner = config.learner(self)
        report = progress or (lambda done, total: None)
        batches = self.draw_batches(config.batch)
        optimiser = torch.optim.Adam(learner.parameters, fused=True)
        for number in range(config.steps):
            batch = next(batches)
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(config, number)
            for theta, slope in zip(learner.parameters, learner.step(number, batch), strict=True):
                theta.grad = slope
            optimiser.step()
            learner.update_targets(number)
            if number % _BLOCK == 0:
                report(number, config.steps)
            done = number + 1
            if watch is not None and (done % watch.every == 0 or done == config.steps):
                watch.call(done, self.policies(learner.policy))
        report(config.steps, config.steps)
        return self.policies(learner.policy)

    def draw_batches(self, batch: int) -> Iterator[Batch]:
        """Endless batches, each member's rows drawn from its own table by its own generator."""
        d, d_a = self._state_width, self.action_width
        members = [
            (table, self.generators[i * self._seeds + j])
            for i, table in enumerate(self._tables)
            for j in range(self._seeds)
        ]
        while True:
            blocks = [torch.randint(len(table.rows), (_BLOCK, batch), generator=g) for table, g in members]
            for i in range(_BLOCK):
                rows = torch.stack(
                    [table.rows.index_select(0, block[i]) for (table, _), block in zip(members, blocks, strict=True)]
                )
                s, a, r, s_next, alive = torch.split(rows, [d, d_a, 1, d, 1], dim=-1)
                inputs = (with_fourier_features(states, self._frequencies) for states in (s, s_next))
                yield next(inputs), a, r[..., 0], next(inputs), alive[..., 0]

    def policies(self, layers: Layers) -> list[OfflinePolicies]:
        policies = []
        for i, table in enumerate(self._tables):
            seeds = slice(i * self._seeds, (i + 1) * self._seeds)
            arrays = {
                name: np.repeat(values[None, None], self._seeds, axis=0)
                for name, values in (("mean", table.mean), ("scale", table.scale))
            }
            if self._frequencies is not None:
                arrays["frequencies"] = self._frequencies[seeds].cpu().numpy()
            for j, tensor in enumerate(layers):
                arrays[f"{'bias' if j % 2 else 'weight'}{j // 2}"] = tensor[seeds].cpu().numpy().copy()
            policies.append(OfflinePolicies(arrays))
        return policies


def learning_rate(config: OfflineConfig, step: int) -> float:
    """Of a step: held, then falling to 0 along a half cosine."""
    fallen = max(0.0, step / config.steps - (1.0 - config.fall)) / config.fall
    return 0.5 * config.learning_rate * (1.0 + float(np.cos(np.pi * fallen)))


def train(
    columns: Columns,
    config: OfflineConfig,
    *,
    seeds: Sequence[int],
    device: str = "cpu",
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> OfflinePolicies:
    """One agent per seed, all on one table.

    Args:
        columns: observations [T, d], actions [T, d_a] in [-1, 1], rewards [T], next_observations [T, d] and
            terminations [T]; standardised by their own statistics (`Members`).
        config: which agent, and its hyper-parameters.
        seeds: one per member: of its first weights and its batches.
        device: where torch computes.
        progress: called as progress(done, total) every 64 steps.
        watch: looks at the policies while they learn.

    Returns:
        The policies of the K = len(seeds) members, after the last step.

    Raises:
        DataError: a column is missing, empty, of another shape, not finite, or an action is discrete or outside
            [-1, 1].
        PlanError: no seed, a batch of more rows than the table's, or features of states of another width.
    """
    return train_tables([columns], config, seeds=seeds, device=device, progress=progress, watch=watch)[0]


def train_tables(
    tables: Sequence[Columns],
    config: OfflineConfig,
    *,
    seeds: Sequence[int],
    device: str = "cpu",
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> list[OfflinePolicies]:
    """`train` on several tables of the same widths at once, every seed on every table: the policies of each table."""
    where = f"{type(config).__module__.rpartition('.')[2]}.train_tables"
    return Members(tables, seeds, device, where, config.features).train(config, progress=progress, watch=watch)
