"""Single releases over all units: noisy histograms, and the best of K candidates.

`NoisyHistogram` counts units in public bins with Gaussian noise. `NoisyMaximum` chooses a candidate by the units'
summed scores: the exponential mechanism (F. McSherry, K. Talwar, "Mechanism design via differential privacy", FOCS
2007), drawn by Gumbel noise. Proof page of the latter: `proofs/noisy_max.md`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.privacy.accounting.events import EpsilonDeltaEvent, Event, GaussianEvent
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.base import RowsOf, Summary, Usual
from tacit.privacy.mechanisms.sums import EVERY_UNIT, Proved, contribution_to_sums
from tacit.privacy.noise.lattice import NoiseSource, add_noise
from tacit.privacy.noise.secret import SecretNoise
from tacit.units import Unit
from tacit.validation import check


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
            what, expected = "the bin edges do not increase", "at least two increasing public edges"
            remedy = "take them from the declared bounds, never from the data"
            raise PlanError(what, where=f"Axis({self.column!r}, {self.index})", expected=expected, remedy=remedy)


def stated_axes(axes: tuple[Axis, ...]) -> list[dict[str, Any]]:
    """Public bins as a certificate states them: how many, and of which column."""
    return [{"column": axis.column, "index": axis.index, "bins": len(axis.edges) - 1} for axis in axes]


def axes_of(stated: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Axes that a certificate states; it names no edges, which the guarantee does not depend on: one bin each."""
    stated = list(stated)
    for axis in stated:
        check("axes", sorted(axis), axis.keys() <= {"column", "index", "bins"}, "column, index and bins")
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
    sampling_rate: ClassVar[float] = 1.0

    @classmethod
    def from_certified(cls, stated: Mapping[str, Any]) -> Self:
        """See `Usual`."""
        return super().from_certified({**stated, "axes": axes_of(stated["axes"])})

    @property
    def size(self) -> int:
        """Number of bins over all axes."""
        return sum(len(axis.edges) - 1 for axis in self.axes)

    @property
    def clip_norm(self) -> float:
        """Largest L2 norm of one unit's contribution."""
        return math.sqrt(len(self.axes))

    @property
    def event(self) -> Event:
        """One Gaussian event."""
        return GaussianEvent(self.noise_multiplier)

    def certified(self) -> dict[str, Any]:
        """The parameters as the certificate states them."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "axes"}
        return {
            "kind": self.kind,
            "sampler": self.sampler,
            "steps": self.steps,
            "sampling_rate": self.sampling_rate,
            "clip_norm": self.clip_norm,
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
            total += clipping.clip_rows(self.contributions(rows), self.clip_norm).sum(axis=0)
        return add_noise(total, self.noise_multiplier * self.clip_norm, noise) / unit.size


GRID = 2**20
"""Scores are rounded down to multiples of 1 / GRID, so that their sums are exact whatever the order."""


@dataclass(frozen=True, kw_only=True)
class NoisyMaximum(Proved):
    """The index of one of K candidates, shape [1]: k with probability proportional to exp(c q_k).

    q_k is the sum over units of the unit's score for candidate k, a number in [0, 1]; c = epsilon under
    `add_or_remove`, where a unit can only raise all scores, and epsilon / 2 under `replace_one`.

    Guarantee: (epsilon, 0)-differential privacy for one unit under the unit's relation; see the proof page.

    Edge cases:
        | case | what happens |
        |---|---|
        | a score that is NaN | counts as 0 |
        | a score outside [0, 1], or infinite | is moved onto the nearer end |
        | no records | every candidate with probability 1 / K |
        | scores of the wrong shape | refused by the isolation check |

    Args:
        name: the part's name inside its plan.
        scores: a unit's first rows -> (keys "scores") its scores, [U, K]; a frozen dataclass.
        candidates: K.
        epsilon: in [1e-6, 500].
        rows_per_unit: how many of a unit's rows are read, in order of time.

    Raises:
        PlanError: a parameter is out of range.
    """

    kind: ClassVar[str] = "noisy_max"
    rows: ClassVar[RowsOf] = "first"

    name: str
    scores: Summary
    candidates: int
    epsilon: float
    rows_per_unit: int

    def __post_init__(self) -> None:
        check("candidates", self.candidates, self.candidates >= 2, "at least 2")
        check("epsilon", self.epsilon, 1e-6 <= self.epsilon <= 500, "a number from 1e-6 to 500")
        check("rows_per_unit", self.rows_per_unit, self.rows_per_unit >= 1, "a whole number >= 1")

    @property
    def size(self) -> int:
        """Numbers of one unit's contribution."""
        return self.candidates

    @property
    def event(self) -> EpsilonDeltaEvent:
        """(epsilon, 0), by the proof page."""
        return EpsilonDeltaEvent(self.epsilon, 0.0)

    def certified(self) -> dict[str, Any]:
        """The parameters as the certificate states them."""
        return {
            "kind": self.kind,
            "sampler": EVERY_UNIT[1],
            "name": self.name,
            "steps": 1,
            "rows_per_unit": self.rows_per_unit,
            "rows": self.rows,
            "epsilon": self.epsilon,
            "delta": 0.0,
            "candidates": self.candidates,
            "scores": "in [0, 1]",
        }

    def contributions(self, rows: Mapping[str, np.ndarray]) -> NDArray[np.float64]:
        """Rows [U, L, ...] -> [U, K], each unit's scores in [0, 1], multiples of 1 / GRID.

        Raises:
            ValueError: the scores are not [U, K].
        """
        scores = np.asarray(self.scores(rows)["scores"], np.float64)
        if scores.shape != (len(rows["mask"]), self.candidates):
            raise ValueError(f"scores of shape {scores.shape}")
        return np.asarray(np.floor(np.clip(np.nan_to_num(scores, posinf=1.0), 0.0, 1.0) * GRID) / GRID, np.float64)

    def release(self, chunks: Iterable[Mapping[str, np.ndarray]], noise: SecretNoise, unit: Unit) -> NDArray[np.int64]:
        """The chosen index of the units in `chunks`.

        -ln of a standard exponential is standard Gumbel noise, and argmax_k (c q_k + Gumbel) has the stated law.
        """
        total = np.zeros(self.candidates)
        for rows in chunks:
            total += self.contributions(rows).sum(axis=0)
        rate = self.epsilon if unit.relation == "add_or_remove" else self.epsilon / 2
        return np.array([np.argmax(rate * total - np.log(noise.exponential(self.candidates)))], np.int64)
