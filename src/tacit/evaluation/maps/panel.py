"""What a map knows of one set of days: places, visits by slot, flows and the trips that are drawn."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tacit.data.days import SLOTS, Days
from tacit.data.grids import Grid, RegularGrid
from tacit.data.h3_grid import H3Grid
from tacit.errors import DataError

Kind = Literal["synthetic", "simulated", "public"]
"""Made by a released simulator, by a simulation that never saw a person, or of people who published their days."""

MOST_PLACES, MOST_VISITS = 20_000, 250_000
"""Of one panel: beyond these the cells are joined to larger blocks."""
MOST_FLOWS = 250
"""Pairs of blocks that are drawn, the largest ones."""
FLOWS_HELD = 0.4
"""Of all moves between blocks the drawn pairs hold at least this share: the blocks are as small as that allows."""

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Panel:
    """One map of the page.

    Args:
        label: its heading.
        days: what is drawn.
        kind: whose days they are. Real days that nobody published have no kind and are not drawn.

    Raises:
        DataError: the kind is another one, or there is no day.
    """

    label: str
    days: Days
    kind: Kind

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise _refused(f"the days are declared as {self.kind!r}", f"one of {', '.join(get_args(Kind))}")
        if not len(self.days.cells):
            raise _refused("there is no day", "at least one day")


@dataclass(frozen=True)
class Levels:
    """How coarse the blocks of a map are, as steps of `blocks`: 0 are the cells themselves.

    Attributes:
        visits: of the density and of the trips.
        flows: of the flows.
    """

    visits: int
    flows: int

    @classmethod
    def of(cls, days: Days) -> Levels:
        """The finest at which a browser can draw the days, and the drawn flows hold enough of the moves."""
        visits = flows = -1
        for level, (_, cells) in enumerate(blocks(days.grid, days.cells)):
            if visits < 0:
                held = np.unique(cells * SLOTS + np.arange(SLOTS))
                visits = level if len(held) <= MOST_VISITS and len(np.unique(held // SLOTS)) <= MOST_PLACES else -1
            if flows < 0:
                _, counts = np.unique(_moves(cells)[2], return_counts=True)
                flows = level if np.sort(counts)[-MOST_FLOWS:].sum() >= FLOWS_HELD * counts.sum() else -1
            if min(visits, flows) >= 0:
                break
        return cls(level if visits < 0 else visits, level if flows < 0 else flows)

    def joined(self, other: Levels) -> Levels:
        """The coarser of both, so that two maps can be compared."""
        return Levels(max(self.visits, other.visits), max(self.flows, other.flows))


def packed(panel: Panel, levels: Levels, *, trips: int) -> dict[str, Any]:
    """The panel's arrays for the page, as JSON values.

    Args:
        panel: what to draw.
        levels: how coarse.
        trips: most days whose trips are drawn; taken evenly. Visits and flows count all days.
    """
    days = panel.days.cells
    grid, cells = blocks_at(panel.days, levels.visits)
    places, index = np.unique(cells, return_inverse=True)
    index = index.reshape(days.shape)
    outlines = corners(grid, places)
    shown = np.unique(np.linspace(0, len(days) - 1, min(trips, len(days))).astype(np.int64))
    slots, where, counts = _visits(index, len(places))
    return {
        "label": panel.label,
        "kind": panel.kind,
        "days": len(days),
        "shown": len(shown),
        "sides": outlines.shape[1],
        "corners": _array(outlines.ravel()),
        "trips": _array(index[shown].ravel()),
        "moving": _array((index[:, 1:] != index[:, :-1]).mean(axis=0)),
        "visits": {"starts": _array(slots), "where": _array(where), "counts": _array(counts)},
        "flows": _flows(*blocks_at(panel.days, levels.flows)),
    }


def corners(grid: Grid, cells: npt.ArrayLike) -> FloatArray:
    """Latitude and longitude [n, k, 2] of the corners of cells, in order.

    Raises:
        DataError: the grid is of an unknown kind.
    """
    if isinstance(grid, RegularGrid):
        half = np.array([grid.step, grid.step if grid.width is None else grid.width]) / 2
        found: FloatArray = grid.centres(cells)[:, None, :] + half * np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]])
        return found
    if isinstance(grid, H3Grid):
        import h3.api.basic_int as h3

        outlines = [h3.cell_to_boundary(cell) for cell in grid.indexes(cells).tolist()]
        most = max(len(one) for one in outlines)
        return np.array([[*one, *[one[-1]] * (most - len(one))] for one in outlines], dtype=np.float64)
    raise _refused("the grid is of an unknown kind", "a RegularGrid or an H3Grid")


def blocks(grid: Grid, cells: IntArray) -> Iterator[tuple[Grid, IntArray]]:
    """The cells on the grid, then on ever coarser ones."""
    yield grid, cells
    if isinstance(grid, H3Grid):
        factors = range(1, grid.resolution + 1)
    else:
        factors = (2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 500, 1_000, 5_000, 20_000)  # type: ignore[assignment]
    for factor in factors:
        yield grid.coarse(factor), grid.coarsen(cells.ravel(), factor).reshape(cells.shape)


def blocks_at(days: Days, level: int) -> tuple[Grid, IntArray]:
    """The grid of a level, and the days on it."""
    return next(islice(blocks(days.grid, days.cells), level, None))


def _moves(cells: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Origin, destination and both as one number, of every change of cell."""
    day, slot = np.nonzero(cells[:, 1:] != cells[:, :-1])
    origin, destination = cells[day, slot], cells[day, slot + 1]
    return origin, destination, origin * (cells.max(initial=0) + 1) + destination


def _visits(index: IntArray, places: int) -> tuple[IntArray, IntArray, IntArray]:
    """Slot by slot: where in the list the slot starts [49], the places and how many days are there."""
    keys, counts = np.unique(np.arange(SLOTS) * places + index, return_counts=True)
    slots, where = np.divmod(keys, places)
    return np.searchsorted(slots, np.arange(SLOTS + 1)), where, counts


def _flows(grid: Grid, cells: IntArray) -> dict[str, Any]:
    """The largest flows between two different blocks, of the whole day and by slot."""
    places, index = np.unique(cells, return_inverse=True)
    index = index.reshape(cells.shape)
    slot = np.nonzero(index[:, 1:] != index[:, :-1])[1]
    origins, destinations, pairs = _moves(index)
    keys, first, inverse, counts = np.unique(pairs, return_index=True, return_inverse=True, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:MOST_FLOWS]
    rank = np.full(len(keys), -1, dtype=np.int64)
    rank[largest] = np.arange(len(largest))
    row = rank[inverse.ravel()]
    profile = np.zeros((len(largest), SLOTS - 1), dtype=np.int64)
    np.add.at(profile, (row[row >= 0], slot[row >= 0]), 1)
    arrays = {
        "places": corners(grid, places).mean(axis=1).ravel(),
        "origin": origins[first[largest]],
        "destination": destinations[first[largest]],
        "total": counts[largest],
        "profile": profile.ravel(),
    }
    share = float(counts[largest].sum() / max(1, counts.sum()))
    return {name: _array(values) for name, values in arrays.items()} | {"pairs": len(keys), "share": share}


def largest_flows(grid: Grid, cells: IntArray, *, most: int) -> tuple[FloatArray, IntArray]:
    """Latitude and longitude [m, 2, 2] of origin and destination of the largest flows, and their moves [m]."""
    origins, destinations, pairs = _moves(cells)
    _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
    chosen = np.argsort(-counts, kind="stable")[:most]
    ends = np.stack([origins[first[chosen]], destinations[first[chosen]]], axis=1)
    centres = corners(grid, ends.ravel()).mean(axis=1) if len(ends) else np.zeros((0, 2))
    return centres.reshape(-1, 2, 2), counts[chosen]


def _array(values: npt.NDArray[Any]) -> dict[str, str]:
    """Little-endian bytes of an array in the smallest kind that holds it."""
    if values.dtype.kind == "f":
        kind = "f8"
    else:
        most = int(values.max(initial=0))
        kind = "u1" if most < 2**8 else "u2" if most < 2**16 else "u4"
    return {"kind": kind, "base64": base64.b64encode(values.astype(f"<{kind}").tobytes()).decode()}


def _refused(what: str, expected: str) -> DataError:
    return DataError(
        what,
        where="maps",
        expected=expected,
        remedy="draw what a simulator generated, or days that are declared simulated or public",
    )
