"""Positions in Parquet and GeoPackage files: the days of the same points in a frame; bad files quote nothing."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.test_mobility import DAY, GRID, UTC

from tacit.data.mobility import UNIX, from_points
from tacit.data.sources.tables import Style
from tacit.errors import DataError, FileError

CANARY = "Ursula-4711"
WANTED = from_points(DAY, GRID, UTC, recorded="UTC").cells.tolist()
TIMES = pd.to_datetime(DAY["time"], utc=True)


def wkb(lon: float, lat: float, *, code: int = 1, order: str = "<") -> bytes:
    """A point as OGC's well-known binary."""
    return (b"\x01" if order == "<" else b"\x00") + struct.pack(f"{order}Idd", code, lon, lat)


def geometry(lon: float, lat: float, *, envelope: bool = False, **options: Any) -> bytes:
    """A geometry of a GeoPackage: header, perhaps an envelope, and WKB."""
    box = struct.pack("<dddd", lon, lon, lat, lat) if envelope else b""
    return b"GP\x00" + bytes([1 | (2 if envelope else 0)]) + struct.pack("<i", 4326) + box + wkb(lon, lat, **options)


def geopackage(
    path: Path,
    *,
    name: str = 'my "points"',
    srs: int = 4326,
    kind: str = "POINT",
    statement: str = "",
    blobs: list[bytes | None] | None = None,
    columns: str = '"user" TEXT, "time" DATETIME, geom POINT',
    times: list[Any] | None = None,
    users: list[str] | None = None,
) -> Path:
    """The day as a GeoPackage, written by SQL alone."""
    quoted = '"' + name.replace('"', '""') + '"'
    blobs = [geometry(lon, lat) for lat, lon in zip(DAY["lat"], DAY["lon"], strict=True)] if blobs is None else blobs
    times = [time.replace(" ", "T") + "Z" for time in DAY["time"]] if times is None else times
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA application_id = 0x47504B47")
        file.execute(
            "CREATE TABLE gpkg_geometry_columns (table_name TEXT, column_name TEXT, geometry_type_name TEXT, "
            "srs_id INTEGER, z TINYINT, m TINYINT)"
        )
        file.execute("INSERT INTO gpkg_geometry_columns VALUES (?, 'geom', ?, ?, 0, 0)", (name, kind, srs))
        if statement:
            file.execute(statement)
            return path
        file.execute(f"CREATE TABLE {quoted} (fid INTEGER PRIMARY KEY, {columns})")
        rows = list(zip(users or DAY["user"], times, blobs, strict=True))
        file.executemany(f'INSERT INTO {quoted} ("user", "time", geom) VALUES (?, ?, ?)', rows)
    return path


def test_parquet_with_times_of_every_type(tmp_path: Path) -> None:
    forms: dict[str, tuple[Any, str | None]] = {
        "zoned": (TIMES, None),
        "plain": (TIMES.dt.tz_localize(None), "UTC"),
        "text": (DAY["time"] + "Z", None),
        "seconds": (TIMES.dt.tz_localize(None).astype("datetime64[s]").astype(np.int64), UNIX),
        "dictionary": ((DAY["time"] + "Z").astype("category"), None),
    }
    for name, (times, recorded) in forms.items():
        DAY.assign(time=times).to_parquet(tmp_path / f"{name}.parquet", row_group_size=2)
        found = from_points(tmp_path / f"{name}.parquet", GRID, UTC, recorded=recorded)
        assert found.cells.tolist() == WANTED, name


def test_whole_numbered_users_and_a_geometry_in_parquet(tmp_path: Path) -> None:
    points = [wkb(lon, lat) for lat, lon in zip(DAY["lat"], DAY["lon"], strict=True)]
    table = pa.table({"user": [7] * len(DAY), "time": pa.array(TIMES), "geometry": pa.array(points, pa.binary())})
    pq.write_table(table, tmp_path / "points.parquet")
    assert from_points(tmp_path / "points.parquet", GRID, UTC).cells.tolist() == WANTED


def test_a_geopackage_and_its_geometry(tmp_path: Path) -> None:
    found = from_points(geopackage(tmp_path / "points.gpkg"), GRID, UTC)
    assert found.cells.tolist() == WANTED
    pairs = list(zip(DAY["lat"], DAY["lon"], strict=True))
    many = [geometry(lon, lat, envelope=i % 2 == 0, order=">" if i == 1 else "<") for i, (lat, lon) in enumerate(pairs)]
    high = [*many[:-1], b"GP\x00\x01" + struct.pack("<i", 4326) + wkb(pairs[-1][1], pairs[-1][0], code=1001) + bytes(8)]
    mixed = geopackage(tmp_path / "mixed.gpkg", blobs=[*high], srs=4326, kind="GEOMETRY")
    assert from_points(mixed, GRID, UTC).cells.tolist() == WANTED
    stamps = TIMES.astype("int64") // 10**9 if TIMES.dtype.str.endswith("[ns]") else TIMES.map(lambda t: t.timestamp())
    seconds = geopackage(tmp_path / "seconds.gpkg", times=[int(stamp) for stamp in stamps])
    assert from_points(seconds, GRID, UTC, recorded=UNIX).cells.tolist() == WANTED
    assert not list(tmp_path.glob("*-wal")) + list(tmp_path.glob("*-shm"))


def test_a_geopackage_with_columns_of_latitude_and_longitude(tmp_path: Path) -> None:
    path = geopackage(tmp_path / "points.gpkg", columns='"user" TEXT, "time" TEXT, geom POINT, north REAL, east REAL')
    with closing(sqlite3.connect(path)) as file, file:
        for i, (lat, lon) in enumerate(zip(DAY["lat"], DAY["lon"], strict=True), start=1):
            file.execute('UPDATE "my ""points""" SET north = ?, east = ?, geom = NULL WHERE fid = ?', (lat, lon, i))
    assert from_points(path, GRID, UTC, lat="north", lon="east").cells.tolist() == WANTED


VIEW = f"CREATE VIEW \"my \"\"points\"\"\" AS SELECT '{CANARY}' AS user, '2020' AS time, x'00' AS geom"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "metres": ({"srs": 3857}, "no table of points in longitude and latitude"),
    "lines": ({"kind": "LINESTRING"}, "no table of points in longitude and latitude"),
    "view": ({"statement": VIEW}, "no table of points in longitude and latitude"),
    "polygon": ({"blobs": [geometry(1, 2, code=3)] + [geometry(116.0, 39.9)] * 3}, "the geometry of row 1 is no point"),
    "null": ({"blobs": [geometry(116.0, 39.9)] * 3 + [None]}, "missing"),
    "short": ({"blobs": [geometry(116.0, 39.9)[:-9]] * 4}, "the geometry of row 1 is no point"),
    "garbage": ({"blobs": [CANARY.encode()] * 4}, "missing"),
    "column": ({"columns": '"user" TEXT, "time" TEXT, geom POINT'}, "'when' is missing or invalid"),
    "time": ({"times": [CANARY] * 4}, "a time is missing or not a time"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_geopackages_are_refused_without_a_cell(name: str, tmp_path: Path) -> None:
    options, message = BAD[name]
    path = geopackage(tmp_path / "points.gpkg", **options)
    with pytest.raises(DataError) as caught:
        from_points(path, GRID, UTC, **({"time": "when"} if name == "column" else {}))
    assert message in str(caught.value)
    assert CANARY not in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    whole = geopackage(tmp_path / "points.gpkg").read_bytes()
    (tmp_path / "half.gpkg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.gpkg").write_text(f"user,time\n{CANARY},2020\n")
    (tmp_path / "other.gpkg").write_bytes(b"")
    (tmp_path / "text.parquet").write_text(CANARY)
    for name in ("half.gpkg", "text.gpkg", "other.gpkg", "nowhere.gpkg", "text.parquet", "nowhere.parquet"):
        with pytest.raises(FileError) as caught:
            from_points(tmp_path / name, GRID, UTC)
        assert CANARY not in str(caught.value)
    (tmp_path / "points.gpkg-wal").write_bytes(b"x")
    with pytest.raises(FileError, match="another program has the file open"):
        from_points(tmp_path / "points.gpkg", GRID, UTC)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (
            ('1,"2020-03-02T00:00:00Z,39.91,116.31', '2,2020-03-02T00:00:00Z",39.91,116.31'),
            "row 1: a quote is not closed",
        ),
        (("1,2020-03-02T00:00:00Z,39.91,116.31", "1,2020-03-02T01:00:00Z,39.91"), "row 2: a row has fewer cells"),
        (("1,2020-03-02T00:00:00Z,39,91,116.31",), "row 1: a row has more cells"),
    ],
)
def test_rows_that_do_not_fit_their_header_are_refused(lines: tuple[str, ...], what: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n".join(("user,time,lat,lon", *lines)))
    with pytest.raises(DataError, match=what):
        from_points(tmp_path / "a.csv", GRID, UTC, recorded="UTC")


def test_csv_files_are_read_as_they_are_written(tmp_path: Path) -> None:
    written = DAY.assign(name="\u00e9")
    written.to_csv(tmp_path / "a.csv", sep=";", decimal=",", encoding="cp1252", index=False)
    style = Style(separator=";", decimal=",", encoding="cp1252")
    assert from_points(tmp_path / "a.csv", GRID, UTC, recorded="UTC", style=style).cells.tolist() == WANTED
    with pytest.raises(DataError, match='give --separator ";"'):
        from_points(tmp_path / "a.csv", GRID, UTC, recorded="UTC")
    DAY.to_csv(tmp_path / "a.csv", sep=";", index=False)  # with points, which no number has where commas are decimal
    with pytest.raises(DataError, match=r"a\.csv, row 1: the column 'lat' has a cell that is not a number"):
        from_points(tmp_path / "a.csv", GRID, UTC, recorded="UTC", style=style)
    DAY.to_csv(tmp_path / "b.tsv", sep="\t", index=False)
    assert from_points(tmp_path / "b.tsv", GRID, UTC, recorded="UTC").cells.tolist() == WANTED
