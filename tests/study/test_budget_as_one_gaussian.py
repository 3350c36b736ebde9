"""A study whose plans add up as one Gaussian: more releases in the same budget, each certified and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.errors import BudgetExceeded, LedgerError, PlanError
from tacit_worlds import clinic

PATIENTS = 300
WORDS: dict[str, Any] = {"gamma": 1.0, "horizon": 24, "episodes_per_unit": 4, "range": (-9.0, 5.0), "method": "pdis"}
BUDGET: dict[str, Any] = {"budget_epsilon": 4.0, "budget_delta": 1e-3}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    columns: dict[str, Any] = clinic.collect(PATIENTS, seed=3)
    people = Trajectories.from_arrays(**columns, spec=clinic.spec(), unit_name="patient", simulated=True)
    people.save(tmp_path / "logs")
    return tmp_path / "logs"


def study_of(records: Any, **words: Any) -> tacit.Study:
    return tacit.Study(records, unit="patient", population=PATIENTS, **words)


def test_more_releases_fit_and_each_is_certified(logs: Path) -> None:
    study = study_of(logs, **BUDGET, budget_sampled=0)
    plan = study.plan("evaluate", epsilon=1.0, delta=1e-4, **WORDS)
    assert study.describe_room(plan) == "Left     after this one the budget covers 13 more release(s) of this cost."
    for level in range(13):
        study.evaluate(epsilon=1.0, delta=1e-4, level=0.8 + level / 100, **WORDS)
    release = study.evaluate(epsilon=1.0, delta=1e-4, level=0.95, out=logs.with_name("run"), **WORDS)
    release.certificate.verify()
    assert release.certificate.total["composition"] == "one Gaussian"
    assert "3.834 of 4" in (logs.with_name("run") / "report.html").read_text()  # and not 14 of 4
    ledger = study.ledger
    assert ledger is not None
    assert ledger.spent()[0] < 4.0
    assert ledger.left()[0] < 1.0
    assert f"Left     epsilon {ledger.left()[0]:.6g}" in str(study)
    assert "by the squares of their mu" in str(study)
    assert "stated at the delta of the budget" in str(study)
    with pytest.raises(BudgetExceeded, match="does not cover this evaluation"):
        study.evaluate(epsilon=1.0, delta=1e-4, level=0.5, **WORDS)


def test_a_sum_covers_as_many_as_its_epsilons_say(logs: Path) -> None:
    study = study_of(logs, **BUDGET, budget_sampled=1)
    plan = study.plan("evaluate", epsilon=1.0, delta=1e-4, **WORDS)
    said = study.describe_room(plan)
    assert said.startswith("Left     after this one the budget covers 3 more")
    assert said.endswith("with --budget-sampled 0, which is final, more releases would fit.")
    study.evaluate(epsilon=1.0, delta=1e-4, **WORDS)
    assert "budget-sampled" not in study.describe_room(plan)  # it is too late


def test_the_rule_is_final(logs: Path) -> None:
    study_of(logs, **BUDGET, budget_sampled=0.25).evaluate(epsilon=1.0, delta=1e-4, **WORDS)
    with pytest.raises(LedgerError, match=r"budget_sampled= is 0, and the budget"):
        study_of(logs, budget_sampled=0).evaluate(epsilon=0.5, delta=1e-4, **WORDS)
    study_of(logs).evaluate(epsilon=0.5, delta=1e-4, **WORDS)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), 0.1234567])
def test_a_share_out_of_its_range_is_refused_before_a_ledger_is_made(logs: Path, share: float) -> None:
    with pytest.raises(PlanError, match=r"budget_sampled= is|part for sampled plans"):
        study_of(logs, **BUDGET, budget_sampled=share).evaluate(epsilon=1.0, delta=1e-4, **WORDS)
    assert not logs.with_name("logs.ledger").exists()


def test_a_dry_run_says_how_many_more_fit(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--method", "pdis", "--gamma", "1", "--horizon", "24", "--episodes-per-unit", "4", "--range", "-9", "5")
    promise = ("--unit", "patient", "--population", str(PATIENTS), "--epsilon", "1", "--delta", "1e-4")
    budget = ("--budget-epsilon", "4", "--budget-delta", "1e-3", "--budget-sampled", "0")
    line = ["evaluate", str(logs), "--policy", "behaviour", *promise, *words, *budget]
    assert main([*line, "--out", str(tmp_path / "run"), "--dry-run"]) == 0
    assert "the budget covers 13 more release(s) of this cost" in capsys.readouterr().out
