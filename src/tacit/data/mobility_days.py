"""From stays at cells to whole days: 48 half-hours of local time, the cell of most dwell in each, gaps carried."""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tacit.data.days import SLOTS
from tacit.errors import DataError

__all__ = ["OUTSIDE", "Rules", "whole_days"]

OUTSIDE = -1
"""In place of the cell of a point outside the grid."""
_UNKNOWN = -2
_SLOT = 1_800_000  # milliseconds

Outside = Literal["error", "drop"]
Untidy = Literal["error", "mend"]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rules:
    """How positions become days. All of it is public, chosen without the records.

    Args:
        zone: time zone of the region (IANA, such as "Asia/Shanghai"), whose midnights cut the days. No default.
        carry: slots for which the last cell goes on where nothing is recorded, 0 .. 48. The day's first cell is carried
            back as far where the day before leaves a gap.
        observed: slots with a record that a day needs, 1 .. 48; and every slot must be filled after the carrying.
        days: whole days that a person needs. Who has fewer contributes nothing and stays in the population, which is
            declared in `Unit(population=...)` and never counted.
        outside: what a point outside the grid is: an `error`, or `drop` the days with a slot spent mostly out there.
        untidy: what unsorted or repeated times of a person are: an `error`, or `mend` them (sort; the later row of a
            repeated time counts).

    Raises:
        DataError: the zone is missing or unknown, or a number is out of range.
    """

    zone: str = ""
    carry: int = 16
    observed: int = 8
    days: int = 1
    outside: Outside = "error"
    untidy: Untidy = "error"

    def __post_init__(self) -> None:
        require_zone(self.zone, "zone")
        numbers = (self.carry, self.observed, self.days)
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in numbers)
        if not whole or not 0 <= self.carry <= SLOTS or not 1 <= self.observed <= SLOTS or self.days < 1:
            raise DataError(
                "a number is out of range",
                where="mobility.Rules",
                expected=f"carry in 0 .. {SLOTS}, observed in 1 .. {SLOTS} and days >= 1",
                remedy="correct the rules",
            )
        if self.outside not in get_args(Outside) or self.untidy not in get_args(Untidy):
            raise DataError(
                "a policy is unknown",
                where="mobility.Rules",
                expected="outside= error or drop, untidy= error or mend",
                remedy="correct the rules",
            )


def require_zone(zone: Any, name: str) -> None:
    """Refuses what is not the name of a time zone.

    Raises:
        DataError: the zone is missing or unknown.
    """
    if isinstance(zone, str) and zone:
        try:
            zoneinfo.ZoneInfo(zone)
            return
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise DataError(
        f"the time zone {name} is missing or unknown",
        where="mobility",
        expected="an IANA name such as Asia/Shanghai or UTC",
        remedy=f"say {name}=; days cannot be cut without it",
    )


def whole_days(
    person: IntArray, start: IntArray, end: IntArray, offset: IntArray, cell: IntArray, rules: Rules
) -> tuple[IntArray, IntArray]:
    """The whole days of people's records.

    A record is in its cell from `start` until the next record of the person, at most until `rules.carry` slots after
    the slot of `end`. A slot's cell is the one with most time in it, of equal ones the lowest. A change of the
    offset (summer time) counts from the next record on.

    Args:
        person: codes [n], rising.
        start, end: [n] milliseconds since 1970 UTC between which the person was recorded in the cell, equal for a
            point; `start` rises strictly within a person.
        offset: [n] milliseconds that local time is ahead of UTC.
        cell: [n] cells, or `OUTSIDE`.
        rules: see `Rules`.

    Returns:
        Cells [D, 48] and codes [D], dense from 0 in the order of `person`.
    """
    following = np.append(start[1:], np.iinfo(np.int64).max // 2)
    following[:-1][person[1:] != person[:-1]] = np.iinfo(np.int64).max // 2
    local, seen = start + offset, np.minimum(end, following - 1) + offset
    until = np.minimum(following + offset, (seen // _SLOT + 1 + rules.carry) * _SLOT)
    first = local // _SLOT
    pieces = (until - 1) // _SLOT - first + 1
    row = np.repeat(np.arange(len(start)), pieces)
    slot = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    length = np.minimum(until[row], (slot + 1) * _SLOT) - np.maximum(local[row], slot * _SLOT)
    recorded = (slot <= seen[row] // _SLOT) & (cell[row] != OUTSIDE)
    who, slot, where, recorded = _winners(person[row], slot, cell[row], length, recorded)
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
    kept = (cells >= 0).all(axis=1) & (count >= rules.observed)
    owner = who[new]
    kept &= np.bincount(owner[kept], minlength=int(owner.max(initial=0)) + 1)[owner] >= rules.days
    _, codes = np.unique(owner[kept], return_inverse=True)
    return cells[kept], codes.astype(np.int64)


def _winners(
    who: IntArray, slot: IntArray, cell: IntArray, length: IntArray, recorded: npt.NDArray[np.bool_]
) -> tuple[IntArray, IntArray, IntArray, npt.NDArray[np.bool_]]:
    """For each slot of each person the cell with most time, and whether anything was recorded in the slot."""
    order = np.lexsort((cell, slot, who))
    who, slot, cell, length, recorded = who[order], slot[order], cell[order], length[order], recorded[order]
    slots = np.ones(len(who), dtype=np.bool_)
    slots[1:] = (who[1:] != who[:-1]) | (slot[1:] != slot[:-1])
    cells = slots.copy()
    cells[1:] |= cell[1:] != cell[:-1]
    at = np.flatnonzero(cells)
    if not len(at):
        return who, slot, cell, recorded
    total = np.add.reduceat(length, at)
    group = np.cumsum(slots)[at] - 1
    best = np.lexsort((cell[at], -total, group))
    heads = np.ones(len(best), dtype=np.bool_)
    heads[1:] = group[best][1:] != group[best][:-1]
    chosen = at[best[heads]]
    return who[chosen], slot[chosen], cell[chosen], np.logical_or.reduceat(recorded, np.flatnonzero(slots))
