"""`tacit data import` of tables in any order, and `tacit spec`: from an export to records in two commands."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tacit.cli import main
from tacit.data.trajectories import Trajectories

CANARY = "Ursula-4711"
SPEC = """
source = "declared"
terminals = false
[observation]
kind = "columns"
[[observation.columns]]
name = "pulse"
low = 30
high = 220
[action]
kind = "columns"
[[action.columns]]
name = "drug"
kind = "category"
labels = ["none", "low", "high"]
[[action.columns]]
name = "rest"
low = 0
high = 24
[reward]
kind = "columns"
[[reward.columns]]
name = "comfort"
low = -1
high = 0
"""
REWARD = "-abs(pulse - 75) / 145"
ROWS = [("ann", 2, 80.0, "low"), ("bob", 1, 60.0, "high"), ("ann", 1, 75.0, "none"), ("bob", 2, 220.0, "none")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the bounds, and a patient's rows in two files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bounds.toml").write_text(SPEC)
    (tmp_path / "days").mkdir()
    frame = pd.DataFrame(ROWS, columns=["patient", "hour", "pulse", "drug"])
    frame[:2].to_csv("days/monday.csv.gz", index=False)
    frame[2:].to_csv("days/tuesday.csv.gz", index=False)
    return tmp_path


IMPORT = ["--unit", "patient", "--spec", "bounds.toml", "--out", "visits", "--time", "hour", "--reward", REWARD]
ACTION = ["--action", "rest=24 - cast(hour AS DOUBLE)"]


def pulses(kept: Path) -> list[list[float]]:
    columns = Trajectories.open(kept).columns
    return [np.asarray(columns[name])[:, 0].tolist() for name in ("observations", "next_observations")]


@pytest.mark.parametrize("sources", [["days"], ["days/*.csv.gz"], ["days/monday.csv.gz", "days/tuesday.csv.gz"]])
def test_a_patient_s_rows_of_several_files_end_up_together(
    sources: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    assert main(["data", "import", *sources, *IMPORT, *ACTION, "--next"]) == 0
    assert pulses(folder / "visits") == [[75, 80, 60, 220], [80, 80, 220, 220]]
    columns = Trajectories.open(folder / "visits").columns
    assert np.asarray(columns["actions"]).tolist() == [[0, 23], [1, 22], [2, 23], [0, 22]]
    assert columns["truncations"].tolist() == [False, True, False, True]
    assert sorted(path.name for path in folder.iterdir()) == ["bounds.toml", "days", "visits"]
    assert "Certificates" not in capsys.readouterr().out
    assert main(["data", "inspect", "visits"]) == 0
    shown = capsys.readouterr().out
    assert "Units are called 'patient'." in shown
    assert "drug (one of" in shown
    assert "A query made them" not in shown


def test_rows_are_chosen_and_last_ones_dropped(folder: Path) -> None:
    pytest.importorskip("duckdb")
    words = ["data", "import", "days", *IMPORT, *ACTION, "--where", "pulse < 200 AND patient <> 'bob'"]
    assert main([*words, "--next", "drop"]) == 0
    assert pulses(folder / "visits") == [[75], [80]]


def test_a_query_s_certificate_will_say_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("duckdb")
    with sqlite3.connect("hospital.sqlite") as connection:
        connection.execute("CREATE TABLE visits (patient, hour, pulse, drug)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", ROWS)
    connection.close()
    words = ["data", "import", "--sql", "SELECT * FROM visits", "--from", "sqlite:hospital.sqlite"]
    assert main([*words, *IMPORT, *ACTION, "--next"]) == 0
    assert pulses(folder / "visits") == [[75, 80, 60, 220], [80, 80, 220, 220]]
    assert "Certificates will say that nobody checked whether the query mixes units." in capsys.readouterr().out
    assert main(["data", "inspect", "visits"]) == 0
    assert "A query made them: nobody checked whether it mixes units." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["days", "--next", "--action", "rest=24 - hour"], 2, "an expression does not fit the types of its columns"),
        (["days", "--reward", "avg(pulse) OVER ()"], 2, "--reward: the window of 'avg' is not partitioned by the unit"),
        (["days", "--action", "dose=1"], 2, "the action has several columns; expected NAME=EXPRESSION"),
        (["days", "--action", "rest=1", "rest=2"], 2, "--action names a column twice"),
        (["days", *ACTION], 2, "no column 'next_pulse' for next_observations"),
        (["days", "--episode", "stay"], 2, "no column 'stay' for episode"),
        (["days", "--horizon", "5"], 2, "--horizon has no meaning here"),
        (["days/*.parquet"], 6, "no file is there"),
        (["days", "bounds.npz"], 6, "the files are of several kinds"),
        (["a.npz"], 2, "--time has no meaning here; expected no --time for .npz: it is for tables"),
        (["--sql", "SELECT 1"], 2, "a query and its database come together"),
        (["days", "--sql", "SELECT 1", "--from", "sqlite:a"], 2, "a query and its database come together"),
        (["--sql", "SELECT 1", "--from", f"postgresql://ann:{CANARY}@host/db"], 6, "the address holds a password"),
        ([], 6, "the files are of several kinds, or there is none"),
    ],
)
def test_bad_words_are_refused(
    words: list[str], code: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    assert main(["data", "import", *IMPORT, *words]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert CANARY not in shown.out + shown.err
    assert not (folder / "visits").exists()


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (["days"], "duckdb", "sources"),
        (["--sql", "SELECT 1", "--from", "duckdb:bounds.toml"], "duckdb", "sources"),
        (["--sql", "SELECT 1", "--from", "postgresql://ann@localhost/visits"], "psycopg", "postgres"),
    ],
)
def test_a_package_that_is_missing_is_named(
    words: list[str],
    package: str,
    extra: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["data", "import", *words, *IMPORT, *ACTION, "--next"]) == 2
    assert f"needs the package {package}: pip install 'tacit[{extra}]'" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["bounds.toml", "days"]


def test_a_template_comes_from_the_header_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = []
    for name, cells in (("a.csv", "ann,1,60,low"), ("b.csv", f'{CANARY},"2\n",,"x,y"'), ("c.csv", "")):
        Path(name).write_text(f"patient,hour,pulse,drug\n{cells}\n")
        assert main(["spec", "init", name, "--out", f"{name}.toml"]) == 0
        written.append(Path(f"{name}.toml").read_bytes())
    frame = pd.DataFrame({"patient": [1], "hour": [2.5], "pulse": [CANARY], "drug": [None]})
    frame.to_parquet("d.parquet")
    frame.iloc[:0].astype(str).to_csv("e.csv.gz", index=False)
    for name in ("d.parquet", "e.csv.gz"):
        capsys.readouterr()
        assert main(["spec", "init", name]) == 0
        written.append(capsys.readouterr().out.encode())
    assert len(set(written)) == 1
    assert CANARY.encode() not in written[0]
    assert b'name = "pulse"' in written[0]
    assert main(["spec", "init", "a.csv", "--out", "a.csv.toml"]) == 6
    assert "the file exists already" in capsys.readouterr().err
    assert main(["spec", "check", "a.csv.toml"]) == 2
    assert "a.csv.toml: observation: low is missing" in capsys.readouterr().err


def test_a_spec_is_checked_against_a_header(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "check", "bounds.toml", "days/monday.csv.gz"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Observation: pulse (number, 30 to 220).",
        "Action: drug (none, low, high), rest (number, 0 to 24).",
        "Reward: comfort (number, -1 to 0).",
        "Bounds from: declared. Episodes can terminate: no.",
        "monday.csv.gz has all columns of the observation.",
        "It has no column 'rest' (actions): compute it with --action.",
        "It has no column 'comfort' (rewards): compute it with --reward.",
        "It has no column 'next_pulse' (next observations): let the import build it with --time and --next.",
    ]
    assert main(["spec", "check", "bounds.toml", "days/monday.csv.gz", "--fields", "observations=heart"]) == 2
    assert "monday.csv.gz: there is no column 'heart'" in capsys.readouterr().err
    Path("old.json").write_text(
        '{"observation": {"kind": "discrete", "n": 5}, "action": {"kind": "box", "low": [0], "high": [1]}, '
        '"reward": {"kind": "box", "low": [0], "high": [1]}, "source": "physics", "terminals": true}'
    )
    assert main(["spec", "check", "old.json"]) == 0
    assert "Observation: one of 0 to 4.\nAction: 1 number(s) without names." in capsys.readouterr().out
    assert main(["spec", "check", "missing.toml"]) == 6
    assert main(["spec", "check", "bounds.toml", "missing.csv"]) == 6
