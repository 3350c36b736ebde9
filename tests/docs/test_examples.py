"""The examples run as they stand, are short, and show what they claim."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tacit import hub
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 120


def run(name: str, folder: Path) -> str:
    words = [sys.executable, "-W", "error", str(EXAMPLES / name), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_are_short() -> None:
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert [script.name for script in scripts] == [
        *("evaluate.py", "imitate_city.py", "learn_from_experts.py"),
        *("own_data.py", "synthesize_maze.py", "train_cartpole.py"),
    ]
    assert all(len(script.read_text().splitlines()) <= LONGEST for script in scripts)


@pytest.mark.timeout(900)
def test_synthesize_maze(tmp_path: Path) -> None:
    shown = run("synthesize_maze.py", tmp_path)
    figures = {
        line.split("  ")[0]: [float(figure) for figure in re.findall(r"\d\.\d{3}", line)]
        for line in shown.splitlines()
        if "Marginal" in line
    }
    marginal, correlation, walls = figures["synthetic"]
    assert marginal > 0.85
    assert figures["independent columns"][1] < correlation < figures["half against half"][1]
    assert walls < figures["independent columns"][2]
    assert Certificate.load(tmp_path / "model" / "certificate.json").verify().epsilon <= 8.0
    assert "verified: epsilon 7.99" in shown


@pytest.mark.timeout(900)
def test_own_data(tmp_path: Path) -> None:
    shown = run("own_data.py", tmp_path)
    ledger = Ledger.read(tmp_path / "visits.ledger")
    assert [plan.claimed == plan.steps for plan in ledger.plans()] == [True, True]
    assert 5.99 < ledger.spent()[0] <= 6.0
    assert "refused: Ledger.reserve" in shown
    assert "recomputed: epsilon 3.99" in shown
    assert "recomputed: epsilon 1.99" in shown
    certificate = Certificate.load(tmp_path / "certificate.json")
    assert certificate.verify().private
    assert not certificate.simulated
    assert {path.name for path in tmp_path.glob("*.parquet")} == {
        "synthetic-epsilon4.parquet",
        "synthetic-epsilon2.parquet",
    }
    changes = [float(change) for change in re.findall(r"mean change ([+-]\d+\.\d)", shown)]
    assert changes[0] > max(
        changes[1:]
    )  # of the rare large dose too little comes through to tell it from the small one


def test_evaluate(tmp_path: Path) -> None:
    shown = run("evaluate.py", tmp_path)
    (truth,) = (float(value) for value in re.findall(r"true value of both policies: (\d\.\d+)", shown))
    assert truth == 0.694
    answers = re.findall(r": (\d\.\d+), 95% interval (\d\.\d+) to (\d\.\d+)", shown)
    assert len(answers) == 3
    for value, low, high in answers:
        assert float(low) <= float(value) <= float(high)
        assert abs(truth - (float(low) + float(high)) / 2) <= float(high) - float(low)
    errors = [float(error) for error in re.findall(r"over the states: (\d\.\d+)", shown)]
    assert len(errors) == 2
    assert max(errors) < 0.15  # what the best constant has
    assert Ledger.read(tmp_path / "chain.ledger").spent()[0] == pytest.approx(3.0, abs=1e-3)
    assert Certificate.load(tmp_path / "certificate.json").verify().private
    assert "verified: epsilon" in shown


def test_train_cartpole(tmp_path: Path) -> None:
    shown = run("train_cartpole.py", tmp_path)
    told = {name: float(paid) for name, paid in re.findall(r"^(.+): return (\d+\.\d)", shown, re.MULTILINE)}
    assert told["epsilon 1"] > 400.0
    assert told["without privacy"] > 400.0
    assert told["noise alone"] < 100.0
    assert Ledger.read(tmp_path / "run" / "ledger").spent()[0] == pytest.approx(1.0, abs=1e-3)
    assert Ledger.read(tmp_path / "quiet" / "ledger").void_reason is not None
    assert Certificate.load(tmp_path / "policy" / "certificate.json").verify().private
    assert "verified: epsilon 1.0000" in shown


def test_learn_from_experts(tmp_path: Path) -> None:
    shown = run("learn_from_experts.py", tmp_path)
    told = {name: float(paid) for name, paid in re.findall(r"^(.+): (\d+\.\d) of 1,000 steps", shown, re.MULTILINE)}
    assert told["epsilon 1"] > 900.0
    assert told["without privacy"] > 900.0
    assert "actions at random" in told
    (agreed,) = (int(share) for share in re.findall(r"agree at (\d+)%", shown))
    assert 0 < agreed < 100
    assert Ledger.read(tmp_path / "ledger").spent()[0] == pytest.approx(1.0, abs=1e-3)
    assert Ledger.read(tmp_path / "quiet").void_reason is not None
    assert Certificate.load(tmp_path / "policy" / "certificate.json").verify().private
    assert "verified: epsilon 0.99" in shown or "verified: epsilon 1.0000" in shown


def test_imitate_city(tmp_path: Path) -> None:
    shown = run("imitate_city.py", tmp_path)
    told = {name: float(figure) for name, figure in re.findall(r"^(.+): SEQ (\d\.\d+)", shown, re.MULTILINE)}
    assert told["real people against others"] < told["without privacy"] < 0.01
    assert told["epsilon 2"] < 0.3 * told["noise alone"]  # a twentieth of it, as a rule
    assert len(re.findall(r"^a day: \d+@00:00", shown, re.MULTILINE)) == 3
    assert Ledger.read(tmp_path / "ledger").spent()[0] == pytest.approx(2.0, abs=1e-3)
    assert Ledger.read(tmp_path / "quiet").void_reason is not None
    saved = hub.load(tmp_path / "simulator")
    assert saved.certificate.verify().private
    assert f"a day: {saved.value.generate(3, seed=7).cells[0, 0]}@00:00" in shown
    assert "verified: epsilon 1.99" in shown or "verified: epsilon 2.0000" in shown
