"""Divergences of the order of a day: places, stays, times and motifs, without geography. Their mean is SEQ."""

from __future__ import annotations

import numpy as np

from tacit.data.days import HOME, MOTIFS, RETURN, SLOTS, motif
from tacit.data.grids import haversine_km
from tacit.evaluation.movement.counts import Floats, Ints, Measure, Tally, View

# The five divergences that papers on imitation of movement report, as their public code computes them.


SMOOTH = 1e-10
SQUARE_DEGREES = 2101.45
"""The upper end of the squared distances, of the reference's Geolife."""
DEGREE_BINS, DAILY_PLACES, RANKS, SHARES = 1000, 50, 20, 50


def _bins(values: Floats, low: float, high: float, bins: int) -> tuple[Ints, Ints]:
    """The bin of each value and its position, values outside left out; `np.arange` gives one bin less than asked."""
    edges = np.arange(low, high, (high - low) / bins)
    inside = np.flatnonzero((values >= edges[0]) & (values <= edges[-1]))
    found = np.searchsorted(edges, values[inside], side="right") - 1
    return np.minimum(found, len(edges) - 2).astype(np.int64), inside


def _width(low: float, high: float, bins: int) -> int:
    return len(np.arange(low, high, (high - low) / bins)) - 1


def _squared_distance(view: View) -> Tally:
    step = np.square(np.diff(view.degrees, axis=1)).sum(axis=2)
    codes, at = _bins(step.ravel(), 0.0, SQUARE_DEGREES, DEGREE_BINS)
    return Tally(codes, at // step.shape[1])


def _squared_radius(view: View) -> Tally:
    away = view.degrees - view.degrees.mean(axis=1, keepdims=True)
    codes, day = _bins(np.square(away).sum(axis=2).mean(axis=1), 0.0, SQUARE_DEGREES, DEGREE_BINS)
    return Tally(codes, day)


def _binned_daily_places(view: View) -> Tally:
    codes, day = _bins((view.symbols.max(axis=1) + 1) / view.symbols.shape[1], 0.0, 1.0, 48)
    return Tally(codes, day)


def visits(view: View) -> Tally:
    """The cell of every slot."""
    return Tally(view.days.cells.ravel(), view.repeated(view.days.cells.shape[1]))


def _shares(counts: Floats) -> Floats:
    """Histogram [49] of the 50 largest visit probabilities."""
    largest = np.sort(counts)[::-1][:DAILY_PLACES] / counts.sum()
    largest = np.pad(largest, (0, DAILY_PLACES - len(largest)))
    return np.bincount(_bins(largest, 0.0, 1.0, SHARES)[0], minlength=_width(0.0, 1.0, SHARES)).astype(np.float64)


def _day_ranks(view: View) -> Tally:
    """How many slots of a day are spent in its k-th most visited cell, for k = 0..19."""
    seen, width = view.symbols, view.symbols.shape[1]
    days = len(seen)
    often = np.bincount((seen + np.arange(days)[:, None] * width).ravel(), minlength=days * width).reshape(days, width)
    ranked = -np.sort(-often, axis=1)[:, :RANKS]
    return Tally(np.tile(np.arange(RANKS), days), view.repeated(RANKS), ranked.ravel().astype(np.int64))


REFERENCE = (
    Measure("Radius", _squared_radius, _width(0.0, SQUARE_DEGREES, DEGREE_BINS), smooth=SMOOTH),
    Measure("DailyLoc", _binned_daily_places, _width(0.0, 1.0, 48), smooth=SMOOTH),
    Measure("Distance", _squared_distance, _width(0.0, SQUARE_DEGREES, DEGREE_BINS), smooth=SMOOTH),
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


def _distance(view: View) -> Tally:
    here, there = view.degrees[:, :-1].reshape(-1, 2), view.degrees[:, 1:].reshape(-1, 2)
    moved = np.flatnonzero((view.days.cells[:, :-1] != view.days.cells[:, 1:]).ravel())
    codes = np.zeros(len(here), np.int64)
    codes[moved] = distance_bins(haversine_km(here[moved], there[moved]))
    return Tally(codes, view.repeated(SLOTS - 1))


def _radius(view: View) -> Tally:
    """Radius of gyration: root mean squared great-circle distance from the day's centre."""
    cells, places = view.cells
    latitude, longitude = np.radians(np.asarray(view.days.grid.centres(cells), np.float64)).T
    level = np.cos(latitude)
    on_sphere = np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=1)
    x, y, z = on_sphere[places].mean(axis=1).T
    centre = np.degrees(np.stack([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)], axis=1))
    away = haversine_km(view.degrees.reshape(-1, 2), np.repeat(centre, SLOTS, axis=0)).reshape(-1, SLOTS)
    radius = np.sqrt(np.square(away).mean(axis=1))
    return Tally(distance_bins(np.where(view.symbols.any(axis=1), radius, 0.0)), view.repeated(1))


def _largest(counts: Floats) -> Floats:
    largest = np.sort(counts)[::-1][:PLACES]
    return np.pad(largest, (0, PLACES - len(largest)))


def _slot_visits(view: View) -> Tally:
    """Square and slot together: as every slot has the same mass, the mean of the slots' divergences."""
    squares = view.squares(SLOT_DEGREES)
    return Tally((squares * SLOTS + np.arange(SLOTS)).ravel(), view.repeated(SLOTS))


def _trips(view: View) -> Tally:
    """Square left and square entered, of the steps that change squares."""
    squares = view.squares(OD_DEGREES)
    day, step = np.nonzero(squares[:, :-1] != squares[:, 1:])
    return Tally(squares[day, step] * SQUARES + squares[day, step + 1], day)


ROBUST = (
    Measure("Distance km", _distance, BINS + 1),
    Measure("Radius km", _radius, BINS + 1),
    Measure("Visits", visits, None, _largest),
    Measure("Slot visits", _slot_visits),
    Measure("OD", _trips),
)


ACTIONS = max(HOME, RETURN) + 1


def _daily_places(view: View) -> Tally:
    return Tally(view.symbols.max(axis=1), view.repeated(1))


def _stays(view: View) -> Tally:
    """Lengths of all stays in one cell, 1..48."""
    days = len(view.symbols)
    first = np.ones((days, SLOTS), np.bool_)
    first[:, 1:] = view.symbols[:, 1:] != view.symbols[:, :-1]
    starts = np.flatnonzero(first)
    return Tally(np.diff(np.append(starts, days * SLOTS)), starts // SLOTS)


def _home_arrivals(view: View) -> Tally:
    day, slot = np.nonzero(view.actions == HOME)
    return Tally(slot, day)


def _action_slots(view: View) -> Tally:
    steps = view.actions.shape[1]
    return Tally((view.actions * steps + np.arange(steps)).ravel(), view.repeated(steps))


def _moves(view: View) -> Tally:
    return Tally((np.diff(view.symbols, axis=1) != 0).sum(axis=1), view.repeated(1))


def _bigrams(view: View) -> Tally:
    pairs = view.actions[:, :-1] * ACTIONS + view.actions[:, 1:]
    return Tally(pairs.ravel(), view.repeated(pairs.shape[1]))


def _motifs(view: View) -> Tally:
    return Tally(motif(view.days.cells), view.repeated(1))


SEQUENCE = (
    Measure("DailyLoc", _daily_places, SLOTS),
    Measure("StayLen", _stays, SLOTS + 1),
    Measure("HomeArr", _home_arrivals, SLOTS),
    Measure("ActSlot", _action_slots, ACTIONS * (SLOTS - 1)),
    Measure("NMove", _moves, SLOTS),
    Measure("Bigram", _bigrams, ACTIONS * ACTIONS),
    Measure("Motif", _motifs, MOTIFS + 1),
)
