"""A new ledger needs a declared budget, which may be raised up to its ceiling and never changes otherwise."""

from __future__ import annotations

import json
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
LINE = (
    *("--unit", "patient", "--population", str(PATIENTS), "--epsilon", "4", "--delta", "1e-4"),
    *("--gamma", "1", "--horizon", "24", "--episodes-per-unit", "4", "--range", "-9", "5", "--method", "pdis"),
)
RAISED: dict[str, Any] = {"budget_epsilon": 4, "budget_sampled": 1, "budget_ceiling": 8, "budget_delta": 1e-3}


@pytest.fixture(scope="module")
def people() -> Trajectories:
    columns: dict[str, Any] = clinic.collect(PATIENTS, seed=3)
    return Trajectories.from_arrays(**columns, spec=clinic.spec(), unit_name="patient", simulated=True)


@pytest.fixture
def logs(people: Trajectories, tmp_path: Path) -> Path:
    people.save(tmp_path / "logs")
    return tmp_path / "logs"


def study_of(records: Path, **words: Any) -> tacit.Study:
    return tacit.Study(records, unit="patient", population=PATIENTS, **words)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("verb", ["evaluate", "improve"])
@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, ["epsilon", "sampled"]),
        ({"budget_ceiling": 9.0, "budget_delta": 1e-3}, ["epsilon", "sampled"]),
        ({"budget_epsilon": 4.0}, ["sampled"]),
        ({"budget_sampled": 1.0}, ["epsilon"]),
    ],
)
def test_a_new_ledger_without_a_budget_is_refused_before_anything_is_read(
    verb: str, given: dict[str, float], missing: list[str], logs: Path, tmp_path: Path, capsys: Any
) -> None:
    (logs / "rewards.npy").write_bytes(b"whoever reads this fails")
    before = names(tmp_path)
    study, words = study_of(logs, **given), {name: word for name, word in WORDS.items() if name != "method"}
    for ask in (study.plan, study.carry_out):
        with pytest.raises(PlanError) as refused:
            ask(verb, epsilon=4.0, out=tmp_path / "run", **words)
        expected = " and ".join(f"budget_{name}=" for name in missing)
        assert f"logs.ledger: {expected} {'are' if len(missing) == 2 else 'is'} missing; expected " in str(
            refused.value
        )
    flags = [word for name, number in given.items() for word in (f"--{name.replace('_', '-')}", str(number))]
    line = LINE[:-2] if verb == "improve" else LINE
    for dry in ([], ["--dry-run"]):
        assert main([verb, str(logs), *line, *flags, "--out", str(tmp_path / "run"), *dry]) == 2
        shown = capsys.readouterr()
        assert shown.err.count("\n") == 1
        expected = " and ".join(f"--budget-{name}" for name in missing)
        assert f"logs.ledger: {expected} {'are' if len(missing) == 2 else 'is'} missing; expected " in shown.err
        assert "promises" not in shown.out
    assert names(tmp_path) == before


def test_people_that_a_run_makes_up_need_no_budget(tmp_path: Path) -> None:
    sizes = ("--experts", "40", "--episodes", "3", "--horizon", "30", "--evaluate", "4", "--epsilon", "8")
    assert main(["learn", "--world", "cart_pole", *sizes, "--delta", "1e-3", "--out", str(tmp_path / "run")]) == 0
    ledger = tacit.Ledger.read(tmp_path / "run" / "ledger")
    assert (ledger.epsilon, ledger.ceiling, str(ledger.composition)) == (8.0, 8.0, "sum")


def test_a_budget_is_raised_up_to_its_ceiling_and_no_further(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, ledger = study_of(logs, **RAISED), str(tmp_path / "logs.ledger")
    study.evaluate(epsilon=4.0, delta=1e-4, **WORDS)
    with pytest.raises(BudgetExceeded, match="does not cover"):
        study.evaluate(epsilon=1.0, delta=1e-4, **WORDS)
    assert main(["ledger", "raise", ledger, "--epsilon", "6"]) == 0
    assert "The budget was epsilon 4 and is 6, of at most 8." in capsys.readouterr().out
    release = study.evaluate(epsilon=1.0, delta=1e-4, out=tmp_path / "run", **WORDS)  # 5 in total

    release.certificate.verify()
    total = release.certificate.total
    assert (total["budget_epsilon"], total["ceiling_epsilon"], total["composition"]) == (6.0, 8.0, "sum")
    assert 4.99 < float(total["epsilon"]) <= 5.0
    for text in (release.certificate.to_markdown(), (tmp_path / "run" / "certificate.md").read_text()):
        assert "The budget may be raised, at most to epsilon 8.0" in text
    assert "it may be raised, to 8 at most" in (tmp_path / "run" / "report.html").read_text()
    assert main(["certificate", "verify", str(tmp_path / "run" / "certificate.json")]) == 0

    before = Path(ledger).read_bytes()
    for epsilon in ("8.5", "6", "5", "nan"):
        assert main(["ledger", "raise", ledger, "--epsilon", epsilon]) == 3
        assert f"the budget of epsilon 6 cannot become {epsilon}; expected more than" in capsys.readouterr().err
    assert Path(ledger).read_bytes() == before
    assert main(["ledger", "verify", ledger]) == 0
    assert main(["ledger", "raise", ledger, "--epsilon", "8"]) == 0
    study.evaluate(epsilon=2.9, delta=1e-4, **WORDS)


def test_a_ledger_that_is_not_there_is_not_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "raise", str(tmp_path / "none.ledger"), "--epsilon", "6"]) != 0
    assert "none.ledger" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_budget_as_it_began_and_as_it_is_both_open_a_study(logs: Path, tmp_path: Path) -> None:
    study_of(logs, **RAISED).evaluate(epsilon=1.0, delta=1e-4, **WORDS)
    assert main(["ledger", "raise", str(tmp_path / "logs.ledger"), "--epsilon", "6"]) == 0
    for level, words in ((0.9, RAISED), (0.85, RAISED | {"budget_epsilon": 6}), (0.8, {})):
        study = study_of(logs, **words)
        study.evaluate(epsilon=1.0, delta=1e-4, level=level, **WORDS)
        assert study.ledger is not None
        assert (study.ledger.epsilon, study.ledger.ceiling) == (6.0, 8.0)
    for name, wrong in (("epsilon", 5), ("epsilon", 8), ("ceiling", 9), ("sampled", 0), ("delta", 2e-3)):
        with pytest.raises(LedgerError, match=f"budget_{name}= is {wrong:g}, and the budget of these people"):
            study_of(logs, **RAISED | {f"budget_{name}": wrong}).evaluate(epsilon=1.0, delta=1e-4, **WORDS)
    with pytest.raises(LedgerError, match=r"or raise it, up to 8, by tacit ledger raise .*logs.ledger epsilon= E"):
        study_of(logs, budget_epsilon=7).evaluate(epsilon=1.0, delta=1e-4, **WORDS)


def test_a_budget_without_a_ceiling_stays_as_it_is(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = study_of(logs, budget_epsilon=4, budget_sampled=0)
    release = study.evaluate(epsilon=1.0, delta=1e-4, **WORDS)
    assert release.certificate.total["ceiling_epsilon"] == 4.0
    assert "may be raised" not in release.certificate.to_markdown()
    assert main(["ledger", "raise", str(tmp_path / "logs.ledger"), "--epsilon", "4.5"]) == 3
    assert "at most the ceiling of 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [{"budget_ceiling": 3.0}, {"budget_ceiling": float("inf")}, {"budget_epsilon": 0.0}, {"budget_delta": 0.5}]
)
def test_a_budget_out_of_its_range_leaves_nothing(wrong: dict[str, float], logs: Path, tmp_path: Path) -> None:
    before, words = names(tmp_path), {name: word for name, word in WORDS.items() if name != "method"}
    with pytest.raises(PlanError, match=r"the ceiling|the budget.s delta|budget_\w+= is"):
        study_of(logs, **RAISED | wrong).improve(epsilon=1.0, delta=1e-4, out=tmp_path / "run", **words)
    assert names(tmp_path) == before


def test_a_ledger_is_shown_with_its_ceiling_and_its_rule(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study_of(logs, **RAISED | {"budget_sampled": 0.25}).evaluate(epsilon=1.0, delta=1e-4, **WORDS)
    ledger = str(tmp_path / "logs.ledger")
    assert main(["ledger", "raise", ledger, "--epsilon", "6"]) == 0
    capsys.readouterr()
    assert main(["ledger", "show", ledger]) == 0
    shown = capsys.readouterr().out
    assert "Budget: (6, 0.001)." in shown
    rule = "one Gaussian beside a sum of share 0.25"
    assert f"Added up by {rule}; the budget may be raised to epsilon 8 at most." in shown
    assert main(["ledger", "show", ledger, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["budget"], found["composition"]) == ({"epsilon": 6.0, "ceiling": 8.0, "delta": 0.001}, rule)


def test_the_file_of_a_study_fits_a_raised_ledger(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(logs.parent)
    text = 'records = "logs"\nunit = "patient"\npopulation = 300\nbudget_epsilon = 4\nbudget_sampled = 1\n'
    Path("study.toml").write_text(text + "budget_ceiling = 8\n")
    study = tacit.Study.open()
    study.evaluate(epsilon=1.0, **WORDS)
    assert main(["ledger", "raise", "logs.ledger", "--epsilon", "6"]) == 0
    for budget in ("4", "6"):
        Path("study.toml").write_text(text.replace("= 4", f"= {budget}") + "budget_ceiling = 8\n")
        capsys.readouterr()
        assert main(["check"]) == 0
        shown = capsys.readouterr().out
        assert "Spent epsilon 0.99" in shown
        assert " of 6; 5.00" in shown
    Path("study.toml").write_text(text.replace("= 4", "= 5") + "budget_ceiling = 8\n")
    assert main(["check"]) == 2
    assert "budget_epsilon is 5, and the ledger's is 6, for good" in capsys.readouterr().err
    Path("study.toml").write_text(text.replace("budget_sampled = 1\n", ""))
    assert main(["check"]) == 2
    assert "budget_sampled is missing" in capsys.readouterr().err


def test_where_no_plan_may_sample_a_plan_that_does_is_told_so(logs: Path) -> None:
    study = study_of(logs, budget_epsilon=4.0, budget_sampled=0.0)
    study.evaluate(epsilon=1.0, **WORDS)
    for ask in (study.plan, study.carry_out):
        with pytest.raises(BudgetExceeded, match="no part of the budget of these patients is for such plans"):
            ask("synthesize", epsilon=0.1, method="mst")
    with pytest.raises(BudgetExceeded, match=r"at most what is left of it, \(epsilon 3\."):
        study.evaluate(epsilon=6.0, **WORDS)
