"""Records have one ledger: it is noted with them on first use, and any other is refused."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from test_synthesize import PROMISE, SPEC, write_records

from tacit.cli import main
from tacit.privacy.ledger.ledger import Ledger
from tacit.study import folder as run_folder

METHOD = ("--method", "privsyn", "--bins", "4", "--rows", "20")
TWICE = ("--budget-epsilon", "8", "--budget-sampled", "1")


@pytest.fixture
def visits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder of imported private records."""
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    write_records(tmp_path / "visits.csv")
    words = ["data", "import", str(tmp_path / "visits.csv"), "--unit", "patient", "--spec", str(tmp_path / "spec.json")]
    assert main([*words, "--out", str(tmp_path / "visits")]) == 0
    capsys.readouterr()
    return tmp_path / "visits"


def run(data: Path, out: str, *words: str) -> int:
    return main(["synthesize", str(data), *PROMISE, *TWICE, *METHOD, "--out", str(data.parent / out), *words])


def test_a_second_ledger_is_refused_either_way(visits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = visits.parent / "c.ledger"
    assert run(visits, "a", "--ledger", str(asked)) == 0
    assert "budget (8, 0.0002), added up by sum; this run may take (4, 0.0001)." in capsys.readouterr().out
    for words in ((), ("--dry-run",), ("--ledger", str(visits.parent / "d.ledger"))):
        assert run(visits, "b", *words) == 3
        told = capsys.readouterr().err
        assert "these records have a ledger already" in told
        assert f"give --ledger {asked}" in told
    assert not (visits.parent / "visits.ledger").exists()
    assert run(visits, "b", "--ledger", str(asked), "--bins", "5") == 0
    assert "New ledger" not in capsys.readouterr().out
    assert len(Ledger.read(asked).plans()) == 2


def test_a_ledger_beside_the_records_stays_the_only_one(visits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(visits, "a") == 0
    assert run(visits, "b", "--ledger", str(visits.parent / "c.ledger")) == 3
    assert "leave --ledger out" in capsys.readouterr().err


def test_a_copy_of_the_records_knows_their_ledger(visits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(visits, "a") == 0
    copy = visits.parent / "copy"
    shutil.copytree(visits, copy)
    assert run(copy, "b", "--bins", "5") == 3
    assert f"give --ledger {visits.parent / 'visits.ledger'}" in capsys.readouterr().err
    assert run(copy, "b", "--bins", "5", "--ledger", str(visits.parent / "visits.ledger")) == 0


def test_what_was_moved_goes_on(visits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(visits, "a") == 0
    there = tmp_path / "elsewhere"
    there.mkdir()
    for name in ("visits", "visits.ledger", "visits.ledger.lock"):
        (tmp_path / name).rename(there / name)
    assert run(there / "visits", "b", "--bins", "5") == 0
    assert json.loads((there / "visits" / "ledger.json").read_text())["path"] == str(there / "visits.ledger")
    (there / "visits.ledger").rename(there / "lost")
    (there / "visits.ledger.lock").rename(there / "lost.lock")
    capsys.readouterr()
    assert run(there / "visits", "c", "--bins", "6") == 3
    told = capsys.readouterr().err
    assert "the ledger of these records is not where it was" in told
    assert "give --ledger with the place that it was moved to" in told
    assert run(there / "visits", "c", "--bins", "6", "--ledger", str(there / "new.ledger")) == 3
    capsys.readouterr()
    assert run(there / "visits", "c", "--bins", "6", "--ledger", str(there / "lost"), "--dry-run") == 3
    assert "the budget of these patients does not cover another synthesis" in capsys.readouterr().err


def test_a_slip_leaves_no_note(visits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("--population", "8", "--delta", "0.01", "--yes")
    assert run(visits, "a", *small, "--ledger", str(visits.parent / "c.ledger")) == 2
    assert "the data hold more patients than the declared population" in capsys.readouterr().err
    assert not (visits / "ledger.json").exists()
    assert run(visits, "a") == 0


def test_a_damaged_note_is_refused(visits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (visits / "ledger.json").write_text("[]")
    assert run(visits, "a") == 3
    assert "the note of where the ledger lies is damaged" in capsys.readouterr().err


def test_a_missing_package_is_told_before_anything_is_spent(
    visits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(visits.parent.rglob("*"))
    for package, words, extra in (("pyarrow", (), "data"), ("mbi", ("--method", "mst"), "marginals")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            assert run(visits, "a", *words) == 2
        told = capsys.readouterr().err
        assert f"This command needs the package {package}: pip install 'tacit[{extra}]'." in told
        assert "Calibrating" not in told
    assert sorted(visits.parent.rglob("*")) == before


def test_a_package_that_fails_late_costs_nothing_more(
    visits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "require_packages", lambda *names: None)
        patch.setitem(sys.modules, "pyarrow", None)
        assert run(visits, "a") == 2
    told = capsys.readouterr().err
    assert "nothing is lost: install the package and repeat with --resume" in told
    assert run(visits, "a", "--resume") == 0
    assert len(Ledger.read(visits.parent / "visits.ledger").plans()) == 1


@pytest.mark.parametrize("unit", ["patient", "doctor"])
def test_simulated_clinics_name_their_units(unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "clinic", "--patients", "30", "--doctors", "3", "--unit", unit, "--out", str(tmp_path / "clinic")]
    assert main(words) == 0
    other = "doctor" if unit == "patient" else "patient"
    promise = [
        "--relation",
        "add_or_remove",
        "--population",
        "200",
        "--epsilon",
        "4",
        "--delta",
        "1e-4",
        *METHOD,
        *TWICE,
    ]
    words = ["synthesize", str(tmp_path / "clinic"), "--out", str(tmp_path / "run"), *promise, "--dry-run"]
    assert main([*words, "--unit", other]) == 2
    assert f"the units of these records are called '{unit}', and --unit says '{other}'" in capsys.readouterr().err
    assert main([*words, "--unit", unit]) == 0
    assert "is not checked" not in capsys.readouterr().err
    path = tmp_path / "clinic" / "spec.json"
    kept = json.loads(path.read_text())
    del kept["unit"]
    path.write_text(json.dumps(kept))
    assert main([*words, "--unit", other]) == 0
    assert f"does not say whose ids it holds: that each unit is one {other} is not checked." in capsys.readouterr().err


def test_drawn_rows_are_called_synthetic(visits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(visits, "a") == 0
    rows = visits.parent / "rows"
    assert main(["sample", "--model", str(visits.parent / "a" / "model"), "--count", "7", "--out", str(rows)]) == 0
    capsys.readouterr()
    assert main(["data", "inspect", str(rows)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Synthetic records: 7 transitions, 7 episodes, 7 units.\n")
    assert "0.0001)-differential privacy for every patient." in out
    assert main(["certificate", "verify", str(rows / "certificate.json")]) == 0
