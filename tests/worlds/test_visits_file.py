"""`tacit data example`: an export as hospitals have it, whose bounds, study and drugs are what they are said to be."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.cli import main
from tacit.study.check import check
from tacit_worlds import visits

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("example")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        assert main(["data", "example", "visits.csv"]) == 0
    return made


@pytest.fixture
def folder(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(example, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_it_is_written_as_hospitals_write(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["study.toml", "visits.csv", "visits.toml"]
    header, *rows = Path("visits.csv").read_bytes().decode("cp1252").splitlines()
    assert header == "Patient;Zeitpunkt;Geschlecht;Alter;Blutdruck;Kreatinin;Medikation"
    table = pd.DataFrame([row.split(";") for row in rows], columns=header.split(";"))
    assert table["Patient"].nunique() == 5_000
    assert 28_000 < len(table) < 32_000
    assert table["Zeitpunkt"].str.fullmatch(r"\d\d\.\d\d\.\d{4} \d\d:\d\d").all()
    assert table["Kreatinin"].str.fullmatch(r"\d+,\d\d|k\.A\.").all()
    assert 0.1 < (table["Kreatinin"] == "k.A.").mean() < 0.14
    assert 0.03 < (table["Blutdruck"] == "").mean() < 0.05
    assert set(table["Geschlecht"]) == {"männlich", "weiblich", ""}
    assert (table.groupby("Patient")[["Geschlecht", "Alter"]].nunique() == 1).all(axis=None)
    assert (table["Patient"] == table["Patient"].shift()).mean() < 0.01  # in any order


def test_the_same_seed_is_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "PATIENTS", 200)
    assert visits.export(3) == visits.export(3)
    assert visits.export(3) != visits.export(4)


def test_it_is_ready_to_be_used_and_says_that_nobody_is_in_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(Path("study.toml")).faults == ()
    assert main(["data", "example", "visits.csv"]) == 6  # never over another
    assert main(["data", "example", "more.txt"]) == 6
    assert main(["data", "example", "study.csv"]) == 6
    assert "Nobody is in this example" in Path("study.toml").read_text()
    Path("more").mkdir()
    capsys.readouterr()
    assert main(["data", "example", 'more/a "b".csv', "--seed", "1"]) == 0
    assert "nobody is in it" in capsys.readouterr().out
    assert check(Path("more/study.toml")).faults == ()


def test_each_drug_does_what_the_world_says(folder: Path) -> None:
    study = tomllib.loads(Path("study.toml").read_text())
    assert study["reading"]["next"] == "keep"
    Path("study.toml").write_text(Path("study.toml").read_text() + "simulated = true\n")
    data = tacit.Study.open().curator.source.open()
    spec = tacit.PublicSpec.from_json(tomllib.loads(Path("visits.toml").read_text()), where="visits.toml")
    names = spec.names("observations")
    assert [column.name for column in spec.observation.columns if column.static] == ["Geschlecht", "Alter"]
    assert names[-1] == "Abstand"
    place, missing = names.index("Blutdruck"), names.index("Blutdruck_missing")
    now, after = (np.asarray(data.columns[f"{which}observations"]) for which in ("", "next_"))
    known = (now[:, missing] == 0) & (after[:, missing] == 0) & ~np.asarray(data.columns["truncations"])
    change = after[:, place] - now[:, place] - 0.1 * (145 - now[:, place])
    for code, effect in enumerate(visits.EFFECTS.values()):
        chosen = known & (np.asarray(data.columns["actions"]).ravel() == code)
        assert chosen.sum() > 500
        assert change[chosen].mean() == pytest.approx(effect, abs=0.6)
