"""`tacit imitate --method pategail` that is interrupted between its rounds, and goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import hub
from tacit.cli import main
from tacit.cli.console import ConsoleNarrator
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.devices import StackedDevices
from tacit.study import imitate
from tacit_worlds.city import city

TOWN = ("imitate", "--city", "60", "--days", "3", "--epsilon", "4", "--delta", "1e-3", "--method", "pategail")
BOX = ("--box", "39.76", "116.22", "40.04", "116.58", "--degrees", "0.01")
CELLS = (
    *(*BOX, "--population", "60", "--epsilon", "4", "--delta", "1e-3", "--method", "pategail"),
    *("--budget-epsilon", "4", "--budget-sampled", "1"),
    "--yes",
)
ASKING = "Asking people's critics"

KILLED = """
import os, signal, sys
from contextlib import contextmanager
from tacit.cli import console, main

@contextmanager
def killed(self, title):
    yield lambda done, total: os.kill(os.getpid(), signal.SIGKILL) if done == 2 else None

console.ConsoleNarrator.progress = killed
main(sys.argv[1:])
"""
"""A process that is killed after the second round."""

WITHOUT_TORCH = """
import sys
from tacit.cli import main

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
sys.exit(main(sys.argv[1:]))
"""
"""A process on a machine without torch."""


def run(*words: str) -> int:
    return main([*words])


@pytest.fixture(autouse=True)
def _few_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imitate, "DAYS", 200)


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    """Days of records, as an .npz file."""
    days = city(20, 2, seed=4).days
    seen, index = np.unique(days.cells, return_inverse=True)
    path = tmp_path / "cells.npz"
    np.savez(path, days=index.reshape(days.cells.shape), user=days.person, cell_latlon=days.grid.centres(seen).round(2))
    return path


@contextmanager
def stopped(console: ConsoleNarrator, title: str) -> Iterator[Any]:
    """A progress bar that interrupts the critics after the second round."""

    def advance(done: int, total: int) -> None:
        if done == 2 and title == ASKING:
            raise KeyboardInterrupt

    yield advance


def claimed(ledger: Path) -> list[tuple[str, int]]:
    (plan,) = Ledger.read(ledger).plans()
    return [(plan.id, plan.claimed)]


def test_an_interrupted_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    words = (*TOWN, "--rounds", "4", "--out", str(folder))
    with monkeypatch.context() as patch:
        patch.setattr(ConsoleNarrator, "progress", stopped)
        assert run(*words) == 130
    assert "give the same command with --resume" in capsys.readouterr().err
    assert (folder / "checkpoint" / "checkpoint.safetensors").exists()
    assert not (folder / "simulator").exists()
    assert run(*words) == 6
    assert run(*(word if word != "4" else "5" for word in words), "--resume") == 6
    assert "begun with other options (epsilon, rounds)" in capsys.readouterr().err

    assert run(*words, "--resume") == 0
    shown = capsys.readouterr()
    assert f"{ASKING} ... 70 %" in shown.err
    assert f"{ASKING} ... 50 %" not in shown.err, "rounds that were run before were run again"
    (plan,) = Ledger.read(folder / "ledger").plans()
    assert (plan.claimed, plan.steps) == (6, 6)  # four rounds, starts and jumps
    assert not (folder / "checkpoint").exists()
    assert (folder / "report.html").exists()
    assert Certificate.load(folder / "certificate.json").verify().private
    assert hub.load(folder / "simulator").value.generate(5).cells.shape == (5, 48)
    assert run(*words, "--resume") == 0
    assert "The run was finished already." in capsys.readouterr().out


def test_a_killed_run_of_records_goes_on(cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, ledger = tmp_path / "run", Path(f"{cells}.ledger")
    words = ("imitate", str(cells), *CELLS, "--rounds", "3", "--out", str(folder))
    assert subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True).returncode == -signal.SIGKILL
    before = claimed(ledger)
    assert before[0][1] == 4
    assert run(*words[:-1], str(tmp_path / "another")) == 3
    assert "this very imitation was begun before and is paid for" in capsys.readouterr().err
    assert run(*words, "--resume") == 0
    assert claimed(ledger) == [(before[0][0], 5)]
    assert json.loads((folder / "run.json").read_text())["finished"]
    certificate = Certificate.load(folder / "certificate.json")
    assert certificate.verify().private
    assert certificate.epsilon == pytest.approx(Ledger.read(ledger).spent()[0], rel=1e-5)


def test_a_run_that_is_cut_before_its_first_round_is_lost(
    cells: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    words = ("imitate", str(cells), *CELLS, "--rounds", "3", "--out", str(tmp_path / "run"))
    with monkeypatch.context() as patch:
        patch.setattr(StackedDevices, "ask", interrupt)
        assert run(*words) == 130
    assert "what was charged stays charged" in capsys.readouterr().err
    assert run(*words, "--resume") == 3
    assert "begun before and is paid for" in capsys.readouterr().err


def test_without_torch_nothing_is_paid_for(cells: Path, tmp_path: Path) -> None:
    words = ("imitate", str(cells), *CELLS, "--rounds", "3", "--out", str(tmp_path / "run"))
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "needs the package torch: pip install 'tacit[torch]'" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cells.npz"]
