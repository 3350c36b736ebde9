"""A study: the same flow as the command's, from a folder, a table or memory, with one budget and words for Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.errors import BudgetExceeded, DataError, LedgerError, PlanError, SealedError
from tacit.evaluation.letter import FILES
from tacit.methods.off_policy_evaluation import Uniform
from tacit_worlds import clinic

PATIENTS = 300
WORDS: dict[str, Any] = {"gamma": 1.0, "horizon": 24, "episodes_per_unit": 4, "range": (-9.0, 5.0)}
TWO: dict[str, Any] = {"budget_epsilon": 2.0, "budget_sampled": 1}


@pytest.fixture(scope="module")
def people() -> Trajectories:
    columns: dict[str, Any] = clinic.collect(PATIENTS, seed=3)
    return Trajectories.from_arrays(**columns, spec=clinic.spec(), unit_name="patient", simulated=True)


@pytest.fixture
def logs(people: Trajectories, tmp_path: Path) -> Path:
    people.save(tmp_path / "logs")
    return tmp_path / "logs"


def study_of(records: Any, **words: Any) -> tacit.Study:
    return tacit.Study(records, unit="patient", population=PATIENTS, **words)


def test_a_plan_is_a_promise_and_nothing_is_read_or_spent(logs: Path) -> None:
    study = study_of(logs, **TWO)
    (logs / "rewards.npy").write_bytes(b"whoever reads this fails")
    plan = study.plan("improve", epsilon=2.0, **WORDS)
    assert (plan.unit.name, plan.unit.relation, plan.unit.population) == ("patient", "add_or_remove", PATIENTS)
    assert (plan.epsilon, plan.delta) == (pytest.approx(2.0), pytest.approx(1 / 3_000))
    assert str(study).endswith("Nothing was released yet.")
    assert [path.name for path in logs.parent.iterdir()] == ["logs"]


def test_one_budget_pays_for_all_and_a_study_says_what_is_left(logs: Path) -> None:
    study = study_of(logs, budget_epsilon=4.0, budget_delta=1e-3, budget_sampled=1)
    release = study.improve(epsilon=3.0, delta=1e-4, **WORDS)
    assert release.certificate.epsilon == pytest.approx(3.0, rel=1e-3)
    said = str(study)
    assert "Budget   epsilon 4, delta 0.001" in said
    assert "Left     epsilon 1" in said
    assert "Release  improvement of logged decisions, epsilon 2.99988" in said
    with pytest.raises(BudgetExceeded, match=r"improve with less epsilon= and delta="):
        study.improve(epsilon=2.0, delta=1e-4, **WORDS)


def test_the_folder_of_a_run_is_that_of_the_command(logs: Path, tmp_path: Path) -> None:
    study_of(logs, **TWO).improve(epsilon=2.0, delta=1e-4, out=tmp_path / "run", **WORDS)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"certificate.json", "certificate.md", *FILES.values(), "policy", "report.html", "run.json"}
    linked = '<a href="letter.html">letter for the data protection officer</a>'
    assert linked in (tmp_path / "run" / "report.html").read_text()
    assert main(["report", str(tmp_path / "run")]) == 0
    assert linked in (tmp_path / "run" / "report.html").read_text()
    (tmp_path / "run" / "letter.html").unlink()  # a run of before there were letters
    assert main(["report", str(tmp_path / "run")]) == 0
    assert linked not in (tmp_path / "run" / "report.html").read_text()
    with pytest.raises(tacit.TacitError, match="there is something in this place already"):
        study_of(logs).improve(epsilon=2.0, delta=1e-5, out=tmp_path / "run", **WORDS)


def test_a_policy_is_evaluated_as_an_object_or_as_what_the_study_released(logs: Path) -> None:
    study = study_of(logs, budget_epsilon=20.0, budget_delta=3e-3, budget_sampled=1)
    better = study.improve(epsilon=4.0, delta=1e-4, **WORDS)
    public = study.evaluate(
        policy=Uniform(6), policy_from=("public",), epsilon=4.0, delta=1e-4, method="wpdis", **WORDS
    )
    assert public.value.interval is not None
    own = study.evaluate(policy=better, epsilon=3.0, delta=1e-4, method="wpdis", **WORDS)
    assert any("a policy released under this ledger" in line for line in own.certificate.lines("assumptions"))
    with pytest.raises(PlanError, match=r"policy_from= has no meaning here"):
        study.evaluate(policy=better, policy_from=("public",), epsilon=1.0, delta=1e-4, method="wpdis", **WORDS)
    with pytest.raises(PlanError, match=r"nonprivate_diagnostics= has no meaning here; expected it with out="):
        study.evaluate(epsilon=1.0, nonprivate_diagnostics=True, **WORDS)
    assert study.plan("evaluate", epsilon=1.0, **WORDS).method == "off-policy evaluation (residual return regression)"


def test_records_in_memory_need_a_ledger_that_outlives_them(people: Trajectories, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"expected ledger= with the file"):
        study_of(people)
    study = study_of(people, ledger=tmp_path / "people.ledger", budget_epsilon=4.0, budget_delta=1e-3, budget_sampled=1)
    study.evaluate(epsilon=1.0, delta=1e-4, method="pdis", **WORDS)
    study.evaluate(epsilon=1.0, delta=1e-4, method="pdis", level=0.9, **WORDS)
    assert study.ledger is not None
    assert study.ledger.spent()[0] == pytest.approx(2.0, rel=1e-3)
    with pytest.raises(DataError, match="a second ledger for the same records would double the budget"):
        study_of(people, ledger=tmp_path / "another", **TWO).evaluate(epsilon=1.0, method="pdis", **WORDS)


def test_a_table_is_read_when_it_is_needed_and_its_ledger_lies_beside_it(people: Trajectories, tmp_path: Path) -> None:
    columns = clinic.collect(PATIENTS, seed=4)
    spec = clinic.spec()
    treatments = np.array(clinic.TREATMENTS)[columns["actions"]]
    frame = pd.DataFrame({"patient_id": columns["unit_ids"], "treatment": treatments})
    for field in ("observations", "next_observations"):
        for i, name in enumerate(spec.names(field)):
            frame[name] = np.asarray(columns[field])[:, i]
    frame["reward"], frame["propensity"] = columns["rewards"], columns["propensities"]
    for flag in ("terminations", "truncations"):
        frame[flag.removesuffix("s")] = columns[flag]
    frame.to_csv(tmp_path / "visits.csv", index=False)
    words: dict[str, Any] = {"unit": "patient_id", "population": PATIENTS, "spec": spec}
    study = tacit.Study(tmp_path / "visits.csv", **words, simulated=True, **TWO)
    assert study.unit.name == "patient_id"  # so that the ledger refuses another column of the same table
    study.improve(epsilon=2.0, delta=1e-4, **WORDS)
    assert (tmp_path / "visits.csv.ledger").exists()
    with pytest.raises(LedgerError, match="leave ledger= out"):
        tacit.Study(tmp_path / "visits.csv", **words, ledger=tmp_path / "another").improve(
            epsilon=0.1, delta=1e-5, **WORDS
        )


def test_units_are_called_by_a_noun_and_their_column_is_noted(people: Trajectories, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("duckdb")
    people.to_csv(tmp_path / "logs.csv")
    frame = pd.read_csv(tmp_path / "logs.csv")
    frame.assign(**{"Patienten-ID": frame["unit"], "stay": frame["episode"]}).to_csv(tmp_path / "logs.csv", index=False)
    how: dict[str, Any] = {"population": PATIENTS, "spec": people.spec, "episode": "episode", "time": "step"}
    budget = {"budget_epsilon": 4.0, "budget_sampled": 0.0}
    study = tacit.Study(tmp_path / "logs.csv", unit="Patienten-ID", unit_name="patient", **how, **budget)
    assert (study.unit.name, study.curator.source.column) == ("patient", "Patienten-ID")
    release = study.evaluate(epsilon=1.0, method="wpdis", out=tmp_path / "run", **WORDS)
    assert release.certificate.unit["name"] == "patient"
    assert "Patienten-ID" not in (tmp_path / "run" / "letter.html").read_text()
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert (settings["unit"], settings["unit_name"]) == ("Patienten-ID", "patient")
    again = tacit.Study(tmp_path / "logs.csv", unit="Patienten-ID", **how)
    with pytest.raises(LedgerError, match="protects every patient of"):
        again.plan("evaluate", epsilon=1.0, method="wpdis", **WORDS)
    wrong = (("Patienten-ID", "doctor", 'give unit_name = "patient"'), ("stay", "patient", "the column 'Patienten-ID'"))
    for column, name, told in wrong:
        other = tacit.Study(tmp_path / "logs.csv", unit=column, unit_name=name, **how)
        with pytest.raises(LedgerError, match=told):
            other.plan("evaluate", epsilon=1.0, method="wpdis", **WORDS)
    with pytest.raises(PlanError, match="unit_name is 'MRN2'; expected a noun of letters"):
        tacit.Study(tmp_path / "logs.csv", unit="Patienten-ID", unit_name="MRN2", **how)
    with pytest.raises(DataError, match="unit_name= has no meaning here"):
        tacit.Study(people, unit="patient", unit_name="person", population=9, ledger=tmp_path / "ledger")


def test_a_table_is_read_once_a_study_and_another_column_is_another_unit(people: Trajectories, tmp_path: Path) -> None:
    frame = pd.DataFrame({name: np.zeros(40) for name in ("seen", "next_seen", "reward")})
    frame["who"], frame["whom"], frame["action"] = np.arange(40), np.arange(40) // 2, np.arange(40) % 2
    frame["termination"], frame["propensity"] = True, 0.5
    seen = tacit.space_of(tacit.Column("seen", low=0.0, high=1.0))
    reward = tacit.Box((0.0,), (1.0,))
    spec = tacit.PublicSpec(seen, tacit.Discrete(2), reward, "declared", propensities=True)
    words: dict[str, Any] = {"gamma": 1.0, "horizon": 1, "delta": 1e-4, "method": "pdis"}
    how: dict[str, Any] = {"population": 50, "spec": spec, "ledger": tmp_path / "ledger"} | TWO
    study = tacit.Study(frame, unit="who", **how)
    study.evaluate(epsilon=1.0, **words)
    frame["who"] = frame["whom"]
    study.evaluate(epsilon=1.0, level=0.9, **words)  # of the same people as before
    with pytest.raises(LedgerError, match=r"protects every who of 50"):
        tacit.Study(frame, unit="whom", **how).evaluate(epsilon=1.0, **words)
    with pytest.raises(DataError, match="a column of ids is called 'episode'"):
        tacit.Study(frame, unit="episode", **how)


def test_records_that_a_study_opened_show_themselves_to_vaults_alone(tmp_path: Path) -> None:
    columns: dict[str, Any] = clinic.collect(20, seed=5)
    private = Trajectories.from_arrays(**columns, spec=clinic.spec(), unit_name="patient")
    study = tacit.Study(private, unit="patient", population=20, ledger=tmp_path / "ledger")
    opened = study.curator.source.open()
    with pytest.raises(SealedError):
        _ = opened.columns
    with pytest.raises(SealedError):
        _ = private.columns
    with pytest.raises(DataError, match="a second ledger"):
        tacit.Study(private, unit="patient", population=20, ledger=tmp_path / "other").curator.source.open()
    again = tacit.Study(private, unit="patient", population=20, ledger=tmp_path / "ledger")
    assert again.curator.source.open().spec == clinic.spec()
    with pytest.raises(DataError, match="and unit= says 'doctor'"):
        tacit.Study(private, unit="doctor", population=20, ledger=tmp_path / "ledger")


def test_records_of_a_folder_keep_its_ledger_also_as_an_object(logs: Path, tmp_path: Path) -> None:
    study_of(Trajectories.open(logs), **TWO).evaluate(epsilon=1.0, delta=1e-4, method="pdis", **WORDS)
    assert logs.with_name("logs.ledger").exists()


def test_a_declared_budget_has_a_delta_that_lasts_as_long(logs: Path) -> None:
    study = study_of(logs, budget_epsilon=4.0, budget_sampled=1)
    for level in (0.95, 0.9, 0.85):
        study.evaluate(epsilon=1.0, method="pdis", level=level, **WORDS)
    assert study.ledger is not None
    assert study.ledger.delta == pytest.approx(4 / 3_000)
    with pytest.raises(BudgetExceeded):
        study.evaluate(epsilon=2.0, method="pdis", **WORDS)
    with pytest.raises(BudgetExceeded):
        study.plan("improve", epsilon=2.0, **WORDS)


def test_words_of_python_are_taken_as_they_are_meant(logs: Path, tmp_path: Path) -> None:
    study = study_of(logs, budget_epsilon=9.0, budget_sampled=1)
    study.evaluate(
        policy=Uniform(6), policy_from="public", epsilon=1.0, method="pdis", out=str(tmp_path / "a"), **WORDS
    )
    settings = json.loads((tmp_path / "a" / "run.json").read_text())["settings"]
    assert (settings["policy"], settings["policy_from"]) == ("<Uniform>", ["public"])
    assert study.plan("improve", epsilon=1.0, columns="0", **WORDS).columns == (0,)
    for words, message in (
        ({"adviec": 0.1}, r"adviec= is not a word of this verb.*did you mean advice="),
        ({"fold": 0}, "fold= is not a word of this verb"),
    ):
        with pytest.raises(PlanError, match=message):
            study.plan("improve", epsilon=1.0, **words, **WORDS)
    with pytest.raises(PlanError, match="there is no method 'wdpis'"):
        study.plan("evaluate", epsilon=1.0, method="wdpis", **WORDS)
    with pytest.raises(PlanError, match="'NoneType' is of no known form"):
        study.plan("evaluate", epsilon=1.0, policy=None, **WORDS)


def test_what_has_no_meaning_is_refused_in_the_words_of_python(logs: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="spec= has no meaning for records that were imported before"):
        study_of(logs, spec=clinic.spec())
    with pytest.raises(DataError, match=r"and unit= says 'doctor'; .* give unit= patient"):
        tacit.Study(logs, unit="doctor", population=PATIENTS)
    with pytest.raises(PlanError, match=r"there is no verb 'improv'.*one of align, evaluate, imitate, improve"):
        study_of(logs).plan("improv", epsilon=1.0)
    with pytest.raises(PlanError, match=r"memory= '1:often' is of another form"):
        study_of(logs).plan("improve", epsilon=1.0, memory=("1:often",), **WORDS)
    with pytest.raises(DataError, match="the public bounds of this table are missing"):
        tacit.Study(pd.DataFrame({"a": [1]}), unit="a", population=9, ledger=tmp_path / "a.ledger")
