"""`tacit demo`: one study, three answers, a refusal, and a page that links to the runs' own reports."""

from __future__ import annotations

import html
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from tacit import hub
from tacit.cli import demo, main
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger
from tacit_worlds import clinic, clinic_model


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a quick demo of the patients."""
    folder = tmp_path_factory.mktemp("clinic") / "demo"
    assert main(["demo", "--out", str(folder), "--quick"]) == 0
    return folder


def test_one_ledger_pays_for_all_three_answers(quick: Path) -> None:
    view = Ledger.read(quick / "records.ledger")
    assert [round(plan.epsilon) for plan in view.plans()] == [1, 1, 2]
    assert view.epsilon == demo.BUDGET == 4.0
    assert sum(plan.epsilon for plan in view.plans()) > view.spent()[0]
    assert view.left()[0] < 4.0
    assert view.void_reason is None


def test_the_page_leads_to_three_reports_whose_certificates_hold(quick: Path) -> None:
    page = (quick / "report.html").read_text()
    links = re.findall(r'href="(\w+)/report.html"', page)
    assert links == ["better", "rule", "courses"]
    for name in links:
        assert (quick / name / "report.html").is_file()
        assert (quick / name / "letter.html").is_file()
        assert Certificate.load(quick / name / "certificate.json").verify().private
    assert not (quick / "more").exists()  # of the refused request nothing is left
    for words in ("refused", "One budget for everything", "its figures mean nothing", "http-equiv"):
        assert words in page
    assert "<script" not in page


def test_the_commands_on_the_page_ask_what_was_asked(quick: Path, tmp_path: Path) -> None:
    """In a copy of the records that nobody has asked for anything yet, each of them is understood and covered."""
    shutil.copytree(quick / "records", tmp_path / "records")
    shutil.copy(quick / "study.toml", tmp_path)
    page = html.unescape((quick / "report.html").read_text()).replace(str(quick), str(tmp_path))
    lines = [shlex.split(line) for line in re.findall(r"<code>tacit (.*study\.toml .*)</code>", page)]
    assert [line[0] for line in lines] == ["improve", "evaluate", "synthesize", "synthesize"]
    for line in lines:
        assert main([*line, "--dry-run"]) == 0


def test_what_comes_next_works(quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in demo.next_steps(quick).values():
        assert main(shlex.split(line)[1:]) == 0, line
    assert (quick / "more.csv").read_text().count("\n") > 2_000  # visits of 1,000 patients
    assert (tmp_path / "visits.csv").is_file()


def test_a_folder_in_use_is_refused(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (quick / "report.html").read_bytes()
    assert main(["demo", "--out", str(quick), "--quick"]) == 6
    assert "expected a new or empty folder" in capsys.readouterr().err
    assert (quick / "report.html").read_bytes() == before


def test_a_line_of_a_shell_has_every_word() -> None:
    line = demo.shell_line(
        "improve", Path("a b/study.toml"), {"epsilon": 1.0, "range": (-9.0, 5.0), "value_columns": ("x",)}
    )
    assert line == "tacit improve 'a b/study.toml' --epsilon 1 --range -9 5 --value-columns x"


def test_a_bound_with_fewer_digits_is_still_one() -> None:
    assert demo.bound(0.249, 2) == 0.24
    assert demo.bound(-0.21, 1) == -0.3
    assert demo.bound(2.361, 2, up=True) == 2.37


def test_the_policy_of_the_demo_remembers_what_its_columns_say(quick: Path) -> None:
    value = hub.load(quick / "better" / "policy").value
    assert value.memory.rates == (0.7, 0.0, 0.0, 0.7, 1.0, 1.0)


def test_the_rule_does_what_it_says() -> None:
    seen = np.array(
        [[3, 1.0, 0.0, 0.0, 0, 1], [3, -0.5, 0.8, 0.9, 0, 1], [3, 0.0, -0.8, 0.0, 0, 1], [3, 1.0, 0.0, 1.0, 0, 1]]
    )
    chosen = clinic.protocol(seen)
    assert np.array_equal(chosen.sum(axis=1), np.ones(4))
    assert [clinic.TREATMENTS[i] for i in chosen.argmax(axis=1)] == ["drug A", "drug B", "drug C", "wait"]
    assert clinic.normalized_returns(clinic_model.value(clinic.protocol, draws=8, repeats=2)[0]) == pytest.approx(
        71, abs=1
    )


def test_the_change_that_the_simulator_knows_is_exact() -> None:
    """A course under doctors who follow the rule in 5 % of the visits, and a patient is lost with a chance of .02."""

    def value(policy: clinic_model.Policy) -> float:
        mean = clinic_model._mean_probabilities(policy, 8, np.random.default_rng(0))
        after = np.zeros(clinic_model.PATIENTS)
        for visit in reversed(range(clinic.HORIZON)):
            after = (mean[visit] * clinic_model.action_values((1 - clinic.LOST) * after)).sum(axis=-1)
        return float((clinic_model.STARTS * after).sum())

    changes = [
        value(lambda seen, doctor=doctor: 0.95 * doctor(seen) + 0.05 * clinic.protocol(seen)) - value(doctor)
        for doctor in clinic.unstack_policies(clinic.doctors())
    ]
    low, high = clinic.REFERENCE
    assert 100 * np.mean(changes) / (high - low) == pytest.approx(demo.CHANGE, abs=0.06)
