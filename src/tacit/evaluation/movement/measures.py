"""What measures of movement count, and how two counts are compared: codes of slots, steps or days, by person.

Every measure is a divergence between two histograms whose counts add up over people, so that a bootstrap over people is
a change of weights. `REFERENCE` are the papers' five, `ROBUST` kilometres, squares and trips, and `SEQUENCE` the order
of a day: places, stays, times and motifs, without geography.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.days import HOME, MOTIFS, RETURN, SLOTS, Days, actions, motif_classes, symbols
from tacit.data.mobility.grids import haversine_km
from tacit.errors import DataError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DENSE = 2**24
"""Codes within such a span are distinguished by marking them, others by sorting."""


@dataclass(frozen=True, eq=False)
class DaysView:
    """Days as the measures look at them; what is derived is made once."""

    days: Days
    _counts: dict[Measure, tuple[Ints, Floats]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.days.cells) == 0:
            expected, remedy = "at least one day on each side", "pass the days of at least one person"
            raise DataError("a table holds no day", where="measures of movement", expected=expected, remedy=remedy)

    @cached_property
    def symbols(self) -> Ints:
        """[D, 48], see `tacit.data.mobility.days.symbols`."""
        return symbols(self.days.cells)

    @cached_property
    def actions(self) -> Ints:
        """[D, 47], the papers' four actions."""
        return actions(self.days.cells, last=False)

    @cached_property
    def cells(self) -> tuple[Ints, Ints]:
        """The cells that occur [K], and for each slot its place among them [D, 48]."""
        return distinct_codes(self.days.cells)

    @cached_property
    def degrees(self) -> Floats:
        """Latitude and longitude of every slot's cell [D, 48, 2]."""
        cells, places = self.cells
        return np.asarray(self.days.grid.centres(cells), np.float64)[places]

    def squares(self, step: float) -> Ints:
        """A code [D, 48] of the square of `step` degrees (anchored at 0, 0) that each slot's cell is in."""
        cells, places = self.cells
        columns = round(360 / step) + 1
        # Rounded first: 27.4 / 0.1 is a hair below 274.
        corner = np.floor(np.round(np.asarray(self.days.grid.centres(cells)) / step, 6)).astype(np.int64)
        return (corner[:, 0] * columns + corner[:, 1])[places]

    def day_indices(self, width: int) -> Ints:
        """The day of each of `width` codes a day, flat [D * width]."""
        return np.repeat(np.arange(len(self.days.cells)), width)

    def counts(self, measure: Measure) -> tuple[Ints, Floats]:
        """The codes of a measure that occur, rising [m], and how often each does [m]; counted once."""
        if measure not in self._counts:
            tally = measure.count(self)
            codes, places = distinct_codes(tally.codes)
            self._counts[measure] = codes, np.bincount(places, tally.times, len(codes)).astype(np.float64)
        return self._counts[measure]

    def forget(self) -> None:
        """Free what was derived of single slots; counts stay."""
        for name in ("symbols", "actions", "cells", "degrees"):
            self.__dict__.pop(name, None)


@dataclass(frozen=True, eq=False)
class CodeCounts:
    """Codes [n], the day each belongs to [n], and how often each counts [n] (None: once)."""

    codes: Ints
    day: Ints
    times: Ints | None = None


@dataclass(frozen=True)
class Measure:
    """One divergence between days."""

    name: str  # as in tables
    count: Callable[[DaysView], CodeCounts]  # what is counted
    size: int | None = None  # codes are 0..size-1; None where their range is open and only those that occur count
    # from the counts [m] of one side to what is compared, e.g. sorted visit probabilities
    vector: Callable[[Floats], Floats] = field(default=lambda counts: counts)
    smooth: float = 0.0  # added to the probabilities after normalisation (the reference's 1e-10)

    def divergence(self, real: Floats, synthetic: Floats) -> float:
        """Jensen-Shannon divergence in nats between the two sides' counts [m]."""
        return jensen_shannon(self.vector(real), self.vector(synthetic), smooth=self.smooth)


@dataclass(frozen=True, eq=False)
class MeasureCounts:
    """The counts of one measure over several tables of days, on common codes."""

    measure: Measure  # what was counted
    totals: Floats  # counts [tables, m]
    # owner, code, times: of the first table: person (0..P-1), code (0..m-1) and count, one entry for each that occurs
    # [n]; empty where nobody is reweighted
    owner: Ints
    code: Ints
    times: Floats

    def reweight(self, weights: Floats) -> Floats:
        """Counts of the first table [m] if person i counted `weights[i]` times."""
        return np.bincount(self.code, weights[self.owner] * self.times, self.totals.shape[1]).astype(np.float64)


def count_measure(measure: Measure, views: Sequence[DaysView], owner: Ints | None) -> MeasureCounts:
    """Count one measure in several tables."""
    # owner: person 0..P-1 of each day of the first table [D], None where nobody is
    counts = [view.counts(measure) for view in views]
    all_codes = np.concatenate([codes for codes, _ in counts]) if measure.size is None else np.arange(measure.size)
    occurring = np.unique(all_codes)
    totals = np.zeros((len(views), len(occurring)))
    for row, (codes, times) in zip(totals, counts, strict=True):
        row[np.searchsorted(occurring, codes)] = times
    none = np.zeros(0, np.int64)
    if owner is None:
        return MeasureCounts(measure, totals, none, none, np.zeros(0))
    tally = measure.count(views[0])
    keys, at = distinct_codes(owner[tally.day] * len(occurring) + np.searchsorted(occurring, tally.codes))
    often = np.bincount(at, tally.times, len(keys)).astype(np.float64)
    return MeasureCounts(measure, totals, keys // len(occurring), keys % len(occurring), often)


def distinct_codes(values: Ints) -> tuple[Ints, Ints]:
    """The values that occur, rising [m], and each one's place among them, in the shape of `values`."""
    # As `np.unique`, without sorting where the values lie close together.
    low = int(values.min()) if values.size else 0
    span = int(values.max()) - low + 1 if values.size else 0
    if span > DENSE:
        distinct, places = np.unique(values, return_inverse=True)
        return distinct.astype(np.int64), places.reshape(values.shape).astype(np.int64)
    held = np.zeros(span, np.bool_)
    held[(values - low).ravel()] = True
    return np.flatnonzero(held) + low, (np.cumsum(held) - 1)[values - low]


def jensen_shannon(one: Floats, other: Floats, *, smooth: float = 0.0) -> float:
    """Jensen-Shannon divergence in nats of two vectors of counts [m], from 0 to ln 2 (Lin, 1991)."""
    # A side without any count is as far as can be from one with some, and equal to another without any.
    if smooth:
        p, q = one / (one.sum() + smooth) + smooth, other / (other.sum() + smooth) + smooth
    elif one.sum() == 0 or other.sum() == 0:
        return 0.0 if one.sum() == other.sum() else float(np.log(2.0))
    else:
        p, q = one / one.sum(), other / other.sum()
    middle = (p + q) / 2
    p, q, middle = p / p.sum(), q / q.sum(), middle / middle.sum()
    return max(0.0, 0.5 * _relative_entropy(p, middle) + 0.5 * _relative_entropy(q, middle))


def _relative_entropy(p: Floats, q: Floats) -> float:
    at = p > 0
    return float(np.sum(p[at] * np.log(p[at] / q[at])))


# The five divergences that papers on imitation of movement report, as their public code computes them.


SMOOTH = 1e-10
SQUARE_DEGREES = 2101.45
"""The upper end of the squared distances, of the reference's Geolife."""
DEGREE_BINS, DAILY_PLACES, RANKS, SHARES = 1000, 50, 20, 50


def _bin(values: Floats, high: float, bins: int) -> tuple[Ints, Ints]:
    """The bin (from 0) of each value inside and its position; `np.arange` gives one bin less than asked."""
    edges = np.arange(0.0, high, high / bins)
    inside = np.flatnonzero((values >= edges[0]) & (values <= edges[-1]))
    index = np.searchsorted(edges, values[inside], side="right") - 1
    return np.minimum(index, len(edges) - 2).astype(np.int64), inside


def _bin_count(high: float, bins: int) -> int:
    return len(np.arange(0.0, high, high / bins)) - 1


def _squared_distance(view: DaysView) -> CodeCounts:
    step = np.square(np.diff(view.degrees, axis=1)).sum(axis=2)
    codes, at = _bin(step.ravel(), SQUARE_DEGREES, DEGREE_BINS)
    return CodeCounts(codes, at // step.shape[1])


def _squared_radius(view: DaysView) -> CodeCounts:
    away = view.degrees - view.degrees.mean(axis=1, keepdims=True)
    codes, day = _bin(np.square(away).sum(axis=2).mean(axis=1), SQUARE_DEGREES, DEGREE_BINS)
    return CodeCounts(codes, day)


def _binned_daily_places(view: DaysView) -> CodeCounts:
    codes, day = _bin((view.symbols.max(axis=1) + 1) / view.symbols.shape[1], 1.0, 48)
    return CodeCounts(codes, day)


def visits(view: DaysView) -> CodeCounts:
    """The cell of every slot."""
    return CodeCounts(view.days.cells.ravel(), view.day_indices(view.days.cells.shape[1]))


def _shares(counts: Floats) -> Floats:
    """Histogram [49] of the 50 largest visit probabilities."""
    largest = np.sort(counts)[::-1][:DAILY_PLACES] / counts.sum()
    largest = np.pad(largest, (0, DAILY_PLACES - len(largest)))
    return np.bincount(_bin(largest, 1.0, SHARES)[0], minlength=_bin_count(1.0, SHARES)).astype(np.float64)


def _day_ranks(view: DaysView) -> CodeCounts:
    """How many slots of a day are spent in its k-th most visited cell, for k = 0..19."""
    day_symbols, width = view.symbols, view.symbols.shape[1]
    days = len(day_symbols)
    symbols = (day_symbols + np.arange(days)[:, None] * width).ravel()
    often = np.bincount(symbols, minlength=days * width).reshape(days, width)
    ranked = -np.sort(-often, axis=1)[:, :RANKS]
    return CodeCounts(np.tile(np.arange(RANKS), days), view.day_indices(RANKS), ranked.ravel().astype(np.int64))


REFERENCE = (
    Measure("Radius", _squared_radius, _bin_count(SQUARE_DEGREES, DEGREE_BINS), smooth=SMOOTH),
    Measure("DailyLoc", _binned_daily_places, _bin_count(1.0, 48), smooth=SMOOTH),
    Measure("Distance", _squared_distance, _bin_count(SQUARE_DEGREES, DEGREE_BINS), smooth=SMOOTH),
    Measure("G-rank", visits, None, _shares, smooth=SMOOTH),
    Measure("I-rank", _day_ranks, RANKS, smooth=SMOOTH),
)


# Divergences of where people go, in kilometres and on public squares.


NEAREST_KM, FARTHEST_KM, BINS = 0.5, 3000.0, 60
PLACES = 100
SLOT_DEGREES, OD_DEGREES = 0.1, 0.2
SQUARES = 2**31
"""More than there are squares on the earth."""


def distance_bins(kilometres: Floats) -> Ints:
    """0 for no distance (below a millimetre), else 1..60: logarithmic bins from .5 to 3,000 km, the ends open."""
    place = np.log(np.maximum(kilometres, NEAREST_KM) / NEAREST_KM) / np.log(FARTHEST_KM / NEAREST_KM) * BINS
    return np.where(kilometres < 1e-6, 0, 1 + np.minimum(place, BINS - 1).astype(np.int64))


def _distance(view: DaysView) -> CodeCounts:
    starts, ends = view.degrees[:, :-1].reshape(-1, 2), view.degrees[:, 1:].reshape(-1, 2)
    moved = np.flatnonzero((view.days.cells[:, :-1] != view.days.cells[:, 1:]).ravel())
    codes = np.zeros(len(starts), np.int64)
    codes[moved] = distance_bins(haversine_km(starts[moved], ends[moved]))
    return CodeCounts(codes, view.day_indices(SLOTS - 1))


def _radius(view: DaysView) -> CodeCounts:
    """Radius of gyration: root mean squared great-circle distance from the day's centre."""
    cells, places = view.cells
    latitude, longitude = np.radians(np.asarray(view.days.grid.centres(cells), np.float64)).T
    level = np.cos(latitude)
    on_sphere = np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=1)
    x, y, z = on_sphere[places].mean(axis=1).T
    centre = np.degrees(np.stack([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)], axis=1))
    away = haversine_km(view.degrees.reshape(-1, 2), np.repeat(centre, SLOTS, axis=0)).reshape(-1, SLOTS)
    radius = np.sqrt(np.square(away).mean(axis=1))
    return CodeCounts(distance_bins(np.where(view.symbols.any(axis=1), radius, 0.0)), view.day_indices(1))


def _largest_counts(counts: Floats) -> Floats:
    largest = np.sort(counts)[::-1][:PLACES]
    return np.pad(largest, (0, PLACES - len(largest)))


def _slot_visits(view: DaysView) -> CodeCounts:
    """Square and slot together: as every slot has the same mass, the mean of the slots' divergences."""
    squares = view.squares(SLOT_DEGREES)
    return CodeCounts((squares * SLOTS + np.arange(SLOTS)).ravel(), view.day_indices(SLOTS))


def _trips(view: DaysView) -> CodeCounts:
    """Square left and square entered, of the steps that change squares."""
    squares = view.squares(OD_DEGREES)
    day, step = np.nonzero(squares[:, :-1] != squares[:, 1:])
    return CodeCounts(squares[day, step] * SQUARES + squares[day, step + 1], day)


ROBUST = (
    Measure("Distance km", _distance, BINS + 1),
    Measure("Radius km", _radius, BINS + 1),
    Measure("Visits", visits, None, _largest_counts),
    Measure("Slot visits", _slot_visits),
    Measure("OD", _trips),
)


ACTIONS = max(HOME, RETURN) + 1


def _stays(view: DaysView) -> CodeCounts:
    """Lengths of all stays in one cell, 1..48."""
    days = len(view.symbols)
    first = np.ones((days, SLOTS), np.bool_)
    first[:, 1:] = view.symbols[:, 1:] != view.symbols[:, :-1]
    starts = np.flatnonzero(first)
    return CodeCounts(np.diff(np.append(starts, days * SLOTS)), starts // SLOTS)


def _home_arrivals(view: DaysView) -> CodeCounts:
    day, slot = np.nonzero(view.actions == HOME)
    return CodeCounts(slot, day)


def _action_slots(view: DaysView) -> CodeCounts:
    steps = view.actions.shape[1]
    return CodeCounts((view.actions * steps + np.arange(steps)).ravel(), view.day_indices(steps))


def _moves(view: DaysView) -> CodeCounts:
    return CodeCounts((np.diff(view.symbols, axis=1) != 0).sum(axis=1), view.day_indices(1))


def _bigrams(view: DaysView) -> CodeCounts:
    pairs = view.actions[:, :-1] * ACTIONS + view.actions[:, 1:]
    return CodeCounts(pairs.ravel(), view.day_indices(pairs.shape[1]))


SEQUENCE = (
    Measure("DailyLoc", lambda view: CodeCounts(view.symbols.max(axis=1), view.day_indices(1)), SLOTS),
    Measure("StayLen", _stays, SLOTS + 1),
    Measure("HomeArr", _home_arrivals, SLOTS),
    Measure("ActSlot", _action_slots, ACTIONS * (SLOTS - 1)),
    Measure("NMove", _moves, SLOTS),
    Measure("Bigram", _bigrams, ACTIONS * ACTIONS),
    Measure("Motif", lambda view: CodeCounts(motif_classes(view.days.cells), view.day_indices(1)), MOTIFS + 1),
)

SETS: Mapping[str, tuple[Measure, ...]] = {"reference": REFERENCE, "sequence": SEQUENCE, "robust": ROBUST}
