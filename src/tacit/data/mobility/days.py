"""Days of movement and what they mean: actions, places seen so far, stays, motifs; the same for people and simulators.
A day is 48 half-hour slots, each with a cell of a public grid: int64 [D, 48]. Its home is the cell of its first slot.
Every function here treats each day alone, whatever else is in the array."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.grids import Grid
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories, receipt_of
from tacit.errors import DataError
from tacit.units import UnitKey

SLOTS = 48
"""Half-hours of a day."""
STAY, EXPLORE, HOME, RETURN, LAST = range(5)
ACTIONS = ("stay", "explore", "home", "return", "last")
"""Names of the actions 0 .. 4."""
MOTIFS = 60
"""Number of named motifs; the class of all others is the next one."""
STOP = 2
"""Slots of the shortest stop that a motif counts (1 h)."""

_LONGEST = 6  # stops of the longest named motif: the first 60 need no more

IntArray = npt.NDArray[np.int64]


def symbols(days: npt.ArrayLike) -> IntArray:
    """Cells renamed in order of their first visit in the day, [D, 48]: home = 0, the next new cell 1, and so on."""
    first = _first_visits(_require_days(days))
    new = first == np.arange(SLOTS)
    names = np.cumsum(new, axis=1) - 1
    return np.take_along_axis(names, first, axis=1)


def actions(days: npt.ArrayLike, *, last: bool = True) -> IntArray:
    """Actions [D, 47] of the steps from slot t to t + 1 of days [D, 48]. The first that fits: `STAY` in the same cell;
    `HOME` to the day's first cell; `LAST` to the place visited just before the present stay; `RETURN` to any other cell
    visited before; else `EXPLORE`. Without `last`, `LAST` counts as `RETURN`: the four actions of the papers."""
    places = symbols(days)
    origin, destination = places[:, :-1], places[:, 1:]
    newest = np.maximum.accumulate(origin, axis=1)
    action = np.where(destination > newest, EXPLORE, RETURN)
    if last:
        action = np.where(destination == previous_symbols(days)[:, :-1], LAST, action)
    action = np.where(destination == 0, HOME, action)
    return np.where(destination == origin, STAY, action).astype(np.int64)


def previous_symbols(days: npt.ArrayLike) -> IntArray:
    """Symbol [D, 48] of the place visited just before the present stay, -1 in the day's first stay."""
    places = symbols(days)
    start = _stay_starts(places)
    return np.where(start > 0, np.take_along_axis(places, np.maximum(start - 1, 0), axis=1), -1)


def distinct_counts(days: npt.ArrayLike) -> IntArray:
    """Number of different cells in slots 0 .. t, [D, 48]."""
    first = _first_visits(_require_days(days))
    return np.cumsum(first == np.arange(SLOTS), axis=1)


def stay_lengths(days: npt.ArrayLike) -> IntArray:
    """Number of slots in a row, up to and with t, in the cell of slot t, [D, 48], at least 1."""
    lengths: IntArray = np.arange(1, SLOTS + 1) - _stay_starts(_require_days(days))
    return lengths


def move_counts(days: npt.ArrayLike) -> IntArray:
    """Number of changes of cell in each day, [D]."""
    cells = _require_days(days)
    changes: IntArray = np.sum(cells[:, 1:] != cells[:, :-1], axis=1, dtype=np.int64)
    return changes


def motif_classes(days: npt.ArrayLike, *, classes: int = MOTIFS) -> IntArray:
    """Class [D] of each day's [D, 48] sequence of stops, by a public list that knows no record.

    A stop is a run of at least two slots (1 h) in one cell; shorter runs are left out and stops that then follow one
    another in one cell are one. The cells are renamed in order of the first stop there, so that a day at home is `0`
    and home - work - home is `010`. The list of all such sequences (`motif_sequences`) goes by length, then by names:
    none, 0, 01, 010, 012, 0101, 0102, 0120, 0121, 0123, 01010 ... The first 25 are all with up to five stops. Days of
    none of the first `classes` (1 .. 77) have class `classes`.
    """
    sequences = motif_sequences(classes)
    cells = _require_days(days)
    stops = np.full((len(cells), _LONGEST), -1, dtype=np.int64)
    number = np.zeros(len(cells), dtype=np.int64)
    latest, present = np.zeros(len(cells), dtype=np.int64), np.zeros(len(cells), dtype=bool)
    lengths = stay_lengths(cells)
    for t in range(STOP - 1, SLOTS):
        rows = np.flatnonzero(lengths[:, t] == STOP)
        rows = rows[~present[rows] | (latest[rows] != cells[rows, t])]
        latest[rows], present[rows] = cells[rows, t], True
        unfilled = rows[number[rows] < _LONGEST]
        stops[unfilled, number[unfilled]] = cells[unfilled, t]
        number[rows] += 1
    names = np.zeros((len(cells), _LONGEST), dtype=np.int64)
    used = np.zeros(len(cells), dtype=np.int64)
    for i in range(_LONGEST):
        matches = stops[:, :i] == stops[:, i, None]
        is_repeated = matches.any(axis=1)
        earlier = np.take_along_axis(names, matches.argmax(axis=1)[:, None], axis=1)[:, 0] if i else used
        names[:, i] = np.where(is_repeated, earlier, used)
        used += ~is_repeated
    places = 10 ** np.arange(_LONGEST)
    filled = np.arange(_LONGEST) < number[:, None]
    codes = ((names + 1) * filled * places).sum(axis=1)
    listed = np.array([sum((name + 1) * 10**i for i, name in enumerate(s)) for s in sequences])
    order = np.argsort(listed)
    at = np.minimum(np.searchsorted(listed[order], codes), len(listed) - 1)
    is_listed = (listed[order][at] == codes) & (number <= _LONGEST)
    return np.where(is_listed, order[at], classes).astype(np.int64)


@functools.cache
def motif_sequences(classes: int = MOTIFS) -> tuple[tuple[int, ...], ...]:
    """The first sequences of stops of the public list that `motif_classes` follows. Raises DataError unless `classes`
    is from 1 to 77, the number of sequences of up to six stops."""
    listed = tuple(islice(_sequences(), classes)) if 0 < classes <= 1 + 76 else ()
    if not listed:
        what, expected = "the number of motif classes is out of range", "classes from 1 to 77"
        raise DataError(what, where="motif", expected=expected, remedy=f"leave it at {MOTIFS}")
    return listed


@dataclass(frozen=True, eq=False, repr=False)
class Days:
    """Days of people on a public grid. Raises DataError where a shape is wrong, a cell is outside the grid, or a code
    is negative or has no name."""

    cells: IntArray  # [D, 48] cells of `grid`
    person: IntArray  # [D] codes of the people, whole numbers >= 0; which code is whose is not kept
    grid: Grid  # the public grid
    # the digest of each code's id (`tacit.data.unit_keys.names`), [codes, 16], where people have ids
    names: npt.NDArray[np.uint8] | None = None
    unit_key: UnitKey | None = None  # what ids are that differ by case or form alone, if anybody said it
    receipt: Mapping[str, Any] | None = None  # what was left out when they were read, in counts for the curator alone

    def __post_init__(self) -> None:
        cells, person = _require_days(self.cells), np.asarray(self.person)
        if person.shape != cells.shape[:1] or person.dtype.kind not in "iu":
            raise _days_error("person is not one code for each day")
        if len(cells) and (cells.min() < 0 or cells.max() >= self.grid.size):
            raise _days_error("a cell is outside the grid")
        if len(person) and person.min() < 0:
            raise _days_error("a code of a person is negative")
        if len(person) and self.names is not None and person.max() >= len(self.names):
            raise _days_error("a code has no name")
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "person", person.astype(np.int64))

    def trajectories(self, *, simulated: bool = False) -> Trajectories:
        """The days (at least one) as records: an episode a day of 47 rows, truncated at its end; the unit is the
        person. The observation is the cell, the action the label of `actions`, the reward 0."""
        order = np.argsort(self.person, kind="stable")
        present = np.unique(self.person)
        cells, steps = self.cells[order], SLOTS - 1
        ends = np.zeros((len(cells), steps), dtype=np.bool_)
        ends[:, -1] = True
        data = Trajectories.from_arrays(
            observations=cells[:, :-1].ravel(),
            actions=actions(cells).ravel(),
            rewards=np.zeros(cells.shape[0] * steps, dtype=np.float32),
            next_observations=cells[:, 1:].ravel(),
            terminations=np.zeros(cells.shape[0] * steps, dtype=np.bool_),
            truncations=ends.ravel(),
            unit_ids=np.repeat(self.person[order], steps),
            episode_ids=np.repeat(np.arange(len(cells)), steps),
            spec=spec_of(self.grid),
            simulated=simulated,
        )
        if (receipt := receipt_of(data)) is not None:
            receipt.update(self.receipt or {})
        return data if self.names is None else data.with_names(self.names[present], self.unit_key)

    def __repr__(self) -> str:
        return f"Days(grid={self.grid!r})"


def spec_of(grid: Grid) -> PublicSpec:
    """Public bounds of the records of days on a grid: the cell, the five actions, no reward."""
    return PublicSpec(
        observation=Discrete(grid.size),
        action=Discrete(len(ACTIONS)),
        reward=Box((0.0,), (1.0,)),
        source="declared",
        terminals=False,
    )


def days_of(rows: Mapping[str, npt.NDArray[Any]]) -> tuple[IntArray, IntArray]:
    """The whole days among the rows that a mechanism gives, and whose they are: cells [n, 48] in order of the people
    and of their days, and the index 0 .. U - 1 of each day's person [n].

    A whole day is 47 rows in a row from a start up to the next start or the end of the person's rows. Everything else
    (days that were cut, rows that are of no day) is left out without an error: a person may have anything. `rows` are
    `observations` and `next_observations` [U, L] of whole numbers, `starts` and `mask` [U, L] of booleans.
    """
    steps = SLOTS - 1
    observations, next_observations = np.asarray(rows["observations"]), np.asarray(rows["next_observations"])
    mask = np.asarray(rows["mask"], dtype=np.bool_)
    begins = np.asarray(rows["starts"], dtype=np.bool_) & mask
    people, length = mask.shape
    if length < steps:
        return np.zeros((0, SLOTS), dtype=np.int64), np.zeros(0, dtype=np.int64)
    edge = np.concatenate([begins | ~mask, np.ones((people, 1), dtype=np.bool_)], axis=1)
    edges = np.cumsum(edge, axis=1)
    whole = begins[:, : length - steps + 1] & edge[:, steps:]
    whole &= edges[:, steps - 1 : -1] == edges[:, : length - steps + 1]
    person, at = np.nonzero(whole)
    window = at[:, None] + np.arange(steps)
    last = next_observations[person, at + steps - 1]
    cells = np.concatenate([observations[person[:, None], window], last[:, None]], axis=1)
    return cells.astype(np.int64), person.astype(np.int64)


def _sequences() -> Iterator[tuple[int, ...]]:
    def extend(length: int, prefix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(prefix) == length:
            yield prefix
            return
        for name in range(max(prefix, default=-1) + 2):
            if not prefix or name != prefix[-1]:
                yield from extend(length, (*prefix, name))

    for length in count():
        yield from extend(length, ())


def _first_visits(cells: IntArray) -> IntArray:
    """Slot [D, 48] in which the cell of each slot was first visited in the day."""
    keyed = np.sort(cells * SLOTS + np.arange(SLOTS), axis=1)
    cell, slot = np.divmod(keyed, SLOTS)
    head = np.ones(cells.shape, dtype=np.bool_)
    head[:, 1:] = cell[:, 1:] != cell[:, :-1]
    group = np.maximum.accumulate(np.where(head, np.arange(SLOTS), 0), axis=1)
    first = np.empty_like(slot)
    np.put_along_axis(first, slot, np.take_along_axis(slot, group, axis=1), axis=1)
    return first


def _stay_starts(cells: IntArray) -> IntArray:
    """Slot [D, 48] in which the stay of each slot began."""
    begins = np.zeros(cells.shape, dtype=np.int64)
    begins[:, 1:] = np.where(cells[:, 1:] != cells[:, :-1], np.arange(1, SLOTS), 0)
    return np.maximum.accumulate(begins, axis=1)


def _require_days(days: npt.ArrayLike) -> IntArray:
    cells = np.asarray(days)
    if cells.ndim != 2 or cells.shape[1] != SLOTS or cells.dtype.kind not in "iu":
        raise _days_error("the days are not whole numbers [D, 48]")
    return cells.astype(np.int64, copy=False)


def _days_error(what: str) -> DataError:
    expected = f"cells [D, {SLOTS}] of the grid as whole numbers, and one code >= 0 of a person for each day"
    remedy = "read the records with tacit.data.mobility, which makes whole days"
    return DataError(what, where="Days", expected=expected, remedy=remedy)
