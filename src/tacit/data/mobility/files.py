"""Columns of files of positions: CSV, Parquet, GeoPackage, GeoJSON, GPX; what a parser complains of reaches nobody.

A position is two columns of numbers, or a point in the file's geometry (WKB in Parquet, as GeoParquet has it, and
GeoPackage's own), which is longitude and latitude in WGS 84. A GeoPackage is an SQLite file (OGC 12-128r19): it is
opened read-only, one table of features is read, and no view, trigger or extension of it runs.

GeoJSON (RFC 7946) is a collection of Points, whose properties are the other columns, or of LineStrings, whose times are
the list `coordTimes`. Of GPX the points of tracks are read, in a stream, and a document type, which could name other
files or blow up, is refused.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import numpy.typing as npt

from tacit.data.sources.column_sql import quote
from tacit.data.sources.tables import PLAIN, TABBED, Style, csv_chunks, parquet_chunks, parquet_header, unreadable_error
from tacit.errors import DataError, FileError
from tacit.plain_files import is_plain_file, read_text

SUFFIXES = (".csv", ".csv.gz", ".csv.zip", *TABBED, ".parquet", ".gpkg", ".geojson")
GPX = ".gpx"
"""Files of one person each, or of folders of one."""
_GEOMETRY = "geometry"
"""Name of the column of points in a Parquet file."""
_ENVELOPES = (0, 32, 48, 48, 64)
"""Bytes of the envelope in front of a geometry, by its code (OGC 12-128r19, table 6)."""
_POINTS = {1, 1001, 2001, 3001, 0x80000001, 0x20000001}
"""Codes of a point, with height or measure and without."""
_WGS84 = (4326, 0)
_KIND = "a GeoPackage file with one table of points in WGS 84"
_CHUNK, _DEPTH, _TOKEN = 2**16, 32, 2**20
"""Of a GPX file: bytes that are read at once, elements within each other, bytes between two of its tags, at most."""
_GEOJSON = 2**29
"""Bytes of a GeoJSON file, which is read whole."""


def read_columns(
    path: Path, names: Sequence[str], *, texts: Sequence[str], position: tuple[str, str], style: Style = PLAIN
) -> Mapping[str, Any]:
    """The columns of one file."""
    # returns: Name -> column [n]; what the file does not have is missing
    suffix = path.suffix.lower()
    if suffix == ".gpkg":
        return _geopackage(path, names, position)
    if suffix == ".geojson":
        return _geojson(path, names, position)
    if suffix == ".parquet":
        return _parquet(path, names, texts, position)
    chunks = list(csv_chunks(path, [name for name in names if name not in texts], texts, style))
    return _concatenate(chunks, names)


def _concatenate(chunks: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in names if chunks and name in chunks[0]}


def _parquet(path: Path, names: Sequence[str], texts: Sequence[str], position: tuple[str, str]) -> dict[str, Any]:
    present = parquet_header(path)
    has_geometry = _GEOMETRY in present and not set(position) <= set(present)
    numbers = [name for name in names if name not in texts and not (has_geometry and name in position)]
    whole = [*texts, *([_GEOMETRY] if has_geometry else ())]
    columns = _concatenate(list(parquet_chunks(path, numbers, whole)), (*numbers, *whole))
    if has_geometry and _GEOMETRY in columns:
        columns |= _positions(path, [(blob, 0) for blob in columns.pop(_GEOMETRY)], position)
    return columns


def _geopackage(path: Path, names: Sequence[str], position: tuple[str, str]) -> dict[str, Any]:
    if not is_plain_file(path):
        raise unreadable_error(path, _KIND)
    if Path(f"{path}-wal").exists():
        what = "another program has the file open, or left it without closing it"
        expected, remedy = "a file that is complete by itself", "close it there, or open and save it again"
        raise FileError(what, where=str(path), expected=expected, remedy=remedy)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as file:
            file.execute("PRAGMA trusted_schema = OFF")
            table, geometry = _features(path, file)
            present = {str(row[1]) for row in file.execute(f"PRAGMA table_info({quote(table)})")}
            has_geometry = not set(position) <= present
            columns_read = [name for name in names if name in present and not (has_geometry and name in position)]
            chosen = ", ".join(quote(name) for name in (*columns_read, *([geometry] if has_geometry else ())))
            rows = file.execute(f"SELECT {chosen} FROM {quote(table)}").fetchall()
    except (sqlite3.Error, ValueError, OverflowError):
        raise unreadable_error(path, _KIND) from None
    columns: dict[str, Any] = {name: _column([row[i] for row in rows]) for i, name in enumerate(columns_read)}
    if has_geometry and rows:
        columns |= _positions(path, [(row[-1], _header(row[-1])) for row in rows], position)
    return columns


def _features(path: Path, file: sqlite3.Connection) -> tuple[str, str]:
    """The one table of features, which is no view, and the column of its points."""
    found = file.execute(
        "SELECT c.table_name, c.column_name, c.srs_id, c.geometry_type_name FROM gpkg_geometry_columns c "
        "JOIN sqlite_master m ON m.name = c.table_name WHERE m.type = 'table' AND m.sql NOT LIKE 'CREATE VIRTUAL%'"
    ).fetchall()
    if len(found) != 1 or found[0][2] not in _WGS84 or str(found[0][3]).upper() not in ("POINT", "GEOMETRY"):
        raise _points_error(path, "there is no table of points in longitude and latitude, or there are several")
    table, column, *_ = found[0]
    return str(table), str(column)


def _geojson(path: Path, names: Sequence[str], position: tuple[str, str]) -> dict[str, Any]:
    try:
        features = json.loads(read_text(path, _GEOJSON))["features"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        raise unreadable_error(path, "a GeoJSON FeatureCollection in UTF-8, of at most 512 MiB") from None
    lat, lon = position
    columns: dict[str, list[Any]] = {name: [] for name in names}
    time = next((name for name in names[1:] if name not in position), "")
    for number, feature in enumerate(features if isinstance(features, list) else [None], 1):
        try:
            shape, said = feature["geometry"], feature["properties"] or {}
            line = shape["type"] == "LineString"
            points = shape["coordinates"] if line else [shape["coordinates"]]
            times = said["coordTimes"] if line else [said.get(time)]
            rows = [
                {**said, time: moment, lon: float(point[0]), lat: float(point[1])}
                for moment, point in zip(times, points, strict=True)
            ]
            cells = [row[name] for row in rows for name in names if row.get(name) is not None]
            whole = shape["type"] in ("Point", "LineString") and not any(isinstance(c, (list, dict)) for c in cells)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            whole, rows = False, []
        if not whole:
            what = "the feature is neither a Point nor a LineString with coordTimes, a time for each of its points"
            expected, remedy = f"features with the properties {', '.join(names[:2])}", "export it so, or as CSV"
            raise DataError(what, where=f"{path.name}, feature {number}", expected=expected, remedy=remedy)
        for name in names:
            columns[name] += [row.get(name) for row in rows]
    absent = {name for name, cells in columns.items() if not any(cell is not None for cell in cells)}
    return {name: _column(cells) for name, cells in columns.items() if name not in absent}


def read_gpx(path: Path, where: str) -> tuple[list[str], list[str], list[str]]:
    """Times, latitudes and longitudes of the points of all tracks, in their order, as they are written. `where` is what
    an error says instead of the file's name, which may be an id. Raises FileError where it is missing, damaged, none or
    has a document type; DataError where it has no track with a point."""
    inside: list[str] = []
    times, lat, lon = list[str](), list[str](), list[str]()

    def start(name: str, attributes: Mapping[str, str]) -> None:
        local = name.rpartition(" ")[2]
        if (not inside and local != "gpx") or len(inside) >= _DEPTH:
            raise ValueError
        if local == "trkpt" and inside[-1] == "trkseg":
            times.append("")
            lat.append(attributes.get("lat", ""))
            lon.append(attributes.get("lon", ""))
        inside.append(local)

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = lambda *_: start("a document type", {})
    parser.EndElementHandler = lambda _: inside.pop()
    parser.CharacterDataHandler = lambda text: (
        times.append((times.pop() + text)[:64]) if inside[-3:] == ["trkseg", "trkpt", "time"] else None
    )
    try:
        if not is_plain_file(path):
            raise ValueError
        with path.open("rb") as file:
            read = 0
            while chunk := file.read(_CHUNK):
                parser.Parse(chunk, False)
                read += len(chunk)
                if read - parser.CurrentByteIndex > _TOKEN:
                    raise ValueError
        parser.Parse(b"", True)
    except (OSError, ValueError, LookupError, expat.ExpatError):
        what, expected = "the file is missing, damaged, no GPX or has a document type", "a GPX file, as it was exported"
        raise FileError(what, where=where, expected=expected, remedy="export it again as GPX") from None
    if not times:
        what, expected = "the file has no track with a point", "trk, trkseg and trkpt with lat, lon and time"
        raise DataError(what, where=where, expected=expected, remedy="export it as a track, or leave the file out")
    return times, lat, lon


def _column(values: Sequence[Any]) -> npt.NDArray[Any]:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    numbers = all(type(value) in (int, float) for value in column)
    return column.astype(np.float64) if numbers and any(type(value) is float for value in column) else column


def _header(blob: Any) -> int | None:
    """Where the WKB begins in a geometry of a GeoPackage; None where there is no point."""
    if type(blob) is not bytes or len(blob) < 8 or blob[:2] != b"GP" or blob[3] & 0x10:
        return None
    code = (blob[3] >> 1) & 7
    return 8 + _ENVELOPES[code] if code < len(_ENVELOPES) else None


def _positions(path: Path, blobs: Sequence[tuple[Any, int | None]], position: tuple[str, str]) -> dict[str, Any]:
    """Latitudes and longitudes [n] of points in WKB; NaN where there is none."""
    points = np.full((len(blobs), 2), np.nan)
    for i, (blob, start) in enumerate(blobs):
        if blob is None or start is None:
            continue
        order = "<" if blob[start : start + 1] == b"\x01" else ">"
        if len(blob) < start + 21 or struct.unpack_from(f"{order}I", blob, start + 1)[0] not in _POINTS:
            raise _points_error(path, f"the geometry of row {i + 1} is no point")
        skipped = 4 if struct.unpack_from(f"{order}I", blob, start + 1)[0] & 0x20000000 else 0
        points[i] = struct.unpack_from(f"{order}dd", blob, start + 5 + skipped)
    latitude, longitude = position
    return {latitude: points[:, 1], longitude: points[:, 0]}


def _points_error(path: Path, what: str) -> DataError:
    expected = "one table of points in WGS 84 (EPSG:4326), one row a position"
    remedy = "export it so, or write latitude and longitude as columns"
    return DataError(what, where=path.name, expected=expected, remedy=remedy)
