"""Columns of files of positions: CSV, Parquet and GeoPackage; what a parser complains of never reaches anybody.

A position is two columns of numbers, or a point in the file's geometry (WKB in Parquet, as GeoParquet has it, and
GeoPackage's own), which is longitude and latitude in WGS 84. A GeoPackage is an SQLite file (OGC 12-128r19): it is
opened read-only, one table of features is read, and no view, trigger or extension of it runs.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.sources.column_sql import quote
from tacit.data.sources.tables import PLAIN, TABBED, Style, csv_chunks, parquet_chunks, parquet_header, unreadable_error
from tacit.errors import DataError, FileError
from tacit.plain_files import is_plain_file

__all__ = ["SUFFIXES", "read_columns"]

SUFFIXES = (".csv", ".csv.gz", *TABBED, ".parquet", ".gpkg")
_GEOMETRY = "geometry"
"""Name of the column of points in a Parquet file."""
_ENVELOPES = (0, 32, 48, 48, 64)
"""Bytes of the envelope in front of a geometry, by its code (OGC 12-128r19, table 6)."""
_POINTS = {1, 1001, 2001, 3001, 0x80000001, 0x20000001}
"""Codes of a point, with height or measure and without."""
_WGS84 = (4326, 0)
_KIND = "a GeoPackage file with one table of points in WGS 84"


def read_columns(
    path: Path, names: Sequence[str], *, texts: Sequence[str], position: tuple[str, str], style: Style = PLAIN
) -> Mapping[str, Any]:
    """The columns of one file."""
    # returns: Name -> column [n]; what the file does not have is missing
    suffix = path.suffix.lower()
    if suffix == ".gpkg":
        return _geopackage(path, names, position)
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
    columns: dict[str, Any] = {name: _column(row[i] for row in rows) for i, name in enumerate(columns_read)}
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


def _column(values: Iterable[Any]) -> npt.NDArray[Any]:
    column = np.array(list(values), dtype=object)
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
