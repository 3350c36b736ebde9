"""Positions in GPX and GeoJSON: the days of the same points in a frame; stays as GeoJSON; bad files quote nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.data.test_mobility import DAY, GRID, UTC

from tacit.data.mobility import UNIX, Rules, from_gpx, from_points, trips
from tacit.data.mobility import files as position_files
from tacit.data.mobility.days import SLOTS, Days
from tacit.errors import DataError, FileError, TacitError

SECRET = "Ursula-4711"
WANTED = from_points(DAY, GRID, UTC, recorded="UTC").cells.tolist()
POINTS = [
    (t.replace(" ", "T") + "Z", lat, lon) for t, lat, lon in zip(DAY["time"], DAY["lat"], DAY["lon"], strict=True)
]
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">'


def point(time: str, lat: float, lon: float) -> str:
    more = "<ele>4</ele><extensions><time>1999-01-01T00:00:00Z</time></extensions>"
    return f'<trkpt lon="{lon}" lat="{lat}">{more}<time>{time}</time></trkpt>'


def gpx(path: Path, *segments: list[tuple[str, float, float]], head: str = HEAD) -> Path:
    """A file with a waypoint and a route, which are no tracks, and a track of these segments."""
    other = '<wpt lat="1" lon="1"><time>1999-01-01T00:00:00Z</time></wpt><rte><rtept lat="2" lon="2"/></rte>'
    parts = "".join(f"<trkseg>{''.join(point(*one) for one in rows)}</trkseg>" for rows in segments)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}{other}<trk><name>a</name>{parts}</trk></gpx>", encoding="utf-8")
    return path


def test_a_file_is_a_person_and_so_is_a_folder(tmp_path: Path) -> None:
    gpx(tmp_path / "anna.gpx", POINTS)
    gpx(tmp_path / "Ben.GPX", POINTS[:1], POINTS[1:])
    gpx(tmp_path / "chris" / "2020" / "a.gpx", POINTS[2:])  # the later one
    gpx(tmp_path / "chris" / "2020" / "b.gpx", POINTS[:2])
    days = from_gpx(tmp_path, GRID, UTC)
    assert days.cells.tolist() == WANTED * 3
    assert days.person.tolist() == [0, 1, 2]
    assert from_gpx(tmp_path / "anna.gpx", GRID, UTC).cells.tolist() == WANTED
    both = from_gpx([tmp_path / "anna.gpx", tmp_path / "Ben.GPX"], GRID, UTC)
    assert (both.cells.tolist(), both.person.tolist()) == (WANTED * 2, [0, 1])
    plain = gpx(tmp_path / "plain" / "d.gpx", [(time[:-1], lat, lon) for time, lat, lon in POINTS], head="<gpx>")
    assert from_gpx(plain, GRID, UTC).cells.tolist() == WANTED  # in UTC, as the format has it
    local = Rules("Asia/Shanghai", carry=48, observed=1)
    shifted = [(time.replace("Z", "+08:00"), lat, lon) for time, lat, lon in POINTS]
    assert from_gpx(gpx(tmp_path / "e.gpx", shifted), GRID, local).cells.tolist() == WANTED


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("", *POINTS[0][1:])], "people, GPX file 1, row 1: a time is missing or not a time"),
        ([POINTS[0], (POINTS[1][0], "x", 116.0)], "people, GPX file 1, row 2: a latitude or longitude is missing"),
        ([POINTS[1], POINTS[0]], "people, GPX file 1, row 2: the times of a user are not in order"),
        ([POINTS[0], (POINTS[1][0], 10.0, 10.0)], "people, GPX file 1, row 2: a point is outside the grid"),
        ([], "people, GPX file 1: the file has no track with a point; expected trk, trkseg and trkpt"),
    ],
)
def test_a_bad_point_is_refused_with_file_and_number_and_never_by_a_name(
    rows: list[Any], said: str, tmp_path: Path
) -> None:
    gpx(tmp_path / "people" / f"{SECRET}.gpx", rows)
    with pytest.raises(DataError) as caught:
        from_gpx(tmp_path / "people", GRID, UTC)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


BOMB = '<!DOCTYPE gpx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><gpx><trk><trkseg/></trk></gpx>'
OUTSIDE = f'<?xml version="1.0"?><!DOCTYPE gpx SYSTEM "file:///etc/{SECRET}"><gpx/>'


@pytest.mark.parametrize(
    "content",
    [
        BOMB.encode(),
        BOMB.encode("utf-16"),
        OUTSIDE.encode(),
        b"",
        b"lat,lon\n1,2\n",
        b"<kml><trk/></kml>",
        f"{HEAD}<trk><trkseg>{point(*POINTS[0])}".encode(),
        (HEAD + "<a>" * 40 + "</a>" * 40 + "</gpx>").encode(),
        (HEAD + "<!--" + "x" * 2**21 + "--></gpx>").encode(),
        f"{HEAD}&{SECRET};</gpx>".encode(),
        b'<?xml version="1.0" encoding="no-such"?><gpx/>',
    ],
)
def test_what_is_no_gpx_or_declares_a_document_type_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / f"{SECRET}.gpx").write_bytes(content)
    with pytest.raises(FileError, match="GPX file 1: the file is missing, damaged, no GPX or has a document") as caught:
        from_gpx(tmp_path / f"{SECRET}.gpx", GRID, UTC)
    assert SECRET not in str(caught.value)


def test_gpx_is_read_in_a_stream_that_keeps_its_points_alone(tmp_path: Path) -> None:
    path = gpx(tmp_path / "a.gpx", [POINTS[0]] * 3_000)
    times, lat, lon = position_files.read_gpx(path, "a")
    assert (len(times), set(times), set(lat), set(lon)) == (3_000, {POINTS[0][0]}, {"39.9"}, {"116.0"})


def test_folders_without_gpx_and_links_out_of_them_are_refused(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    with pytest.raises(FileError, match="people: there is no GPX file"):
        from_gpx(tmp_path / "people", GRID, UTC)
    (tmp_path / "people" / "b.gpx").symlink_to(gpx(tmp_path / "a.gpx", POINTS))
    with pytest.raises(FileError, match="people, GPX file 1: a link leads out of the folder"):
        from_gpx(tmp_path / "people", GRID, UTC)
    with pytest.raises(DataError, match="a user also occurs in an earlier file"):
        from_gpx([tmp_path / "a.gpx", gpx(tmp_path / "other" / "a.gpx", POINTS)], GRID, UTC)


def feature(shape: str, coordinates: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": {"type": shape, "coordinates": coordinates}, "properties": properties}


def geojson(path: Path, *features: Any) -> Path:
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")
    return path


def test_points_and_lines_of_geojson(tmp_path: Path) -> None:
    points = [feature("Point", [lon, lat, 4.5], user="p", time=time) for time, lat, lon in POINTS]
    assert from_points(geojson(tmp_path / "a.geojson", *points), GRID, UTC).cells.tolist() == WANTED
    place = [[lon, lat] for _, lat, lon in POINTS]
    lines = [
        feature("LineString", place[:2], user=1, coordTimes=[time for time, *_ in POINTS[:2]]),
        feature("LineString", place, user=2, coordTimes=[time for time, *_ in POINTS]),
        feature("LineString", place[2:], user=1, coordTimes=[time for time, *_ in POINTS[2:]]),
    ]
    days = from_points(geojson(tmp_path / "b.GEOJSON", *lines), GRID, UTC)
    assert (days.cells.tolist(), days.person.tolist()) == (WANTED * 2, [0, 1])
    stamps = (pd.to_datetime(DAY["time"]).astype("datetime64[s]").astype(np.int64)).tolist()
    named = [feature("Point", p, who="p", at=at) for p, at in zip(place, stamps, strict=True)]
    found = from_points(geojson(tmp_path / "c.geojson", *named), GRID, UTC, user="who", time="at", recorded=UNIX)
    assert found.cells.tolist() == WANTED


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            feature("Polygon", [[[1, 2]]], user=SECRET),
            "a.geojson, feature 2: the feature is neither a Point nor a Line",
        ),
        (feature("LineString", [[1, 2]], user=SECRET), "a.geojson, feature 2: the feature is neither"),
        (feature("LineString", [[1, 2]], user="p", coordTimes=[SECRET] * 2), "a.geojson, feature 2: the feature is"),
        (feature("Point", [[1, 2]], user="p", time=SECRET), "a.geojson, feature 2: the feature is neither"),
        (feature("Point", [SECRET, 2], user="p"), "a.geojson, feature 2: the feature is neither"),
        (feature("Point", [1, 2], user=[SECRET], time="x"), "a.geojson, feature 2: the feature is neither"),
        ({"type": "Feature", "geometry": None, "properties": {"user": SECRET}}, "a.geojson, feature 2"),
        ([SECRET], "a.geojson, feature 2: the feature is neither"),
        (feature("Point", [116.0, 39.9], time=POINTS[1][0]), "a.geojson, row 2: a user id is missing"),
        (feature("Point", [116.0, 39.9], user="p"), "a.geojson, row 2: a time is missing or not a time"),
        (feature("Point", [39.9, 116.0], user="p", time=POINTS[1][0]), "a.geojson, row 2: a latitude is outside"),
    ],
)
def test_a_feature_that_is_none_is_refused_with_its_number(wrong: Any, said: str, tmp_path: Path) -> None:
    first = feature("Point", [116.0, 39.9], user="p", time=POINTS[0][0])
    with pytest.raises(DataError) as caught:
        from_points(geojson(tmp_path / "a.geojson", first, wrong), GRID, UTC)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 100_000, '{"features": {"a": 1}}', '{"features": []}'])
def test_text_that_is_no_geojson_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.geojson").write_text(text)
    with pytest.raises(TacitError, match=r"a\.geojson"):
        from_points(tmp_path / "a.geojson", GRID, UTC)


def test_stays_are_points_with_their_half_hours_and_can_be_read_again(tmp_path: Path) -> None:
    day = np.array([0] * 17 + [1] * 17 + [3] * 2 + [0] * 12)
    days = Days(np.stack([np.full(SLOTS, 2), day]), np.array([4, 7]), GRID)
    trips.to_stays_geojson(days, tmp_path / "stays.geojson", date=pd.Timestamp("2024-02-29").date())
    value = json.loads((tmp_path / "stays.geojson").read_text())
    assert value["type"] == "FeatureCollection"
    first, *others = value["features"]
    assert first == feature(
        "Point", [116.0, 40.0], day=0, person=4, begins="2024-02-29T00:00:00", ends="2024-03-01T00:00:00"
    )
    assert [(f["properties"]["begins"][11:16], f["properties"]["ends"][11:16]) for f in others] == [
        ("00:00", "08:30"),
        ("08:30", "17:00"),
        ("17:00", "18:00"),
        ("18:00", "00:00"),
    ]
    assert [f["geometry"]["coordinates"] for f in others][1:3] == [[116.1, 39.9], [116.1, 40.0]]
    assert {f["properties"]["person"] for f in others} == {7}
    again = from_points(tmp_path / "stays.geojson", GRID, UTC, user="person", time="begins", recorded="UTC")
    assert again.cells.tolist() == days.cells.tolist()
    with pytest.raises(FileError, match="exists already"):
        trips.to_stays_geojson(days, tmp_path / "stays.geojson")
