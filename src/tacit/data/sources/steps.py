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


def in_order(blocks: Iterator[Block], where: str) -> Iterator[Block]:
    """The rows, with the "number" of their episode, if their times say in which order the rows of an episode are."""
    first: dict[str, tuple[bool, str]] = {}
    episodes = 0
    for block, after in followed(blocks):
        for place, numbers in block[TIME].items():
            missing = _absent(numbers)
            if place in block[MOMENT]:
                _require_alike(missing, block[MOMENT][place], block[ZONE][place], place, first, where)
            elif missing.any():
                raise _wrong("the time column has a missing value", where)
        parts = [block[name][place] == after[name][place] for name in (TIME, MOMENT) for place in block[name]]
        together = joined(block, after)
        if (together & np.logical_and.reduce(parts)).any():
            more = "name what orders such rows, a number say, in a second --time"
            raise _wrong("two rows of an episode have the same time", where, more)
        begun = np.cumsum(~together)
        yield {**block, "number": episodes + begun - ~together}
        episodes += int(begun[-1])


def _require_alike(
    moments_only: Array, moments: Array, zones: Array, place: str, first: dict[str, tuple[bool, str]], where: str
) -> None:
    """Refuse texts [n] that are not all numbers, or all moments in one zone; `first` keeps what the first one was."""
    if (moments_only & _absent(moments)).any():
        what = "the time column has a cell that is missing, or neither a number nor a time as 2024-12-31 14:05"
        raise _wrong(
            what, where, "say how dates are written, as in --time \"try_strptime(DAY, '%d.%m.%Y')\", or correct them"
        )
    kinds = set(zip(moments_only.tolist(), zones.tolist(), strict=True))
    kind, zone = first.setdefault(place, next(iter(kinds)))
    if any(other != kind for other, _ in kinds):
        raise _wrong("the time column has numbers in some rows and times in others", where)
    if any(other != zone for _, other in kinds):
        raise _wrong("the time column mixes time zones", where, "write all times in one zone, such as UTC")


def with_next(blocks: Iterator[Block], *, drop: bool) -> Iterator[Block]:
    """The rows with the observation of the next row of their episode as the next one."""
    # Of a row that ends an episode the next observation is its own. It is truncated, unless it terminates.
    rows = _with_next(blocks)
    if not drop:
        yield from rows
        return
    for block, after in followed(rows):
        cut = block["truncations"]
        last = joined(block, after) & after["truncations"] & ~_true(block, "terminations")
        kept = picked({**block, "truncations": last}, ~cut)
        if len(kept["row"]):
            yield kept


def _with_next(blocks: Iterator[Block]) -> Iterator[Block]:
    for block, after in followed(blocks):
        ends, cut, together = _true(block, "terminations"), _true(block, "truncations"), joined(block, after)
        following = _chosen(~together | ends | cut, block["observations"], after["observations"])
        yield {**block, "next_observations": following, "truncations": (cut | ~together) & ~ends}


def followed(blocks: Iterator[Block]) -> Iterator[tuple[Block, Block]]:
    """Blocks, each with the rows that follow its own; what follows the very last row is that row itself."""
    kept: Block | None = None
    for block in blocks:
        rows = block if kept is None else _joined(kept, block)
        count = len(rows["row"])
        kept = picked(rows, slice(count - 1, None))
        if count > 1:
            yield picked(rows, slice(count - 1)), picked(rows, slice(1, None))
    if kept is not None:
        yield kept, kept


def joined(block: Block, after: Block) -> Array:
    """Whether the row that follows is one of the same episode [n]."""
    parts = [block[name] == after[name] for name in ("unit", "episode") if name in block]
    same: Array = np.logical_and.reduce([block["row"] != after["row"], *parts])
    return same


def picked(block: Block, rows: Any) -> Block:
    """These rows of a block."""
    return {name: _each(values, lambda part: part[rows]) for name, values in block.items()}


def _joined(first: Block, second: Block) -> Block:
    return {name: _pairs(first[name], second[name], lambda a, b: np.concatenate([a, b])) for name in second}


def _chosen(own: Array, first: Any, second: Any) -> Any:
    """The entries of `first` in the rows of `own` [n], else those of `second`."""
    return _pairs(first, second, lambda a, b: np.where(own.reshape(-1, *[1] * (a.ndim - 1)), a, b))


def _each(values: Any, change: Callable[[Array], Array]) -> Any:
    """An array, or the cells of each column, changed."""
    if isinstance(values, dict):
        return {name: change(part) for name, part in values.items()}
    return change(values)


def _pairs(first: Any, second: Any, change: Callable[[Array, Array], Array]) -> Any:
    if isinstance(first, dict):
        return {name: change(first[name], second[name]) for name in first}
    return change(first, second)


def _true(block: Block, name: str) -> Array:
    """Where a flag is set [n]."""
    flags = block.get(name)
    return np.zeros(len(block["row"]), np.bool_) if flags is None else np.asarray(flags.reshape(-1) == 1)


def _absent(values: Array) -> Array:
    """Where there is no value [n]."""
    if values.dtype == object:
        return np.array([value is None for value in values.tolist()], np.bool_)
    return np.isnan(values)


def _wrong(what: str, where: str, remedy: str = "correct the times, or leave these rows out with --where") -> DataError:
    return DataError(what, where=where, expected="one number or one time for each row of an episode", remedy=remedy)
