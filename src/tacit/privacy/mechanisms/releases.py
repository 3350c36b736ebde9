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
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.privacy.accounting.events import EpsilonDeltaEvent, Event, GaussianEvent
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms import base
from tacit.privacy.mechanisms.base import RowsOf, SingleRelease, Summary, describe_rows, kind_field, require_noise
from tacit.privacy.noise.lattice import NoiseSource, add_noise
from tacit.privacy.noise.secret import SecretNoise
from tacit.serialization import Kinds
from tacit.units import Unit
from tacit.validation import require_valid

MOST_BINS = 2**20
"""Bins of one axis that a certificate may state."""


@dataclass(frozen=True)
class StatedAxis:
    """An axis as a certificate states it: which coordinate, and how many bins; the guarantee depends on no edge."""

    column: str
    index: int
    bins: int

    def __post_init__(self) -> None:
        require_valid("axes", self.index, self.index >= 0, "a coordinate")
        require_valid("axes", self.bins, 1 <= self.bins <= MOST_BINS, f"from 1 to {MOST_BINS:,} bins")

    def certificate_form(self) -> Any:
        """Itself."""
        return self


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

    @property
    def bins(self) -> int:
        """How many there are."""
        return len(self.edges) - 1

    def certificate_form(self) -> Any:
        """The axis as a certificate states it."""
        return StatedAxis(self.column, self.index, self.bins)


Axes: TypeAlias = tuple[Annotated[Axis, Kinds(StatedAxis)], ...]


@dataclass(frozen=True, kw_only=True)
class NoisyHistogram(SingleRelease):
    """For every axis, the share of units in each bin, with Gaussian noise; shape [sum of bins].

    A unit's contribution is, per axis, the mean one-hot vector of its (at most `rows_per_unit`) rows: it has L1 norm 1
    and so L2 norm at most 1; over A axes the L2 norm is at most sqrt(A), which is the clip. No number is negative, so
    two contributions are at most sqrt(2) clips apart.

    Guarantee: a Gaussian mechanism with this `noise_multiplier` for one unit's contribution; the sum over units gets
    N(0, (noise_multiplier sqrt(A))^2) a bin and is divided by the public population.

    Source: the Gaussian mechanism (Dwork & Roth 2014, theorem A.1; exact curve: Balle & Wang, arXiv:1805.06530).
    """

    kind: Literal["noisy_histogram"] = kind_field("noisy_histogram")
    name: str
    axes: Axes
    noise_multiplier: float
    rows_per_unit: int = 1
    rows: ClassVar[RowsOf] = "drawn"
    diameter: ClassVar[float] = math.sqrt(2)

    def __post_init__(self) -> None:
        base.require_whole(self, "rows_per_unit")
        require_noise(self)
        require_valid(f"{self.name}.axes", len(self.axes), len(self.axes) >= 1, "at least one axis")

    @property
    def size(self) -> int:
        """Number of bins over all axes."""
        return sum(axis.bins for axis in self.axes)

    @property
    def clip_norm(self) -> float:
        """Largest L2 norm of one unit's contribution."""
        return math.sqrt(len(self.axes))

    @property
    def event(self) -> Event:
        """One Gaussian event."""
        return GaussianEvent(self.noise_multiplier, self.diameter)

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        scale = self.noise_multiplier * self.clip_norm
        return (
            f"one noisy histogram over every {unit.noun}, of {self.size:,} bins; one {unit.noun} adds to it a vector "
            f"of norm at most {self.clip_norm:.6g}{base.describe_distance(self, unit)} "
            f"made from {describe_rows(self)}, under noise of standard deviation {scale:.6g} a bin"
        )

    def certificate_form(self) -> NoisyHistogram:
        """See `Part`."""
        return dataclasses.replace(self, axes=tuple(axis.certificate_form() for axis in self.axes))

    def contributions(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """Rows [U, L, ...] with mask [U, L] -> contributions [U, size]."""
        mask = rows["mask"]
        weight = mask / np.maximum(1, mask.sum(axis=1, keepdims=True))
        result = np.zeros((len(mask), self.size))
        start = 0
        for axis in self.axes:
            values = rows[axis.column]
            values = values[..., axis.index] if values.ndim == 3 else values
            bins = axis.bins
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
class NoisyMaximum(base.ProvedMechanism):
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

    kind: Literal["noisy_max"] = kind_field("noisy_max")
    name: str
    scores: Summary
    candidates: int
    epsilon: float
    rows_per_unit: int

    def __post_init__(self) -> None:
        require_valid("candidates", self.candidates, self.candidates >= 2, "at least 2")
        require_valid("epsilon", self.epsilon, 1e-6 <= self.epsilon <= 500, "a number from 1e-6 to 500")
        require_valid("rows_per_unit", self.rows_per_unit, self.rows_per_unit >= 1, "a whole number >= 1")

    @property
    def size(self) -> int:
        """Numbers of one unit's contribution."""
        return self.candidates

    @property
    def event(self) -> EpsilonDeltaEvent:
        """(epsilon, 0), by the proof page."""
        return EpsilonDeltaEvent(self.epsilon, 0.0)

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
