"""The examples run as notebooks, are short, and show what they claim."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit import hub
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger

ROOT = Path(__file__).parents[2]
LONGEST = 120
NAMES = ("evaluate", "imitate_city", "learn_from_experts", "own_data", "train_cartpole")
SMALLER = {
    "imitate_city": ((" 1_000, 2.0", " 500, 2.0"), ("20_000", "3_000")),
    "own_data": (("3, 9, 5_000", "3, 9, 2_000"), ("steps=200", "steps=80"), ("10_000", "2_000")),
    "train_cartpole": (
        (" 1_600, 1e-5", " 400, 1e-5"),
        ("hidden=()", "hidden=(), rounds=50"),
        (" 100, hor", " 20, hor"),
    ),
}
"""What a quick run of a script replaces: fewer people, steps and rows."""


def run(name: str, folder: Path) -> str:
    """What the cells of a notebook print; its files are then in `folder`."""
    words = [sys.executable, str(ROOT / "tools" / "notebooks.py"), name, "--out", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(folder)})
    assert done.returncode == 0, done.stderr
    outputs = [out for cell in cells(folder / f"{name}.ipynb", "code") for out in cell["outputs"]]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert not [out for out in outputs if out.get("name") == "stderr"]
    (made,) = folder.glob("tacit-*")
    for path in made.iterdir():
        path.rename(folder / path.name)
    return "".join("".join(out["text"]) for out in outputs if out["output_type"] == "stream")


def run_smaller(name: str, folder: Path) -> str:
    """What a script prints that has less to do, in this process; its files are then in `folder`."""
    from matplotlib import pyplot as plt  # a second of imports

    code, shown = (ROOT / "examples" / f"{name}.py").read_text(), io.StringIO()
    for large, small in SMALLER[name]:
        assert large in code
        code = code.replace(large, small)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(shown):
        patch.setattr(tempfile, "tempdir", str(folder))
        exec(compile(code, name, "exec"), {"__name__": "__main__"})  # noqa: S102 - our own examples
    plt.close("all")
    (made,) = folder.glob("tacit-*")
    for path in made.iterdir():
        path.rename(folder / path.name)
    return shown.getvalue()


both_ways = pytest.mark.parametrize("way", [run_smaller, pytest.param(run, marks=pytest.mark.slow)])
Way = Callable[[str, Path], str]


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def test_examples_are_short() -> None:
    scripts = sorted((ROOT / "examples").glob("*.py"))
    assert tuple(script.stem for script in scripts) == NAMES
    assert all(len(script.read_text().splitlines()) <= LONGEST for script in scripts)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_holds_the_code_of_its_script(name: str) -> None:
    script = (ROOT / "examples" / f"{name}.py").read_text()
    codes = ["".join(cell["source"]) for cell in cells(ROOT / "notebooks" / f"{name}.ipynb", "code")]
    assert len(codes) > 3
    assert all(code in script for code in codes)
    lines = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert lines == [line for code in codes for line in code.splitlines() if line and not line.startswith("#")]


@both_ways
@pytest.mark.timeout(900)
def test_own_data(way: Way, tmp_path: Path) -> None:
    shown = way("own_data", tmp_path)
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
    shown = run("evaluate", tmp_path)
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
    assert Ledger.read(tmp_path / "chain.ledger").spent()[0] == pytest.approx(1.714, abs=1e-3)  # by a sum, 3
    assert Certificate.load(tmp_path / "certificate.json").verify().private
    assert "verified: epsilon" in shown


@both_ways
def test_train_cartpole(way: Way, tmp_path: Path) -> None:
    shown = way("train_cartpole", tmp_path)
    told = {name: float(paid) for name, paid in re.findall(r"^(.+): return (\d+\.\d)", shown, re.MULTILINE)}
    assert told["epsilon 1"] > (400.0 if way is run else told["noise alone"])
    assert told["without privacy"] > (400.0 if way is run else 100.0)
    assert told["noise alone"] < 100.0
    assert Ledger.read(tmp_path / "run" / "ledger").spent()[0] == pytest.approx(1.0, abs=1e-3)
    assert Ledger.read(tmp_path / "quiet" / "ledger").void_reason is not None
    assert Certificate.load(tmp_path / "policy" / "certificate.json").verify().private
    assert "verified: epsilon 1.0000" in shown


def test_learn_from_experts(tmp_path: Path) -> None:
    shown = run("learn_from_experts", tmp_path)
    told = {name: float(paid) for name, paid in re.findall(r"^(.+): (\d+\.\d) of 1,000 steps", shown, re.MULTILINE)}
    assert told["epsilon 1"] > 900.0
    assert told["without privacy"] > 900.0
    assert told["actions at random"] < 500.0
    (agreed,) = (int(share) for share in re.findall(r"agree at (\d+)%", shown))
    assert 0 < agreed < 100
    assert Ledger.read(tmp_path / "ledger").spent()[0] == pytest.approx(1.0, abs=1e-3)
    assert Ledger.read(tmp_path / "quiet").void_reason is not None
    assert Certificate.load(tmp_path / "policy" / "certificate.json").verify().private
    assert "verified: epsilon 0.99" in shown or "verified: epsilon 1.0000" in shown


@both_ways
def test_imitate_city(way: Way, tmp_path: Path) -> None:
    shown = way("imitate_city", tmp_path)
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
