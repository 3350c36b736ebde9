"""Noisy marginals of a publicly cut table, chosen as one goes, within one budget.

A part of T quanta pays for measurements that are decided one after another: a measurement of c quanta has the privacy
of c Gaussian steps of multiplier sigma, so the noise of one marginal has standard deviation sigma / sqrt(c). A choice
by the exponential mechanism that takes c quanta is as concentrated as they are.

Proof page: `proofs/marginals.md`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.errors import MechanismError
from tacit.privacy.accounting.events import Event, GaussianEvent, NonPrivateEvent, SelfComposedEvent, ZcdpEvent
from tacit.privacy.gradients.clipping import SLACK
from tacit.privacy.mechanisms import base
from tacit.privacy.mechanisms.base import Part, RowsOf, describe_rows, kind_field, require_calibrated, require_noise
from tacit.privacy.mechanisms.releases import Axes as PublicAxes
from tacit.privacy.mechanisms.releases import Axis, StatedAxis
from tacit.privacy.noise.lattice import add_noise
from tacit.privacy.noise.secret import SecretNoise
from tacit.serialization import OPTIONAL
from tacit.units import Unit
from tacit.validation import require_valid

Float64 = NDArray[np.float64]
Axes = tuple[int, ...]

DIFFERENCES = "differences"
"""A column that no record has: next_observations - observations."""

MAX_CELLS = 2**24
"""Largest number of cells of one marginal."""

HELD_CELLS = 2**26
"""Cells of exact marginals that stay in the vault's memory between two measurements."""

LARGEST = 2.0**32
"""Largest offset, and largest sum of an estimate's counts: beyond, float64 would round away what a choice must hide."""

GRID = 2**20
"""A unit's rows weigh floor(GRID / rows) / GRID each, so that sums over units are exact whatever their order."""


@dataclass(frozen=True, kw_only=True)
class Marginals(Part):
    """T quanta of noisy marginals over all units.

    A unit counts by its rows' mean one-hot vector in every marginal, or by their sum over L: of L1 norm at most 1.

    Args:
        name: the part's name inside its plan.
        steps: T, how many quanta may ever be used.
        axes: the public cut of the columns; the column "differences" is next_observations - observations.
        noise_multiplier: sigma of one quantum. None until calibrated; 0 is no noise and an infinite epsilon.
        choices: whether `MarginalChoice` may be asked; the whole is then accounted for by its concentration alone,
            which is a little dearer than Gaussians are.
        rows_per_unit: L, how many of a unit's rows count at most; which ones is drawn once a run.
        weigh: "rows" counts each row as 1 / L, whoever has it; None each unit as 1, however many rows it has.

    Raises:
        PlanError: a parameter is outside its range.
    """

    kind: Literal["marginals"] = kind_field("marginals")
    name: str
    steps: int
    axes: PublicAxes
    noise_multiplier: float | None = None
    choices: bool = True
    rows_per_unit: int = 1
    weigh: Literal["rows"] | None = field(default=None, metadata=OPTIONAL)
    rows: ClassVar[RowsOf] = "drawn"
    sharp: ClassVar[bool] = False
    in_selection: ClassVar[bool] = True

    def __post_init__(self) -> None:
        base.require_whole(self, "steps")
        require_noise(self)
        valid_axes = type(self.axes) is tuple and len(self.axes) >= 1
        valid_axes = valid_axes and all(type(axis) in (Axis, StatedAxis) and axis.index >= 0 for axis in self.axes)
        valid_axes = valid_axes and all(isinstance(axis, StatedAxis) or type(axis.edges) is tuple for axis in self.axes)
        require_valid(f"{self.name}.axes", len(self.axes), valid_axes, "a tuple of Axis, at least one")
        require_valid(f"{self.name}.choices", self.choices, type(self.choices) is bool, "True or False")
        rows = self.rows_per_unit
        counted = type(rows) is int and 1 <= rows <= GRID
        require_valid(f"{self.name}.rows_per_unit", rows, counted, f"a whole number from 1 to {GRID:,}")
        require_valid(f"{self.name}.weigh", self.weigh, self.weigh in (None, "rows"), "'rows', or None")

    @property
    def event(self) -> Event:
        """The part as an event."""
        sigma = require_calibrated(self.noise_multiplier, self.name)
        if sigma == 0:
            return NonPrivateEvent()
        # Of choices no dominating pair is known: they are priced by their concentration.
        return SelfComposedEvent(ZcdpEvent(0.5 / sigma / sigma) if self.choices else GaussianEvent(sigma), self.steps)

    def certificate_form(self) -> Marginals:
        """See `Part`."""
        return dataclasses.replace(self, axes=tuple(axis.certificate_form() for axis in self.axes))

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        chosen = "; which marginals is chosen by the exponential mechanism" if self.choices else ""
        sigma = require_calibrated(self.noise_multiplier, self.name)
        alike = f", every row as 1 / {self.rows_per_unit:,}" if self.weigh == "rows" else ""
        return (
            f"noisy counts of public bins of {len(self.axes):,} columns over every {unit.noun} that take "
            f"{self.steps:,} steps in all; one {unit.noun} adds at most 1 to the counts of one measurement together, "
            f"with {describe_rows(self)}{alike}, under noise of standard deviation {sigma:.6g} / "
            f"sqrt(c) a count where it takes c steps (4 sqrt(P) times as much on P distances from independence){chosen}"
        )


@dataclass(frozen=True)
class Marginal:
    """The noisy counts of one marginal, [bins of the axes, in their order].

    Guarantee: `quanta` Gaussian steps of the part: each count gets N(0, sigma^2 / quanta), sensitivity 1.

    Args:
        axes: which axes of the part, each once.
        quanta: what it takes of the part's T.
    """

    axes: Axes
    quanta: int


@dataclass(frozen=True)
class Dependence:
    """PrivSyn's InDif of pairs, [P]: the L1 distance of a pair's counts from the product of its two marginals.

    Guarantee: `quanta` Gaussian steps of the part: one unit moves a distance by at most 4 (arXiv:2012.15128, lemma 2;
    the proof page has it for fractional rows), so each gets N(0, (4 sigma)^2 P / quanta).

    Args:
        pairs: P pairs of axes.
        quanta: what it takes of the part's T.
    """

    pairs: tuple[Axes, ...]
    quanta: int


@dataclass(frozen=True, eq=False)
class MarginalChoice:
    """The index [1] of a marginal that an estimate fits badly, by the exponential mechanism (AIM, arXiv:2201.12677).

    r is drawn with probability proportional to exp(e q_r / (2 max w)), with q_r = w_r (|M_r - expected_r|_1 - offset_r)
    and e = 2 sqrt(quanta) / sigma.

    Guarantee: (e^2 / 8)-zCDP (arXiv:2004.07223), as concentrated as `quanta` steps of the part, since one unit moves
    no q_r by more than max w.

    Args:
        candidates: axes of each candidate.
        expected: public estimates of their counts, each of the marginal's shape.
        weights: w > 0. offsets: public numbers.
        quanta: what it takes of the part's T.
    """

    candidates: tuple[Axes, ...]
    expected: Sequence[Float64]
    weights: Sequence[float]
    offsets: Sequence[float]
    quanta: int


Query: TypeAlias = Marginal | Dependence | MarginalChoice


class Cells:
    """The records as cells of public bins, and the exact marginals made so far; it never leaves the vault."""

    def __init__(self, part: Marginals, rows: Mapping[str, np.ndarray]) -> None:
        # rows: at most L rows of all units, each column [U, L, ...] with `mask` [U, L]
        mask = rows["mask"]
        self._bins = tuple(axis.bins for axis in part.axes)
        self._codes = [_codes(axis, rows)[mask] for axis in part.axes]
        counted = np.full(len(mask), part.rows_per_unit) if part.weigh == "rows" else mask.sum(axis=1)
        each = np.floor(GRID / np.maximum(1, counted)) / GRID
        self._weights = None if part.rows_per_unit == 1 else np.repeat(each, mask.sum(axis=1))
        self._cached_marginals: dict[Axes, Float64] = {}

    def answer(self, part: Marginals, query: Query, noise: SecretNoise) -> np.ndarray:
        """The noisy answer to one query that `require` let pass and that was paid for."""
        scale = require_calibrated(part.noise_multiplier, part.name) / math.sqrt(query.quanta) * (1 + SLACK)
        if isinstance(query, Marginal):
            return add_noise(self._exact_marginal(query.axes), scale, noise)
        if isinstance(query, Dependence):
            distances = np.array([self._dependence(pair) for pair in query.pairs])
            return add_noise(distances, 4 * math.sqrt(len(distances)) * scale, noise)
        weights = np.asarray(query.weights, np.float64)
        weights = weights / weights.max()
        pairs = zip(query.candidates, query.expected, strict=True)
        scores = np.array([np.abs(self._exact_marginal(axes) - np.asarray(e, np.float64)).sum() for axes, e in pairs])
        scores = weights * (scores - np.asarray(query.offsets, np.float64))
        if scale == 0:
            return np.array([scores.argmax()], np.int64)
        gumbel = -np.log(noise.exponential(scores.size))
        return np.array([np.argmax((scores - scores.max()) / scale + gumbel)], np.int64)

    def _exact_marginal(self, axes: Axes) -> Float64:
        marginal = self._cached_marginals.get(axes)
        if marginal is None:
            shape = tuple(self._bins[axis] for axis in axes)
            cells = np.zeros(len(self._codes[0]), np.int64)
            for axis in axes:
                cells *= self._bins[axis]
                cells += self._codes[axis]
            marginal = np.bincount(cells, self._weights, math.prod(shape)).astype(np.float64).reshape(shape)
            if sum(cached.size for cached in self._cached_marginals.values()) + marginal.size > HELD_CELLS:
                self._cached_marginals.clear()
            self._cached_marginals[axes] = marginal
        return marginal

    def _dependence(self, pair: Axes) -> float:
        joint = self._exact_marginal(pair)
        total = joint.sum()
        product = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / total if total > 0 else joint
        return float(np.abs(joint - product).sum())


def require(part: Marginals, query: Query) -> None:
    """Check a query by public facts alone, before it is paid for."""
    groups: Sequence[Axes] = (query.axes,) if isinstance(query, Marginal) else ()
    if isinstance(query, Dependence):
        groups = query.pairs
        _must(bool(groups) and all(len(pair) == 2 for pair in groups), part, "at least one pair of two axes")
    elif isinstance(query, MarginalChoice):
        groups, count = query.candidates, len(query.candidates)
        _must(part.choices, part, "a part with choices=True")
        lengths = {len(query.expected), len(query.weights), len(query.offsets)}
        _must(
            count >= 2 and lengths == {count}, part, "two candidates or more, with an estimate, weight and offset each"
        )
        weights, offsets = (np.array(numbers, np.float64) for numbers in (query.weights, query.offsets))
        held = bool((weights > 0).all()) and weights.max() / LARGEST <= min(1.0, weights.min())
        _must(held and bool((np.abs(offsets) <= LARGEST).all()), part, f"weights > 0 and offsets within {LARGEST:g}")
    elif not isinstance(query, Marginal):
        _must(False, part, "a Marginal, a Dependence or a Choice")
    _must(type(query.quanta) is int and 1 <= query.quanta <= part.steps, part, f"from 1 to {part.steps:,} quanta")
    bins = [axis.bins for axis in part.axes]
    for i, axes in enumerate(groups):
        valid_axes = type(axes) is tuple and all(type(axis) is int and 0 <= axis < len(bins) for axis in axes)
        _must(valid_axes and 1 <= len(axes) == len(set(axes)), part, "axes of the part, each once")
        _must(math.prod(bins[axis] for axis in axes) <= MAX_CELLS, part, f"at most {MAX_CELLS:,} cells")
        if isinstance(query, MarginalChoice):
            estimate = np.asarray(query.expected[i], np.float64)
            fits = estimate.shape == tuple(bins[axis] for axis in axes) and bool(np.abs(estimate).sum() <= LARGEST)
            _must(fits, part, f"estimates of the marginals' own shapes that sum to at most {LARGEST:g}")


def _codes(axis: Axis, rows: Mapping[str, np.ndarray]) -> NDArray[np.int32]:
    """The bin [U, L] of every row; what lies outside the edges falls into the outermost bins."""
    if axis.column == DIFFERENCES:
        values = _coordinate(rows["next_observations"], axis.index) - _coordinate(rows["observations"], axis.index)
    else:
        values = _coordinate(rows[axis.column], axis.index)
    last = len(axis.edges) - 2
    return np.asarray(np.clip(np.searchsorted(axis.edges, values, side="right") - 1, 0, last), np.int32)


def _coordinate(values: np.ndarray, index: int) -> np.ndarray:
    return values[..., index] if values.ndim == 3 else values


def _must(ok: bool, part: Marginals, expected: str) -> None:
    if not ok:
        raise MechanismError("the query cannot be asked", where=part.name, expected=expected, remedy="change the query")
