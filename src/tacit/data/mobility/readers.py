"""Records of where people were, as whole days on a public grid: the readers.

Each takes a public grid and `Rules`, and gives `Days`, whose `trajectories()` go into a vault. The protected unit is
the person. Someone without enough whole days has none here and stays in the population, which is declared
(`Unit(population=...)`) and never counted.

A reader raises a `DataError`, never with a cell, an id, a time or a position in it, when a user, time, latitude or
longitude is missing or NaN; a time has no zone and `recorded` says none; the times of a user are not in order or
repeated; a user is in two files; a point is outside the grid; latitude and longitude are swapped; or no day is whole;
and a `FileError` when a file is missing, damaged or of another kind. Frames are pandas frames; CSV files may be
compressed (.gz, .zip).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data import unit_keys
from tacit.data.columns import unmask
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.files import GPX, read_columns, read_gpx
from tacit.data.mobility.grids import Grid
from tacit.data.mobility.points import UNIX, PointTable, Rules, build_days, parse_times
from tacit.data.sources.tables import (
    PLAIN,
    Style,
    TextStream,
    npz_arrays,
    require_distinct_names,
    row_error,
    to_numbers,
)
from tacit.errors import DataError, FileError
from tacit.plain_files import is_inside, is_plain_file
from tacit.units import UnitKey

__all__ = ["UNIX", "Rules", "from_cells", "from_checkins", "from_gpx", "from_plt", "from_points", "from_skmob"]
__all__ += ["from_trackintel"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def from_points(
    source: Any,
    grid: Grid,
    rules: Rules,
    *,
    recorded: str | None = None,
    user: str = "user",
    time: str = "time",
    lat: str = "lat",
    lon: str = "lon",
    pattern: str | None = None,
    offset: str | None = None,
    style: Style = PLAIN,
) -> Days:
    """From positions: one row a point, the rows of each user in order of time (users may be mixed).

    Args:
        source: a frame, or one or several files (CSV, Parquet, GeoPackage, GeoJSON); all rows of a user in one of them.
        grid: public grid.
        rules: how points become days.
        recorded: zone of times that carry none (IANA), or `UNIX` for seconds since 1970.
        user, time, lat, lon: names of the columns; a geometry of points may stand for the last two in files of Parquet
            and GeoPackage, and does in GeoJSON.
        pattern: `strptime` pattern of the times; None takes ISO 8601.
        offset: column with the minutes that local time is ahead of UTC; None takes the zone of the rules.
        style: how CSV files are written.

    Raises:
        DataError, FileError: see the module.
    """
    names = (user, time, lat, lon, *(() if offset is None else (offset,)))
    parts = []
    for where, columns in _tables(source, names, texts=(user, time), position=(lat, lon), style=style):
        offsets = None
        if offset is not None:
            minutes = to_numbers(columns[offset])
            if not np.isfinite(minutes).all() or (np.abs(minutes) > 16 * 60).any():
                raise _column_error(where, offset, "minutes between -960 and 960 in every row")
            offsets = (minutes * 60_000).astype(np.int64)
        start = parse_times(_times(columns[time], recorded), where, recorded, pattern)
        point = (to_numbers(columns[lat]), to_numbers(columns[lon]))
        parts.append(PointTable(where, columns[user], start, *point, offset=offsets))
    return build_days(parts, grid, rules)


def from_checkins(source: Any, grid: Grid, rules: Rules, **names: Any) -> Days:
    """From check-ins, by default in the columns of the Foursquare files of New York and Tokyo with a header: `userId`,
    `latitude`, `longitude`, `timezoneOffset` (minutes) and `utcTimestamp` (`Tue Apr 03 18:00:09 +0000 2012`); `names`
    are other arguments of `from_points`.

    A check-in is a point: someone is there until the next one, at most `rules.carry` slots, so give a long carry and a
    low `observed`, such as Rules(carry=48, observed=3).
    """
    defaults: dict[str, Any] = {"user": "userId", "lat": "latitude", "lon": "longitude", "time": "utcTimestamp"}
    defaults |= {"offset": "timezoneOffset", "pattern": "%a %b %d %H:%M:%S %z %Y"}
    return from_points(source, grid, rules, **{**defaults, **names})


def from_skmob(frame: Any, grid: Grid, rules: Rules, *, recorded: str | None = None) -> Days:
    """From a scikit-mobility `TrajDataFrame`, or any frame with its columns: uid, datetime, lat, lng. Its datetimes
    carry no zone, so `recorded` is needed."""
    return from_points(frame, grid, rules, recorded=recorded, user="uid", time="datetime", lat="lat", lon="lng")


def from_trackintel(
    frame: Any, grid: Grid, rules: Rules, *, recorded: str | None = None, geometry: str = "geom"
) -> Days:
    """From trackintel positionfixes (user_id, tracked_at) or staypoints (user_id, started_at, finished_at).

    Args:
        frame: a frame with these columns and points (`.x` longitude, `.y` latitude, WGS 84) in `geometry`.
        grid, rules, recorded: as `from_points`.
        geometry: name of the column of the points.

    Raises:
        DataError: see the module.
    """
    where, columns_of = "mobility.from_trackintel", getattr(frame, "columns", ())
    stays = "started_at" in columns_of
    times = ("started_at", "finished_at") if stays else ("tracked_at",)
    (_, columns), *_ = _tables(frame, ("user_id", geometry, *times), texts=(), where=where)
    start, *end = (parse_times(columns[name], where, recorded) for name in times)
    points = columns[geometry]
    if hasattr(points, "x") and hasattr(points, "y"):
        lon, lat = to_numbers(points.x), to_numbers(points.y)
    else:
        lon, lat = (np.array([getattr(p, axis, np.nan) for p in points], dtype=np.float64) for axis in "xy")
    part = PointTable(where, columns["user_id"], start, lat, lon, end=end[0] if end else None)
    return build_days([part], grid, rules)


def from_plt(folders: Paths, grid: Grid, rules: Rules) -> Days:
    """From GeoLife folders: `USER/Trajectory/*.plt` below each of `folders` (latitude, longitude, 0, altitude, day
    number, date, time in UTC, behind six lines of header). The user is the name of the folder above `Trajectory`."""
    parts = []
    for folder in _paths(folders):
        users: dict[Path, list[Path]] = {}
        places = ((place, names) for place, _, names in os.walk(folder) if os.path.basename(place) == "Trajectory")
        for path in sorted(Path(place, name) for place, names in places for name in names if name.endswith(".plt")):
            users.setdefault(path.parent.parent, []).append(path)
        if not users:
            what, expected = "there is no PLT file", "files USER/Trajectory/*.plt below the folder"
            remedy = "give the folder that holds the folders of the users"
            raise FileError(what, where=folder.name, expected=expected, remedy=remedy)
        for number, (owner, files) in enumerate(users.items()):
            tables = [_plt(folder, path) for path in files]
            lat, lon = (np.concatenate([to_numbers(t[i]) for t in tables]) for i in (0, 1))
            written = [f"{day} {clock}" for t in tables for day, clock in zip(t[5], t[6], strict=True)]
            where = f"{folder.name}, folder {number + 1}"  # the name of the user's folder is an id
            start = parse_times(written, where, "UTC", "%Y-%m-%d %H:%M:%S")
            parts.append(PointTable(where, [owner.name] * len(start), start, lat, lon))
    return build_days(parts, grid, rules)


def from_gpx(sources: Paths, grid: Grid, rules: Rules) -> Days:
    """From the tracks of GPX files: `USER.gpx`, or `USER/*.gpx` and deeper in a folder that holds folders of users.

    The user is the name of the file without its ending, or of the folder. Files of one user are put in order by their
    first times. A time without a zone is in UTC, as the format has it. Waypoints and routes are not read.
    """
    parts = []
    for number, source in enumerate(_paths(sources), 1):
        folder, found = source.parent, [source]
        if source.is_dir():
            folder, walked = source, os.walk(source)
            found = sorted(Path(p, name) for p, _, names in walked for name in names if name.lower().endswith(GPX))
        owners: dict[str, list[PointTable]] = {}
        for place, path in enumerate(found, 1):
            where = f"{source.name}, GPX file {place}" if source.is_dir() else f"GPX file {number}"
            if source.is_dir() and not is_inside(folder, str(path.relative_to(folder))):
                what, remedy = "a link leads out of the folder", "put the file itself there, or name it"
                raise FileError(what, where=where, expected="plain files", remedy=remedy)
            times, lat, lon = read_gpx(path, where)
            owner = next(iter(path.relative_to(folder).parts[:-1]), path.stem)
            table = PointTable(where, [owner], parse_times(times, where, "UTC"), to_numbers(lat), to_numbers(lon))
            owners.setdefault(owner, []).append(table)
        if not owners:
            what, expected = "there is no GPX file", "files USER.gpx or USER/*.gpx below the folder"
            remedy = "give the folder that holds the files or the folders of the users"
            raise FileError(what, where=source.name, expected=expected, remedy=remedy)
        for tables in owners.values():
            tables.sort(key=lambda table: int(table.start[0]))
            start, *point = (np.concatenate([getattr(t, of) for t in tables]) for of in ("start", "lat", "lon"))
            more = f" and {len(tables) - 1} more of its user" if len(tables) > 1 else ""
            parts.append(PointTable(tables[0].where + more, [*tables[0].user] * len(start), start, *point))
    return build_days(parts, grid, rules)


def from_cells(
    source: str | os.PathLike[str] | Mapping[str, npt.ArrayLike],
    grid: Grid,
    *,
    days: str = "days",
    user: str = "user",
    places: str | None = "cell_latlon",
    fewest: int = 1,
    unit_key: UnitKey | None = None,
) -> Days:
    """From days that are cut already: arrays of an .npz file or a mapping.

    Args:
        source: the file, or name -> array.
        grid: public grid.
        days: name of the array [D, 48] of places.
        user: name of the array [D] of users.
        places: name of the array [V, 2] of latitude and longitude of each place; None when the days hold cells of
            `grid`.
        fewest, unit_key: days that a person needs, and what twins are, as in `Rules`.

    Raises:
        DataError: an array is missing or has another shape, or a place is outside the grid.
        FileError: the file is missing or damaged.
    """
    where = "mobility.from_cells"
    arrays = npz_arrays(Path(source)) if isinstance(source, (str, os.PathLike)) else dict(source)
    missing = [name for name in (days, user, places) if name is not None and name not in arrays]
    if missing:
        raise _column_error(where, missing[0], "an array of that name")
    cells, owner = np.asarray(unmask(arrays[days])), np.asarray(arrays[user])
    if cells.ndim != 2 or cells.shape[1] != SLOTS or cells.dtype.kind not in "iu" or owner.shape != cells.shape[:1]:
        raise _column_error(where, days, f"whole numbers [D, {SLOTS}] and one user for each day")
    if places is not None:
        points = np.asarray(arrays[places], dtype=np.float64)
        if (
            points.ndim != 2
            or points.shape[1] != 2
            or (len(cells) and not 0 <= cells.min() <= cells.max() < len(points))
        ):
            raise _column_error(where, places, "latitude and longitude [V, 2] of every place of the days")
        cell_of = grid.cells(points[:, 0], points[:, 1])
        if (cell_of < 0).any():
            raise _column_error(where, places, "places inside the grid, latitude first")
        cells = cell_of[cells]
    try:
        keys, _ = unit_keys.keys(unit_keys.as_column(arrays[user]), unit_keys.require_unit_key(unit_key, where))
    except unit_keys.NoKey as error:
        raise _column_error(
            f"{where}, day {error.row + 1}", user, f"an id of one kind for each day: one {error}"
        ) from None
    _, codes, number = np.unique(keys, return_inverse=True, return_counts=True)
    rows = number[codes] >= fewest
    present, codes = np.unique(keys[rows], return_inverse=True)
    texts = [str(key) for key in present.tolist()]
    unit_keys.require_no_twins(map(str, keys.tolist()), where, unit_key)
    receipt = {
        "days": {"all": len(rows), "left out": int((~rows).sum())},
        "people": {"all": len(number), "without enough whole days, left out": len(number) - len(present)},
    }
    return Days(cells[rows], codes.astype(np.int64), grid, unit_keys.names(texts), unit_key, receipt)


def _tables(
    source: Any,
    names: Sequence[str],
    *,
    texts: Sequence[str],
    position: tuple[str, str] = ("", ""),
    where: str = "mobility.from_points",
    style: Style = PLAIN,
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(where, name -> column) of the frame, or of each file."""
    if isinstance(source, (str, os.PathLike)) or (isinstance(source, Sequence) and source):
        for path in _paths(source):
            columns = read_columns(path, names, texts=texts, position=position, style=style)
            absent = [name for name in names if name not in columns]
            if absent:
                raise _column_error(path.name, absent[0], "a header with that column, and rows")
            yield path.name, columns
        return
    if not hasattr(source, "columns"):
        expected = "a pandas frame, or the path of a CSV, Parquet, GeoPackage or GeoJSON file"
        remedy = "pass one of these"
        raise DataError("the source is neither a frame nor a file", where=where, expected=expected, remedy=remedy)
    require_distinct_names([str(name) for name in source.columns], where)
    absent = [name for name in names if name not in source.columns]
    if absent:
        raise _column_error(where, absent[0], "a column of that name")
    yield where, {name: source[name] for name in names}


def _times(column: Any, recorded: str | None) -> Any:
    """The column; where a file has seconds since 1970 as text, as numbers."""
    if recorded != UNIX or np.asarray(column).dtype.kind not in "OU":
        return column
    numbers = to_numbers(column)
    return numbers if np.isfinite(numbers).any() else column


def _plt(folder: Path, path: Path) -> Any:
    import pandas as pd

    wrong = None
    try:
        if is_plain_file(path) and is_inside(folder, str(path.relative_to(folder))):
            with TextStream(path, skipped=6, cells=7) as text:
                try:
                    table = pd.read_csv(text, header=None, usecols=[0, 1, 5, 6], dtype={5: str, 6: str})
                finally:
                    wrong = text.wrong
            if wrong is None:
                return table[[0, 1, 5, 6]]
    except Exception:  # no list of what the parser raises would be whole, and it may quote a cell
        pass
    if wrong:
        raise row_error("a PLT file", wrong)
    what, expected = "the file is missing, truncated or of another kind", "a readable file"
    raise FileError(what, where="a PLT file", expected=expected, remedy="check the path, or write the file again")


def _paths(paths: Any) -> list[Path]:
    sources = [Path(paths)] if isinstance(paths, (str, os.PathLike)) else [Path(path) for path in paths]
    if not sources or len({os.path.realpath(path) for path in sources}) != len(sources):
        what, expected = "there is no file or folder, or the same one twice", "different files or folders, at least one"
        raise FileError(what, where="mobility", expected=expected, remedy="correct the list")
    return sources


def _column_error(where: str, name: str, expected: str) -> DataError:
    what = f"{name!r} is missing or invalid"
    return DataError(what, where=where, expected=expected, remedy="correct the data, or name the column that holds it")
