"""Divergences of where people go, in kilometres and on public squares."""

from __future__ import annotations

import numpy as np

from tacit.data.days import SLOTS
from tacit.data.grids import haversine_km
from tacit.measure.mobility_counts import Floats, Ints, Measure, Tally, View
from tacit.measure.mobility_reference import visits

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
