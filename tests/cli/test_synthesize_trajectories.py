"""Whole trajectories on the command line, and people who own several records: promises, releases and wrong words."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from test_synthesize import CANARY, PROMISE, SPEC, write_records

from stored_pages import charts, table
from tacit import hub
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.evaluation import trajscore
from tacit.evaluation.report import tables
from tacit.methods.synthesis.plan import Pretraining
from tacit.methods.synthesis.trajectories import plan, stitching
from tacit.privacy.certificate.certificate import Certificate

TINY = (
    "--steps",
    "4",
    "--expected-batch-size",
    "200",
    "--width",
    "8",
    "--depth",
    "1",
    "--fragments-per-unit",
    "2",
    "--longest",
    "6",
)
WHOLE = ("--method", "privorl-j", *TINY, "--trajectories", "20")


def imported(folder: Path, name: str, *words: str) -> Path:
    """The records in NAME.csv as a folder."""
    source = folder / f"{name}.csv"
    (folder / "spec.json").write_text(json.dumps(SPEC))
    line = ["data", "import", str(source), "--spec", str(folder / "spec.json"), "--out", str(folder / name)]
    assert main([*line, *(words or ("--unit", "patient"))]) == 0
    return folder / name


@pytest.fixture
def visits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    write_records(tmp_path / "visits.csv")
    found = imported(tmp_path, "visits")
    capsys.readouterr()
    return found


def synthesize(data: Path, *words: str) -> int:
    return main(["synthesize", str(data), *PROMISE, *words, "--out", str(data.parent / "run")])


def test_whole_trajectories_are_released_sampled_and_shown(visits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert synthesize(visits, *WHOLE, "--no-match", "--horizon", "4", "--episodes-per-unit", "2") == 0
    captured = capsys.readouterr()
    assert "made from at most 2 fragments of its episodes, of 6 rows each" in captured.out
    run = visits.parent / "run"
    certificate = Certificate.load(run / "certificate.json")
    assert certificate.verify().private
    assert [part["name"] for part in certificate.parts] == ["starts", "fragments"]
    drawn = charts(run, "whole_trajectories")
    assert "Synthetic trajectories" in drawn
    assert "Protected trajectories" not in drawn
    page = (run / "report.html").read_text()
    assert '<section id="whole_trajectories">' in page
    for path in run.rglob("*"):
        assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path.name
    assert CANARY not in captured.out + captured.err

    (run / "report.html").unlink()
    assert main(["report", str(run)]) == 0  # the pictures come back from run.json
    assert (run / "report.html").read_text() == page

    value = hub.load(run / "model").value
    assert (value.plan.horizon, value.plan.longest, value.plan.episodes_per_unit) == (4, 6, 2)
    words = ["sample", "--model", str(run / "model"), "--count", "7"]
    assert main([*words, "--out", str(run / "more")]) == 0
    drawn = Trajectories.open(run / "more")
    assert drawn.counts()["episodes"] == 7
    assert np.array_equal(drawn.episodes, value.sample(7, seed=0).episodes)
    assert main([*words, "--transitions", "--out", str(run / "steps")]) == 0
    steps = Trajectories.open(run / "steps")
    assert (steps.counts()["transitions"], steps.counts()["episodes"]) == (7, 7)
    assert np.array_equal(steps.columns["rewards"], value.sample_columns(7, seed=0)["rewards"])
    assert main([*words, "--format", "minari", "--out", str(run / "sets")]) == 0
    sets = Trajectories.from_minari("synthetic-v0", unit=":episode", root=run / "sets", simulated=True)
    assert np.array_equal(sets.columns["next_observations"], drawn.columns["next_observations"])
    assert main([*words, "--out", str(run / "more.parquet")]) == 0
    table = Trajectories.from_parquet(run / "more.parquet", unit=":episode", episode="episode", simulated=True)
    assert np.array_equal(table.episodes, drawn.episodes)

    assert synthesize(visits, *WHOLE, "--no-match", "--horizon", "4", "--episodes-per-unit", "2", "--resume") == 0
    assert "--count 10000 --out TRAJECTORIES.parquet" in capsys.readouterr().out


def test_simulated_trajectories_are_compared_in_their_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seed in (("ways", "0"), ("others", "1")):
        words = ["--layout", "ring", "--episodes", "40", "--seed", seed]
        assert main(["data", "maze", *words, "--out", str(tmp_path / name)]) == 0
    public = ("--public", str(tmp_path / "others"), "--provenance", "Another seed.")
    promise = (
        "--unit",
        "episode",
        "--relation",
        "add_or_remove",
        "--population",
        "400",
        "--epsilon",
        "4",
        *PROMISE[-4:],
    )
    small = (
        "--steps",
        "4",
        "--expected-batch-size",
        "40",
        "--width",
        "8",
        "--longest",
        "60",
        "--trajectories",
        "20",
        "--no-match",
    )
    run = tmp_path / "run"
    line = ["synthesize", str(tmp_path / "ways"), *promise, "--delta", "1e-4", "--method", "privorl-j", *small]
    with monkeypatch.context() as patch:
        patch.setattr(plan, "Pretraining", functools.partial(Pretraining, steps=21))
        patch.setattr(tables, "train_encoder", functools.partial(trajscore.train_encoder, steps=20))
        patch.setattr(tables, "picture", lambda *rows, seed: ())
        assert main([*line, *public, "--world", "ring", "--out", str(run)]) == 0
    drawn = charts(run, "whole_trajectories")
    assert {"Protected trajectories", "Synthetic trajectories"} <= set(drawn)
    assert 'class="path-stitch"' in drawn["Synthetic trajectories"]
    measures = {**table(run, "closeness"), **table(run, "world")}
    assert {"Marginal", "TrajScore", "Next position", "Step inside a fragment"} <= set(measures)
    page = (run / "report.html").read_text()
    assert 'class="path-stitch"' in page
    assert '<section id="map">' in page


def test_people_who_own_several_records_have_settings_of_their_own(
    visits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert synthesize(visits, "--dry-run") == 0
    promise = capsys.readouterr().out
    assert "100 noisy sum(s) over every patient; one patient adds to one sum a vector of norm at most 0.05" in promise
    assert "made from at most 16 of its rows" in promise
    assert "histograms: 1 noisy sum(s)" in promise
    assert synthesize(visits, "--dry-run", "--no-match") == 0
    assert "histograms" not in capsys.readouterr().out
    assert synthesize(visits, "--dry-run", "--rows-per-unit", "1", "--expected-batch-size", "20") == 0
    assert "a vector of norm at most 1 made from at most 1 of its rows" in capsys.readouterr().out
    assert synthesize(visits, "--dry-run", *WHOLE) == 0
    assert "histograms: 1 noisy sum(s)" in capsys.readouterr().out


def test_fragments_longer_than_every_episode_are_padded_and_said_once(
    visits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert synthesize(visits, *WHOLE, "--horizon", "32", "--dry-run") == 0
    told = capsys.readouterr().out
    assert told.count("Fragments of 32 rows are longer than every trajectory (6 steps)") == 1
    assert "choose a shorter horizon" in told


def test_a_person_with_a_thousand_times_the_others_data_is_one_person(tmp_path: Path) -> None:
    write_records(tmp_path / "visits.csv", people=3)
    head, *lines = (tmp_path / "visits.csv").read_text().splitlines()
    mine = [line for line in lines if line.startswith(f"{CANARY}-0,")]
    (tmp_path / "visits.csv").write_text("\n".join((head, *mine * 1_000, *lines[3:])) + "\n")
    assert synthesize(imported(tmp_path, "visits"), *WHOLE, "--no-match") == 0
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    assert certificate.verify().private
    assert any("however many episodes and rows" in line for line in certificate.lines("covered"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--fragments-per-unit", "0"), "--fragments-per-unit is 0; expected at least one fragment a unit"),
        (("--horizon", "0"), "horizon is 0; expected a whole number >= 1"),
        (("--longest", "0"), "longest is 0; expected a whole number >= 1"),
        (("--network", "unet", "--horizon", "6"), "four tokens or a multiple: a U-Net halves them twice"),
        (("--trajectories", "0"), "the number of synthetic trajectories is below 1"),
        (("--rows", "8"), "--rows has no meaning here"),
        (("--rows-per-unit", "8"), "--rows-per-unit has no meaning here"),
        (("--paper", "--horizon", "8"), "has no meaning here; expected it with our settings, not --paper"),
        (("--public", "other", "--provenance", "Made up."), "other records, with observations and actions of the same"),
    ],
)
def test_wrong_words_cost_nothing(
    words: tuple[str, ...],
    message: str,
    visits: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(visits.parent)
    if "--public" in words:
        assert main(["data", "clinic", "--patients", "3", "--out", "other"]) == 0
    before = sorted(visits.parent.rglob("*"))
    assert synthesize(visits, *WHOLE, *words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert error.startswith("tacit: ")
    assert sorted(visits.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (":transition", "every row of these records is a unit of its own"),
        ("patient", "no record says where an episode ends"),
    ],
)
def test_records_without_whole_episodes_are_refused(
    unit: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(tmp_path / "visits.csv")
    source = tmp_path / "visits.csv"
    source.write_text(source.read_text().replace(",True", ",False"))
    data = imported(tmp_path, "visits", "--unit", unit)
    assert synthesize(data, *WHOLE, "--unit", unit.lstrip(":")) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert CANARY not in error
    assert not (tmp_path / "visits.ledger").exists()
    assert not (tmp_path / "run").exists()


def test_histograms_tell_networks_of_many_worlds_about_the_private_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ("--layout", "ring", "--episodes")
    assert main(["data", "maze", *size, "40", "--out", str(tmp_path / "ways")]) == 0
    assert main(["data", "maze", *size, "5", "--seed", "3", "--out", str(tmp_path / "more")]) == 0
    assert main(["data", "maze", *size, "5", "--mazes", "3", "--seed", "7", "--out", str(tmp_path / "mazes")]) == 0
    assert "one unit per maze" in capsys.readouterr().out
    worlds = Trajectories.open(tmp_path / "mazes").split_by_unit()
    assert [one.counts()["episodes"] for one in worlds] == [5, 5, 5]
    promise = (
        "--unit",
        "episode",
        "--relation",
        "add_or_remove",
        "--population",
        "400",
        "--epsilon",
        "4",
        *PROMISE[-4:],
    )
    line = ["synthesize", str(tmp_path / "ways"), *promise, "--delta", "1e-4", "--method", "privorl-j"]
    told = ["--local-context", "1", "--width", "8", "--depth", "1", "--longest", "60", "--trajectories", "5"]
    public = ["--public", str(tmp_path / "mazes"), "--provenance", "Random mazes."]
    out = ["--out", str(tmp_path / "run")]
    monkeypatch.setattr(plan, "WORLD_STEPS", 21)
    monkeypatch.setattr(tables, "train_encoder", functools.partial(trajscore.train_encoder, steps=20))
    monkeypatch.setattr(stitching, "TRIES", 1)  # hardly trained networks miss nearly always
    assert main([*line, *told, *public, *out]) == 0
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    assert certificate.verify().private
    assert [part["name"] for part in certificate.parts] == ["histograms"]
    assert hub.load(tmp_path / "run" / "model").value.plan.local_context == 1
    for wrong, words in (
        ([*told, *out], "no public worlds"),
        ([*told, *public, "--no-match", *out], "no public worlds"),
        ([*told, "--public", str(tmp_path / "more"), "--provenance", "Not worlds.", *out], "no public worlds"),
        ([*told, *public, "--steps", "5", *out], "--steps has no meaning here"),
    ):
        wrong[-1] = str(tmp_path / "other")
        assert main([*line, *wrong]) != 0
        assert words in capsys.readouterr().err
