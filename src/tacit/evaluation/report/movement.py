"""What the report of a simulator of movement says: what its days look like, how close they are, what not to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.days import SLOTS, Days, distinct, moves
from tacit.data.mobility.grids import Grid
from tacit.errors import DataError
from tacit.evaluation.movement.divergences import Line, MapAdvice
from tacit.evaluation.movement.maps import Levels, blocks, blocks_at, corners, largest_flows

Array = NDArray[np.float64]
TIMES = (8, 17, 26, 38)
"""Slots that the picture shows: 04:00, 08:30, 13:00 and 19:00."""
MOST_BLOCKS = 1_200
"""Of the picture: a page is no place for more."""
FLOWS = 120


@dataclass(frozen=True)
class Picture:
    """Generated days as the page draws them; it costs no privacy, as everything that is computed from the release.

    Attributes:
        outlines: [n, k, 2] latitude and longitude of the corners of the blocks.
        shares: [len(TIMES), n] share of the days in each block at `TIMES`; days outside the picture are in none.
        flows: [m, 5] latitude and longitude of origin and destination, and moves a day; the largest first.
        moving: [47] share of the days that change cell from each slot to the next.
        places: mean number of different cells a day.
        moves: mean number of moves a day.
        still: share of the days that are in one cell all along.
    """

    outlines: Array
    shares: Array
    flows: Array
    moving: Array
    places: float
    moves: float
    still: float


@dataclass(frozen=True)
class MovementReport:
    """Everything that the report of a simulator of movement shows.

    Attributes:
        title: of the release.
        certificate: the release's certificate as `Certificate.to_json()` gives it, verified by the caller.
        verify: the shell commands with which a reader recomputes the promise.
        method: how the simulator was made, in a few words ("one noisy release of what people do").
        days: on how many generated days the figures rest.
        advice: which maps can be read, from the known noise.
        lines: how close generated days are to simulated people's; () for real people.
        picture: of generated days, or None.
        map: name of the map's file beside the report, or None.
        costs: (name, value) pairs on run time and memory.

    Raises:
        DataError: days are compared and the certificate does not say that the people are simulated, or the map is no
            plain file name.
    """

    title: str
    certificate: Mapping[str, Any]
    verify: tuple[str, ...]
    method: str
    days: int
    advice: tuple[MapAdvice, ...] = ()
    lines: tuple[Line, ...] = ()
    picture: Picture | None = None
    map: str | None = None
    costs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.lines and self.certificate.get("simulated") is not True:
            raise DataError(
                "generated days are compared with people's and the certificate does not say that these are simulated",
                where="MovementReport",
                expected="a certificate with simulated = true",
                remedy="compare with simulated people: figures of real ones are not differentially private",
            )
        if self.map is not None and (not self.map or set(self.map) & set("/\\:")):
            raise DataError(
                "the map is no file beside the report",
                where="MovementReport",
                expected="a file name",
                remedy="write the map into the folder of the report",
            )


def picture(days: Days) -> Picture:
    """The picture of generated days.

    Args:
        days: of a released simulator, never of people; at least one.
    """
    grid, cells = _within(days)
    places, index = np.unique(cells, return_inverse=True)
    index = index.reshape(cells.shape)
    shares = np.stack([np.bincount(index[:, k], minlength=len(places)) for k in range(len(TIMES))]) / len(cells)
    shown = places >= 0
    ends, total = largest_flows(*blocks_at(days, Levels.of(days).flows), most=FLOWS)
    return Picture(
        outlines=corners(grid, places[shown]),
        shares=shares[:, shown],
        flows=np.column_stack([ends.reshape(-1, 4), total / len(cells)]),
        moving=(days.cells[:, 1:] != days.cells[:, :-1]).mean(axis=0),
        places=float(distinct(days.cells)[:, SLOTS - 1].mean()),
        moves=float(moves(days.cells).mean()),
        still=float((moves(days.cells) == 0).mean()),
    )


def _within(days: Days) -> tuple[Grid, NDArray[np.int64]]:
    """A grid and the blocks [D, len(TIMES)] at `TIMES`, -1 outside the middle of the days.

    The middle is the box between the outermost 5 % on each side, with some room; the blocks are the finest of which a
    page shows no more than it has room for.
    """
    seen = days.cells[:, list(TIMES)]
    cells, index, counts = np.unique(seen, return_inverse=True, return_counts=True)
    centres = days.grid.centres(cells)
    inside = np.ones(len(cells), dtype=np.bool_)
    for values in centres.T:
        order = np.argsort(values)
        reached = np.cumsum(counts[order]) / counts.sum()
        low, high = (values[order][np.searchsorted(reached, part)] for part in (0.05, 0.95))
        room = 0.15 * (high - low)
        inside &= (values >= low - room) & (values <= high + room)
    levels = blocks(days.grid, cells)
    grid, joined = next(levels)
    while len(np.unique(joined[inside])) > MOST_BLOCKS:
        grid, joined = next(levels)
    return grid, np.where(inside, joined, -1)[index].reshape(seen.shape)
