"""Divergences of the order of a day: places, stays, times and motifs, without geography. Their mean is SEQ."""

from __future__ import annotations

import numpy as np

from tacit.data.days import HOME, MOTIFS, RETURN, SLOTS, motif
from tacit.measure.mobility_counts import Measure, Tally, View

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
