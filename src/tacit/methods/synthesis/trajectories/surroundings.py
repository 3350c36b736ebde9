"""What the released histograms say of the world around a place: known to the networks wherever a row begins.

Public worlds differ from the private one, in where people can be and in what they do there. A network that was
pre-trained on many public worlds, and shown for each of them its own histograms around every row, has learned to go by
them. The private world's histograms, which `plan.raking` releases anyway, then tell it where it is, at no further cost
in privacy: they are public once they are released.

Of the tables of `plan.raking`, those of one or two numeric coordinates of the observation give densities around the
place, relative to an even spread over the bins. Those that have one column of the action besides give how the actions
are spread at the place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.histograms import Floats, Table, codes_of, simplex
from tacit.methods.synthesis.raking import Raking

MOST = 4.0
"""Densities count up to so many times an even spread."""


@dataclass(frozen=True)
class Surroundings:
    """Features of the places in which rows begin.

    Args:
        raking: whose tables are looked at.
        encoder: of the places.
        radius: bins on either side of a place that are looked at, along each coordinate.
    """

    raking: Raking
    encoder: Encoder
    radius: int

    @property
    def chosen(self) -> tuple[int, ...]:
        """Which of the tables: those of one or two coordinates of the observation, with one of the action or none."""
        return tuple(i for i, table in enumerate(self.raking.tables) if self._told(table))

    def _told(self, table: Table) -> bool:
        places, acts = _split(table)
        return len(places) in (1, 2) and len(acts) <= 1 and len(places) + len(acts) == len(table)

    @property
    def size(self) -> int:
        """How many features a place has."""
        return sum(self._size(self.raking.tables[i]) for i in self.chosen)

    def _size(self, table: Table) -> int:
        places, acts = _split(table)
        return math.prod(_bins(table, acts)) if acts else (2 * self.radius + 1) ** len(places)

    @property
    def cells(self) -> int:
        """Numbers of a world's tables, as of `of_shares`."""
        return sum(self.raking.sizes[i] for i in self.chosen)

    def of_shares(self, shares: Sequence[Floats]) -> Tensor:
        """A world's tables, one after another, [cells], from noisy shares of the rows in all tables of `raking`."""
        found = []
        for i in self.chosen:
            table = self.raking.tables[i]
            cells = simplex(shares[i], 1.0).reshape([len(axis.edges) - 1 for axis in table])
            if _split(table)[1]:
                total = cells.sum(axis=-1, keepdims=True)
                even = 1 / cells.shape[-1]
                found.append(np.where(total > 0, cells / np.where(total > 0, total, 1.0), even) - even)
            else:
                found.append(np.minimum(cells * cells.size, MOST))
        return torch.from_numpy(np.concatenate([one.ravel() for one in found]).astype(np.float32))

    def of_rows(self, columns: Mapping[str, NDArray[np.generic]], deviation: float, rng: np.random.Generator) -> Tensor:
        """A public world's tables, as of `of_shares`, with as much noise as the private ones have.

        Args:
            columns: its rows.
            deviation: of the noise of a share.
            rng: of that noise.
        """
        codes = codes_of(self.raking.tables, columns)
        exact = [
            np.bincount(code, minlength=size) / len(code) for code, size in zip(codes, self.raking.sizes, strict=True)
        ]
        return self.of_shares([share + rng.normal(0.0, deviation, share.shape) for share in exact])

    def even(self) -> Tensor:
        """The tables [cells] of a world in which people, and what they do, are spread evenly."""
        return self.of_shares([np.full(size, 1 / size) for size in self.raking.sizes])

    def around(self, places: Tensor, world: Tensor) -> Tensor:
        """Features [B, H, size] of encoded places [B, H, d] in the world of these tables [cells]."""
        encoder, tables = self.encoder, self.raking.tables
        d = encoder.spec.observation.size
        raw = places * places.new_tensor(encoder.scale[:d]) + places.new_tensor(encoder.center[:d])
        found, begin = [], 0
        for i in self.chosen:
            table, end = tables[i], begin + self.raking.sizes[i]
            coordinates, acts = _split(table)
            at = torch.stack([_position(raw[..., axis.index], axis.edges) for axis in coordinates], dim=-1)
            shape = _bins(table, coordinates)
            grid = torch.unflatten(world[begin:end], 0, (*shape, math.prod(_bins(table, acts))))
            reaches = [(0.0,) * len(shape)] if acts else self._reaches(len(shape))
            points = at[:, :, None] + places.new_tensor(reaches)
            found.append(_interpolated(grid, points).flatten(2))
            begin = end
        return torch.cat(found, dim=-1)

    def _reaches(self, axes: int) -> list[tuple[float, ...]]:
        reach = [float(step) for step in range(-self.radius, self.radius + 1)]
        return list(itertools.product(reach, repeat=axes))


def _split(table: Table) -> tuple[Table, Table]:
    """The axes of a table that are coordinates of the observation, and those of the action that follow them."""
    places = tuple(itertools.takewhile(lambda axis: axis.column == "observations", table))
    return places, tuple(axis for axis in table[len(places) :] if axis.column == "actions")


def _bins(table: Table, axes: Table) -> tuple[int, ...]:
    return tuple(len(axis.edges) - 1 for axis in table if axis in axes)


def _position(values: Tensor, edges: Sequence[float]) -> Tensor:
    """Places between edges as numbers of bins from the first edge, less a half: i at the middle of bin i."""
    values, known = values.double(), torch.tensor(edges, dtype=torch.float64, device=values.device)
    inside = torch.searchsorted(known[1:-1].contiguous(), values.contiguous(), right=True)
    low, high = known[inside], known[inside + 1]  # a float32 apart where a bound has a bin of its own
    return (inside + ((values - low) / (high - low)).clamp(0.0, 1.0) - 0.5).float()


def _interpolated(grid: Tensor, points: Tensor) -> Tensor:
    """Values [..., A] at points [..., k] of a grid [n_1, .., n_k, A], linear between the middles of bins.

    Beyond the outer bins there is nobody: the value is 0.
    """
    shape, flat, floor = grid.shape[:-1], grid.flatten(0, -2), points.floor()
    total = grid.new_zeros(*points.shape[:-1], grid.shape[-1])
    for corner in itertools.product((0, 1), repeat=len(shape)):
        at = floor + points.new_tensor(corner)
        weight = (1 - (points - at).abs()).prod(-1)
        index = torch.zeros_like(weight, dtype=torch.int64)
        for k, bins in enumerate(shape):
            weight = weight * ((at[..., k] >= 0) & (at[..., k] < bins))
            index = index * bins + at[..., k].long().clamp(0, bins - 1)
        total = total + flat[index] * weight[..., None]
    return total
