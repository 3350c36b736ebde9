"""Days as files for other tools: trips (GeoJSON, deck.gl, GeoParquet), stays (GeoJSON), flows, visits and plain rows.

A slot says in which cell somebody was in its middle. A trip stays at a cell's centre from the middle of the first to
the middle of the last slot there, and takes the half-hour between two middles for each move; the day begins and ends
where its first and last slot are. Centres are joined by straight lines, which are no roads.

Days have a time of day and no date: every file puts them on one declared date, and counts seconds as if local time
were UTC, so that tools show the local hour.

GeoParquet 1.1 (extra `data`) is written with pyarrow alone: a row a day, with a LineString in well-known binary. The
standard has no measured coordinates, so the seconds of the vertices are a list in a column of their own.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import Grid
from tacit.errors import DataError
from tacit.plain_files import create_file, require_free

SECONDS = 24 * 3600 // SLOTS
"""Of a slot."""
DATE = datetime.date(2024, 1, 1)
"""On which days are put by default."""

Path_ = str | os.PathLike[str]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trips:
    """The journeys of D days, one after the other."""

    starts: IntArray  # [D + 1]; the vertices of day i are starts[i] .. starts[i + 1] - 1.
    lon: FloatArray  # lon, lat: of the vertices, degrees
    lat: FloatArray
    seconds: IntArray  # of the vertices, since midnight; they rise within a day
    person: IntArray  # [D] codes


def trips(days: Days) -> Trips:
    """The journeys of D days: for each stay, where and when it begins and ends; every day has at least two vertices."""
    cells = days.cells
    change = cells[:, 1:] != cells[:, :-1]
    edge = np.ones((len(cells), 1), dtype=np.bool_)
    begins, ends = np.concatenate([edge, change], axis=1), np.concatenate([change, edge], axis=1)
    # One vertex where a stay begins and one where it ends; only one where both are in the middle of the same slot,
    # except at midnight, where a day begins or ends.
    middle = np.arange(SLOTS) * SECONDS + SECONDS // 2
    first, last = np.broadcast_to(middle, cells.shape).copy(), np.broadcast_to(middle, cells.shape).copy()
    first[:, 0], last[:, -1] = 0, SLOTS * SECONDS
    vertices = np.stack([begins, ends & ~(begins & (first == last))], axis=2)
    seconds, where = np.stack([first, last], axis=2)[vertices], np.stack([cells, cells], axis=2)[vertices]
    places, index = np.unique(where, return_inverse=True)
    centres = days.grid.centres(places)[index.ravel()] if len(places) else np.zeros((0, 2))
    starts = np.concatenate([[0], np.cumsum(vertices.sum(axis=(1, 2)))])
    return Trips(starts, centres[:, 1], centres[:, 0], seconds, days.person)


def to_geojson(days: Days, path: Path_, *, date: datetime.date = DATE) -> None:
    """A FeatureCollection of one LineString [lon, lat, 0, unix time] for each day, as kepler.gl animates trips."""
    journeys = trips(days)
    # Unix time of the date's midnight, as if it were UTC
    midnight = int(datetime.datetime(date.year, date.month, date.day, tzinfo=datetime.UTC).timestamp())

    def features() -> Iterator[Any]:
        for day, (rows, person) in enumerate(_day_slices(journeys)):
            points = np.stack([journeys.lon[rows], journeys.lat[rows], journeys.seconds[rows] + midnight], axis=1)
            line = [[round(lon, 6), round(lat, 6), 0, int(t)] for lon, lat, t in points.tolist()]
            shape = {"type": "LineString", "coordinates": line}
            yield {"type": "Feature", "properties": {"day": day, "person": person}, "geometry": shape}

    _write_json(path, features(), *_COLLECTION)


def to_stays_geojson(days: Days, path: Path_, *, date: datetime.date = DATE) -> None:
    """A FeatureCollection of one Point for each stay, with day, person, and its local times: begins and ends.

    A stay lasts from the beginning of its first slot to the end of its last one, at the centre of its cell.

    Args:
        days: all stays of each, one after the other.
        path: a name that is still free.
        date: on which the days are put; times are local and carry no zone.

    Raises:
        FileError: the file exists already or cannot be written.
    """
    first = np.concatenate([np.ones((len(days.cells), 1), np.bool_), days.cells[:, 1:] != days.cells[:, :-1]], axis=1)
    day, slot = np.nonzero(first)
    last = np.append(day[1:] != day[:-1], np.ones(min(1, len(day)), np.bool_))
    ends = np.where(last, SLOTS, np.roll(slot, -1))
    points = days.grid.centres(days.cells[day, slot]).reshape(-1, 2)[:, ::-1].round(6)
    midnight = np.datetime64(date, "s")
    begun, ended = (np.datetime_as_string(midnight + of * np.timedelta64(SECONDS, "s")) for of in (slot, ends))
    said = (day.tolist(), days.person[day].tolist(), begun.tolist(), ended.tolist())
    names = ("day", "person", "begins", "ends")
    stays = (
        {
            "type": "Feature",
            "properties": dict(zip(names, row, strict=True)),
            "geometry": {"type": "Point", "coordinates": point},
        }
        for *row, point in zip(*said, points.tolist(), strict=True)
    )
    _write_json(path, stays, *_COLLECTION)


def to_trips_json(days: Days, path: Path_) -> None:
    """A list of {path, timestamps, person} for the TripsLayer of deck.gl; timestamps are seconds since midnight."""
    journeys = trips(days)
    places = np.round(np.stack([journeys.lon, journeys.lat], axis=1), 6)
    days_rows = _day_slices(journeys)
    _write_json(
        path,
        (
            {"path": places[rows].tolist(), "timestamps": journeys.seconds[rows].tolist(), "person": person}
            for rows, person in days_rows
        ),
    )


def to_flows_csv(days: Days, path: Path_, *, factor: int | None = None, by_slot: bool = False) -> None:
    """How often somebody goes from one cell to another one: the matrix of origins and destinations, row by row.

    Args:
        days: all are counted.
        path: a name that is still free.
        factor: blocks of the grid's `coarse(factor)` in place of its cells.
        by_slot: count each half-hour apart; its time is that of the slot in which the move ends.

    Raises:
        FileError: the file exists already or cannot be written.
    """
    grid, cells = _blocks(days, factor)
    day, slot = np.nonzero(cells[:, 1:] != cells[:, :-1])
    keys = np.stack([slot + 1 if by_slot else np.zeros_like(slot), cells[day, slot], cells[day, slot + 1]], axis=1)
    rows, counts = np.unique(keys, axis=0, return_counts=True)
    ends = [grid.centres(rows[:, k]).reshape(-1, 2) for k in (1, 2)]
    names = ["origin", "origin_lat", "origin_lon", "destination", "destination_lat", "destination_lon", "trips"]
    lines = (
        [*([clock(slot)] if by_slot else []), origin, *start, destination, *end, count]
        for (slot, origin, destination), start, end, count in zip(
            rows.tolist(), ends[0].tolist(), ends[1].tolist(), counts.tolist(), strict=True
        )
    )
    _table(path, [*(["time"] if by_slot else []), *names], lines)


def to_visits_csv(days: Days, path: Path_, *, factor: int | None = None) -> None:
    """How many days are in which cell, half-hour by half-hour.

    Args:
        days: all are counted.
        path: a name that is still free.
        factor: as for `to_flows_csv`.

    Raises:
        FileError: the file exists already or cannot be written.
    """
    grid, cells = _blocks(days, factor)
    keys = np.stack([np.broadcast_to(np.arange(SLOTS), cells.shape).ravel(), cells.ravel()], axis=1)
    rows, counts = np.unique(keys, axis=0, return_counts=True)
    centres = grid.centres(rows[:, 1]).reshape(-1, 2).tolist()
    lines = (
        [clock(slot), cell, *centre, count]
        for (slot, cell), centre, count in zip(rows.tolist(), centres, counts.tolist(), strict=True)
    )
    _table(path, ["time", "cell", "lat", "lon", "days"], lines)


def to_days_csv(days: Days, path: Path_) -> None:
    """One row for each slot of each day: day, person, time, cell and its centre."""
    places, index = np.unique(days.cells, return_inverse=True)
    centres = days.grid.centres(places).reshape(-1, 2).tolist()
    where, times = index.reshape(days.cells.shape), [clock(slot) for slot in range(SLOTS)]
    lines = (
        [day, person, times[slot], int(places[k]), *centres[k]]
        for day, (person, row) in enumerate(zip(days.person.tolist(), where, strict=True))
        for slot, k in enumerate(row.tolist())
    )
    _table(path, ["day", "person", "time", "cell", "lat", "lon"], lines)


def _blocks(days: Days, factor: int | None) -> tuple[Grid, IntArray]:
    """The grid and its cells [D, 48], or their blocks of a factor."""
    if factor is None:
        return days.grid, days.cells
    return days.grid.coarse_grid(factor), days.grid.coarsen(days.cells.ravel(), factor).reshape(-1, SLOTS)


def clock(slot: int) -> str:
    """When a slot begins, HH:MM."""
    return f"{slot // 2:02d}:{30 * (slot % 2):02d}"


def _day_slices(journeys: Trips) -> Iterator[tuple[slice, int]]:
    ends = journeys.starts.tolist()
    for first, last, person in zip(ends, ends[1:], journeys.person.tolist(), strict=False):
        yield slice(first, last), person


_COLLECTION = ('{"type":"FeatureCollection","features":', "}")
"""What stands around the list of features in a GeoJSON file."""


def _write_json(path: Path_, values: Iterable[Any], before: str = "", after: str = "") -> None:
    """A JSON list, a value a line, with what stands before and after it."""
    with _create_text_file(path) as file:
        file.write(f"{before}[\n")
        for number, value in enumerate(values):
            file.write((",\n" if number else "") + json.dumps(value, separators=(",", ":")))
        file.write(f"\n]{after}\n")


def _table(path: Path_, names: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    with _create_text_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(lines)


@contextmanager
def _create_text_file(path: Path_) -> Iterator[IO[str]]:
    """A text file that is there when it is whole, or not at all."""
    with create_file(Path(path)) as partial, partial.open("x", encoding="utf-8", newline="") as file:
        yield file


def parse_date(text: str) -> datetime.date:
    """A date as YYYY-MM-DD. Raises DataError where it is none, or not after 1970."""
    try:
        date = datetime.date.fromisoformat(text)
    except ValueError:
        date = None
    if date is None or date.year < 1970:
        what, expected = f"the date is {text!r}", "YYYY-MM-DD, from 1970 on"
        raise DataError(what, where="trips", expected=expected, remedy="write it so")
    return date


_HEADER = np.dtype([("order", "u1"), ("kind", "<u4"), ("points", "<u4")])
"""Of a LineString: 1 for little-endian, 2 for the kind, and how many points follow."""


def to_geoparquet(days: Days, path: str | os.PathLike[str], *, date: datetime.date = DATE) -> None:
    """Columns day, person, geometry (LineString, lon and lat, WGS 84), times (timestamps, local) and bbox.

    Args:
        days: one row each.
        path: a name that is still free.
        date: on which the days are put; times are local and carry no zone.

    Raises:
        FileError: the file exists already or cannot be written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    path = Path(path)
    require_free(path)
    journeys = trips(days)
    offsets = pa.array(journeys.starts.astype(np.int32))
    midnight = np.datetime64(date, "ms")
    times = pa.array(midnight + journeys.seconds.astype("timedelta64[s]").astype("timedelta64[ms]"))
    boxes = _boxes(journeys)
    table = pa.table(
        {
            "day": pa.array(np.arange(len(journeys.person))),
            "person": pa.array(journeys.person),
            "geometry": pa.array(well_known_binary(journeys), type=pa.binary()),
            "times": pa.ListArray.from_arrays(offsets, times),
            "bbox": pa.StructArray.from_arrays([pa.array(column) for column in boxes.values()], names=list(boxes)),
        }
    )
    table = table.replace_schema_metadata({"geo": json.dumps(_metadata(boxes))})
    with create_file(path) as partial:
        parquet.write_table(table, partial, compression="zstd")


def well_known_binary(journeys: Trips) -> list[bytes]:
    """A LineString of each way, as well-known binary."""
    header = np.zeros(len(journeys.person), dtype=_HEADER)
    header["order"], header["kind"], header["points"] = 1, 2, np.diff(journeys.starts)
    points = np.stack([journeys.lon, journeys.lat], axis=1).astype("<f8")
    ends = journeys.starts.tolist()
    return [
        head.tobytes() + points[first:last].tobytes() for head, first, last in zip(header, ends, ends[1:], strict=False)
    ]


def _boxes(journeys: Trips) -> dict[str, npt.NDArray[np.float64]]:
    at = journeys.starts[:-1]
    if not len(at):
        return {name: np.zeros(0) for name in ("xmin", "ymin", "xmax", "ymax")}
    return {
        "xmin": np.minimum.reduceat(journeys.lon, at),
        "ymin": np.minimum.reduceat(journeys.lat, at),
        "xmax": np.maximum.reduceat(journeys.lon, at),
        "ymax": np.maximum.reduceat(journeys.lat, at),
    }


def _metadata(boxes: dict[str, npt.NDArray[np.float64]]) -> dict[str, Any]:
    """The `geo` metadata; without `crs` the standard means longitude and latitude on WGS 84."""
    geometry: dict[str, Any] = {
        "encoding": "WKB",
        "geometry_types": ["LineString"],
        "covering": {"bbox": {name: ["bbox", name] for name in boxes}},
    }
    if len(boxes["xmin"]):
        low, high = (boxes["xmin"].min(), boxes["ymin"].min()), (boxes["xmax"].max(), boxes["ymax"].max())
        geometry["bbox"] = [float(value) for value in (*low, *high)]
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": geometry}}
