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


@dataclass(frozen=True, eq=False)
class View:
    """Days as the measures look at them; what is derived is made once.

    Raises:
        DataError: there is no day.
    """

    days: Days

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
        cells, places = np.unique(self.days.cells, return_inverse=True)
        return cells, places.reshape(self.days.cells.shape)

    @cached_property
    def degrees(self) -> Floats:
        """Latitude and longitude of every slot's cell [D, 48, 2]."""
        cells, places = self.cells
        return np.asarray(self.days.grid.centres(cells), np.float64)[places]

    def squares(self, step: float) -> Ints:
        """A code [D, 48] of the square of `step` degrees (anchored at 0, 0) that each slot's cell is in."""
        cells, places = self.cells
        # Rounded first: 27.4 / 0.1 is a hair below 274.
        corner = np.floor(np.round(np.asarray(self.days.grid.centres(cells)) / step, 6)).astype(np.int64)
        return (corner[:, 0] * 2**20 + corner[:, 1] + 2**19)[places]

    def repeated(self, width: int) -> Ints:
        """The day of each of `width` codes a day, flat [D * width]."""
        return np.repeat(np.arange(len(self.days.cells)), width)


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
            [n].
    """

    measure: Measure
    totals: Floats
    owner: Ints
    code: Ints
    times: Floats

    def reweighted(self, weights: Floats) -> Floats:
        """Counts of the first table [m] if person i counted `weights[i]` times."""
        return np.bincount(self.code, weights[self.owner] * self.times, self.totals.shape[1]).astype(np.float64)


def counted(measure: Measure, views: Sequence[View], owner: Ints) -> Counted:
    """Count one measure in several tables.

    Args:
        measure: what to count.
        views: the tables; the first is the one whose people may be reweighted.
        owner: person 0..P-1 of each day of the first table [D].
    """
    tallies = [measure.count(view) for view in views]
    lengths = np.cumsum([len(tally.codes) for tally in tallies])[:-1]
    if measure.size is None:
        seen, places = np.unique(np.concatenate([tally.codes for tally in tallies]), return_inverse=True)
        width, codes = len(seen), np.split(places.reshape(-1).astype(np.int64), lengths)
    else:
        width, codes = measure.size, [tally.codes for tally in tallies]
    totals = np.stack([np.bincount(c, t.times, width) for c, t in zip(codes, tallies, strict=True)])
    first = tallies[0]
    keys, at = np.unique(owner[first.day] * width + codes[0], return_inverse=True)
    times = np.bincount(at.reshape(-1), first.times, len(keys)).astype(np.float64)
    return Counted(measure, totals.astype(np.float64), keys // width, keys % width, times)


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
