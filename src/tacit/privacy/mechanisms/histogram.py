"""Noisy per-unit histograms on public bins: one Gaussian release."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent

from tacit.errors import PlanError
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.base import RowsOf, Usual
from tacit.privacy.mechanisms.sums import EVERY_UNIT, contribution_to_sums
from tacit.privacy.noise.secret import NoiseSource, add_noise
from tacit.units import Unit


@dataclass(frozen=True)
class Axis:
    """One column (or one coordinate of it) cut at public edges; values outside fall into the outermost bins.

    Args:
        column: the column's name ("observations", "rewards", ...).
        index: which coordinate of a vector column; 0 for scalar columns.
        edges: increasing bin edges, known without the data, at least two.
    """

    column: str
    index: int
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.edges) < 2 or not all(a < b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise PlanError(
                "the bin edges do not increase",
                where=f"Axis({self.column!r}, {self.index})",
                expected="at least two increasing public edges",
                remedy="take them from the declared bounds, never from the data",
            )


def stated_axes(axes: tuple[Axis, ...]) -> list[dict[str, Any]]:
    """Public bins as a certificate states them: how many, and of which column."""
    return [{"column": axis.column, "index": axis.index, "bins": len(axis.edges) - 1} for axis in axes]


def axes_of(stated: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Axes that a certificate states; it names no edges, which the guarantee does not depend on: one bin each."""
    return [{"column": axis["column"], "index": axis.get("index", 0), "edges": [0.0, 1.0]} for axis in stated]


@dataclass(frozen=True, kw_only=True)
class NoisyHistogram(Usual):
    """For every axis, the share of units in each bin, with Gaussian noise; shape [sum of bins].

    A unit's contribution is, per axis, the mean one-hot vector of its (at most `rows_per_unit`) rows: it has L1 norm 1
    and so L2 norm at most 1; over A axes the L2 norm is at most sqrt(A), which is the clip.

    Guarantee: a Gaussian mechanism with this `noise_multiplier` for one unit's contribution; the sum over units gets
    N(0, (noise_multiplier sqrt(A))^2) a bin and is divided by the public population.

    Source: the Gaussian mechanism (Dwork & Roth 2014, theorem A.1; exact curve: Balle & Wang, arXiv:1805.06530).
    """

    name: str
    axes: tuple[Axis, ...]
    noise_multiplier: float
    rows_per_unit: int = 1
    rows: ClassVar[RowsOf] = "drawn"
    kind: ClassVar[str] = "noisy_histogram"
    sampler: ClassVar[str] = EVERY_UNIT[1]
    steps: ClassVar[int] = 1
    rate: ClassVar[float] = 1.0

    @classmethod
    def from_certified(cls, stated: Mapping[str, Any]) -> Self:
        """See `Usual`."""
        return super().from_certified({**stated, "axes": axes_of(stated["axes"])})

    @property
    def size(self) -> int:
        """Number of bins over all axes."""
        return sum(len(axis.edges) - 1 for axis in self.axes)

    @property
    def clip(self) -> float:
        """Largest L2 norm of one unit's contribution."""
        return math.sqrt(len(self.axes))

    @property
    def event(self) -> DpEvent:
        """One Gaussian event."""
        return GaussianDpEvent(self.noise_multiplier)

    def certified(self) -> dict[str, Any]:
        """The parameters as the certificate states them."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "axes"}
        return {
            "kind": self.kind,
            "sampler": self.sampler,
            "steps": self.steps,
            "rate": self.rate,
            "clip": self.clip,
            **fields,
            "axes": stated_axes(self.axes),
        }

    def contribution(self, unit: Unit) -> str:
        """See `Part`."""
        return contribution_to_sums(self, unit, "sampled at rate 1")

    def contributions(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """Rows [U, L, ...] with mask [U, L] -> contributions [U, size]."""
        mask = rows["mask"]
        weight = mask / np.maximum(1, mask.sum(axis=1, keepdims=True))
        result = np.zeros((len(mask), self.size))
        start = 0
        for axis in self.axes:
            values = rows[axis.column]
            values = values[..., axis.index] if values.ndim == 3 else values
            bins = len(axis.edges) - 1
            chosen = np.clip(np.searchsorted(axis.edges, values, side="right") - 1, 0, bins - 1)
            np.add.at(result, (np.arange(len(mask))[:, None], start + chosen), weight)
            start += bins
        return result

    def release(self, chunks: Iterable[Mapping[str, np.ndarray]], noise: NoiseSource, unit: Unit) -> np.ndarray:
        """Sum clipped contributions over all units, add the noise, divide by the population."""
        total = np.zeros(self.size)
        for rows in chunks:
            total += clipping.clip_rows(self.contributions(rows), self.clip).sum(axis=0)
        return add_noise(total, self.noise_multiplier * self.clip, noise) / unit.size
