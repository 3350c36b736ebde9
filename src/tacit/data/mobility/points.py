"""From recorded positions to whole days: 48 half-hours of local time, the cell of most dwell in each, gaps carried.
Errors name a file and a row (counted from 1), never a cell, a time, a position or an id."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tacit.data import unit_keys
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import Grid
from tacit.errors import DataError
from tacit.units import UnitKey

OUTSIDE = -1
"""In place of the cell of a point outside the grid."""
_UNKNOWN = -2
_SLOT = 1_800_000  # milliseconds

Outside = Literal["error", "drop"]
Untidy = Literal["error", "mend"]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rules:
    """How positions become days. All of it is public, chosen without the records. Raises DataError where the zone is
    missing or unknown, or a number is out of range."""

    zone: str = ""  # time zone of the region (IANA, such as "Asia/Shanghai"), whose midnights cut the days. No default.
    # slots for which the last cell goes on where nothing is recorded, 0 .. 48. The day's first cell is carried back
    # as far where the day before leaves a gap.
    carry: int = 16
    # slots with a record that a day needs, 1 .. 48; and every slot must be filled after the carrying.
    observed: int = 8
    # whole days that a person needs. Who has fewer contributes nothing and stays in the population, which is declared
    # in `Unit(population=...)` and never counted.
    days: int = 1
    # what a point outside the grid is: an `error`, or `drop` the days with a slot spent mostly out there
    outside: Outside = "error"
    # what unsorted or repeated times of a person are: an `error`, or `mend` them (sort; the later row of a repeated
    # time counts)
    untidy: Untidy = "error"
    # what ids are that differ by case or form alone: different people ("exact") or one ("folded"). None refuses them.
    unit_key: UnitKey | None = None

    def __post_init__(self) -> None:
        require_zone(self.zone, "zone")
        numbers = (self.carry, self.observed, self.days)
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in numbers)
        if not whole or not 0 <= self.carry <= SLOTS or not 1 <= self.observed <= SLOTS or self.days < 1:
            expected, remedy = f"carry in 0 .. {SLOTS}, observed in 1 .. {SLOTS} and days >= 1", "correct the rules"
            raise DataError("a number is out of range", where="mobility.Rules", expected=expected, remedy=remedy)
        if self.outside not in get_args(Outside) or self.untidy not in get_args(Untidy):
            what, expected = "a policy is unknown", "outside= error or drop, untidy= error or mend"
            raise DataError(what, where="mobility.Rules", expected=expected, remedy="correct the rules")
        unit_keys.require_unit_key(self.unit_key, "mobility.Rules")


def require_zone(zone: Any, name: str) -> None:
    """Refuses (DataError) what is not the name of a time zone."""
    if isinstance(zone, str) and zone:
        try:
            zoneinfo.ZoneInfo(zone)
            return
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    what, expected = f"the time zone {name} is missing or unknown", "an IANA name such as Asia/Shanghai or UTC"
    raise DataError(what, where="mobility", expected=expected, remedy=f"say {name}=; days cannot be cut without it")


def whole_days(
    person: IntArray,
    start: IntArray,
    end: IntArray,
    offset: IntArray,
    end_offset: IntArray,
    cell: IntArray,
    rules: Rules,
) -> tuple[IntArray, IntArray]:
    """The whole days of people's records."""
    # A record is in its cell from `start` until the local time of the person's next record, at most until `rules.carry`
    # slots after the slot of `end`. A slot's cell is the one with most time in it, of equal ones the lowest. Local time
    # that a change of the offset skips (summer time begins) was lived by nobody: it belongs to the record before, is no
    # gap, and is as recorded as the slots beside it. Of time that comes twice (summer time ends), both count.
    # person: codes [n], rising; start, end: [n] milliseconds since 1970 UTC between which the person was recorded in
    # the cell, equal for a point, `start` rises strictly within a person; offset, end_offset: [n] milliseconds that
    # local time is ahead of UTC then; cell: [n] cells, or `OUTSIDE`; returns: Cells [D, 48] and the codes of their
    # people [D], rising
    final = np.append(person[1:] != person[:-1], np.ones(min(1, len(person)), np.bool_))
    next_start = np.where(final, np.iinfo(np.int64).max // 2, np.roll(start, -1))
    next_offset = np.where(final, end_offset, np.roll(offset, -1))
    clock = np.where(end > next_start, next_offset, end_offset)
    local_start, next_local = start + offset, next_start + next_offset
    local_end = np.maximum(local_start, np.minimum(end, next_start - 1) + clock)
    last, reach = local_end // _SLOT, (next_start + clock) // _SLOT
    skipped = np.maximum(next_offset - clock, 0)
    until = np.where(next_local > local_start, next_local, next_start + offset)
    until = np.minimum(until, (last + 1 + rules.carry) * _SLOT + skipped * (reach <= last + 1 + rules.carry))
    last += skipped // _SLOT * (reach <= last + 1)
    first = local_start // _SLOT
    pieces = (until - 1) // _SLOT - first + 1
    row = np.repeat(np.arange(len(start)), pieces)
    slot = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    length = np.minimum(until[row], (slot + 1) * _SLOT) - np.maximum(local_start[row], slot * _SLOT)
    recorded = (slot <= last[row]) & (cell[row] != OUTSIDE)
    who, slot, where, recorded = _main_cells(person[row], slot, cell[row], length, recorded)
    day = np.stack([who, slot // SLOTS], axis=1)
    new = np.ones(len(day), dtype=np.bool_)
    new[1:] = (day[1:] != day[:-1]).any(axis=1)
    index = np.cumsum(new) - 1
    cells = np.full((int(new.sum()), SLOTS), _UNKNOWN, dtype=np.int64)
    cells[index, slot % SLOTS] = where
    count = np.bincount(index, weights=recorded, minlength=len(cells))
    leading = np.argmax(cells != _UNKNOWN, axis=1)
    back = (np.arange(SLOTS) < leading[:, None]) & (leading[:, None] <= rules.carry)
    cells = np.where(back, np.take_along_axis(cells, leading[:, None], axis=1), cells)
    whole = (cells >= 0).all(axis=1) & (count >= rules.observed)
    owner = who[new]
    whole &= np.bincount(owner[whole], minlength=int(owner.max(initial=0)) + 1)[owner] >= rules.days
    return cells[whole], owner[whole]


def _main_cells(
    person: IntArray, slot: IntArray, cell: IntArray, length: IntArray, recorded: npt.NDArray[np.bool_]
) -> tuple[IntArray, IntArray, IntArray, npt.NDArray[np.bool_]]:
    """For each slot of each person the cell with most time, and whether anything was recorded in the slot."""
    order = np.lexsort((cell, slot, person))
    person, slot, cell, length, recorded = person[order], slot[order], cell[order], length[order], recorded[order]
    slots = np.ones(len(person), dtype=np.bool_)
    slots[1:] = (person[1:] != person[:-1]) | (slot[1:] != slot[:-1])
    cells = slots.copy()
    cells[1:] |= cell[1:] != cell[:-1]
    at = np.flatnonzero(cells)
    if not len(at):
        return person, slot, cell, recorded
    total = np.add.reduceat(length, at)
    group = np.cumsum(slots)[at] - 1
    best = np.lexsort((cell[at], -total, group))
    heads = np.ones(len(best), dtype=np.bool_)
    heads[1:] = group[best][1:] != group[best][:-1]
    chosen = at[best[heads]]
    return person[chosen], slot[chosen], cell[chosen], np.logical_or.reduceat(recorded, np.flatnonzero(slots))


UNIX = "unix"
"""In place of the zone of recorded times: they are seconds since 1970 UTC."""

_LAST = 4_102_444_800  # seconds: the year 2100

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class PointTable:
    """The rows of one file or frame."""

    where: str  # its name in errors
    user: Sequence[Any]  # ids [n] as recorded
    start: IntArray  # [n] milliseconds since 1970 UTC
    lat: FloatArray  # lat, lon: [n] degrees
    lon: FloatArray
    end: IntArray | None = None  # [n] as `start`, for stays; None for points
    # [n] milliseconds that local time is ahead of UTC, if recorded; None takes the zone of the rules
    offset: IntArray | None = None


def build_days(parts: Sequence[PointTable], grid: Grid, rules: Rules) -> Days:
    """The whole days of all parts; a person's rows are in one of them."""
    code_of: dict[str, int] = {}
    kinds: set[str] = set()
    columns: list[list[IntArray]] = [[], [], [], [], [], []]
    points, outside = 0, 0
    for part in parts:
        person = _encode_users(part, code_of, kinds, rules.unit_key)
        end = part.start if part.end is None else part.end
        if (end < part.start).any():
            raise _error("a stay ends before it starts", part, "start <= end", "correct the rows", end < part.start)
        offset = _offsets(part.start, rules.zone) if part.offset is None else part.offset
        end_offset = offset if part.end is None or part.offset is not None else _offsets(end, rules.zone)
        cell = _cells(part, grid, rules)
        order = _order(part, person, rules)
        points, outside = points + len(cell), outside + int((cell == OUTSIDE).sum())
        for column, values in zip(columns, (person, part.start, end, offset, end_offset, cell), strict=True):
            column.append(values[order])
    unit_keys.require_no_twins(code_of, "mobility", rules.unit_key)
    none = np.zeros(0, dtype=np.int64)
    person, start, end, offset, end_offset, cell = (np.concatenate([none, *column]) for column in columns)
    if len(cell) and (cell == OUTSIDE).all():
        what, expected = "all points are outside the grid", "points of the region of the grid"
        raise DataError(what, where="mobility", expected=expected, remedy="check the grid and the columns")
    cells, owner = whole_days(person, start, end, offset, end_offset, cell, rules)
    if not len(cells):
        what, expected = "no day is whole", f"days in which {rules.observed} half-hours have a record, and gaps of "
        expected += f"at most {rules.carry} half-hours, of people with {rules.days} such days"
        remedy = "check the grid and the time zone, or loosen the public rules (carry, observed, days)"
        raise DataError(what, where="mobility", expected=expected, remedy=remedy)
    present, codes = np.unique(owner, return_inverse=True)
    first, last = ((times + ahead) // (SLOTS * _SLOT) for times, ahead in ((start, offset), (end, end_offset)))
    touched = np.maximum(last - first, 0) + 1
    row = np.repeat(np.arange(len(first)), touched)
    day = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(touched) - touched, touched)
    recorded = np.unique(np.stack([person[row], day]), axis=1).shape[1]
    receipt = {
        "points": {"all": points, "outside the grid": outside, "of a repeated time, left out": points - len(cell)},
        "days with a point": {"all": recorded, "left out": recorded - len(cells)},
        "people": {"all": len(code_of), "without enough whole days, left out": len(code_of) - len(present)},
    }
    return Days(cells, codes.astype(np.int64), grid, unit_keys.names(code_of)[present], rules.unit_key, receipt)


def parse_times(values: Any, where: str, recorded: str | None, pattern: str | None = None) -> IntArray:
    """Milliseconds [n] since 1970 UTC of recorded times."""
    # values: column of datetimes or texts, with a zone or without, or of numbers (seconds since 1970); recorded: zone
    # of times that carry none, or `UNIX` for numbers, None where all carry one; pattern: `strptime` pattern of the
    # texts, None takes ISO 8601
    import pandas as pd

    column = pd.Series(values).reset_index(drop=True)
    if recorded is not None and recorded != UNIX:
        require_zone(recorded, "recorded")
    if column.dtype.kind in "iuf":
        if recorded != UNIX:
            raise _zone_error(where, "the times are numbers")
        numbers = column.to_numpy(dtype=np.float64)
        _refuse_rows(~np.isfinite(numbers), "a time is missing", where)
        return _require_time_range(np.floor(np.clip(numbers, -_LAST, _LAST) * 1_000).astype(np.int64), where)
    if recorded == UNIX:
        what, expected = "the times are not numbers", f"seconds since 1970 with recorded={UNIX!r}"
        raise DataError(what, where=where, expected=expected, remedy="name the zone of the times in recorded=")
    aware: Any
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        times, aware = column, np.ones(len(column), dtype=np.bool_)
    elif column.dtype.kind == "M":
        times, aware = column.dt.tz_localize("UTC"), np.zeros(len(column), dtype=np.bool_)
    else:
        text = column.astype(str)
        times = pd.to_datetime(text, utc=True, errors="coerce", format=pattern or "ISO8601")
        zoned = text.str.contains(r"\d:\d\d\S*?\s?(?:Z|UTC|[+-]\d\d(?::?\d\d)?)(?:\s|$)", regex=True)
        aware = zoned.to_numpy(dtype=np.bool_)
    remedy = "correct the row; where times are not as 2024-12-31 14:05, say how: --pattern '%d.%m.%Y %H:%M' of a table"
    _refuse_rows(times.isna().to_numpy(), "a time is missing or not a time", where, remedy)
    if not aware.all() and recorded is None:
        raise _zone_error(where, "a time has no zone")
    if not aware.all():
        plain = times.dt.tz_localize(None)
        no_summer = np.zeros(len(plain), dtype=np.bool_)
        shifted = plain.dt.tz_localize(recorded, ambiguous=no_summer, nonexistent="shift_forward").dt.tz_convert("UTC")
        times = times.dt.tz_convert("UTC").where(pd.Series(aware), shifted)
    return _require_time_range(_epoch(times.dt.tz_convert("UTC").dt.tz_localize(None)), where)


def _epoch(times: Any) -> IntArray:
    whole: IntArray = times.to_numpy(dtype="datetime64[ms]").astype(np.int64)
    return whole


def _require_time_range(times: IntArray, where: str) -> IntArray:
    _refuse_rows((times < 0) | (times >= _LAST * 1_000), "a time is before 1970 or after 2099", where)
    return times


def _offsets(start: IntArray, zone: str) -> IntArray:
    """Milliseconds [n] that local time in the zone is ahead of UTC."""
    import pandas as pd

    quarters, index = np.unique(start // 900_000, return_inverse=True)  # offsets change on quarters of an hour
    times = pd.Series(pd.to_datetime(quarters * 900, unit="s", utc=True))
    offset = _epoch(times.dt.tz_convert(zone).dt.tz_localize(None)) - quarters * 900_000
    return np.asarray(offset[index], dtype=np.int64)


def _encode_users(part: PointTable, code_of: dict[str, int], kinds: set[str], unit_key: UnitKey | None) -> IntArray:
    """Codes [n] of the ids' keys; `code_of` learns the new ones, `kinds` which kinds of ids there are."""
    import pandas as pd

    index, ids = pd.factorize(pd.Series(list(part.user), dtype=object), use_na_sentinel=False)
    bad: unit_keys.NoKey | None = None
    try:
        found, kind = unit_keys.keys(unit_keys.as_column(ids.tolist()), unit_key)
        kinds.add(kind)
        if len(kinds) > 1:
            bad = unit_keys.NoKey("is text in one file and a whole number or bytes in another")
    except unit_keys.NoKey as error:
        bad = error
    if bad is not None:
        wrong = np.arange(len(ids)) == bad.row
        _refuse_rows(wrong[index], f"a user id {bad}", part.where)
    keys = [str(key) for key in found.tolist()]
    repeated = np.array([key in code_of for key in keys], dtype=np.bool_)
    if repeated.any():
        what, expected = "a user also occurs in an earlier file", "all rows of a user in one file"
        remedy = "if it is the same user, concatenate the files first; if not, make the ids distinct"
        raise _error(what, part, expected, remedy, repeated[index])
    codes = np.array([code_of.setdefault(key, len(code_of)) for key in keys], dtype=np.int64)
    return codes[index] if len(codes) else np.zeros(0, dtype=np.int64)


def _cells(part: PointTable, grid: Grid, rules: Rules) -> IntArray:
    lat, lon = np.asarray(part.lat, dtype=np.float64), np.asarray(part.lon, dtype=np.float64)
    absent = ~(np.isfinite(lat) & np.isfinite(lon))
    _refuse_rows(absent, "a latitude or longitude is missing, NaN or infinite", part.where)
    if not len(lat):
        return np.zeros(0, dtype=np.int64)
    cell = grid.cells(lat, lon)
    off_earth = (np.abs(lat) > 90) | (np.abs(lon) > 180)
    cell[off_earth] = OUTSIDE
    outside = cell == OUTSIDE
    if outside.all() and (grid.cells(lon, lat) >= 0).any():
        what = "all points are outside the grid, and they are inside with latitude and longitude swapped"
        expected = "latitudes in lat and longitudes in lon"
        remedy = "swap the names of the two columns, or the sides of the grid if its box is the one that is swapped"
        raise _error(what, part, expected, remedy)
    if not outside.any() or rules.outside == "drop":
        return cell
    if off_earth.any():
        what = "a latitude is outside [-90, 90] or a longitude outside [-180, 180]"
        expected = "degrees, latitudes in lat and longitudes in lon"
        remedy = "check whether the two are swapped, correct the rows, or declare Rules(outside='drop')"
        raise _error(what, part, expected, remedy, off_earth)
    what, expected = "a point is outside the grid", "points inside the public grid"
    remedy = "take a wider public grid, or declare Rules(outside='drop')"
    raise _error(what, part, expected, remedy, outside)


def _order(part: PointTable, person: IntArray, rules: Rules) -> IntArray:
    """Rows by person and time; of repeated times the last row."""
    grouped = np.argsort(person, kind="stable")
    same_person = person[grouped][1:] == person[grouped][:-1]
    step = np.diff(part.start[grouped])
    if rules.untidy == "error":
        for wrong, what in (
            (same_person & (step < 0), "are not in order"),
            (same_person & (step == 0), "are repeated"),
        ):
            if wrong.any():
                rows = np.zeros(len(person), dtype=np.bool_)
                rows[grouped[1:][wrong]] = True
                what, expected = f"the times of a user {what}", "rising times of each user"
                remedy = "sort the rows and leave repeated ones out, or declare Rules(untidy='mend')"
                raise _error(what, part, expected, remedy, rows)
        return grouped
    order = np.lexsort((np.arange(len(person)), part.start, person))
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = (person[order][1:] != person[order][:-1]) | (part.start[order][1:] != part.start[order][:-1])
    return order[last]


def _refuse_rows(
    wrong: npt.NDArray[np.bool_], what: str, where: str, remedy: str = "correct the row or leave it out"
) -> None:
    if wrong.any():
        expected = "a user, a time, a latitude and a longitude in every row"
        raise DataError(what, where=f"{where}, row {int(np.argmax(wrong)) + 1}", expected=expected, remedy=remedy)


def _zone_error(where: str, what: str) -> DataError:
    expected = f"times with a zone, or recorded= the zone in which they were written ({UNIX!r} for seconds)"
    remedy = "say recorded='UTC' for GPS times in UTC, or the local zone's IANA name"
    return DataError(f"the time zone is missing: {what}", where=where, expected=expected, remedy=remedy)


def _error(
    what: str, part: PointTable, expected: str, remedy: str, rows: npt.NDArray[np.bool_] | None = None
) -> DataError:
    where = part.where if rows is None else f"{part.where}, row {int(np.argmax(rows)) + 1}"
    return DataError(what, where=where, expected=expected, remedy=remedy)
