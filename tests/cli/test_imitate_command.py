"""`tacit imitate`: the promise comes first, people's whereabouts go in, one simulator comes out."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.data.test_position_files import geometry, geopackage
from tests.private_files import open_to_others

from stored_pages import blocks, table
from tacit import hub
from tacit.cli import main
from tacit.data.mobility.grids import H3Grid, RegularGrid
from tacit.errors import DataError
from tacit.evaluation.letter import FILES
from tacit.methods.mobility import Simulator
from tacit.methods.mobility.baselines import BlockChain
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger
from tacit.study import imitate
from tacit.study.account import LOOK
from tacit.study.movement import square_grid
from tacit_worlds.city import city

TOWN = ("--city", "60", "--days", "4", "--delta", "1e-3")
"""The options of `imitated`."""
BOX = ("--box", "39.76", "116.22", "40.04", "116.58")
PROMISE = ("--epsilon", "4", "--delta", "1e-3", "--budget-epsilon", "4.0", "--budget-sampled", "1")
POINTS = (*BOX, "--cell", "500", "--zone", "Asia/Shanghai", "--population", "60", *PROMISE, "--method", "epr", "--yes")
CELLS = (*BOX, "--degrees", "0.01", "--population", "60", *PROMISE, "--method", "epr", "--yes")


def run(*words: str) -> int:
    return main([*words])


@pytest.fixture(autouse=True)
def _few_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imitate, "DAYS", 200)


def people(count: int = 20, days: int = 2) -> pd.DataFrame:
    """Points of a small city, one each half-hour, with their UTC offset."""
    cells = city(count, days, seed=3).days
    where = cells.grid.centres(cells.cells)
    clock = pd.date_range("2024-05-06", periods=48 * days, freq="30min", tz="Asia/Shanghai").strftime("%FT%T%z")
    return pd.DataFrame(
        {
            "user": [f"p{k}" for k in np.repeat(cells.person, 48)],
            "time": np.tile(clock, count),
            "lat": where[..., 0].ravel(),
            "lon": where[..., 1].ravel(),
        }
    )


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compressed CSV file of points."""
    path = tmp_path_factory.mktemp("points") / "points.csv.gz"
    people().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An .npz file of days that are cut already, as that of Geolife."""
    days = city(20, 3, seed=4).days
    seen, index = np.unique(days.cells, return_inverse=True)
    path = tmp_path_factory.mktemp("cells") / "cells.npz"
    np.savez(path, days=index.reshape(days.cells.shape), user=days.person, cell_latlon=days.grid.centres(seen).round(2))
    return path


def test_a_dry_run_prints_the_promise_and_opens_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("imitate", str(tmp_path / "none.csv"), *BOX, "--cell", "500", "--zone", "UTC", "--population", "83")
    budget = ("--budget-epsilon", "2", "--budget-sampled", "1")
    assert run(*words, "--epsilon", "2", "--delta", "1e-5", *budget, "--unit", "rider", "--out", "x", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "promises (2, 1e-05)-differential privacy to every rider." in out
    assert "Protected: everything of one rider." in out
    assert "simulated" not in out
    assert out.endswith("Dry run: no private record was read and nothing was spent.\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("one-shot", "imitation of movement (one shot) promises"),
        ("table", "baseline simulator of movement promises"),
        ("markov", "baseline simulator of movement promises"),
        ("pategail", "rewards: 30 noisy sum(s) over every person"),
    ],
)
def test_every_method_states_its_promise(method: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("imitate", *TOWN, "--epsilon", "2", "--method", method, "--out", "x", "--dry-run") == 0
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("noise", "words"), [("shared", "shared among at least 54 answers"), ("device", "which its own device adds")]
)
def test_the_promise_says_who_adds_the_noise(noise: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("imitate", *TOWN, "--epsilon", "2", "--noise", noise, "--out", "x", "--dry-run") == 0
    assert words in capsys.readouterr().out


def test_a_run_releases_a_simulator_with_its_certificate(imitated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(path.name for path in imitated.iterdir() if not path.name.startswith("ledger")) == [
        *(
            "certificate.json",
            "certificate.md",
            *sorted(FILES.values()),
            "map.html",
            "report.html",
            "run.json",
            "simulator",
        ),
    ]
    release = hub.load(imitated / "simulator")
    assert isinstance(release.value, Simulator)
    assert release.certificate == Certificate.load(imitated / "certificate.json")
    assert release.certificate.simulated
    assert release.value.generate(10).grid == city(1, 1).days.grid
    assert Ledger.read(imitated / "ledger").spent()[0] == pytest.approx(release.certificate.epsilon, rel=1e-5)
    assert run("certificate", "verify", str(imitated / "certificate.json")) == 0
    assert run("ledger", "show", str(imitated / "ledger")) == 0
    out = capsys.readouterr().out
    assert "The records were declared simulated." in out
    assert "imitation of movement (one shot), (3.9" in out
    assert "3 of 3 steps claimed" in out


def test_the_report_compares_with_simulated_people_and_is_made_again(imitated: Path, tmp_path: Path) -> None:
    rows = table(imitated, "close")
    assert {"All seven of the order of a day", "Places a day", "From where to where"} <= set(rows)
    assert all(float(cells["Noise alone"]) > 0 for cells in rows.values())
    assert any(block.get("heading") == "What must not be read from it." for block in blocks(imitated, "answer"))
    assert "Simulated people" in (imitated / "map.html").read_text()
    copy = shutil.copytree(imitated, tmp_path / "copy")
    page = (copy / "report.html").read_text()
    (copy / "report.html").unlink()
    assert run("report", str(copy)) == 0
    assert (copy / "report.html").read_text() == page


def test_the_map_of_many_people_says_how_fine_it_can_be_read(tmp_path: Path) -> None:
    words = ("--city", "400", "--days", "2", "--delta", "1e-4", "--epsilon", "8", "--method", "epr")
    assert run("imitate", *words, "--out", str(tmp_path / "run")) == 0
    told = " ".join(block["text"] for block in blocks(tmp_path / "run", "answer") if "text" in block)
    (most,) = re.findall(r"Visits by half-hour: .*? read single cells on maps of at most ([\d,]+) cells alone", told)
    page = (tmp_path / "run" / "map.html").read_text()
    assert f"read single cells on maps of at most {most} cells alone." in page
    assert "NOT TO BE USED" not in page


def test_a_finished_run_says_so(imitated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(imitated, tmp_path / "copy")
    words = ("imitate", *TOWN, "--epsilon", "4", "--out", str(copy))
    assert run(*words) == 6
    assert "or --resume to go on with the run in it" in capsys.readouterr().err
    before = Ledger.read(copy / "ledger").head
    assert run(*words, "--resume") == 0
    assert "The run was finished already." in capsys.readouterr().out
    assert Ledger.read(copy / "ledger").head == before
    assert run("imitate", *TOWN, "--epsilon", "3", "--out", str(copy), "--resume") == 6
    assert "begun with other options (epsilon)" in capsys.readouterr().err


def test_a_run_that_was_cut_after_its_release_gets_its_report(imitated: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(imitated, tmp_path / "copy")
    stored = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**stored, "finished": False}))
    (copy / "report.html").unlink()
    before = Ledger.read(copy / "ledger").head
    assert run("imitate", *TOWN, "--epsilon", "4", "--out", str(copy), "--resume") == 0
    assert (copy / "report.html").exists()
    assert Ledger.read(copy / "ledger").head == before


@pytest.mark.parametrize("kind", ["parquet", "gpkg"])
def test_parquet_and_geopackage_are_imitated(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, frame = tmp_path / f"points.{kind}", people(count=8)
    if kind == "parquet":
        frame.assign(time=pd.to_datetime(frame["time"])).to_parquet(source)
    else:
        spots = [
            geometry(lon, lat) for lat, lon in zip(frame["lat"], frame["lon"], strict=True)
        ]  # and no columns of numbers
        geopackage(source, blobs=spots, times=list(frame["time"]), users=list(frame["user"]))
    assert run("imitate", str(source), *POINTS, "--method", "markov", "--out", str(tmp_path / "run")) == 0
    assert "promises (4, 0.001)" in capsys.readouterr().out
    assert (tmp_path / "run" / "simulator").is_dir()


def test_gpx_and_geojson_are_imitated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame, features = people(count=8), []
    (tmp_path / "tracks").mkdir()
    for name, rows in frame.groupby("user"):
        points = [
            f'<trkpt lat="{r.lat}" lon="{r.lon}"><time>{r.time}</time></trkpt>' for r in rows.itertuples(index=False)
        ]
        track = f"<gpx><trk><trkseg>{''.join(points)}</trkseg></trk></gpx>"
        (tmp_path / "tracks" / f"{name}.gpx").write_text(track)
        line = {"type": "LineString", "coordinates": rows[["lon", "lat"]].to_numpy().tolist()}
        said = {"user": name, "coordTimes": rows["time"].tolist()}
        features.append({"type": "Feature", "geometry": line, "properties": said})
    (tmp_path / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    for source in ("tracks", "a.geojson"):
        words = [str(tmp_path / source), *POINTS, "--method", "markov", "--out", str(tmp_path / f"{source}.run")]
        assert run("imitate", *words) == 0
        assert "promises (4, 0.001)" in capsys.readouterr().out
        assert (tmp_path / f"{source}.run" / "simulator").is_dir()
    assert run("imitate", str(tmp_path / "tracks"), *POINTS, "--time", "at", "--out", str(tmp_path / "x")) == 2
    assert "--time has no meaning here" in capsys.readouterr().err
    (tmp_path / "tracks" / "a.plt").touch()
    assert run("imitate", str(tmp_path / "tracks"), *POINTS, "--out", str(tmp_path / "x")) == 2
    assert "the records are of several kinds" in capsys.readouterr().err


def test_points_in_and_nothing_of_them_in_the_report(
    points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path(shutil.copy(points, tmp_path))
    words = ("imitate", str(source), *POINTS)
    assert run(*words, "--out", str(tmp_path / "run")) == 0
    captured = capsys.readouterr()
    assert captured.out.index("promises (4, 0.001)") < captured.out.index("Open ")
    assert f"tacit ledger show {source}.ledger" in captured.out
    release = hub.load(tmp_path / "run" / "simulator")
    assert not release.certificate.simulated
    assert hub.notes(tmp_path / "run" / "simulator") == {"zone": "Asia/Shanghai"}
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["report"]
    assert blocks(tmp_path / "run", "close") == []
    assert stored["costs"] == []
    assert "Simulated people" not in (tmp_path / "run" / "map.html").read_text()
    assert [path.name for path in (tmp_path / "run" / "private").iterdir()] == ["receipt.json"]
    assert open_to_others(tmp_path / "run" / "private") == []

    assert run(*words, "--out", str(tmp_path / "again")) == 3
    assert "this very imitation was begun before and is paid for" in capsys.readouterr().err
    assert run(*words, "--seed", "1", "--unit", "rider", "--out", str(tmp_path / "again")) == 3
    assert "protects every user of 60" in capsys.readouterr().err
    assert run(*(word if word != "4" else "3" for word in words), "--out", str(tmp_path / "again")) == 3
    assert "the budget of these people does not cover another imitation" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()


def test_an_interruption_says_what_is_lost(
    points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    source = Path(shutil.copy(points, tmp_path))
    words = ("imitate", str(source), *POINTS, "--out", str(tmp_path / "run"))
    with monkeypatch.context() as patch:
        patch.setattr(imitate, "make_vault", stopped)
        assert run(*words) == 130
    assert "nothing is lost: give the same command with --resume" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert not Path(f"{source}.ledger").exists()
    with monkeypatch.context() as patch:
        patch.setattr(hub, "save", stopped)
        assert run(*words) == 130
    assert "what was charged stays charged" in capsys.readouterr().err
    assert run(*words, "--resume") == 3
    assert "begun before and is paid for" in capsys.readouterr().err


def test_the_curators_own_figures_stay_private(cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(shutil.copy(cells, tmp_path))
    words = ("imitate", str(source), *CELLS, "--nonprivate-diagnostics")
    assert run(*words, "--out", str(tmp_path / "run")) == 0
    assert "NOT PRIVATE" in capsys.readouterr().out
    found = json.loads((tmp_path / "run" / "private" / "measures-of-movement.json").read_text())
    assert found["banner"].startswith("PRIVATE")
    assert open_to_others(tmp_path / "run" / "private") == []
    assert {"reference", "sequence", "robust"} == set(found["result"])
    told = [entry.payload for entry in Ledger.read(f"{source}.ledger").entries() if entry.kind == "note"]
    assert [note["text"] for note in told if note["kind"] == "nonprivate"] == [LOOK, "measures of movement"]
    assert "DailyLoc" not in (tmp_path / "run" / "report.html").read_text()


def test_a_folder_of_plt_files_and_a_grid_of_hexagons(tmp_path: Path) -> None:
    for name, rows in people(6).groupby("user"):
        folder = tmp_path / "geolife" / str(name) / "Trajectory"
        folder.mkdir(parents=True)
        times = pd.to_datetime(rows["time"]).dt.tz_convert("UTC").dt.strftime("%Y-%m-%d,%H:%M:%S")
        lines = [f"{lat},{lon},0,0,0,{time}" for lat, lon, time in zip(rows["lat"], rows["lon"], times, strict=True)]
        (folder / "a.plt").write_text("\n" * 6 + "\n".join(lines) + "\n")
    grid = H3Grid(39.7, 116.1, 40.1, 116.7, 7)
    (tmp_path / "grid.json").write_text(json.dumps(grid.to_json()))
    words = ("--grid", str(tmp_path / "grid.json"), "--zone", "Asia/Shanghai", "--population", "60", *PROMISE, "--yes")
    folder = tmp_path / "run"
    assert run("imitate", str(tmp_path / "geolife"), *words, "--method", "markov", "--out", str(folder)) == 0
    value = hub.load(folder / "simulator").value
    assert isinstance(value, BlockChain)
    assert value.grid == grid


@pytest.mark.parametrize(
    "options",
    [
        ("--rounds", "2"),
        pytest.param(("--rounds", "1", "--critics", "table", "--noise", "shared"), marks=pytest.mark.slow),
    ],
)
def test_devices_answer(options: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run("imitate", *TOWN, *PROMISE[:2], "--method", "pategail", *options, "--out", str(folder)) == 0
    certificate = Certificate.load(folder / "certificate.json")
    assert certificate.verify().private
    assert any("lie with one curator" in line for line in certificate.lines("assumptions"))


def test_cells_cover_the_box() -> None:
    for options in ({"metres": 500.0}, {"degrees": 0.03}):
        grid = square_grid((39.5, 116.0, 40.0, 117.0), **options)
        assert isinstance(grid, RegularGrid)
        south_west, north_east = grid.cells([39.5001, 39.9999], [116.0001, 116.9999])
        assert south_west == 0
        assert north_east == grid.size - 1
        half = np.array([grid.step, grid.width]) / 2
        assert grid.centres([0])[0] - half == pytest.approx([39.5, 116.0])
    assert square_grid((0.0, 0.0, 1.0, 1.0), degrees=0.1).size == 100
    with pytest.raises(DataError, match="too small: it holds 1 cell"):
        square_grid((0.0, 0.0, 0.001, 0.001), metres=500.0)


def spoilt(change: str) -> pd.DataFrame:
    """Points with something wrong."""
    frame = people(3)
    match change:
        case "far":
            frame.loc[7, "lat"] = 12.5
        case "plain":
            frame["time"] = frame["time"].str.slice(0, 19)
        case "swapped":
            frame = frame.rename(columns={"lat": "lon", "lon": "lat"})
        case "unsorted":
            frame = frame.iloc[::-1]
        case "renamed":
            frame = frame.rename(columns={"user": "canary"})
    return frame


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "far",
            "row 8: a point is outside the grid; expected points inside the public grid; take a wider public --b",
        ),
        ("plain", "the time zone is missing: a time has no zone; expected times with a zone, or --recorded"),
        ("swapped", "inside with latitude and longitude swapped"),
        ("swapped", "exchange --lat and --lon, or put the latitudes of --box first if it is the one that is swapped."),
        ("unsorted", "the times of a user are not in order"),
        ("renamed", "'user' is missing or invalid"),
        ("twice", "a user also occurs in an earlier file"),
        ("few", "the data hold more users than the declared population; expected at most 2"),
    ],
)
def test_bad_records_cost_nothing(
    change: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "one.csv"] + ([tmp_path / "two.csv"] if change == "twice" else [])
    for path in files:
        spoilt(change).to_csv(path, index=False)
    words: list[Any] = ["imitate", *map(str, files), *POINTS, "--ledger", str(tmp_path / "budget")]
    if change == "few":
        words[words.index("60")] = "2"
    assert run(*words, "--out", str(tmp_path / "run")) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "canary" not in captured.err
    assert "Rules(" not in captured.err
    assert captured.out.startswith("baseline simulator of movement promises")
    assert not (tmp_path / "budget").exists()
    assert not (tmp_path / "run").exists()


REST = ("--population", "60", *PROMISE, "--yes")
CITY = ("--city", "60", "--epsilon", "2", "--delta", "1e-3")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (REST, "there are no records; expected files or a folder, or --city"),
        (("a.csv", "--city", "5", *PROMISE), "there are records and a city"),
        (("a.csv", "b.npz", *REST), "the records are of several kinds"),
        (("a.npz", "b.npz", *REST), "there are several .npz files"),
        (("a.csv", "--zone", "UTC", *BOX, "--cell", "500", *PROMISE), "--population is missing"),
        (("a.csv", *BOX, "--cell", "500", *REST), "--zone is missing"),
        (("a.csv", *BOX, "--cell", "500", "--zone", "Mars", *REST), "--zone is 'Mars'; expected an IANA name"),
        (("a.csv", "--zone", "UTC", "--recorded", "Mars", *REST), "--recorded is 'Mars'"),
        (("a.csv", "--zone", "UTC", *REST), "the public grid is missing"),
        (("a.csv", "--zone", "UTC", *BOX, *REST), "the public grid is missing"),
        (("a.csv", "--zone", "UTC", *BOX, "--grid", "g", *REST), "--box has no meaning here"),
        (("a.csv", "b.csv", "--zone", "UTC", *BOX, "--cell", "500", *REST), "--ledger is missing"),
        (("THERE", "--zone", "UTC", *BOX, "--cell", "0.01", *REST), "the side of a cell is 0.01 metres"),
        (("THERE", "--zone", "UTC", *BOX, "--cell", "9e5", *REST), "--box is too small: it holds 1 cell"),
        (
            ("THERE", "--zone", "UTC", "--box", "116", "39", "117", "40", "--cell", "500", *REST),
            "latitudes and longitudes of --box are swapped",
        ),
        (
            ("THERE", "--zone", "UTC", "--box", "40", "116", "39", "117", "--cell", "500", *REST),
            "--box is empty or not on the earth",
        ),
        (
            ("THERE", "--zone", "UTC", *BOX, "--cell", "500", *REST, "--homes", "10", "10", "11", "11"),
            "--homes: the box holds no block of the grid",
        ),
        (("a.npz", *BOX, "--cell", "500", "--zone", "UTC", *REST), "--zone has no meaning here"),
        (("a.npz", *BOX, "--cell", "500", "--separator", ";", *REST), "--separator has no meaning here"),
        (("a.gpkg", "--zone", "UTC", *BOX, "--cell", "500", "--decimal", ",", *REST), "--decimal has no meaning here"),
        (("a.csv", "--zone", "UTC", *BOX, "--cell", "500", "--encoding", "x", *REST), "no encoding that is known"),
        ((*CITY, "--zone", "UTC"), "--zone has no meaning here"),
        ((*CITY, "--population", "50"), "there are 60 people in a population of 50"),
        ((*CITY, "--delta", "0.1"), "delta 0.1 is not below 1 / population"),
        ((*CITY, "--days", "0"), "--days is 0"),
        ((*CITY, "--rounds", "5"), "--rounds has no meaning here; expected --method pategail, not one-shot"),
        ((*CITY, "--noise", "device", "--method", "epr"), "--noise device has no meaning here"),
        ((*CITY, "--floor", "50"), "--floor has no meaning here; expected --noise shared"),
        ((*CITY, "--nonprivate-diagnostics"), "--nonprivate-diagnostics has no meaning here"),
        (
            ("a.npz", *BOX, "--cell", "500", *REST, "--method", "pategail", "--nonprivate-diagnostics"),
            "--nonprivate-diagnostics has no meaning here",
        ),
        ((*CITY, "--method", "pategail", "--epsilon", "nan"), "--epsilon is nan"),
    ],
)
def test_wrong_options_cost_nothing(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there.csv"
    there.touch()
    given = [str(there) if word == "THERE" else word for word in words]
    assert run("imitate", *given, "--out", str(tmp_path / "run")) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [there]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none.csv", "--zone", "UTC", *BOX, "--cell", "500", *REST), "there is no such file or folder"),
        (("a.xlsx", *BOX, "--cell", "500", *REST), "the file is of no known kind"),
        (("THERE", "--zone", "UTC", "--grid", "none.json", *REST), "--grid none.json: the file is missing or no JSON"),
    ],
)
def test_missing_files(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.csv.gz").write_bytes(gzip.compress(b""))
    given = [str(tmp_path / "there.csv.gz") if word == "THERE" else word for word in words]
    assert run("imitate", *given, "--out", str(tmp_path / "run")) == 6
    assert message in capsys.readouterr().err


def halved(folder: Path) -> tuple[Path, Path]:
    """The people of the city, half of them in each of two files."""
    everybody = people()
    first = everybody["user"].isin(sorted(set(everybody["user"]))[:10])
    for name, part in (("a.csv", everybody[first]), ("b.csv", everybody[~first])):
        part.to_csv(folder / name, index=False)
    return folder / "a.csv", folder / "b.csv"


def test_every_source_knows_its_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = halved(tmp_path)
    whole = str(tmp_path / "whole.ledger")
    budget = ("--budget-epsilon", "9", "--budget-delta", "9e-3")
    assert run("imitate", str(a), str(b), *POINTS, *budget, "--ledger", whole, "--out", str(tmp_path / "both")) == 0
    for path in (a, b):
        capsys.readouterr()
        assert run("imitate", str(path), *POINTS, "--out", str(tmp_path / "one")) == 3
        assert f"give --ledger {whole}" in capsys.readouterr().err
        assert not Path(f"{path}.ledger").exists()
    less = [word if word != "4" else "3" for word in POINTS]
    assert run("imitate", str(b), *less, *budget, "--ledger", whole, "--out", str(tmp_path / "one")) == 0
    assert len(Ledger.read(whole).plans()) == 2


def test_sources_of_two_ledgers_are_refused_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = halved(tmp_path)
    for path in (a, b):
        assert run("imitate", str(path), *POINTS, "--out", str(tmp_path / f"{path.stem}.run")) == 0
    for ledger in (f"{a}.ledger", f"{b}.ledger", str(tmp_path / "new")):
        capsys.readouterr()
        assert run("imitate", str(a), str(b), *POINTS, "--ledger", ledger, "--out", str(tmp_path / "both")) == 3
        assert "these records have a ledger already" in capsys.readouterr().err


def test_notes_of_a_run_that_failed_are_taken_back(tmp_path: Path) -> None:
    a, b = halved(tmp_path)
    b.write_text(a.read_text())  # everybody is in both files
    assert run("imitate", str(a), str(b), *POINTS, "--ledger", str(tmp_path / "new"), "--out", str(tmp_path / "r")) == 2
    assert sorted(path.name for path in tmp_path.iterdir() if "json" in path.name) == []
