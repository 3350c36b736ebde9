"""What the released histograms say of the world around a place: known to the networks wherever a row begins.

Public worlds differ from the private one, in where people can be and in what they do there. A network that was
pre-trained on many public worlds, and shown for each of them its own histograms around every row, has learned to go by
them. The private world's histograms, which `plan.matching` releases anyway, then tell it where it is, at no further
cost in privacy: they are public once they are released.

Of the tables of `plan.matching`, those of one or two coordinates of the observation give densities around the place,
relative to an even spread over the bins. Those that have other columns behind them, such as the action or the reward,
give how these are spread at the place.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from tacit.data.spec import Box
from tacit.methods.synthesis.encoding import Encoder, codes
from tacit.methods.synthesis.table_matching import Floats, Table, TableMatching, project_to_simplex

MOST = 4.0
"""Densities count up to so many times an even spread."""


@dataclass(frozen=True)
class LocalContext:
    """Features of the places in which rows begin."""

    matching: TableMatching  # whose tables are looked at
    encoder: Encoder  # of the places
    radius: int  # bins on either side of a place that are looked at, along each coordinate

    @property
    def table_indices(self) -> tuple[int, ...]:
        """Which of the tables: those that begin with a coordinate of the observation."""
        return tuple(i for i, table in enumerate(self.matching.tables) if _split(table)[0])

    @property
    def size(self) -> int:
        """How many features a place has."""
        return sum(self._size(self.matching.tables[i]) for i in self.table_indices)

    def _size(self, table: Table) -> int:
        places, attributes = _split(table)
        return math.prod(_bins(attributes)) if attributes else (2 * self.radius + 1) ** len(places)

    @property
    def cells(self) -> int:
        """Numbers of a world's tables, as of `world_tables`."""
        sizes = self.matching.sizes  # which counts the bins of all tables each time
        return sum(sizes[i] for i in self.table_indices)

    def world_tables(self, shares: Sequence[Floats]) -> Tensor:
        """A world's tables, one after another, [cells], from noisy shares of the rows in all tables of `matching`."""
        contexts = []
        for i in self.table_indices:
            table = self.matching.tables[i]
            places, attributes = _split(table)
            cells = project_to_simplex(shares[i], 1.0).reshape(math.prod(_bins(places)), math.prod(_bins(attributes)))
            if attributes:
                total = cells.sum(axis=1, keepdims=True)
                even = 1 / cells.shape[1]
                contexts.append(np.where(total > 0, cells / np.where(total > 0, total, 1.0), even) - even)
            else:
                contexts.append(np.minimum(cells * cells.size, MOST))
        return torch.from_numpy(np.concatenate([context.ravel() for context in contexts]).astype(np.float32))

    def even_tables(self) -> Tensor:
        """The tables [cells] of a world in which people, and what they do, are spread evenly."""
        return self.world_tables([np.full(size, 1 / size) for size in self.matching.sizes])

    @functools.cached_property
    def _patch_cells(self) -> Tensor:
        """[seen] which cell each number of `patches` is; the number of all cells stands for nobody."""
        numbers, begin = list[NDArray[np.int64]](), 0
        for i in self.table_indices:
            cells = _patches(*_split(self.matching.tables[i]), self.radius)
            numbers.append(np.where(cells < 0, self.cells, cells + begin).ravel())
            begin += self.matching.sizes[i]
        return torch.from_numpy(np.concatenate(numbers))

    def patches(self, world: Tensor) -> Tensor:
        """What is seen [seen] at the middle of every bin of every table, in the world of these tables [cells]."""
        return torch.cat([world, world.new_zeros(1)])[self._patch_cells.to(world.device)]

    def place_features(self, places: Tensor, patches: Tensor) -> Tensor:
        """Features [B, H, size] of encoded places [B, H, d], linear between the middles of bins, from `patches`."""
        # Beyond the outer bins there is nobody: what is seen of them is 0.
        encoder = self.encoder
        d = encoder.spec.observation.width
        raw = places * places.new_tensor(encoder.scale[:d]) + places.new_tensor(encoder.center[:d])
        if isinstance(encoder.spec.observation, Box):
            raw = codes(raw, encoder.spec.observation)
        raw, corners, features, begin = raw.flatten(0, -2), dict[Table, tuple[Tensor, Tensor]](), list[Tensor](), 0
        for i in self.table_indices:
            table = self.matching.tables[i]
            coordinates, _ = _split(table)
            if coordinates not in corners:
                corners[coordinates] = _corners(raw, coordinates)
            at, weight = corners[coordinates]
            shape = (math.prod(bins + 2 for bins in _bins(coordinates)), self._size(table))
            end = begin + math.prod(shape)
            patch_values = embedding_bag(at, patches[begin:end].view(shape), mode="sum", per_sample_weights=weight)
            features.append(patch_values)
            begin = end
        return torch.unflatten(torch.cat(features, dim=-1), 0, places.shape[:-1])


def _split(table: Table) -> tuple[Table, Table]:
    """The axes of a table that are a place, the first one or two if they are of the observation, and the others."""
    place = tuple(itertools.takewhile(lambda axis: axis.column == "observations", table[:2]))
    return place, table[len(place) :]


def _bins(axes: Table) -> tuple[int, ...]:
    return tuple(len(axis.edges) - 1 for axis in axes)


def _patches(coordinates: Table, attributes: Table, radius: int) -> NDArray[np.int64]:
    """[middles, features] which cell of a table each feature is at the middle of each bin; -1 where there is none."""
    # A bin of nobody is added on either side of each coordinate. Features are the densities up to `radius` bins away,
    # or, if there are other columns, how these are spread.
    shape = _bins(coordinates)
    middles = np.stack(np.meshgrid(*(np.arange(-1, bins + 1) for bins in shape), indexing="ij"), axis=-1)
    middles = middles.reshape(-1, 1, len(shape))
    if not attributes:
        reach = [range(-radius, radius + 1)] * len(shape)
        middles = middles + np.array(list(itertools.product(*reach)))
    inside = ((middles >= 0) & (middles < shape)).all(axis=-1)
    numbers = np.ravel_multi_index(tuple(np.moveaxis(middles, -1, 0)), shape, mode="clip")
    if attributes:
        numbers = numbers * math.prod(_bins(attributes)) + np.arange(math.prod(_bins(attributes)))
    return np.where(inside, numbers, -1)


def _corners(raw: Tensor, coordinates: Table) -> tuple[Tensor, Tensor]:
    """Of places [N, d], the 2^k middles of bins [N, 2^k] around each, as of `_patches`, and their weights."""
    at, weight = torch.zeros(len(raw), 1, dtype=torch.int64, device=raw.device), raw.new_ones(len(raw), 1)
    for axis, bins in zip(coordinates, _bins(coordinates), strict=True):
        position = _position(raw[:, axis.index], axis.edges) + 1
        below = position.long().clamp(0, bins)  # positions that are not finite too
        above = (position - below)[:, None]
        at = (at[..., None] * (bins + 2) + torch.stack([below, below + 1], dim=-1)[:, None]).flatten(1)
        weight = (weight[..., None] * torch.stack([1 - above, above], dim=-1)).flatten(1)
    return at, weight


def _position(values: Tensor, edges: Sequence[float]) -> Tensor:
    """Places between edges as numbers of bins from the first edge, less a half: i at the middle of bin i."""
    values, borders = values.double(), torch.tensor(edges, dtype=torch.float64, device=values.device)
    inside = torch.searchsorted(borders[1:-1].contiguous(), values.contiguous(), right=True)
    low, high = borders[inside], borders[inside + 1]  # a float32 apart where a bound has a bin of its own
    return (inside + ((values - low) / (high - low)).clamp(0.0, 1.0) - 0.5).float()
