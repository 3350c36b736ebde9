"""What a measure of movement counts: codes of slots, steps or days, added up by person, and compared by divergence.

Every measure of `measure.mobility` is a divergence between two histograms whose counts add up over people, so that a
bootstrap over people is a change of weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.data.days import Days, actions, symbols
from tacit.errors import DataError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DENSE = 2**24
"""Codes within such a span are told apart by marking them, others by sorting."""


@dataclass(frozen=True, eq=False)
class View:
    """Days as the measures look at them; what is derived is made once.

    Raises:
        DataError: there is no day.
    """

    days: Days
    _counts: dict[Measure, tuple[Ints, Floats]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.days.cells) == 0:
            raise DataError(
                "a table holds no day",
                where="measures of movement",
                expected="at least one day on each side",
                remedy="pass the days of at least one person",
            )

    @cached_property
    def symbols(self) -> Ints:
        """[D, 48], see `tacit.data.days.symbols`."""
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

    def repeated(self, width: int) -> Ints:
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
class Tally:
    """Codes [n], the day each belongs to [n], and how often each counts [n] (None: once)."""

    codes: Ints
    day: Ints
    times: Ints | None = None


@dataclass(frozen=True)
class Measure:
    """One divergence between days.

    Attributes:
        name: as in tables.
        count: what is counted.
        size: codes are 0..size-1; None where their range is open and only those that occur count.
        vector: from the counts [m] of one side to what is compared, e.g. sorted visit probabilities.
        smooth: added to the probabilities after normalisation (the reference's 1e-10).
    """

    name: str
    count: Callable[[View], Tally]
    size: int | None = None
    vector: Callable[[Floats], Floats] = field(default=lambda counts: counts)
    smooth: float = 0.0

    def divergence(self, real: Floats, synthetic: Floats) -> float:
        """Jensen-Shannon divergence in nats between the two sides' counts [m]."""
        return jensen_shannon(self.vector(real), self.vector(synthetic), smooth=self.smooth)


@dataclass(frozen=True, eq=False)
class Counted:
    """The counts of one measure over several tables of days, on common codes.

    Attributes:
        measure: what was counted.
        totals: counts [tables, m].
        owner, code, times: of the first table: person (0..P-1), code (0..m-1) and count, one entry for each that occurs
            [n]; empty where nobody is reweighted.
    """

    measure: Measure
    totals: Floats
    owner: Ints
    code: Ints
    times: Floats

    def reweighted(self, weights: Floats) -> Floats:
        """Counts of the first table [m] if person i counted `weights[i]` times."""
        return np.bincount(self.code, weights[self.owner] * self.times, self.totals.shape[1]).astype(np.float64)


def counted(measure: Measure, views: Sequence[View], owner: Ints | None) -> Counted:
    """Count one measure in several tables.

    Args:
        measure: what to count.
        views: the tables; the first is the one whose people may be reweighted.
        owner: person 0..P-1 of each day of the first table [D]; None where nobody is.
    """
    found = [view.counts(measure) for view in views]
    known = np.concatenate([codes for codes, _ in found]) if measure.size is None else np.arange(measure.size)
    seen = np.unique(known)
    totals = np.zeros((len(views), len(seen)))
    for row, (codes, times) in zip(totals, found, strict=True):
        row[np.searchsorted(seen, codes)] = times
    none = np.zeros(0, np.int64)
    if owner is None:
        return Counted(measure, totals, none, none, np.zeros(0))
    tally = measure.count(views[0])
    keys, at = distinct_codes(owner[tally.day] * len(seen) + np.searchsorted(seen, tally.codes))
    often = np.bincount(at, tally.times, len(keys)).astype(np.float64)
    return Counted(measure, totals, keys // len(seen), keys % len(seen), often)


def distinct_codes(values: Ints) -> tuple[Ints, Ints]:
    """The values that occur, rising [m], and each one's place among them, in the shape of `values`.

    As `np.unique`, without sorting where the values lie close together.
    """
    low = int(values.min()) if values.size else 0
    span = int(values.max()) - low + 1 if values.size else 0
    if span > DENSE:
        found, places = np.unique(values, return_inverse=True)
        return found.astype(np.int64), places.reshape(values.shape).astype(np.int64)
    held = np.zeros(span, np.bool_)
    held[(values - low).ravel()] = True
    return np.flatnonzero(held) + low, (np.cumsum(held) - 1)[values - low]


def jensen_shannon(one: Floats, other: Floats, *, smooth: float = 0.0) -> float:
    """Jensen-Shannon divergence in nats of two vectors of counts [m], from 0 to ln 2 (Lin, 1991).

    A side without any count is as far as can be from one with some, and equal to another without any.

    Args:
        one, other: counts or probabilities, >= 0.
        smooth: added to every probability after normalisation, as the papers' code does; the two sides and their middle
            are then normalised each on its own. Only there a side without any count can be farther away than ln 2.
    """
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
