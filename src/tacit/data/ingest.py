"""The only way into tacit: records are checked, clipped to the public bounds and coded, a chunk at a time. Errors
raised here may name the file and the row (counted from 1), never a cell or a unit id."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.data import unit_keys
from tacit.data.columns import BadCell, encode_cells, encode_flags, unmask
from tacit.data.spec import Box, Discrete, PublicSpec, Space
from tacit.data.store import CHUNK, NAMES, Array, FolderColumns, MemoryColumns, StoredRecords, UnitKind, layout
from tacit.data.unit_keys import Codes, Digests, Names
from tacit.errors import DataError

EACH_TRANSITION = ":transition"
"""In place of a unit id: every transition is a unit of its own (and an episode of its own)."""
EACH_EPISODE = ":episode"
"""In place of a unit id: every episode is a unit of its own."""

ROUNDING = 1e-6  # a probability may exceed 1 by so much: sums of float32 do


@dataclass
class Faults:
    """All that an import would refuse, counted by kind, with the first rows of each; no cell and no id is in it."""

    place: Callable[[int], str]  # the number of a row -> its file and row
    follows: bool = False  # whether next observations are those of other rows, which are added themselves
    computes: bool = False  # whether rewards are computed, and so miss where another cell of the row is refused
    # numbers of the rows that are being added, and of the one before them
    rows: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    # which of these are read as a next observation alone
    observed: Array = field(default_factory=lambda: np.zeros(0, np.bool_))
    spoiled: dict[str, Array] = field(default_factory=dict)  # which of these have a refused cell, by its field
    # what is refused -> expected, remedy, how often, the smallest numbers of rows
    kinds: dict[str, tuple[str, str, int, list[int]]] = field(default_factory=dict)

    def begin(self, rows: Array, observed: Array | None = None) -> None:
        """The rows with these numbers are added next."""
        self.rows, none = np.append(self.rows[-1:], rows), np.zeros(len(rows), np.bool_)
        self.spoiled = {"observations": none, "actions": none}
        self.observed = none if observed is None else observed

    def add(self, what: str, expected: str, remedy: str, rows: Array) -> None:
        """Note the rows with these numbers."""
        _, _, count, first = self.kinds.get(what, (expected, remedy, 0, []))
        first = sorted({*first, *np.sort(rows)[:_FEW].tolist()})[:_FEW]
        self.kinds[what] = expected, remedy, count + len(rows), first

    def errors(self) -> list[DataError]:
        """One for each kind."""
        return [
            DataError(
                f"{what} ({count:,} such row{'s' * (count > 1)})",
                where="; ".join(map(self.place, first)) + ("; ..." if count > len(first) else ""),
                expected=expected,
                remedy=remedy,
            )
            for what, (expected, remedy, count, first) in self.kinds.items()
        ]


_FEW = 3
"""Rows of a kind that are named."""


class Ingest:
    """Takes records chunk by chunk, then gives the validated whole.

    Args:
        spec: public bounds.
        simulated: whether the records are of no real person (then bounds that touch the data exactly are fine).
        store: folder for the native format, written as the chunks come; None keeps the columns in memory.
        unit: name of the column of the unit ids, if it has one.
        queried: whether a query made the records, of which nobody checked that it mixes no units.
        digest_key: secret bytes, under which the ids of a shard's units leave digests (`Records.digests`).
        unit_key: what twins are (`tacit.data.unit_keys`); None refuses them.
        copied_ends: whether the row that cuts an episode has its own observation as the next one.
        faults: takes what is wrong with rows, in place of the refusal of the first; then nothing is kept.

    Raises:
        FileError: the folder exists already or cannot be written.
    """

    def __init__(
        self,
        spec: PublicSpec,
        *,
        simulated: bool,
        store: str | os.PathLike[str] | None = None,
        unit: str | None = None,
        queried: bool = False,
        digest_key: bytes | None = None,
        unit_key: str | None = None,
        copied_ends: bool = False,
        faults: Faults | None = None,
    ) -> None:
        if not isinstance(spec, PublicSpec):
            what, expected = "the public bounds are missing", "spec= a PublicSpec"
            remedy = "declare PublicSpec(...) or take it from PublicSpec.from_spaces(...)"
            raise DataError(what, where="Trajectories", expected=expected, remedy=remedy)
        self._spec, self._simulated, self._faults = spec, simulated, faults
        self._sink: MemoryColumns | FolderColumns = MemoryColumns() if store is None else FolderColumns(store)
        self._units, self._episodes = Codes(), Codes()
        self._fitted = {name: _Range() for name in ("observations", "next_observations")}
        self._inside_bounds: dict[str, Array] = {}
        self._last: tuple[int, int | None, bool] | None  # unit code, episode code, done: of the last row
        self.start("Trajectories")
        self._total, self._grouped = 0, True
        self._kinds: dict[str, str] = {}
        self._owner: UnitKind = "id"
        self._unit, self._queried, self._copied_ends = unit, queried, copied_ends
        self._unit_key = unit_keys.require_unit_key(unit_key, "Trajectories")
        self._names = Names(self._unit_key)
        self._digests = None if digest_key is None else Digests(digest_key, self._unit_key)
        self._early, self._early_where = 0, ""  # rows that end an episode which goes on after them, and the first
        self._open_units = np.zeros(0, np.bool_)  # of each unit, whether its last row ended no episode
        static = spec.observation.static if isinstance(spec.observation, Box) else ()
        self._static = np.flatnonzero(static)  # dimensions that never change in a unit
        self._static_values = np.zeros((0, len(self._static)), np.float32)  # of each unit
        self._first_rows: list[Array] = []  # numbers of each unit's, where faults are collected
        self.receipt: dict[str, Any] = {"cells clipped": {}, "cells missing": {}}  # what is told to the curator alone

    def __enter__(self) -> Ingest:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._sink.abort()

    def start(self, where: str, place: Callable[[int], str] | None = None) -> None:
        """The chunks that follow come from this file; a unit belongs to one file only, an episode too."""
        # place: row of those that follow -> its file and number, where they are not in its order
        self._where, self._row, self._first_unit = where, 0, self._units.count
        self._place = place or (lambda row: f"{where}, row {row + 1}")
        self._episodes, self._last = Codes(), None

    def add(self, columns: Mapping[str, Any], units: Any, episodes: Any = None, *, cells_alone: bool = False) -> None:
        """The next rows."""
        # columns: observations, actions, rewards, next_observations, terminations, propensities if the spec says that
        # there are any, and truncations if there are any: arrays with one entry a row. A field whose columns are
        # declared may also be a mapping of cells by the columns' names; episodes: one episode id a row, None starts a
        # new episode after every end and at every change of unit; cells_alone: they are checked, and their rows are not
        # added
        if units is None:
            what, expected = "there is no unit id", "one id of the protected unit for each row"
            remedy = f"pass the ids, or say {EACH_TRANSITION!r} or {EACH_EPISODE!r}; there is no default"
            raise self._error(what, expected, remedy=remedy)
        units = units if isinstance(units, str) else unit_keys.as_column(units)
        episodes = None if episodes is None else unit_keys.as_column(episodes)
        arrays = {name: self._numbers(name, values) for name, values in columns.items() if values is not None}
        if "truncations" not in arrays and "rewards" in arrays:
            arrays["truncations"] = np.zeros(arrays["rewards"].shape[:1], dtype=np.bool_)
        if ("propensities" in arrays) != self._spec.propensities:
            present = "propensities" in arrays
            give = "give the behaviour policy's probability of every logged action, or declare propensities=False"
            what = "there are propensities but the spec declares none" if present else "the propensities are missing"
            expected = "propensities where the spec declares them, and only there"
            remedy = "declare PublicSpec(propensities=True), or leave them out" if present else give
            raise self._error(what, expected, remedy=remedy)
        missing = [name for name in layout(self._spec) if name not in arrays]
        if missing:
            raise self._error(f"the field {missing[0]} is missing", "every field of a transition")
        mixed = [name for name, array in arrays.items() if array.dtype == object and not array.shape]
        if mixed:
            what, expected = f"the entries of {mixed[0]} have different shapes", "entries of one shape, the spec's"
            remedy = "bring them to one shape, or make a data set for each kind of record"
            raise self._error(what, expected, remedy=remedy)
        lengths = {name: (array.shape or (-1,))[0] for name, array in arrays.items()}
        ids = {"units": units, "episodes": episodes}
        lengths |= {name: (v.shape or (-1,))[0] for name, v in ids.items() if isinstance(v, np.ndarray)}
        if len(set(lengths.values())) != 1 or -1 in lengths.values():
            raise self._error("the columns are ragged: their lengths differ", "one entry of every field for each row")
        for start in range(0, lengths["rewards"], CHUNK):
            part = slice(start, start + CHUNK)
            self._add(
                {name: arrays[name][part] for name in layout(self._spec)},
                units if isinstance(units, str) else units[part],
                None if episodes is None else episodes[part],
                cells_alone,
            )

    def finish(self) -> StoredRecords:
        """The whole, immutable."""
        self.require_whole()
        self._units, self._episodes, self._names = Codes(), Codes(), Names(None)  # the ids have done their work
        for name in ("firsts", "starts"):
            self._sink.append(name, np.full(1, self._total))
        offsets, episodes, codes = (self._sink.take(name) for name in ("firsts", "starts", "units"))
        if self._grouped:
            del codes  # as large as the order
            order = np.arange(self._total)
        else:
            order, offsets = np.argsort(codes, kind="stable"), np.append(0, np.cumsum(np.bincount(codes)))
        index = {"order": order, "offsets": offsets, "episodes": episodes}
        single = int((np.diff(episodes) == 1).sum())
        totals = {"rows": self._total, "units": len(offsets) - 1, "episodes": len(episodes) - 1}
        clipped = {
            name: dict(zip(self._spec.names(name), counts.tolist(), strict=True))
            for name, counts in self.receipt["cells clipped"].items()
        }
        receipt = {**totals, "episodes of one row": single, **self.receipt, "cells clipped": clipped}
        records = self._sink.finish(
            {name: values.astype(np.int64, copy=False) for name, values in index.items()},
            self._spec,
            simulated=self._simulated,
            owner=self._owner,
            unit=self._unit if self._owner == "id" else None,
            queried=self._queried,
            unit_key=self._unit_key if self._owner == "id" else None,
            copied_ends=self._copied_ends,
            receipt=None if self._simulated else receipt,
        )
        for array in (*records.columns.values(), records.order, records.offsets, records.episodes):
            array.setflags(write=False)
        return records if self._digests is None else dataclasses.replace(records, digests=self._digests.finish())

    def require_whole(self) -> None:
        """Refuse what no single row is to blame for, once all are there."""
        if self._total == 0 and not (self._faults and self._faults.kinds):
            raise self._error("there are no records", "at least one transition")
        if len(twins := self._names.twins()):
            error = unit_keys.twins_error(self._where)
            if self._faults is None:
                raise error
            self._faults.add(error.what, error.expected, error.remedy, np.concatenate(self._first_rows)[twins])
        if self._early:
            what = f"{_EARLY}: {self._early:,}"
            raise DataError(what, where=self._early_where, expected=_EARLY_EXPECTED, remedy=_EARLY_REMEDY)
        if self._faults is None or not self._faults.kinds:
            self._refuse_bounds_of_others()
            self._refuse_fitted_bounds()

    def _add(self, columns: dict[str, Array], units: Any, episodes: Any, cells_alone: bool) -> None:
        spaces = self._spec.spaces
        for name, (dtype, shape) in layout(self._spec).items():
            raw = columns[name]
            if name in spaces:
                columns[name] = self._clip_to_bounds(name, raw, spaces[name]).reshape(len(raw), *shape)
            elif name == "propensities":
                columns[name] = self._probabilities(name, raw)
            else:
                columns[name] = self._flags(name, raw)
            assert columns[name].dtype == dtype
        if not self._spec.terminals:
            remedy = "declare terminals=True, or correct the data"
            what = "an episode terminates, but the spec declares terminals=False"
            self._refuse(what, "no termination", columns["terminations"], remedy, "terminations")
        if cells_alone:
            return
        codes, changes, starts = self._encode_units(columns, units, episodes)
        if len(self._static):
            self._require_static(columns, codes)
        rows = {"firsts": self._total + np.flatnonzero(changes), "starts": self._total + np.flatnonzero(starts)}
        for name, values in (*columns.items(), ("units", codes), *rows.items()) if self._faults is None else ():
            self._sink.append(name, values)
        self._row += len(codes)
        self._total += len(codes)

    def _numbers(self, field: str, values: Any) -> Array:
        """The entries of a field as an array; of cells by column name, their numbers."""
        space = self._spec.spaces.get(field)
        if not isinstance(values, Mapping) or space is None or not space.columns:
            try:
                return np.asarray(unmask(values))
            except ValueError:  # rows of unequal length: reported by the caller
                return np.empty((), dtype=object)
        absent = [column.name for column in space.columns if column.name not in values]
        if absent:
            raise self._error(f"the column {absent[0]!r} of {field} is missing", "every column of the spec")
        if len({len(values[column.name]) for column in space.columns}) > 1:
            raise self._error("the columns are ragged: their lengths differ", "one entry of every field for each row")
        missing, refused = self.receipt["cells missing"].setdefault(field, {}), list[BadCell]()
        numbers = encode_cells(space.columns, values, missing, refused)
        for bad in refused:
            wrong = np.zeros(len(numbers), np.bool_)
            wrong[bad.rows] = True
            self._refuse(bad.what, bad.expected, wrong, bad.remedy, field)
        return numbers[:, 0] if isinstance(space, Discrete) else numbers

    def _encode_units(self, columns: dict[str, Array], units: Any, episodes: Any) -> tuple[Array, Array, Array]:
        """Unit codes `(n,)` int64, and which rows have another unit than the one before, or start an episode `(n,)`."""
        n = len(columns["rewards"])
        done = columns["terminations"] | columns["truncations"]
        last_unit, last_episode, last_done = self._last or (-1, None, True)
        starts = np.empty(n, dtype=np.bool_)
        starts[0], starts[1:] = last_done, done[:-1]
        runs = None if episodes is None else self._episodes.encode(self._ids(episodes, "episode"))
        if runs is not None:
            starts[0], starts[1:] = last_episode is None or runs[0] != last_episode, runs[1:] != runs[:-1]
            previous = -1 if last_episode is None else last_episode
            returning = starts & (runs <= np.maximum.accumulate(np.concatenate([[previous], runs[:-1]])))
            self._refuse(
                "the rows of an episode are not together",
                "all rows of an episode one after another in order of time, and another id for every episode",
                returning,
                "sort the rows by episode and time, or give every episode an id of its own",
            )
        if isinstance(units, str):
            if units == EACH_TRANSITION:
                starts[:] = True
            elif units != EACH_EPISODE:
                raise self._error("the unit is unknown", f"an id for each row, {EACH_TRANSITION!r} or {EACH_EPISODE!r}")
            self._owner = "transition" if units == EACH_TRANSITION else "episode"
            codes = self._units.count - 1 + np.cumsum(starts)
            self._units.count += int(starts.sum())
            changes = starts
        else:
            ids, known = self._ids(units, "unit"), self._units.count
            codes = self._units.encode(ids)
            fresh = np.flatnonzero(codes >= known)  # in the order of the codes, where each occurs first
            fresh = fresh[np.unique(codes[fresh], return_index=True)[1]]
            new = [str(key) for key in ids[fresh].tolist()]
            self._sink.append(NAMES, self._names.add(new, whole=self._kinds["unit"] == unit_keys.WHOLE))
            if self._faults is not None:
                self._first_rows.append(self._faults.rows[1 + fresh])
            if self._digests is not None:
                self._digests.add(new)
            self._refuse(
                "a unit id also occurs in an earlier file",
                "all records of a unit in one file",
                codes < self._first_unit,
                "if it is the same unit, concatenate the files first, or order all rows with --time; if not, make the "
                "ids distinct",
            )
            changes = codes != np.concatenate([[last_unit], codes[:-1]])
            if runs is None:
                self._require_contiguous(codes, changes, done)
            self._refuse(
                "the unit id is not constant within an episode",
                "one unit for each episode",
                changes & ~starts & (runs is not None),
                "correct the ids, or split the episode where the unit changes",
            )
            starts |= changes
        early = ~starts & np.append(last_done, done[:-1])
        if early.any() and self._faults is not None:
            self._faults.add(_EARLY, _EARLY_EXPECTED, _EARLY_REMEDY, self._faults.rows[np.flatnonzero(early)])
        elif early.any():
            self._early_where = self._early_where or self._place(self._row + int(np.argmax(early)) - 1)
            self._early += int(early.sum())
        self._grouped &= bool(np.all(np.diff(codes) >= 0)) and int(codes[0]) >= last_unit
        self._last = (int(codes[-1]), None if runs is None else int(runs[-1]), bool(done[-1]))
        return codes.astype(np.int64, copy=False), changes, starts

    def _clip_to_bounds(self, name: str, raw: Array, space: Space) -> Array:
        width = 1 if isinstance(space, Discrete) else space.size
        wide = raw.reshape(len(raw), -1) if raw.ndim != 1 else raw[:, None]
        if raw.dtype.kind not in "biuf":
            raise self._error(f"{name} has an entry that is not a number", "numbers in rows of equal length")
        if wide.shape[1] != width:
            raise self._error(f"{name} has {wide.shape[1]} dimensions", f"the {width} of the spec")
        broken: Array = np.zeros(len(wide), np.bool_)
        if raw.dtype.kind == "f":
            broken = np.logical_not(np.isfinite(wide).all(axis=1))
        self._refuse(f"{name} has a value that is NaN or infinite", "finite values", broken, field=name)
        if isinstance(space, Discrete):
            first = space.start or 0
            last = first + space.n - 1
            wrong = ((wide < first) | (wide > last) | (wide != np.floor(wide))).any(axis=1) & ~broken
            expected = f"whole numbers from {first} to {last}"
            self._refuse(f"{name} has a value out of range", expected, wrong, field=name)
            return np.where(wrong | broken, first, wide[:, 0]).astype(np.int64) - first
        wide = np.where(broken[:, None], space.low, wide) if broken.any() else wide
        if any(space.whole):
            wrong = (np.asarray(space.whole) & (wide != np.rint(wide))).any(axis=1)
            what = f"{name} has a value that is not whole in a column of whole numbers or labels"
            self._refuse(what, "whole numbers, or the cells themselves by column", wrong, field=name)
        if name in self._fitted:
            self._fitted[name].update(wide)
        with np.errstate(over="ignore"):
            narrow, low, high = (np.asarray(part, np.float32) for part in (wide, space.low, space.high))
        outside = (narrow < low) | (narrow > high)
        clipped_before = self.receipt["cells clipped"].get(name, np.zeros(width, np.int64))
        self.receipt["cells clipped"][name] = clipped_before + outside.sum(axis=0)
        within = np.asarray((~outside).any(axis=0))
        self._inside_bounds[name] = np.logical_or(within, self._inside_bounds.get(name, within))
        clipped: Array = np.clip(wide, np.asarray(space.low), np.asarray(space.high)).astype(np.float32)
        return np.clip(clipped, *space.float32_bounds(), out=clipped)

    def _flags(self, name: str, raw: Array) -> Array:
        flags = raw.reshape(len(raw), -1) if raw.ndim != 1 else raw[:, None]
        if flags.shape[1] != 1:
            raise self._error(f"{name} is not boolean", "one of True, False, 0 and 1 for each row")
        numbers = encode_flags(flags[:, 0])
        wrong: Array = np.logical_and(numbers != 0, numbers != 1)
        self._refuse(f"{name} is not boolean", "True, False, 0 or 1", wrong, field=name)
        return np.where(wrong, False, numbers).astype(np.bool_)

    def _probabilities(self, name: str, raw: Array) -> Array:
        flat = raw.reshape(len(raw), -1) if raw.ndim != 1 else raw[:, None]
        if flat.shape[1] != 1 or flat.dtype.kind not in "biuf":
            raise self._error(f"{name} is not one number a row", "one probability for each row")
        values = flat[:, 0].astype(np.float64)
        for wrong, what in (
            (~np.isfinite(values), "is NaN or infinite"),
            (values <= 0, "is zero or negative"),
            (values > 1 + ROUNDING, "is above 1"),
            (values.astype(np.float32) == 0, "is too small for float32"),
        ):
            expected = "the probability, in (0, 1], that the behaviour policy gave to the logged action"
            self._refuse(f"{name} has a value that {what}", expected, wrong, field=name)
        probabilities: Array = np.minimum(values, 1.0).astype(np.float32)
        return probabilities

    def _require_contiguous(self, codes: Array, changes: Array, done: Array) -> None:
        """Refuse, without ids of episodes, a unit that comes again after another although its episode had not ended."""
        starts = np.flatnonzero(changes | (np.arange(len(codes)) == 0))
        owner, open_after = codes[starts], ~done[np.append(starts[1:], len(codes)) - 1]
        self._open_units = np.append(self._open_units, np.zeros(self._units.count - len(self._open_units), np.bool_))
        order = np.argsort(owner, kind="stable")
        first = np.append(True, np.diff(owner[order]) != 0)
        before = np.empty(len(owner), np.bool_)
        before[order] = np.where(first, self._open_units[owner[order]], open_after[np.roll(order, 1)])
        returning = np.zeros(len(codes), np.bool_)
        returning[starts] = before & changes[starts]
        self._refuse(
            "a unit comes again after rows of another one, and nobody says whether its episode goes on",
            "all rows of an episode one after another, in order of time",
            returning,
            "sort the rows (in a command --time TIME), give ids of episodes, or truncate their last rows",
        )
        last = order[np.append(first[1:], True)]
        self._open_units[owner[last]] = open_after[last]

    def _require_static(self, columns: Mapping[str, Array], codes: Array) -> None:
        """Refuse a static column that is not in all rows of a unit what it is in its first one."""
        now, following = (columns[name][:, self._static] for name in ("observations", "next_observations"))
        order = np.arange(len(codes))
        if self._faults is not None:  # what stands in for refused cells changes nothing
            spoiled = self._faults.spoiled["observations"]
            now, following = (np.where(spoiled[:, None], np.nan, part) for part in (now, following))
            order = np.argsort(spoiled, kind="stable")
        fresh, first = np.unique(codes[order], return_index=True)
        new = np.full((int((fresh >= len(self._static_values)).sum()), len(self._static)), np.nan, np.float32)
        values = self._static_values = np.concatenate([self._static_values, new])  # codes count from 0, as units come
        values[fresh] = np.where(np.isnan(values[fresh]), now[order[first]], values[fresh])
        first_values = values[codes]
        changed = (now != first_values) | (following != now)
        if self._faults is not None:
            changed &= ~np.isnan(now) & ~np.isnan(first_values)
        places = np.flatnonzero(changed.any(axis=0))
        for place in places[np.argsort(changed[:, places].argmax(axis=0), kind="stable")]:
            name = self._spec.names("observations")[self._static[place]]
            what, expected = f"the static column {name!r} changes in a unit", "one value in all rows of a unit"
            remedy = (
                "correct it, take static = true away, or keep the first value: --column "
                f'"{name}=first_value({name}) OVER (PARTITION BY UNIT ORDER BY TIME)"'
            )
            self._refuse(what, expected, changed[:, place], remedy)

    def _ids(self, ids: Array, what: str) -> Array:
        if ids.ndim != 1:
            raise self._error(f"the {what} ids are not a flat column", "one id for each row")
        bad: unit_keys.NoKey | None = None
        try:
            keys, kind = unit_keys.keys(ids, self._unit_key if what == "unit" else None)
            if self._kinds.setdefault(what, kind) != kind:
                bad = unit_keys.NoKey(f"is {kind} in one row and {self._kinds[what]} in another")
        except unit_keys.NoKey as error:
            bad = error
        if bad is None:
            return keys
        raise self._error(
            f"the {what} id {bad}",
            "an id in every row, text, bytes or whole numbers, and all of one kind",
            bad.row,
            remedy="write all ids as text, correct them, or leave such rows out",
        ) from None

    def _refuse_bounds_of_others(self) -> None:
        for name, within in self._inside_bounds.items():
            if not within.all():
                number = f", dimension {int(np.argmin(within))}" if len(within) > 1 else ""
                what = f"{name}{number}: every value lies outside its public bounds, and all would be clipped to them"
                expected = "bounds that hold what can occur (dimensions count from 0)"
                remedy = "check the order of the columns and of the bounds, and that both are measured alike"
                raise DataError(what, where=self._where, expected=expected, remedy=remedy)

    def _refuse_fitted_bounds(self) -> None:
        space = self._spec.observation
        if self._simulated or isinstance(space, Discrete):
            return
        sides = (space.low, space.high)  # limits that people agree on have at most two significant digits, as float32
        low, high = ([np.float32(f"{value:.1e}") == np.float32(value) for value in side] for side in sides)
        unround = np.array(
            [not (labels or (a and b)) for a, b, labels in zip(low, high, space.categories, strict=True)]
        )
        observations, next_observations = self._fitted["observations"], self._fitted["next_observations"]
        ranges = (observations, observations.union(next_observations))
        if unround.any() and any(values.equals(space.low, space.high, unround) for values in ranges):
            what = "every observation bound equals the smallest or largest value in the records, as if fitted to them"
            expected = "bounds that are known without the private records, or round numbers (two significant digits)"
            remedy = "declare limits of the environment, device or form, or widen the bounds to round numbers"
            raise DataError(what, where=self._where, expected=expected, remedy=remedy)

    def _refuse(
        self, what: str, expected: str, wrong: Array, remedy: str | None = None, field: str | None = None
    ) -> None:
        """Refuse the first of the rows that are wrong [n], or note them all."""
        faults = self._faults
        if faults is None and wrong.any():
            raise self._error(what, expected, int(np.argmax(wrong)), remedy=remedy)
        if faults is None or (field == "next_observations" and faults.follows):
            return
        if field in ("observations", "actions"):
            faults.spoiled[field] = faults.spoiled[field] | wrong
        if field not in (None, "observations"):
            wrong = wrong & ~faults.observed
        if field == "rewards" and faults.computes:
            wrong = wrong & ~faults.spoiled["observations"] & ~faults.spoiled["actions"]
        if wrong.any():
            faults.add(what, expected, remedy or _LEAVE_OUT, faults.rows[1:][wrong])

    def _error(self, what: str, expected: str, row: int | None = None, *, remedy: str | None = None) -> DataError:
        if row is None:
            return DataError(what, where=self._where, expected=expected, remedy=remedy or "correct the data")
        where, remedy = self._place(self._row + row), remedy or _LEAVE_OUT
        return DataError(what, where=where, expected=expected, remedy=remedy)


_LEAVE_OUT = "correct the data or leave the row out"
_EARLY = "rows that terminate or truncate an episode which goes on after them"
_EARLY_EXPECTED = "an end in the last row of an episode, and nowhere else"
_EARLY_REMEDY = "name the column that tells episodes apart, drop the rows after an end, or mark the last row instead"


class _Range:
    """Smallest and largest value of each dimension."""

    def __init__(self) -> None:
        self.low: Array | None = None
        self.high: Array | None = None

    def update(self, wide: Array) -> None:
        low, high = wide.min(axis=0).astype(np.float64), wide.max(axis=0).astype(np.float64)
        self.low = low if self.low is None else np.minimum(self.low, low)
        self.high = high if self.high is None else np.maximum(self.high, high)

    def union(self, other: _Range) -> _Range:
        both = _Range()
        for part in (self, other):
            if part.low is not None and part.high is not None:
                both.update(np.stack([part.low, part.high]))
        return both

    def equals(self, low: Sequence[float], high: Sequence[float], mask: Array) -> bool:
        """Whether these are the bounds of all dimensions that are judged."""
        if self.low is None or self.high is None:
            return False
        with np.errstate(over="ignore"):
            bounds = np.stack([self.low, self.high]).astype(np.float32)
        return np.array_equal(bounds[:, mask], np.asarray([low, high], dtype=np.float32)[:, mask])
