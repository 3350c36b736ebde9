"""`tacit improve`: a dry run spends nothing, a run leaves a policy that other commands take, words are checked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tacit import hub
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.evaluation.letter import FILES
from tacit.evaluation.report import improvement
from tacit.evaluation.report.improvement import caution
from tacit.privacy.certificate.certificate import Certificate
from tacit.study import improve as improving
from tacit_worlds import clinic

PATIENTS = 300
PROMISE = (
    *("--unit", "patient", "--relation", "add_or_remove", "--population", str(PATIENTS), "--epsilon", "4"),
    *("--delta", "1e-4", "--gamma", "1", "--horizon", "24", "--episodes-per-unit", "4", "--range", "-9", "5"),
    *("--budget-epsilon", "20", "--budget-delta", "1e-3", "--budget-sampled", "1"),
    *(
        "--memory",
        "symptoms:0.7",
        "1:mean",
        "2:mean",
        "--columns",
        "0",
        "1",
        "2",
        "3",
        "--value-columns",
        "0",
        "3",
    ),
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clinic") / "logs"
    columns = clinic.collect(PATIENTS, seed=3)
    Trajectories.from_arrays(**columns, spec=clinic.spec(), unit_name="patient", simulated=True).save(folder)
    return folder


@pytest.fixture(scope="module")
def run(logs: Path) -> Path:
    out = logs.with_name("run")
    assert main(["improve", str(logs), "--out", str(out), *PROMISE, "--environment", "clinic"]) == 0
    return out


def test_a_dry_run_says_what_can_come_of_it_and_spends_nothing(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["improve", str(logs), "--out", str(tmp_path / "out"), *PROMISE, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "Signal-to-noise ratio" in said
    assert "kappa" in said
    assert "Expected half-width of the gain" in said
    assert "nothing was spent" in said
    assert not (tmp_path / "out").exists()


def test_the_run_has_a_policy_a_certificate_and_a_report(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names == {"certificate.json", "certificate.md", *FILES.values(), "policy", "report.html", "run.json"}
    assert main(["certificate", "verify", str(run / "certificate.json")]) == 0
    page = (run / "report.html").read_text()
    assert "What is proven" in page
    assert "Where the advice differs" in page
    statement = json.loads((run / "policy" / "config.json").read_text())["statement"]
    assert statement["gain_interval"]["kind"] == "lower"


def test_the_report_is_made_again_from_public_files(run: Path) -> None:
    before = (run / "report.html").read_text()
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").read_text() == before


def test_the_policy_is_played_and_exported(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(run / "policy"), "--episodes", "3"]) == 0
    assert "Mean:" in capsys.readouterr().out
    assert main(["export", str(run / "policy"), str(tmp_path / "policy.onnx")]) == 0
    assert main(["play", str(run / "policy"), "--averaged"]) == 2


def test_the_policy_is_evaluated_on_memories(run: Path, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", str(logs), "--policy", str(run / "policy"), "--method", "wpdis", *PROMISE[:10]]
    words += ["--gamma", "1", "--horizon", "24", "--range", "-9", "5", "--out", str(run.with_name("evaluation"))]
    assert main(words) == 0
    assert "Value" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--memory", "1:often"], "--memory '1:often' is of another form"),
        (["--memory", "1:1.5"], "--memory '1:1.5' is of another form"),
        (["--memory", "1:mean", "1:now"], "each column once"),
        (["--memory", "pulse:mean"], "--memory names the unknown column 'pulse'"),
        (["--columns", "9"], "--columns names the unknown column '9'"),
        (["--columns", "0", "--value-columns", "3"], "--value-columns is (3,)"),
        (["--advice", "1.5"], "advice"),
    ],
)
def test_wrong_words_are_refused(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    plain = [*PROMISE[: PROMISE.index("--memory")], "--dry-run"]
    assert main(["improve", str(logs), "--out", str(tmp_path / "out"), *plain, *words]) == 2
    assert message in capsys.readouterr().err


def test_a_level_beyond_what_was_asked_for_is_explained(run: Path) -> None:
    value = hub.load(run / "policy").value
    assert caution(value) == ""
    wider = dataclasses.replace(value.statement.gain_interval, level=1 - 0.05 / 4)
    later = dataclasses.replace(value, statement=dataclasses.replace(value.statement, gain_interval=wider))
    said = caution(later)
    assert said.startswith("95 % were asked for; 3 evaluations on the same people came before, so the bounds are ones")
    assert "of 98.75 %: whichever of 4 statements was chosen by them, 95 % hold for it." in said
    lines: list[str] = []
    told: Any = SimpleNamespace(narrator=SimpleNamespace(say=lambda text="": lines.append(text)), tell=lambda run: None)
    improving._tell(told, later, None, told)
    assert f"Caution  {said}" in lines
    page = improvement.sections(Certificate.load(run / "certificate.json").to_json(), later, ("a", "b"), [])
    assert said in str(page[0])
