"""The clinic on the command line: its records, and learning from its people."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.cli import main
from tacit.data import inspect
from tacit.data.trajectories import Trajectories
from tacit_worlds import clinic


@pytest.mark.parametrize(("unit", "units"), [("patient", 30), ("doctor", 3)])
def test_records_are_those_of_the_environment(unit: str, units: int, tmp_path: Path) -> None:
    words = ("--patients", "30", "--doctors", "3", "--seed", "5", "--unit", unit, "--out", str(tmp_path / "records"))
    assert main(["data", "clinic", *words]) == 0
    data = Trajectories.open(tmp_path / "records")
    columns = clinic.collect(30, seed=5, staff=clinic.doctors(3, seed=5))
    assert data.simulated
    assert data.spec == clinic.spec()
    assert all(np.array_equal(column, columns[name]) for name, column in data.columns.items())
    assert inspect(tmp_path / "records")["counts"]["units"] == units


@pytest.mark.parametrize(
    "method",
    [
        (
            "--expected-batch-size",
            "10",
            "--steps",
            "2",
            "--width",
            "8",
            "--depth",
            "1",
            "--rows-per-unit",
            "4",
            "--no-match",
        ),
        ("--method", "privsyn", "--bins", "4"),
    ],
    ids=["privorl", "privsyn"],
)
def test_records_are_synthesized_without_public_rows(method: tuple[str, ...], tmp_path: Path) -> None:
    records, run = str(tmp_path / "records"), tmp_path / "run"
    assert main(["data", "clinic", "--patients", "30", "--out", records]) == 0
    promise = ("--relation", "add_or_remove", "--population", "40", "--epsilon", "4", "--delta", "1e-3")
    budget = ("--budget-epsilon", "4", "--budget-sampled", "1")
    words = ("--out", str(run), "--unit", "patient", *promise, *budget, *method, "--rows", "50")
    assert main(["synthesize", records, *words]) == 0
    assert (run / "report.html").exists()


@pytest.mark.parametrize("wrong", ["--patients", "--doctors"])
def test_nobody_is_refused(wrong: str, tmp_path: Path) -> None:
    assert main(["data", "clinic", wrong, "0", "--out", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()


def test_people_of_the_clinic_can_be_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--epsilon", "1", "--delta", "1e-5", "--users", "800", "--unit", "patient", "--dry-run")
    assert main(["train", "clinic", "--out", str(tmp_path / "run"), *words]) == 0
    assert "Dry run: nobody was met and nothing was spent." in capsys.readouterr().out
