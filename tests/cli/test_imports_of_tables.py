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


@pytest.mark.parametrize("words", [["--next", "keep"], ["--next=keep"]])
def test_last_rows_are_kept_as_they_are_without_a_word(words: list[str], folder: Path) -> None:
    pytest.importorskip("duckdb")
    assert main(["data", "import", "days", *IMPORT, *ACTION, *words]) == 0
    assert pulses(folder / "visits") == [[75, 80, 60, 220], [80, 80, 220, 220]]


def test_next_without_a_word_is_refused_where_it_has_no_meaning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "import", "days.npz", *IMPORT[:6], "--next"]) == 2
    assert "no --next for .npz" in capsys.readouterr().err


def test_two_words_for_last_rows_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "import", "days", *IMPORT, *ACTION, "--next", "keep", "drop"]) == 2
    assert "--next" in capsys.readouterr().err


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
    at = IMPORT.index("--reward")
    given = IMPORT if "--reward" not in words else [*IMPORT[:at], *IMPORT[at + 2 :]]
    assert main(["data", "import", *given, *words]) == code
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
    told, written = ["--unit", "patient", "--population", "10", "--budget-epsilon", "2", "--budget-sampled", "1"], []
    for name, cells in (("a.csv", "ann,1,60,low"), ("b.csv", f'{CANARY},"2\n",,"x,y"'), ("c.csv", "")):
        Path(name).write_text(f"patient,hour,pulse,drug\n{cells}\n")
    frame = pd.DataFrame({"patient": [1], "hour": [2.5], "pulse": [CANARY], "drug": [None]})
    frame.to_parquet("d.parquet")
    frame.iloc[:0].astype(str).to_csv("e.csv.gz", index=False)
    for name in ("a.csv", "b.csv", "c.csv", "d.parquet", "e.csv.gz"):
        assert main(["new", name, *told, "--out", f"{name}.study.toml", "--spec", f"{name}.toml"]) == 0
        written.append(Path(f"{name}.toml").read_bytes())
    assert len(set(written)) == 1
    assert CANARY.encode() not in written[0]
    assert b'name = "pulse"' in written[0]
    assert main(["new", "a.csv", *told, "--out", "a.csv.study.toml"]) == 6
    assert "the file exists already" in capsys.readouterr().err
    assert main(["check", "a.csv.study.toml"]) == 2
    assert "a.csv.toml: observation pulse: low is missing" in capsys.readouterr().err


GERMAN = """Patientennr;Datum;lfd. Nr.;Hb (g/dl);Gabe;Rückfrage
P7;09.12.2024;1;12,5;keine;"Müller; Kontrolle"
p8;01.02.2025;1;k.A.;EPO;
P7;01.02.2025;2;10,0;EPO;
P7;01.02.2025;1; 9,5 ;EPO;
"""
GERMAN_SPEC = """
source = "declared"
terminals = false
observation = {kind = "columns", columns = [{name = "Hb (g/dl)", low = 2, high = 25, missing = "flag"}]}
action = {kind = "columns", columns = [{name = "Gabe", kind = "category", labels = ["keine", "EPO"]}]}
reward = {kind = "columns", columns = [{name = "reward", low = -1, high = 0}]}
"""
STYLE = ["--separator", ";", "--encoding", "cp1252"]
ORDER = ["--time", "try_strptime(Datum, '%d.%m.%Y')", "--time", "lfd. Nr."]
REWARD_OF_HB = 'coalesce(-abs("Hb (g/dl)" - 12) / 100, 0)'
CELLS = ["--decimal", ",", "--missing", "k.A."]


@pytest.fixture
def german(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A hospital's export, and the words that import it but for those that say how it is written and ordered."""
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    Path("hb.csv").write_text(GERMAN, encoding="cp1252")
    Path("hb.toml").write_text(GERMAN_SPEC)
    words = ["data", "import", "hb.csv", "--spec", "hb.toml", "--unit", "Patientennr", "--out", "hb", "--next"]
    return [*words, "--reward", REWARD_OF_HB]


def test_an_export_with_decimal_commas_local_dates_and_two_visits_a_day(
    german: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*german, *STYLE, *CELLS, *ORDER, "--unit-name", "patient"]) == 0
    columns = Trajectories.open("hb").columns
    assert np.asarray(columns["observations"]).tolist() == [[12.5, 0], [9.5, 0], [10, 0], [2, 1]]
    assert columns["rewards"].tolist() == pytest.approx([-0.005, -0.025, -0.02, 0])
    assert main(["data", "inspect", "hb"]) == 0
    assert "Units are called 'patient'." in capsys.readouterr().out
    words = ["synthesize", "hb", "--out", "run", "--relation", "add_or_remove", "--population", "100"]
    assert main([*words, "--epsilon", "1", "--delta", "1e-3", "--dry-run", "--unit", "Patientennr"]) == 2
    assert "the units of these records are called 'patient'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--separator", ";", *ORDER], 6, "expected a CSV file in UTF-8, or in what --encoding names"),
        (["--encoding", "cp1252"], 2, "the first line is one column, with the separator ';' in it"),
        ([*STYLE, *ORDER], 2, "the column 'Hb (g/dl)' has a cell that is not a number; expected finite numbers; "),
        ([*STYLE, *ORDER, "--decimal", ","], 2, "--missing TEXT of a cell without a value"),
        (
            [*STYLE, *CELLS, "--time", "Datum"],
            2,
            "say how dates are written, as in --time \"try_strptime(DAY, '%d.%m.%Y')",
        ),
        ([*STYLE, *CELLS, *ORDER[:2]], 2, "two rows of an episode have the same time; expected one number or one time"),
        ([*STYLE, *CELLS, *ORDER[:2], "--time", "Gabe"], 2, "or neither a number nor a time"),
        ([*STYLE, *CELLS, "--time", "Zeit"], 2, "no column 'Zeit' for time"),
        ([*STYLE, *CELLS, "--time", "Zeit || Datum"], 2, "--time: there is no column 'Zeit'"),
        (
            [*STYLE, *CELLS, "--time", "avg(Datum) OVER ()"],
            2,
            "--time: the window of 'avg' is not partitioned by the unit",
        ),
        ([*STYLE, "--decimal", "'"], 2, '--decimal: "\'" is no decimal sign'),
        (["--separator", "||"], 2, "--separator: '||' is no sign that can stand between cells"),
        (["--encoding", "klingon"], 2, "--encoding: 'klingon' is no encoding that is known"),
        (["--unit", ":transition", "--unit-name", "patient"], 2, "--unit-name has no meaning here"),
    ],
)
def test_what_an_export_is_not_said_to_be_is_refused_with_what_to_say(
    words: list[str], code: int, message: str, german: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    at = german.index("--unit")
    given = german if "--unit" not in words else [*german[:at], *german[at + 2 :]]
    assert main([*given, *words]) == code
    shown = capsys.readouterr().err
    assert message in shown
    assert not any(cell in shown for cell in ("Müller", "k.A.", "P7", "12,5"))


def test_a_day_is_never_taken_for_a_month(german: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("hb.csv").write_text(GERMAN.replace("09.12.", "31.12."), encoding="cp1252")
    assert main([*german, *STYLE, *CELLS, "--time", "try_strptime(Datum, '%m.%d.%Y')", *ORDER[2:]]) == 2
    assert "neither a number nor a time" in capsys.readouterr().err


def test_how_a_table_without_text_is_written_has_no_meaning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("duckdb")
    pd.DataFrame(ROWS, columns=["patient", "hour", "pulse", "drug"]).to_parquet("a.parquet")
    assert main(["data", "import", "a.parquet", *IMPORT, *ACTION, "--next", "--decimal", ","]) == 2
    assert "leave --separator, --decimal, --encoding and --missing out" in capsys.readouterr().err
    query = ["--sql", "SELECT 1", "--from", "sqlite:a", "--missing", "-"]
    assert main(["data", "import", *query, *IMPORT]) == 2
    assert "no --missing for a query: it is for CSV files" in capsys.readouterr().err


def test_a_reward_that_no_column_has(german: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [*german[:-2], *STYLE, *CELLS, *ORDER]
    assert main(words) == 2
    assert "no column 'reward' for rewards" in (shown := capsys.readouterr().err)
    assert "--reward 0 serves" in shown
    assert main([*words, "--reward", "0"]) == 0
    assert Trajectories.open("hb").columns["rewards"].tolist() == [0, 0, 0, 0]
    Path("hb.toml").write_text(GERMAN_SPEC.partition("reward =")[0] + '[reward]\nkind = "columns"\n')
    told = ["--population", "9", "--budget-epsilon", "1", "--budget-sampled", "1"]
    assert main(["new", "hb.csv", "--unit", "Patientennr", *told, *STYLE]) == 0
    assert main(["check"]) == 2
    assert "hb.toml: reward: no column is declared" in capsys.readouterr().err


def test_a_header_between_semicolons(german: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--population", "9", "--budget-epsilon", "1", "--budget-sampled", "1"]
    assert main(["new", "hb.csv", "--unit", "Patientennr", *told, *STYLE, "--spec", "new.toml"]) == 0
    assert 'name = "lfd. Nr."' in (shown := Path("new.toml").read_text())
    assert shown.count("name = ") == 6  # the reward beside five columns: the unit has no bounds
    Path("study.toml").write_text(Path("study.toml").read_text().replace("new.toml", "hb.toml"))
    assert main(["check"]) == 2
    assert "hb.csv" in capsys.readouterr().err
    Path("tabs.csv").write_text("patient\thour\n1\t2\n")
    assert main(["new", "tabs.csv", "--unit", "patient", *told, "--out", "tabs.study.toml"]) == 2
    assert 'give --separator "tab"' in capsys.readouterr().err


def test_parts_of_a_column_and_ids_in_mixed_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    vitals = [{"hb": hb, "unit": "g/dl"} for hb in (12.5, None, 10.0, 9.5)]
    rows = {"id": ["Ann-1", "bob-2", "ANN-1", "Ann-1"], "hour": [1, 1, 3, 2], "vitals": vitals, "Gabe": ["EPO"] * 4}
    pd.DataFrame(rows).to_parquet("hb.parquet")
    Path("hb.toml").write_text(GERMAN_SPEC.replace("Hb (g/dl)", "hb"))
    words = ["data", "import", "hb.parquet", "--spec", "hb.toml", "--unit", "id", "--time", "hour", "--next"]
    words += ["--column", "hb=vitals.hb", "--reward"]
    assert main([*words, "0", "--out", "refused"]) == 2
    assert "two unit ids differ by case, width, form or invisible" in (shown := capsys.readouterr().err)
    assert "nn-1" not in shown.lower()
    last = "coalesce(lag(vitals.hb) OVER (PARTITION BY id ORDER BY hour) / -100, 0)"
    assert main([*words, last, "--out", "merged", "--unit-key", "folded"]) == 0
    assert main([*words, last, "--out", "kept", "--unit-key", "exact"]) == 0
    merged, kept = (Trajectories.open(name) for name in ("merged", "kept"))
    assert np.asarray(merged.columns["observations"])[:, 0].tolist() == [12.5, 9.5, 10, 2]
    assert merged.columns["rewards"].tolist() == pytest.approx([0, -0.125, -0.095, 0])  # windows see one unit, too
    assert [len(data._unit_rows[1]) - 1 for data in (merged, kept)] == [2, 3]
    arrays = {"observations": np.zeros((2, 1)), "actions": np.zeros(2, int), "rewards": np.zeros(2)}
    arrays |= {"next_observations": np.zeros((2, 1)), "terminations": np.zeros(2, bool)}
    np.savez("hb.npz", **arrays, id=np.array(["a", "A"]))
    bounds = '{"observation": {"kind": "box", "low": [-1], "high": [1]}, "action": {"kind": "discrete", "n": 2}, '
    bounds += '"reward": {"kind": "box", "low": [0], "high": [1]}, "source": "physics", "terminals": true}'
    Path("bounds.json").write_text(bounds)
    assert main(["data", "import", "hb.npz", "--unit", "id", "--spec", "bounds.json", "--out", "arrays"]) == 2
    assert "two unit ids differ by case, width, form or invisible" in capsys.readouterr().err
