"""Rows in order of time, a block at a time: whether they are in order indeed, and what follows each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tacit.data.store import Array
from tacit.errors import DataError

Block = dict[str, Any]
"""Rows by name: arrays [n, ...], or cells [n] by column; "row", and "unit" and "episode" where there are any."""
TIME, MOMENT, ZONE = "time", "moment", "zone"
"""What orders rows, by the place of its column among the times: a number or a moment; of texts, a number or a moment,
and the zone that stands in the text."""


def number_episodes(blocks: Iterator[Block], where: str) -> Iterator[Block]:
    """The rows, with the "number" of their episode, if their times say in which order the rows of an episode are."""
    first: dict[str, tuple[bool, str]] = {}
    episodes = 0
    for block, next_rows in pair_successors(blocks):
        for place, numbers in block[TIME].items():
            missing = _is_missing(numbers)
            if place in block[MOMENT]:
                _require_one_kind(missing, block[MOMENT][place], block[ZONE][place], place, first, where)
            elif missing.any():
                raise _time_error("the time column has a missing value", where)
        parts = [block[name][place] == next_rows[name][place] for name in (TIME, MOMENT) for place in block[name]]
        together = same_episode(block, next_rows)
        if (together & np.logical_and.reduce(parts)).any():
            more = "name what orders such rows, a number say, in a second --time"
            raise _time_error("two rows of an episode have the same time", where, more)
        started = np.cumsum(~together)
        yield {**block, "number": episodes + started - ~together}
        episodes += int(started[-1])


def _require_one_kind(
    moments_only: Array, moments: Array, zones: Array, place: str, first: dict[str, tuple[bool, str]], where: str
) -> None:
    """Refuse texts [n] that are not all numbers, or all moments in one zone; `first` keeps what the first one was."""
    if (moments_only & _is_missing(moments)).any():
        what = "the time column has a cell that is missing, or neither a number nor a time as 2024-12-31 14:05"
        remedy = "say how dates are written, as in --time \"try_strptime(DAY, '%d.%m.%Y')\", or correct them"
        raise _time_error(what, where, remedy)
    kinds = set(zip(moments_only.tolist(), zones.tolist(), strict=True))
    kind, zone = first.setdefault(place, next(iter(kinds)))
    if any(other != kind for other, _ in kinds):
        raise _time_error("the time column has numbers in some rows and times in others", where)
    if any(other != zone for _, other in kinds):
        raise _time_error("the time column mixes time zones", where, "write all times in one zone, such as UTC")


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


def _is_missing(values: Array) -> Array:
    """Where there is no value [n]."""
    if values.dtype == object:
        return np.array([value is None for value in values.tolist()], np.bool_)
    return np.isnan(values)


def _time_error(what: str, where: str, remedy: str = "") -> DataError:
    remedy = remedy or "correct the times, or leave these rows out with --where"
    return DataError(what, where=where, expected="one number or one time for each row of an episode", remedy=remedy)
