"""Days as files for other tools: what is in them, to the second and the sixth decimal."""

from __future__ import annotations

import csv
import datetime
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.mobility import trips
from tacit.data.mobility.days import SLOTS, Days, move_counts
from tacit.data.mobility.grids import RegularGrid
from tacit.data.mobility.trips import to_geoparquet, well_known_binary
from tacit.errors import DataError, FileError
from tacit_worlds.city import city

GRID = RegularGrid(39.4, 115.7, 41.1, 117.4, 0.01)
HOME, WORK, SHOP = (int(GRID.cells(lat, lon)) for lat, lon in ((39.9, 116.3), (40.0, 116.5), (39.95, 116.4)))
NOON = 1_704_067_200 + 12 * 3600


def example() -> Days:
    """One day at home; one with work from 09:00 to 18:00 and one slot in a shop."""
    out = np.full(SLOTS, HOME)
    out[18:36], out[36] = WORK, SHOP
    return Days(np.stack([np.full(SLOTS, HOME), out]), np.array([4, 7]), GRID)


def test_a_trip_stays_from_middle_to_middle_and_moves_between_them() -> None:
    found = trips.trips(example())
    np.testing.assert_array_equal(found.starts, [0, 2, 9])
    np.testing.assert_array_equal(found.seconds[:2], [0, 86_400])
    hours = [0, 8.75, 9.25, 17.75, 18.25, 18.75, 24]
    np.testing.assert_array_equal(found.seconds[2:], np.array(hours) * 3600)
    np.testing.assert_allclose(found.lat[2:], [39.9, 39.9, 40.0, 40.0, 39.95, 39.9, 39.9])
    np.testing.assert_allclose(found.lon[:4], [116.3] * 4)


def test_times_rise_and_every_move_is_there() -> None:
    days = city(30, 4, 0, preset="geolife").days
    found = trips.trips(days)
    for k in range(len(days.cells)):
        rows = slice(found.starts[k], found.starts[k + 1])
        assert (np.diff(found.seconds[rows]) > 0).all()
        assert (found.seconds[rows][0], found.seconds[rows][-1]) == (0, 86_400)
        jumps = (np.diff(found.lat[rows]) != 0) | (np.diff(found.lon[rows]) != 0)
        assert jumps.sum() == move_counts(days.cells)[k]


def test_geojson_has_lines_with_unix_times(tmp_path: Path) -> None:
    trips.to_geojson(example(), tmp_path / "a.geojson")
    value = json.loads((tmp_path / "a.geojson").read_text())
    first, second = value["features"]
    assert first["geometry"]["coordinates"] == [[116.3, 39.9, 0, NOON - 43_200], [116.3, 39.9, 0, NOON + 43_200]]
    assert second["geometry"]["type"] == "LineString"
    assert second["properties"] == {"day": 1, "person": 7}
    assert all(len(point) == 4 for point in second["geometry"]["coordinates"])
    trips.to_geojson(example(), tmp_path / "b.geojson", date=datetime.date(1970, 1, 2))
    value = json.loads((tmp_path / "b.geojson").read_text())
    assert value["features"][0]["geometry"]["coordinates"][0][3] == 86_400


def test_deck_gl_has_paths_and_timestamps_of_one_length(tmp_path: Path) -> None:
    trips.to_trips_json(example(), tmp_path / "a.json")
    value = json.loads((tmp_path / "a.json").read_text())
    assert [len(one["path"]) == len(one["timestamps"]) for one in value] == [True, True]
    assert value[1]["timestamps"][1] == 8.75 * 3600
    assert value[1]["path"][2] == [116.5, 40.0]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_flows_count_every_move_at_every_level(tmp_path: Path) -> None:
    days = city(40, 3, 0, preset="geolife").days
    for name, options in (("a", {}), ("b", {"by_slot": True}), ("c", {"factor": 5})):
        trips.to_flows_csv(days, tmp_path / name, **options)
    total = int(move_counts(days.cells).sum())
    assert sum(int(row["trips"]) for row in rows(tmp_path / "a")) == total
    assert sum(int(row["trips"]) for row in rows(tmp_path / "b")) == total
    coarse = days.grid.coarsen(days.cells.ravel(), 5).reshape(-1, SLOTS)
    assert sum(int(row["trips"]) for row in rows(tmp_path / "c")) == int(move_counts(coarse).sum()) < total
    trips.to_flows_csv(example(), tmp_path / "d", by_slot=True)
    found = rows(tmp_path / "d")
    assert [(row["time"], row["trips"]) for row in found] == [("09:00", "1"), ("18:00", "1"), ("18:30", "1")]
    assert (found[0]["origin"], found[0]["destination_lat"]) == (str(HOME), "40.0")
    assert all(row["origin"] != row["destination"] for row in rows(tmp_path / "c"))


def test_visits_and_days_are_whole(tmp_path: Path) -> None:
    trips.to_visits_csv(example(), tmp_path / "v")
    found = rows(tmp_path / "v")
    assert sum(int(row["days"]) for row in found) == 2 * SLOTS
    at_ten = {int(row["cell"]): int(row["days"]) for row in found if row["time"] == "10:00"}
    assert at_ten == {HOME: 1, WORK: 1}
    trips.to_days_csv(example(), tmp_path / "d")
    found = rows(tmp_path / "d")
    assert len(found) == 2 * SLOTS
    assert found[SLOTS + 36] == {
        "day": "1",
        "person": "7",
        "time": "18:00",
        "cell": str(SHOP),
        "lat": "39.95",
        "lon": "116.4",
    }


def decoded(binary: bytes) -> list[tuple[float, float]]:
    order, kind, count = struct.unpack_from("<BII", binary)
    assert (order, kind, len(binary)) == (1, 2, 9 + 16 * count)
    return list(struct.iter_unpack("<dd", binary[9:]))


def test_geoparquet_is_what_the_standard_asks_for(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    days = city(20, 3, 0, preset="geolife").days
    to_geoparquet(days, tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    meta = json.loads(table.schema.metadata[b"geo"])
    assert (meta["version"], meta["primary_column"]) == ("1.1.0", "geometry")
    column = meta["columns"]["geometry"]
    assert column["encoding"] == "WKB"
    assert column["geometry_types"] == ["LineString"]
    assert column["covering"]["bbox"] == {name: ["bbox", name] for name in ("xmin", "ymin", "xmax", "ymax")}
    found = trips.trips(days)
    assert column["bbox"] == [found.lon.min(), found.lat.min(), found.lon.max(), found.lat.max()]
    assert len(table) == 60
    for k in (0, 17, 59):
        own = slice(found.starts[k], found.starts[k + 1])
        line = decoded(table["geometry"][k].as_py())
        np.testing.assert_allclose(line, np.stack([found.lon[own], found.lat[own]], axis=1))
        times = table["times"][k].as_py()
        assert [(t - datetime.datetime(2024, 1, 1)).total_seconds() for t in times] == found.seconds[own].tolist()
        box = table["bbox"][k].as_py()
        assert (box["xmin"], box["ymax"]) == (found.lon[own].min(), found.lat[own].max())


def test_well_known_binary_has_a_line_for_every_day() -> None:
    assert [len(decoded(one)) for one in well_known_binary(trips.trips(example()))] == [2, 7]


@pytest.mark.parametrize(
    "write", [trips.to_geojson, trips.to_trips_json, trips.to_flows_csv, trips.to_visits_csv, trips.to_days_csv]
)
def test_no_file_is_written_over_and_no_part_is_left(tmp_path: Path, write: Any) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(FileError, match="exists already"):
        write(example(), tmp_path / "a")
    assert (tmp_path / "a").read_text() == "mine"
    with pytest.raises(FileError, match="could not be written"):
        write(example(), tmp_path / "missing" / "a")
    write(example(), tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("text", ["today", "2024-13-01", "1969-12-31", ""])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="YYYY"):
        trips.parse_date(text)
    assert trips.parse_date("2026-11-20") == datetime.date(2026, 11, 20)
