"""`tacit generate` and `tacit map`: days of a released simulator as files and on a map, and of nobody else."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tacit import hub
from tacit.cli import main
from tacit.data.mobility.days import Days
from tacit.data.trajectories import Trajectories
from tacit_worlds.city import city

CAUTION = "Caution  NOT TO BE USED: maps, origin-destination tables"


def run(*words: str) -> int:
    return main([*words])


@pytest.fixture
def simulator(imitated: Path) -> Path:
    return imitated / "simulator"


def drawn(simulator: Path, days: int, seed: int) -> Days:
    return hub.load(simulator).value.generate(days, seed=seed)


def test_days_are_those_of_the_simulator(simulator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "days.csv"
    assert run("generate", str(simulator), "--days", "30", "--seed", "7", "--out", str(out)) == 0
    told = capsys.readouterr().out
    assert hub.load(simulator).certificate.sentence in told
    assert CAUTION in told
    with out.open() as file:
        rows = list(csv.DictReader(file))
    ours = drawn(simulator, 30, 7)
    assert [int(row["cell"]) for row in rows] == ours.cells.ravel().tolist()
    assert [float(rows[5][axis]) for axis in ("lat", "lon")] == ours.grid.centres(ours.cells[0, 5:6])[0].tolist()
    beside = json.loads((tmp_path / "days.csv.json").read_text())
    assert beside["grid"] == ours.grid.to_json()
    assert beside["certificate"] == hub.load(simulator).certificate.to_json()


def test_the_folder_of_the_run_will_do(imitated: Path, tmp_path: Path) -> None:
    for name, folder in (("a.csv", imitated), ("b.csv", imitated / "simulator")):
        assert run("generate", str(folder), "--days", "3", "--out", str(tmp_path / name)) == 0
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


@pytest.mark.parametrize(
    ("kind", "options", "start"),
    [
        ("geojson", ("--date", "2024-03-01"), b'{"type":"FeatureCollection"'),
        ("stays", ("--date", "2024-03-01"), b'{"type":"FeatureCollection","features":[\n{"type":"Feature"'),
        ("geoparquet", (), b"PAR1"),
        ("trips-json", (), b"[\n"),
        ("od", ("--factor", "6", "--by-slot"), b"time,origin,"),
        ("visits", ("--factor", "6"), b"time,cell,lat,lon,days\n"),
    ],
)
def test_other_formats(kind: str, options: tuple[str, ...], start: bytes, simulator: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("generate", str(simulator), "--days", "20", "--format", kind, *options, "--out", str(out)) == 0
    assert out.read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_visits_count_every_day_in_every_slot(simulator: Path, tmp_path: Path) -> None:
    assert run("generate", str(simulator), "--days", "20", "--format", "visits", "--out", str(tmp_path / "v.csv")) == 0
    with (tmp_path / "v.csv").open() as file:
        assert sum(int(row["days"]) for row in csv.DictReader(file)) == 20 * 48


def test_a_minari_dataset_has_the_days_and_the_certificate(simulator: Path, tmp_path: Path) -> None:
    root = tmp_path / "minari"
    assert run("generate", str(simulator), "--days", "12", "--format", "minari", "--out", str(root)) == 0
    data = Trajectories.from_minari("movement-v0", unit=":episode", root=root, reward=(0.0, 1.0))
    ours = drawn(simulator, 12, 0)
    assert np.array_equal(data.columns["observations"], ours.cells[:, :-1].ravel())
    metadata = json.loads((root / "movement-v0" / "data" / "metadata.json").read_text())
    assert hub.load(simulator).certificate.sentence in json.dumps(metadata)


def test_a_map_of_a_simulator_needs_no_network(
    simulator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("map", str(simulator), "--days", "40", "--title", "Town")
    assert run(*words, "--out", str(tmp_path / "map.html")) == 0
    assert "which needs no network" in capsys.readouterr().out
    page = (tmp_path / "map.html").read_text()
    assert "<title>Town" in page
    assert not re.search(r"""(src|href)=["']?http""", page)
    assert "default-src 'none'" in page
    assert "NOT TO BE USED" in page
    assert run(*words, "--out", str(tmp_path / "again.html")) == 0
    assert (tmp_path / "again.html").read_text() == page


def test_files_of_days_and_other_simulators_beside_it(simulator: Path, tmp_path: Path) -> None:
    days = tmp_path / "days.csv"
    assert run("generate", str(simulator), "--days", "40", "--out", str(days)) == 0
    words = ("map", str(days), "--beside", str(simulator), "--days", "30", "--out", str(tmp_path / "map.html"))
    assert run(*words) == 0
    page = (tmp_path / "map.html").read_text()
    assert "<h2>days.csv</h2>" in page
    assert "<h2>simulator, 30 days</h2>" in page


def published(path: Path) -> Path:
    days = city(5, 2, seed=1).days
    np.savez(path, days=days.cells, user=days.person, cell_latlon=days.grid.centres(np.arange(days.grid.size)))
    return path


def test_real_days_are_drawn_only_if_they_were_published(
    simulator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = published(tmp_path / "own.npz")
    words = ("map", str(simulator), "--days", "40", "--beside", str(own), "--out", str(tmp_path / "map.html"))
    assert run(*words) == 2
    assert "the days of the .npz file are real people's" in capsys.readouterr().err
    assert not (tmp_path / "map.html").exists()
    assert run(*words, "--published") == 0
    assert "declared public" in (tmp_path / "map.html").read_text()


def test_a_table_of_somebody_else_is_not_drawn(
    simulator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    days = tmp_path / "days.csv"
    words = ("map", str(days), "--out", str(tmp_path / "map.html"))
    days.write_text("day,person,time,cell,lat,lon\n0,0,00:00,1,39.9,116.4\n")
    assert run(*words) == 6
    assert "real days are never drawn" in capsys.readouterr().err
    days.unlink()
    assert run("generate", str(simulator), "--days", "3", "--out", str(days)) == 0
    days.write_text(days.read_text().replace("00:30", "00:31"))
    assert run(*words) == 6
    beside = tmp_path / "days.csv.json"
    values = json.loads(beside.read_text())
    days.unlink()
    beside.unlink()
    assert run("generate", str(simulator), "--days", "3", "--out", str(days)) == 0
    values["certificate"]["epsilon"] = 0.01
    beside.write_text(json.dumps(values))
    assert run(*words) == 5
    assert not (tmp_path / "map.html").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("generate", "SIMULATOR", "--days", "0"), 2, "--days is 0; expected a whole number from 1"),
        (("generate", "SIMULATOR", "--days", "5", "--seed", "-1"), 2, "--seed is -1"),
        (("generate", "SIMULATOR", "--days", "5", "--factor", "2"), 2, "--factor has no meaning here"),
        (("generate", "SIMULATOR", "--days", "5", "--by-slot"), 2, "--by-slot has no meaning here"),
        (("generate", "SIMULATOR", "--days", "5", "--format", "od", "--factor", "0"), 2, "--factor is 0"),
        (("generate", "SIMULATOR", "--days", "5", "--format", "geojson", "--date", "May"), 2, "the date is 'May'"),
        (("generate", "nowhere", "--days", "5"), 6, "there is no such folder"),
        (("generate", "FILE", "--days", "5"), 6, "this is a file"),
        (("map", "SIMULATOR", "--days", "0"), 2, "--days is 0"),
        (("map", "SIMULATOR", "--trips", "0"), 2, "there is no panel or no trip to draw"),
        (("map", "SIMULATOR", "--published"), 2, "--published has no meaning here"),
        (("map", "nowhere.csv"), 6, "the days are missing, edited or not of a released simulator"),
    ],
)
def test_wrong_words(
    words: tuple[str, ...],
    code: int,
    message: str,
    simulator: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    places = {"SIMULATOR": str(simulator), "FILE": str(tmp_path / "file")}
    assert run(*(places.get(word, word) for word in words), "--out", str(tmp_path / "out")) == code
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nothing_is_written_over(simulator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    for words in (("generate", str(simulator), "--days", "3"), ("map", str(simulator))):
        assert run(*words, "--out", str(out)) == 6
        assert "the file exists already" in capsys.readouterr().err
    out.rename(tmp_path / "days.csv.json")
    assert run("generate", str(simulator), "--days", "3", "--out", str(tmp_path / "days.csv")) == 6
    assert [path.name for path in tmp_path.iterdir()] == ["days.csv.json"]
    assert (tmp_path / "days.csv.json").read_text() == "mine"


def test_a_release_of_another_kind_or_an_edited_one_draws_nothing(
    trained: Path, simulator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--days", "3", "--out", str(tmp_path / "out.csv"))
    assert run("generate", str(trained / "policy"), *out) == 6
    assert "the release is a policy, and no simulator of movement" in capsys.readouterr().err
    assert run("play", str(simulator)) == 6
    assert "tacit generate" in capsys.readouterr().err
    assert run("sample", "--model", str(simulator), "--count", "3", "--out", str(tmp_path / "rows")) == 6
    assert "draw days from it with `tacit generate`" in capsys.readouterr().err
    copy = shutil.copytree(simulator, tmp_path / "copy")
    values = json.loads((copy / "certificate.json").read_text())
    (copy / "certificate.json").write_text(json.dumps({**values, "epsilon": 0.01}))
    assert run("generate", str(copy), *out) == 5
