"""Rows in order of time, a block at a time: whether they are in order indeed, and what follows each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tacit.data.columns import TimeUnit
from tacit.data.store import Array
from tacit.errors import DataError

Refuse = Callable[[str, str, str, Array], None]
"""Takes what is wrong, what was expected, a remedy, and the rows (as of "row") that are."""
Block = dict[str, Any]
"""Rows by name: arrays [n, ...], or cells [n] by column; "row", and "unit" and "episode" where there are any."""
TICKS = 10**6
"""How many a second a moment has."""
TIME, MOMENT, ZONE = "time", "moment", "zone"
"""What orders rows, by the place of its column among the times: a number or a moment; of texts, a number or a moment,
and the zone that stands in the text."""


def number_episodes(blocks: Iterator[Block], refuse: Refuse) -> Iterator[Block]:
    """The rows, with the "number" of their episode, if their times say in which order the rows of an episode are."""
    first: dict[str, tuple[bool, str]] = {}
    episodes = 0
    for block, next_rows in pair_successors(blocks):
        refuse_times(block, first, refuse)
        parts = [block[name][place] == next_rows[name][place] for name in (TIME, MOMENT) for place in block[name]]
        together = same_episode(block, next_rows)
        same = together & np.logical_and.reduce(parts)
        for row in np.flatnonzero(same):
            same[row] = _differ(take_rows(block, [row]), take_rows(next_rows, [row]))
        if same.any():
            more = "name what orders such rows, a number say, in a second --time"
            refuse("two rows of an episode have the same time", _TIMES, more, block["row"][same])
        started = np.cumsum(~together)
        yield {**block, "number": episodes + started - ~together}
        episodes += int(started[-1])


def _differ(block: Block, next_rows: Block) -> bool:
    """Whether two rows are unlike in anything that is read; else it does not matter which of them is first."""
    rows = [
        {name: _map_pairs(part, part, lambda cells, _: cells.tolist()) for name, part in one.items() if name != "row"}
        for one in (block, next_rows)
    ]
    return str(rows[0]) != str(rows[1])  # in which NaN is like itself


def refuse_times(block: Block, first: dict[str, tuple[bool, str]], refuse: Refuse) -> Array:
    """Refuse rows [n] without a time, and texts that are not all numbers, or all moments in one zone; which are so."""
    # first: for each column of texts, whether the first one was a moment, and its zone
    bad, usual = np.zeros(len(block["row"]), np.bool_), "correct the times, or leave these rows out with --where"
    for place, numbers in block[TIME].items():
        missing, texts = is_missing(numbers), place in block[MOMENT]
        found = [("the time column has a missing value", usual, missing & (not texts))]
        if texts:
            moments_only, zones = missing, block[ZONE][place]
            missing = moments_only & is_missing(block[MOMENT][place])
            what = "the time column has a cell that is missing, or neither a number nor a time as 2024-12-31 14:05"
            remedy = "say how dates are written, as in --time \"try_strptime(DAY, '%d.%m.%Y')\", or correct them"
            found.append((what, remedy, missing))
            sound = np.flatnonzero(~missing)
            if len(sound):
                kind, zone = first.setdefault(place, (bool(moments_only[sound[0]]), zones[sound[0]]))
                other = ~missing & (moments_only != kind)
                found.append(("the time column has numbers in some rows and times in others", usual, other))
                zoned = ~missing & ~other & np.asarray(zones != zone, np.bool_)
                found.append(("the time column mixes time zones", "write all times in one zone, such as UTC", zoned))
        for what, remedy, wrong in found:
            bad |= wrong
            if wrong.any():
                refuse(what, _TIMES, remedy, block["row"][wrong])
    return bad


_TIMES = "one number or one time for each row of an episode"
_SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}


def add_durations(
    blocks: Iterator[Block], columns: Mapping[str, TimeUnit | None], ticks: int | None, where: str
) -> Iterator[Block]:
    """The rows with the time since the row before in the episode, 0 in its first one, among their observations."""
    # columns: what each counts; ticks: how many a second the first time has, None where it is numbers or texts
    number, last, ended = -1, None, True
    for block in blocks:
        moments = block[MOMENT].get("0")
        dates = moments is not None and not is_missing(moments[:1])[0]  # all are alike (`_require_one_kind`)
        times, per = (moments, TICKS) if dates else (block[TIME]["0"], ticks)
        passed = (times - np.append(times[:1] if last is None else last, times[:-1])).astype(np.float64) / (per or 1)
        done = _is_set(block, "terminations") | _is_set(block, "truncations")
        begins = (block["number"] != np.append(number, block["number"][:-1])) | np.append(ended, done[:-1])
        made = {}
        for name, unit in columns.items():
            if (unit is None) != (per is None):
                have = "numbers" if per is None else "dates"
                what = f"times are {have}, and the duration {name!r} has {unit or 'no time_unit'}"
                expected = "a time_unit"
                remedy = "say what it counts where times are dates, such as days; leave time_unit out of numbers"
                raise DataError(what, where=where, expected=f"{expected} of dates alone", remedy=remedy)
            made[name] = np.where(begins, 0.0, passed / (1.0 if unit is None else _SECONDS[unit]))
        yield {**block, "observations": {**block.get("observations", {}), **made}}
        number, last, ended = block["number"][-1], times[-1:], done[-1]


def with_next(blocks: Iterator[Block], *, drop: bool) -> Iterator[Block]:
    """The rows with the observation of the next row of their episode as the next one."""
    # Of a row that ends an episode the next observation is its own. It is truncated, unless it terminates.
    rows = _add_next(blocks)
    if not drop:
        yield from rows
        return
    for block, next_rows in pair_successors(rows):
        truncated = block["truncations"]
        last = same_episode(block, next_rows) & next_rows["truncations"] & ~_is_set(block, "terminations")
        kept = take_rows({**block, "truncations": last}, ~truncated)
        if len(kept["row"]):
            yield kept


def with_own(blocks: Iterator[Block], *, drop: bool) -> Iterator[Block]:
    """The rows that `with_next` reads something of, with their own observations as the next ones too."""
    # "observed": whether a row is left out, and read as the next observation of the one before it
    number, goes_on = -1, False
    for block in _add_next(blocks):
        out, numbers = block["truncations"] & drop, block["number"]
        going = ~block["truncations"] & ~_is_set(block, "terminations")
        follows = np.append(goes_on, going[:-1]) & (numbers == np.append(number, numbers[:-1]))
        rows = {**block, "next_observations": block["observations"], "observed": out}
        number, goes_on = numbers[-1], going[-1]
        if (kept := ~out | follows).any():
            yield take_rows(rows, kept)


def _add_next(blocks: Iterator[Block]) -> Iterator[Block]:
    for block, next_rows in pair_successors(blocks):
        ends, cut = _is_set(block, "terminations"), _is_set(block, "truncations")
        together = same_episode(block, next_rows)
        own = ~together | ends | cut
        following = _map_pairs(
            block["observations"],
            next_rows["observations"],
            lambda a, b: np.where(own.reshape(-1, *[1] * (a.ndim - 1)), a, b),  # noqa: B023 (called at once)
        )
        yield {**block, "next_observations": following, "truncations": (cut | ~together) & ~ends}


def pair_successors(blocks: Iterator[Block]) -> Iterator[tuple[Block, Block]]:
    """Blocks, each with the rows that follow its own; what follows the very last row is that row itself."""
    kept: Block | None = None
    for block in blocks:
        rows = block
        if kept is not None:
            rows = {name: _map_pairs(kept[name], block[name], lambda a, b: np.concatenate([a, b])) for name in block}
        count = len(rows["row"])
        kept = take_rows(rows, slice(count - 1, None))
        if count > 1:
            yield take_rows(rows, slice(count - 1)), take_rows(rows, slice(1, None))
    if kept is not None:
        yield kept, kept


def same_episode(block: Block, next_rows: Block) -> Array:
    """Whether the row that follows is one of the same episode [n]."""
    parts = [block[name] == next_rows[name] for name in ("unit", "episode") if name in block]
    same: Array = np.logical_and.reduce([block["row"] != next_rows["row"], *parts])
    return same


def take_rows(block: Block, rows: Any) -> Block:
    """These rows of a block."""
    return {name: _map_pairs(values, values, lambda part, _: part[rows]) for name, values in block.items()}


def _map_pairs(first: Any, second: Any, change: Callable[[Array, Array], Array]) -> Any:
    if isinstance(first, dict):
        return {name: change(first[name], second[name]) for name in first}
    return change(first, second)


def _is_set(block: Block, name: str) -> Array:
    """Where a flag is set [n]."""
    flags = block.get(name)
    return np.zeros(len(block["row"]), np.bool_) if flags is None else np.asarray(flags.reshape(-1) == 1)


def is_missing(values: Array) -> Array:
    """Where there is no value [n]."""
    if values.dtype == object:
        return np.array([value is None for value in values.tolist()], np.bool_)
    return np.isnan(values)
