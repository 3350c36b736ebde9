"""Readers of movement: days by hand from points, stays and check-ins; every bad input is refused without a value."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.geolife import GRID as GEOLIFE
from tests.geolife import geolife, shared

from tacit.data.mobility import (
    UNIX,
    Rules,
    from_cells,
    from_checkins,
    from_plt,
    from_points,
    from_skmob,
    from_trackintel,
)
from tacit.data.mobility.days import SLOTS, actions
from tacit.data.mobility.grids import RegularGrid
from tacit.data.mobility.points import OUTSIDE, whole_days
from tacit.errors import DataError, FileError

GRID = RegularGrid(39.9, 116.0, 40.0, 116.1, 0.1)  # four cells: 0 and 1 in the south, 2 and 3 in the north
A, B, C, D = (39.9, 116.0), (39.9, 116.1), (40.0, 116.0), (40.0, 116.1)
UTC = Rules("UTC", carry=48, observed=1)


def frame(*rows: tuple[str, str, tuple[float, float]]) -> pd.DataFrame:
    """(user, time, place) rows."""
    return pd.DataFrame(
        {
            "user": [r[0] for r in rows],
            "time": [r[1] for r in rows],
            "lat": [r[2][0] for r in rows],
            "lon": [r[2][1] for r in rows],
        }
    )


def runs(day: np.ndarray) -> list[tuple[int, int]]:
    """(cell, slots) of a day."""
    starts = [0, *(np.flatnonzero(np.diff(day)) + 1).tolist(), SLOTS]
    return [(int(day[a]), b - a) for a, b in pairwise(starts)]


DAY = frame(
    ("p", "2020-03-02 00:00:00", A),
    ("p", "2020-03-02 08:20:00", B),  # 10 minutes of the slot from 8:00: A has more of it
    ("p", "2020-03-02 17:05:00", D),  # 25 minutes of the slot from 17:00
    ("p", "2020-03-02 18:00:00", A),
)


def test_a_slot_is_the_cell_of_most_dwell() -> None:
    days = from_points(DAY, GRID, UTC, recorded="UTC")
    assert [runs(day) for day in days.cells] == [[(0, 17), (1, 17), (3, 2), (0, 12)]]
    assert days.person.tolist() == [0]
    assert days.grid == GRID


def test_days_are_cut_by_local_midnights() -> None:
    shifted = DAY.assign(time=(pd.to_datetime(DAY["time"]) - pd.Timedelta(hours=8)).astype(str))
    there = from_points(shifted, GRID, Rules("Asia/Shanghai", carry=48, observed=1), recorded="UTC")
    assert there.cells.tolist() == from_points(DAY, GRID, UTC, recorded="UTC").cells.tolist()
    wrote = from_points(DAY, GRID, Rules("Asia/Shanghai", carry=48, observed=1), recorded="Asia/Shanghai")
    assert wrote.cells.tolist() == there.cells.tolist()


@pytest.mark.parametrize(
    ("times", "recorded"),
    [
        (DAY["time"] + "+00:00", None),
        (DAY["time"].str.replace(" ", "T") + "Z", None),
        ((pd.to_datetime(DAY["time"]) + pd.Timedelta(hours=2)).astype(str) + "+0200", None),
        (pd.to_datetime(DAY["time"]), "UTC"),
        (pd.to_datetime(DAY["time"], utc=True).dt.tz_convert("America/Lima"), None),
        (pd.to_datetime(DAY["time"]).astype("datetime64[s]").astype(np.int64), UNIX),
        (DAY["time"].str[:16], "Etc/UTC"),
    ],
)
def test_times_in_many_forms(times: pd.Series, recorded: str | None) -> None:
    expected = from_points(DAY, GRID, UTC, recorded="UTC").cells
    assert from_points(DAY.assign(time=times), GRID, UTC, recorded=recorded).cells.tolist() == expected.tolist()


def test_gaps_are_carried_so_far_and_no_farther() -> None:
    morning = frame(("p", "2020-03-02 02:00:00", A), ("p", "2020-03-02 12:00:00", B))

    def day(**rules: int) -> np.ndarray:
        return from_points(morning, GRID, Rules("UTC", **{"observed": 1, **rules}), recorded="UTC").cells

    assert runs(day(carry=23)[0]) == [(0, 24), (1, 24)]  # 12:00 and 23 slots more; back over four
    for refused in ({"carry": 22}, {"carry": 23, "observed": 3}):
        with pytest.raises(DataError, match="no day is whole"):
            day(**refused)
    assert len(day(carry=23, observed=2)) == 1


def test_a_gap_at_midnight_is_carried_from_the_day_before() -> None:
    rows = frame(*(("p", f"2020-03-0{d} {h:02}:00:00", B if h == 22 else A) for d in (2, 3) for h in (4, 12, 22)))
    days = from_points(rows, GRID, Rules("UTC", carry=20, observed=1), recorded="UTC")
    assert [runs(day) for day in days.cells] == [[(0, 44), (1, 4)], [(1, 8), (0, 36), (1, 4)]]


def test_summer_time_days_have_48_slots() -> None:
    rows = frame(*(("p", f"2020-03-{d} {h:02}:00:00", A) for d in (28, 29, 30) for h in range(0, 24, 3)))
    days = from_points(rows, GRID, Rules("Europe/Berlin", carry=12), recorded="UTC")
    assert days.cells.shape[1] == SLOTS
    assert len(days.cells) == 3


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("Europe/Berlin", "2024-03-31"),
        ("Europe/Berlin", "2024-10-27"),
        ("America/New_York", "2024-03-10"),
        ("America/New_York", "2024-11-03"),
        ("Australia/Lord_Howe", "2024-10-06"),  # by half an hour
        ("Asia/Beirut", "2024-03-31"),  # at midnight
        ("Asia/Shanghai", "2024-03-31"),
    ],
)
def test_the_day_of_a_change_of_summer_time_is_whole(zone: str, change: str) -> None:
    first, end = ((pd.Timestamp(change) + pd.Timedelta(days=k)).tz_localize(zone) for k in (-1, 2))
    times = pd.date_range(first, end, freq="20min", inclusive="left")
    strict = Rules(zone, carry=0, observed=48)
    rows = pd.DataFrame({"user": "p", "time": times, "lat": A[0], "lon": A[1]})
    assert from_points(rows, GRID, strict).cells.tolist() == [[0] * 48] * 3
    stay = {"user_id": 4, "started_at": [first], "finished_at": [end], "geom": [Point(*A)]}
    assert from_trackintel(pd.DataFrame(stay), GRID, strict).cells.tolist() == [[0] * 48] * 3


def test_a_record_ends_at_the_local_time_of_the_next() -> None:
    def runs_of(*rows: tuple[str, tuple[float, float]]) -> list[tuple[int, int]]:
        points = frame(*(("p", time, place) for time, place in rows))
        return runs(from_points(points, GRID, Rules("Europe/Berlin", carry=48, observed=1)).cells[0])

    midnight, last = ("2024-03-31T00:00+01:00", A), ("2024-03-31T01:40+01:00", A)
    assert runs_of(midnight, last, ("2024-03-31T03:00+02:00", B)) == [(0, 6), (1, 42)]
    assert runs_of(midnight, ("2024-03-31T12:00+02:00", B)) == [(0, 24), (1, 24)]
    assert runs_of(("2024-10-27T00:00+02:00", A), ("2024-10-27T05:00+01:00", B)) == [(0, 10), (1, 38)]
    half_past_two = ("2024-10-27T02:30+02:00", A), ("2024-10-27T02:10+01:00", B)
    assert runs_of(("2024-10-27T00:00+02:00", B), *half_past_two) == [(1, 5), (0, 1), (1, 42)]


def test_a_gap_on_the_day_summer_time_begins_is_carried_no_farther() -> None:
    afternoon = [("p", f"2024-03-31T{hour}:00+02:00", B) for hour in range(12, 24)]
    rows = frame(("p", "2024-03-31T00:00+01:00", A), *afternoon)  # eleven hours: a slot recorded, and 21 carried
    assert runs(from_points(rows, GRID, Rules("Europe/Berlin", carry=21, observed=13)).cells[0]) == [(0, 24), (1, 24)]
    for carry, observed in ((20, 13), (21, 14)):
        with pytest.raises(DataError, match="no day is whole"):
            from_points(rows, GRID, Rules("Europe/Berlin", carry=carry, observed=observed))


def test_people_with_few_days_contribute_nothing() -> None:
    rows = [("few", f"2020-03-02 {h:02}:00:00", A) for h in range(24)]
    rows += [("many", f"2020-03-0{d} {h:02}:00:00", B) for d in (2, 3) for h in range(24)]
    rows += [("one", "2020-03-02 00:00:00", C)]
    days = from_points(frame(*rows), GRID, Rules("UTC", carry=2, observed=8, days=2), recorded="UTC")
    assert days.cells.tolist() == [[1] * SLOTS] * 2
    assert days.person.tolist() == [0, 0]
    one = from_points(frame(*rows), GRID, Rules("UTC", carry=2, observed=8), recorded="UTC")
    assert one.person.tolist() == [0, 1, 1]


def test_users_may_be_mixed_and_ids_are_text_or_numbers() -> None:
    both = pd.concat([DAY, DAY.assign(user="q")]).sort_values("time", kind="stable")
    days = from_points(both, GRID, UTC, recorded="UTC")
    assert days.person.tolist() == [0, 1]
    assert (days.cells[0] == days.cells[1]).all()
    numbered = both.assign(user=(both["user"] == "q").astype(int))
    assert from_points(numbered, GRID, UTC, recorded="UTC").cells.tolist() == days.cells.tolist()


def test_files(tmp_path: Path) -> None:
    expected = from_points(DAY, GRID, UTC, recorded="UTC").cells.tolist()
    first, second = tmp_path / "a.csv", tmp_path / "b.csv.gz"
    DAY.to_csv(first, index=False)
    DAY.assign(user="q").to_csv(second, index=False)
    days = from_points([first, second], GRID, UTC, recorded="UTC")
    assert days.person.tolist() == [0, 1]
    assert days.cells.tolist() == expected * 2
    DAY.to_csv(second, index=False)
    with pytest.raises(DataError, match="earlier file"):
        from_points([first, second], GRID, UTC, recorded="UTC")
    with pytest.raises(FileError, match="the same one twice"):
        from_points([first, first], GRID, UTC, recorded="UTC")
    with pytest.raises(FileError, match="there is no such file"):
        from_points(tmp_path / "no.csv", GRID, UTC, recorded="UTC")
    second.write_bytes(second.read_bytes()[:30])
    with pytest.raises(FileError, match="damaged"):
        from_points(second, GRID, UTC, recorded="UTC")
    seconds = DAY.assign(time=pd.to_datetime(DAY["time"]).astype("datetime64[s]").astype(np.int64))
    seconds.to_csv(first, index=False)
    assert from_points(first, GRID, UTC, recorded=UNIX).cells.tolist() == expected
    with pytest.raises(DataError, match="'when' is missing"):
        from_points(first, GRID, UTC, recorded=UNIX, time="when")


SECRET = "Jane-77"


def bad(column: str, row: int, value: Any) -> pd.DataFrame:
    rows = DAY.assign(user=SECRET).astype(object)
    rows.loc[row, column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "rules", "match"),
    [
        (bad("lat", 1, np.nan), UTC, "row 2: a latitude or longitude is missing"),
        (bad("lon", 2, np.inf), UTC, "row 3: a latitude or longitude is missing"),
        (bad("user", 1, None), UTC, "row 2: a user id is missing"),
        (bad("user", 1, 1.5), UTC, "row 2: a user id is neither text"),
        (bad("time", 1, None), UTC, "row 2: a time is missing"),
        (bad("time", 3, "yesterday"), UTC, "row 4: a time is missing or not a time"),
        (bad("time", 3, "1920-01-01 00:00:00"), UTC, "row 4: a time is before 1970"),
        (bad("time", 1, "2020-03-01 00:00:00"), UTC, "row 2: the times of a user are not in order"),
        (bad("time", 1, "2020-03-02 00:00:00"), UTC, "row 2: the times of a user are repeated"),
        (bad("lat", 1, 38.0), UTC, "row 2: a point is outside the grid"),
        (bad("lat", 1, 116.1), UTC, r"row 2: a latitude is outside \[-90, 90\]"),
        (DAY.rename(columns={"lat": "lon", "lon": "lat"}), UTC, "latitude and longitude swapped"),
        (DAY.rename(columns={"lat": "lon", "lon": "lat"}), Rules("UTC", outside="drop"), "and longitude swapped"),
        (DAY.assign(lat=10.0), Rules("UTC", outside="drop"), "all points are outside the grid"),
        (DAY.assign(lat=10.0), UTC, "row 1: a point is outside the grid"),
        (DAY.drop(columns="lat"), UTC, "'lat' is missing"),
        (DAY.iloc[:0], UTC, "no day is whole"),
        (None, UTC, "neither a frame nor a file"),
    ],
)
def test_bad_input_is_refused_without_a_value(rows: Any, rules: Rules, match: str) -> None:
    with pytest.raises(DataError, match=match) as caught:
        from_points(rows, GRID, rules, recorded="UTC")
    for private in (SECRET, "39.9", "38.0", "116.1", "2020", "1920", "yesterday", "10.0"):
        assert private not in str(caught.value)


@pytest.mark.parametrize("zone", ["", None, "Atlantis/Port", 8])
def test_a_missing_zone_is_refused(zone: Any) -> None:
    with pytest.raises(DataError, match="time zone zone is missing"):
        Rules(zone)
    if zone is not None:
        with pytest.raises(DataError, match="time zone recorded is missing"):
            from_points(DAY, GRID, UTC, recorded=zone)


def test_times_without_a_zone_are_refused() -> None:
    numbers = DAY.assign(time=np.arange(4) * 3_600)
    for rows in (DAY, DAY.assign(time=pd.to_datetime(DAY["time"])), numbers):
        with pytest.raises(DataError, match="the time zone is missing"):
            from_points(rows, GRID, UTC)
    with pytest.raises(DataError, match="not numbers"):
        from_points(DAY, GRID, UTC, recorded=UNIX)
    milliseconds = DAY.assign(time=pd.to_datetime(DAY["time"]).astype("datetime64[ms]").astype(np.int64))
    with pytest.raises(DataError, match="after 2099"):
        from_points(milliseconds, GRID, UTC, recorded=UNIX)


@pytest.mark.parametrize(
    "arguments",
    [{"carry": 49}, {"carry": -1}, {"observed": 0}, {"days": 0}, {"carry": 1.5}, {"outside": "keep"}, {"untidy": "x"}],
)
def test_bad_rules_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"mobility\.Rules"):
        Rules("UTC", **arguments)


def test_mended_times() -> None:
    mixed = pd.concat([DAY.iloc[[2, 0]], DAY.iloc[[1]].assign(lat=C[0]), DAY.iloc[[3, 1]]])
    mend = Rules("UTC", carry=48, observed=1, untidy="mend")
    days = from_points(mixed, GRID, mend, recorded="UTC")
    assert days.cells.tolist() == from_points(DAY, GRID, UTC, recorded="UTC").cells.tolist()


def test_a_day_outside_is_dropped() -> None:
    trip = frame(
        ("p", "2020-03-02 00:00:00", A),
        ("p", "2020-03-02 20:00:00", (0.0, 0.0)),
        ("p", "2020-03-02 20:10:00", A),  # 10 minutes out there are no slot
        ("p", "2020-03-03 12:00:00", (0.0, 116.0)),
        ("p", "2020-03-03 14:00:00", B),
        ("p", "2020-03-04 00:00:00", B),
        ("p", "2020-03-05 00:00:00", B),
    )
    drop = Rules("UTC", carry=48, observed=1, outside="drop")
    days = from_points(trip, GRID, drop, recorded="UTC")
    assert [runs(day) for day in days.cells] == [[(0, 48)], [(1, 48)], [(1, 48)]]


def test_checkins_of_foursquare() -> None:
    rows = pd.DataFrame(
        {
            "userId": [7, 7, 7],
            "latitude": [A[0], B[0], D[0]],
            "longitude": [A[1], B[1], D[1]],
            "timezoneOffset": [-240, -240, -240],
            "utcTimestamp": [f"Tue Apr 03 {h}:00:00 +0000 2012" for h in ("05", "14", "22")],
        }
    )
    rules = Rules("America/New_York", carry=48, observed=3)
    days = from_checkins(rows, GRID, rules)
    assert runs(days.cells[0]) == [(0, 20), (1, 16), (3, 12)]
    for offset, expected in ((-60, [(0, 20), (1, 22), (3, 6)]), (-420, [(0, 20), (1, 10), (3, 18)])):  # a flight
        flown = from_checkins(rows.assign(timezoneOffset=[-240, -240, offset]), GRID, rules)
        assert runs(flown.cells[0]) == expected
    moved = from_checkins(rows.assign(timezoneOffset=-180), GRID, rules)
    assert runs(moved.cells[0]) == [(0, 22), (1, 16), (3, 10)]
    with pytest.raises(DataError, match="'timezoneOffset' is missing or invalid"):
        from_checkins(rows.assign(timezoneOffset=9_000), GRID, rules)


def test_frames_of_scikit_mobility() -> None:
    names = {"user": "uid", "time": "datetime", "lon": "lng"}
    trajectories = DAY.assign(time=pd.to_datetime(DAY["time"])).rename(columns=names)
    days = from_skmob(trajectories, GRID, UTC, recorded="UTC")
    assert days.cells.tolist() == from_points(DAY, GRID, UTC, recorded="UTC").cells.tolist()
    with pytest.raises(DataError, match="the time zone is missing"):
        from_skmob(trajectories, GRID, UTC)


class Point:
    """As shapely has it."""

    def __init__(self, lat: float, lon: float) -> None:
        self.x, self.y = lon, lat


def test_frames_of_trackintel() -> None:
    times = pd.to_datetime(DAY["time"], utc=True)
    points = [Point(lat, lon) for lat, lon in zip(DAY["lat"], DAY["lon"], strict=True)]
    fixes = pd.DataFrame({"user_id": 4, "tracked_at": times, "geom": points})
    expected = from_points(DAY, GRID, UTC, recorded="UTC").cells.tolist()
    assert from_trackintel(fixes, GRID, UTC).cells.tolist() == expected
    ends = [*times[1:], times.iloc[-1] + pd.Timedelta(hours=6)]
    stays = pd.DataFrame({"user_id": 4, "started_at": times, "finished_at": ends, "geom": points})
    assert from_trackintel(stays, GRID, Rules("UTC", carry=0, observed=48)).cells.tolist() == expected
    with pytest.raises(DataError, match="ends before it starts"):
        from_trackintel(stays.assign(finished_at=times - pd.Timedelta(hours=1)), GRID, UTC)
    with pytest.raises(DataError, match="'geom' is missing"):
        from_trackintel(fixes.drop(columns="geom"), GRID, UTC)
    with pytest.raises(DataError, match="row 1: a latitude or longitude is missing"):
        from_trackintel(fixes.assign(geom=[None] * 4), GRID, UTC)


def plt(folder: Path, user: str, name: str, rows: list[tuple[str, tuple[float, float]]]) -> None:
    lines = ["Geolife trajectory", "WGS 84", "Altitude is in Feet", "Reserved 3", "0,2,255,My Track,0,0,2,8421376", "0"]
    lines += [f"{p[0]},{p[1]},0,492,39744.1,{t.split()[0]},{t.split()[1]}" for t, p in rows]
    (folder / user / "Trajectory").mkdir(parents=True, exist_ok=True)
    (folder / user / "Trajectory" / f"{name}.plt").write_text("\r\n".join(lines) + "\r\n")


def test_folders_of_geolife(tmp_path: Path) -> None:
    rows = [(t, (lat, lon)) for t, lat, lon in zip(DAY["time"], DAY["lat"], DAY["lon"], strict=True)]
    plt(tmp_path, SECRET, "20200302000000", rows[:2])
    plt(tmp_path, SECRET, "20200302170500", rows[2:])
    plt(tmp_path, "001", "20200302000000", rows)
    days = from_plt(tmp_path, GRID, UTC)
    assert days.cells.tolist() == from_points(DAY, GRID, UTC, recorded="UTC").cells.tolist() * 2
    assert days.person.tolist() == [0, 1]
    plt(tmp_path, "abroad", "20200302000000", [("2020-03-02 00:00:00", (10.0, 10.0))])
    assert from_plt(tmp_path, GRID, Rules("UTC", carry=48, observed=1, outside="drop")).person.tolist() == [0, 1]
    plt(tmp_path, SECRET, "20200303000000", [("2020-03-03 00:00:00", (39.9, 400.0))])
    with pytest.raises(DataError, match="outside") as caught:
        from_plt(tmp_path, GRID, UTC)
    assert SECRET not in str(caught.value)
    plt(tmp_path / "other", "001", "20200302000000", rows)
    with pytest.raises(DataError, match="earlier file"):
        from_plt([tmp_path / "other", tmp_path], GRID, UTC)
    (tmp_path / "001" / "Trajectory" / "x.plt").write_text(
        "\n" * 6 + "39.91,116.31,0,492,39744.1,2020-03-02,10:00:00,9\n"
    )
    with pytest.raises(DataError, match="a PLT file, row 1: a row has more cells than the header"):
        from_plt(tmp_path, GRID, UTC)
    (tmp_path / "001" / "Trajectory" / "x.plt").write_text("\n" * 6 + "39.91,116.31,0,492,39744.1,2020-03-02\n")
    with pytest.raises(DataError, match="a PLT file, row 1: a row has fewer cells than the header"):
        from_plt(tmp_path, GRID, UTC)
    (tmp_path / "001" / "Trajectory" / "x.plt").write_text("short")
    with pytest.raises(FileError, match="missing, truncated"):
        from_plt(tmp_path, GRID, UTC)
    with pytest.raises(FileError, match="no PLT file"):
        from_plt(tmp_path / "nothing", GRID, UTC)


def test_cells_that_are_days_already(tmp_path: Path) -> None:
    places = np.array([A, D, B], dtype=np.float32)
    arrays = {"days": np.array([[0] * 24 + [1] * 24, [2] * 48, [1] * 48]), "user": np.array([5, 9, 5])}
    np.savez(tmp_path / "days.npz", cell_latlon=places, **arrays)
    days = from_cells(tmp_path / "days.npz", GRID)
    assert [runs(day) for day in days.cells] == [[(0, 24), (3, 24)], [(1, 48)], [(3, 48)]]
    assert days.person.tolist() == [0, 1, 0]
    assert from_cells(tmp_path / "days.npz", GRID, fewest=2).person.tolist() == [0, 0]
    assert from_cells(arrays, GRID, places=None).cells.tolist() == arrays["days"].tolist()
    for wrong, match in (
        ({"days": arrays["days"][:, 1:]}, "'days' is missing or invalid"),
        ({"user": arrays["user"][1:]}, "'days' is missing or invalid"),
        ({"cell_latlon": places[:, ::-1]}, "latitude first"),
        ({"cell_latlon": places[:2]}, "'cell_latlon' is missing or invalid"),
        ({"user": np.array([0.5, 1, 2])}, "'user' is missing or invalid"),
    ):
        with pytest.raises(DataError, match=match):
            from_cells({"cell_latlon": places, **arrays, **wrong}, GRID)
    with pytest.raises(DataError, match="'user' is missing"):
        from_cells({"days": arrays["days"]}, GRID, places=None)
    (tmp_path / "days.npz").write_bytes(b"PK no")
    with pytest.raises(FileError, match="damaged or of another kind"):
        from_cells(tmp_path / "days.npz", GRID)


def slow_day(start: np.ndarray, cell: np.ndarray, carry: int) -> list[int]:
    """The first day of one person's points, minute by minute."""
    slots = []
    for s in range(SLOTS):
        time: dict[int, int] = {}
        for minute in range(s * 30, s * 30 + 30):
            before = np.flatnonzero(start <= minute)
            if len(before) and s - start[before[-1]] // 30 <= carry:
                time[int(cell[before[-1]])] = time.get(int(cell[before[-1]]), 0) + 1
        slots.append(min(time, key=lambda c: (-time[c], c)) if time else -2)
    lead = next((i for i, c in enumerate(slots) if c != -2), SLOTS)
    return [slots[lead]] * lead + slots[lead:] if 0 < lead <= carry else slots


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(0, 48))
def test_whole_days_agree_with_a_slow_count(seed: int, points: int, carry: int) -> None:
    rng = np.random.default_rng(seed)
    start = np.sort(rng.choice(24 * 60, points, replace=False))
    cell = rng.integers(OUTSIDE, 4, points)
    expected = slow_day(start, cell, carry)
    rules = Rules("UTC", carry=carry, observed=1)
    zeros = np.zeros(points, dtype=np.int64)
    cells, _ = whole_days(zeros, start * 60_000, start * 60_000, zeros, zeros, cell, rules)
    if min(expected) < 0:
        assert not len(cells) or cells[0].tolist() != expected
    elif (np.unique(start[cell >= 0] // 30)).size:
        assert cells[0].tolist() == expected


def test_the_points_of_two_people_of_geolife() -> None:
    rules = Rules("Asia/Shanghai", outside="drop", carry=24, observed=4)
    names = {"user": "uid", "time": "datetime", "lon": "lng"}
    days = from_points(shared("geolife_gps_2users.csv.gz"), GEOLIFE, rules, recorded="UTC", **names)
    assert set(days.person.tolist()) == {0, 1}
    assert 10 < len(days.cells) < 400
    assert 0.6 < (actions(days.cells) == 0).mean() < 0.98
    home = GEOLIFE.centres([np.bincount(days.cells[days.person == 0, 0]).argmax()])[0]
    assert abs(home - [39.98, 116.32]).max() < 0.1  # Haidian, where these two lived


def test_the_days_of_geolife() -> None:
    days = from_cells(shared("geolife_cells.npz"), GEOLIFE)
    assert (days.cells == geolife()["days"].cells).all()
    assert (days.person == geolife()["days"].person).all()
