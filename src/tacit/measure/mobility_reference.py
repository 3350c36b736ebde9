"""The five divergences that papers on imitation of movement report, as their public code computes them.

Definitions of PateGail's evaluation on Geolife (Wang et al., WWW 2023), kept with their oddities so that figures can be
put beside published ones: distances are squared degrees in bins 2.1 square degrees wide, which hold nearly all of a
city in the first; the last bin of every range is missing; "G-rank" compares a histogram of visit probabilities. The
robust measures of `mobility_robust` say more.
"""

from __future__ import annotations

import numpy as np

from tacit.measure.mobility_counts import Floats, Ints, Measure, Tally, View

SMOOTH = 1e-10
SQUARE_DEGREES = 2101.45
"""The upper end of the squared distances, of the reference's Geolife."""
BINS, PLACES, RANKS, SHARES = 1000, 50, 20, 50


def _bins(values: Floats, low: float, high: float, bins: int) -> tuple[Ints, Ints]:
    """The bin of each value and its position, values outside left out; `np.arange` gives one bin less than asked."""
    edges = np.arange(low, high, (high - low) / bins)
    inside = np.flatnonzero((values >= edges[0]) & (values <= edges[-1]))
    found = np.searchsorted(edges, values[inside], side="right") - 1
    return np.minimum(found, len(edges) - 2).astype(np.int64), inside


def _width(low: float, high: float, bins: int) -> int:
    return len(np.arange(low, high, (high - low) / bins)) - 1


def _distance(view: View) -> Tally:
    step = np.square(np.diff(view.degrees, axis=1)).sum(axis=2)
    codes, at = _bins(step.ravel(), 0.0, SQUARE_DEGREES, BINS)
    return Tally(codes, at // step.shape[1])


def _radius(view: View) -> Tally:
    away = view.degrees - view.degrees.mean(axis=1, keepdims=True)
    codes, day = _bins(np.square(away).sum(axis=2).mean(axis=1), 0.0, SQUARE_DEGREES, BINS)
    return Tally(codes, day)


def _daily_places(view: View) -> Tally:
    codes, day = _bins((view.symbols.max(axis=1) + 1) / view.symbols.shape[1], 0.0, 1.0, 48)
    return Tally(codes, day)


def visits(view: View) -> Tally:
    """The cell of every slot."""
    return Tally(view.days.cells.ravel(), view.repeated(view.days.cells.shape[1]))


def _shares(counts: Floats) -> Floats:
    """Histogram [49] of the 50 largest visit probabilities."""
    largest = np.sort(counts)[::-1][:PLACES] / counts.sum()
    largest = np.pad(largest, (0, PLACES - len(largest)))
    return np.bincount(_bins(largest, 0.0, 1.0, SHARES)[0], minlength=_width(0.0, 1.0, SHARES)).astype(np.float64)


def _day_ranks(view: View) -> Tally:
    """How many slots of a day are spent in its k-th most visited cell, for k = 0..19."""
    seen, width = view.symbols, view.symbols.shape[1]
    days = len(seen)
    often = np.bincount((seen + np.arange(days)[:, None] * width).ravel(), minlength=days * width).reshape(days, width)
    ranked = -np.sort(-often, axis=1)[:, :RANKS]
    return Tally(np.tile(np.arange(RANKS), days), view.repeated(RANKS), ranked.ravel().astype(np.int64))


REFERENCE = (
    Measure("Radius", _radius, _width(0.0, SQUARE_DEGREES, BINS), smooth=SMOOTH),
    Measure("DailyLoc", _daily_places, _width(0.0, 1.0, 48), smooth=SMOOTH),
    Measure("Distance", _distance, _width(0.0, SQUARE_DEGREES, BINS), smooth=SMOOTH),
    Measure("G-rank", visits, None, _shares, smooth=SMOOTH),
    Measure("I-rank", _day_ranks, RANKS, smooth=SMOOTH),
)
