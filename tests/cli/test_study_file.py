"""`tacit new`, `tacit check` and verbs of a study that a file says: three commands on a table as people have it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.errors import PlanError
from tacit.privacy.ledger.ledger import Ledger

BOUNDS = """
source = "declared"
terminals = false
propensities = true

[observation]
kind = "columns"
[[observation.columns]]
name = "pulse"
kind = "number"
low = 30
high = 220
step = 10

[action]
kind = "columns"
[[action.columns]]
name = "drug"
kind = "category"
labels = ["no", "yes"]

[reward]
kind = "columns"
[[reward.columns]]
name = "comfort"
low = -1
high = 0
"""
TOLD = ["--unit", "patient_id", "--population", "400", "--budget-epsilon", "6", "--budget-sampled", "1"]
READING = 'time = "hour"\nnext = "keep"\npropensity = "p"\nreward = "-abs(pulse - 75) / 145"\n'
IMPROVE = ["improve", "--epsilon", "2", "--gamma", "1", "--horizon", "3"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    rng, rows = np.random.default_rng(0), ["patient_id,hour,pulse,drug,p"]
    for patient in range(300):
        for hour in range(3):
            rows.append(f"P{patient:03},{hour},{rng.uniform(50, 110):.1f},{rng.choice(['no', 'yes'])},0.5")
    rng.shuffle(rows[1:])
    Path("visits.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture
def study(folder: Path) -> Path:
    """The folder after `tacit new`, once somebody filled the two files in."""
    assert main(["new", "visits.csv", *TOLD]) == 0
    text = Path("study.toml").read_text()
    Path("study.toml").write_text(text.partition("[reading]")[0] + "[reading]\n" + READING)
    Path("visits.toml").write_text(BOUNDS)
    return folder


def test_a_new_study_knows_the_header_and_what_was_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "visits.csv", *TOLD]) == 0
    shown = capsys.readouterr().out
    assert "Columns: patient_id, hour, pulse, drug, p." in shown
    assert "Next: tacit check" in shown
    text = Path("study.toml").read_text()
    for line in ('records = "visits.csv"', 'unit = "patient_id"', "population = 400", 'spec = "visits.toml"'):
        assert line in text
    assert "P0" not in text + Path("visits.toml").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["study.toml", "visits.csv", "visits.toml"]
    assert main(["new", "visits.csv", *TOLD]) == 6  # never over another


def test_a_new_study_puts_columns_where_they_were_said_to_belong(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "visits.csv", *TOLD, "--time", "hour", "--action", "drog", "--propensity", "p"]) == 2
    assert "there is no column 'drog'; expected one of patient_id, hour" in capsys.readouterr().err
    assert main(["new", "visits.csv", *TOLD, "--time", "hour", "--action", "drug", "--propensity", "p"]) == 0
    study, bounds = (tomllib.loads((folder / name).read_text()) for name in ("study.toml", "visits.toml"))
    assert study["reading"] == {"time": "hour", "next": "keep", "propensity": "p"}  # no column is called next_pulse
    assert bounds["propensities"] is True
    assert bounds["terminals"] is False  # and none is called termination
    assert bounds["action"]["columns"] == [{"name": "drug", "kind": "category"}]
    assert [column["name"] for column in bounds["observation"]["columns"]] == ["pulse"]
    assert [column["name"] for column in bounds["action"]["columns"]] == ["drug"]


def test_a_header_with_next_observations_and_ends_is_read_as_it_stands(folder: Path) -> None:
    Path("steps.csv").write_text("patient_id,pulse,drug,comfort,next_pulse,termination\n")
    assert main(["new", "steps.csv", *TOLD, "--separator", ","]) == 0
    assert tomllib.loads(Path("study.toml").read_text())["reading"] == {"separator": ","}
    assert tomllib.loads(Path("steps.toml").read_text())["terminals"] is True


def test_files_of_arrays_are_sent_to_the_import(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("steps.npz").write_bytes(b"")
    assert main(["new", "steps.npz", *TOLD]) == 6
    assert "read it with `tacit data import`, by bounds that Python writes" in capsys.readouterr().err


def test_columns_that_the_header_lacks_are_said_at_once_and_before_the_cells(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("study.toml").read_text()
    Path("study.toml").write_text(text.replace('next = "keep"\n', ""))
    Path("visits.toml").write_text(BOUNDS.replace("terminals = false", "terminals = true"))
    assert main(["check"]) == 2
    shown = capsys.readouterr().err
    assert "there is no column 'next_pulse'; say next = \"keep\" under [reading], and time" in shown
    assert "there is no column 'termination'; say terminals = false in visits.toml" in shown
    assert "2 things to mend" in shown
    assert "is private" not in shown  # no cell was at fault


def test_a_study_whose_first_release_would_be_refused_is_not_called_ready(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("study.toml").read_text().replace("budget_epsilon = 6.0", "budget_epsilon = 0.05")
    Path("study.toml").write_text(text.replace("population = 400", "population = 20"))
    capsys.readouterr()
    assert main(["check"]) == 0
    shown = capsys.readouterr().out
    assert "study.toml can be used, but not for this yet. `tacit synthesize --epsilon 0.05` would be" in shown
    assert "refused without --yes." in shown
    assert "ready" not in shown


def test_what_only_the_curator_knows_is_asked_for_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "visits.csv"]) == 2
    shown = capsys.readouterr().err
    for option in ("--unit", "--population", "--budget-epsilon", "--budget-sampled"):
        assert option in shown
    assert main(["new", "visits.csv", *TOLD[2:], "--unit", "patient"]) == 2
    assert "there is no column 'patient'; expected one of patient_id, hour" in capsys.readouterr().err
    assert main(["new", "visits.csv", *TOLD[:2], "--population", "many", *TOLD[4:]]) == 2
    assert not Path("study.toml").exists()


def test_a_check_says_everything_that_is_wrong_at_once(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("study.toml").read_text()
    wrong = text.replace(
        "population = 400", 'unit_nam = 1\nunit_name = "MRN 2"\npopulations = 400\ntime = "hour"\nrelation = "some"'
    ).replace('"patient_id"', '"mrn"')
    Path("study.toml").write_text(wrong.replace('propensity = "p"', 'propensity = "q"').replace("reward =", "rewerd ="))
    capsys.readouterr()
    assert main(["check"]) == 2
    shown = capsys.readouterr().err
    for fault in (
        "population is missing",
        "'unit_nam' is unknown (did you mean unit_name?)",
        'unit_name is no noun of letters, such as "patient"',
        "'populations' is unknown (did you mean population?)",
        "relation is none of add_or_remove and replace_one",
        "'rewerd' is unknown (did you mean reward?)",
        "'time' is unknown (it belongs under [reading])",
        "there is no column 'mrn', which unit names",
        "there is no column 'q', which propensity names",
        "there is no column 'comfort' of the rewards",
    ):
        assert fault in shown, fault
    assert "10 things to mend" in shown
    with pytest.raises(PlanError, match="population is missing"):
        tacit.Study.open("study.toml")


def test_every_column_at_fault_is_named(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = BOUNDS.replace("low = 30\n", "").replace('labels = ["no", "yes"]', 'labels = ["no"]')
    Path("visits.toml").write_text(broken.replace("low = -1\n", ""))
    assert main(["check"]) == 2
    shown = capsys.readouterr().err
    for fault in (
        "observation pulse: low is missing, or is no finite number",
        "action drug: the labels are fewer than two, or one stands twice or is empty",
        "reward comfort: low is missing, or is no finite number",
    ):
        assert f"visits.toml: {fault}" in shown
    assert "3 things to mend" in shown


def test_one_text_for_what_is_missing_is_not_its_letters(study: Path) -> None:
    table = Path("visits.csv").read_text().replace("P000,0,", "P000,0,k.A.,no,0.5\nP300,0,")
    Path("visits.csv").write_text(table)
    Path("visits.toml").write_text(BOUNDS.replace('name = "pulse"', 'name = "pulse"\nmissing = "flag"'))
    text = Path("study.toml").read_text().replace("-abs(pulse - 75) / 145", "-coalesce(abs(pulse - 75), 0) / 145")
    Path("study.toml").write_text(text + 'missing = "k.A."\nsimulated = true\n')
    opened = tacit.Study.open()
    pulse = opened.curator.source.open().columns["observations"][:, 0]
    assert (pulse == 30).sum() == 1


def test_three_commands_from_a_table_to_a_release(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    shown = capsys.readouterr().out
    assert "Observation: pulse (number, 30 to 220)." in shown
    assert "Nothing was released yet: epsilon 6 is left." in shown
    assert "study.toml is ready" in shown
    assert main([*IMPROVE, "--out", "better"]) == 0
    certificate = json.loads(Path("better/certificate.json").read_text())
    assert certificate["unit"]["name"] == "patient_id"
    assert certificate["unit"]["population"] == 400
    ledger = Ledger.read("visits.csv.ledger")
    assert ledger.epsilon == 6.0
    capsys.readouterr()
    assert main(["check", "study.toml"]) == 0
    assert "Releases: 1. Spent epsilon 1.99" in capsys.readouterr().out
    assert main([*IMPROVE[:1], "study.toml", *IMPROVE[1:], "--unit", "patient_id", "--out", "twice"]) == 2
    assert "--unit" in capsys.readouterr().err  # the file says it


def test_a_study_in_python_is_the_same(study: Path) -> None:
    opened = tacit.Study.open()
    assert (opened.unit.name, opened.unit.population) == ("patient_id", 400)
    assert opened.plan("improve", epsilon=2.0, gamma=1.0, horizon=3).epsilon == pytest.approx(2.0)
    assert str(opened).endswith("Nothing was released yet.")


def test_another_export_of_the_same_people_shares_the_ledger(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("later.csv").write_text(Path("visits.csv").read_text())
    words = ["data", "import", "later.csv", "--out", "later"]
    assert main([*words, "--into", "study.toml"]) == 0
    note = json.loads(Path("later/ledger.json").read_text())
    assert Path(note["path"]).name == "visits.csv.ledger"
    assert main([*IMPROVE, "--out", "better"]) == 0
    long = ["improve", "later", *IMPROVE[1:], "--unit", "patient_id", "--population", "400"]
    capsys.readouterr()
    assert main([*long, "--out", "more"]) == 3
    assert "these records have a ledger already" in capsys.readouterr().err
    assert main([*long[:3], "1.5", *long[4:], "--ledger", "visits.csv.ledger", "--out", "more"]) == 0
    assert len(Ledger.read("visits.csv.ledger").plans()) == 2
    assert main([*words[:3], "--out", "third"]) == 2
    assert "--unit" in capsys.readouterr().err


def test_an_import_that_the_ledger_refuses_leaves_no_folder(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("later.csv").write_text(Path("visits.csv").read_text())
    assert main(["data", "import", "later.csv", "--out", "first", "--into", "study.toml"]) == 0
    assert Path("later.csv.ledger.json").exists()  # the table itself has the study's ledger, too
    other = Path("study.toml").read_text().replace("budget_epsilon = 6", "budget_epsilon = 9")
    Path("other.toml").write_text(other)
    assert main(["data", "import", "later.csv", "--out", "second", "--into", "other.toml"]) == 3
    assert "the budget of these people was declared before" in capsys.readouterr().err
    assert not Path("second").exists()


def test_without_a_study_the_long_form_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*IMPROVE, "--out", "better"]) == 2
    shown = capsys.readouterr().err
    assert "--unit" in shown
    assert main(["check"]) == 6
    assert "tacit new" in capsys.readouterr().err
    Path("broken.toml").write_text("records = ")
    assert main(["improve", "broken.toml", *IMPROVE[1:], "--out", "better"]) == 6
    assert "the file is no TOML" in capsys.readouterr().err


def test_a_study_of_points_and_one_of_texts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["user,time,lat,lon"]
    for person in range(30):
        for half_hour in range(48):
            clock = f"2024-03-04 {half_hour // 2:02}:{30 * (half_hour % 2):02}:00"
            rows.append(f"u{person},{clock},{40.01 + 0.001 * person:.3f},{116.02 + 0.01 * (half_hour // 16):.3f}")
    Path("points.csv").write_text("\n".join(rows) + "\n")
    Path("study.toml").write_text(
        'records = "points.csv"\nunit = "user"\npopulation = 30\nbudget_epsilon = 9\nbudget_sampled = 1\n[reading]\n'
        'box = [40.0, 116.0, 40.1, 116.1]\ncell = 2000.0\nzone = "Asia/Shanghai"\n'
    )
    assert main(["check"]) == 2  # the file is read, and its times have no zone
    assert "points.csv: the time zone is missing" in capsys.readouterr().err
    Path("study.toml").write_text(Path("study.toml").read_text() + 'recorded = "Asia/Shanghai"\n')
    assert main(["check"]) == 0
    assert main(["imitate", "--epsilon", "4", "--out", "run", "--dry-run"]) == 0
    assert "differential privacy to every user" in capsys.readouterr().out
    assert not Path("points.csv.ledger").exists()
    Path("texts.csv").write_text("author,body\nann,hello\nbob,there\n")
    Path("texts.toml").write_text(
        'records = "texts.csv"\nunit = "author"\npopulation = 50\nbudget_epsilon = 3\nbudget_sampled = 1\n'
        '[reading]\ntext = "body"\n'
    )
    assert main(["check", "texts.toml"]) == 0
    Path("texts.csv").write_text("author,body\nann,hello\n,there\n,there\n")
    capsys.readouterr()
    assert main(["check", "texts.toml"]) == 2
    assert "texts.csv, row 2: the row has no id" in capsys.readouterr().err
