"""`tacit synthesize --choose`: the best of a secret number of runs, under one promise."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from test_synthesize_methods import folders as folders
from test_synthesize_methods import imported as imported
from test_synthesize_methods import synthesize

from tacit import hub
from tacit.cli import main
from tacit.methods import synthesis
from tacit.methods.synthesis import pretraining
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault import selection

SMALL = ("--steps", "20", "--width", "16", "--depth", "1")
CHOICE = (*SMALL, "--no-match", "--choose", "learning-rate=0.001,0.01", "clip-norm=1")


def test_the_best_candidate_is_released_under_one_promise(
    folders: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "draw_run_count", lambda stop, law, noise: 2)  # its law: tests/privacy
    assert synthesize(folders, "visits", *CHOICE) == 0
    told = capsys.readouterr().out
    assert "the best of a secret number of runs, 12.53 on average (logarithmic with stop 50)" in told
    assert "each of one of 2 candidates." in told
    assert "Chosen of 2 candidates: learning-rate 0.0" in told
    certificate = Certificate.load(folders / "run" / "certificate.json")
    assert certificate.verify().private
    assert certificate.method == "private selection"
    assert 3.5 < certificate.epsilon <= 4.0
    assert Ledger.read(folders / "visits.ledger").spent()[0] == pytest.approx(certificate.epsilon, rel=1e-5)
    chosen = hub.load(folders / "run" / "model").value.plan
    assert chosen.learning_rate in (0.001, 0.01)
    assert chosen.epsilon < certificate.epsilon
    costs = json.loads((folders / "run" / "run.json").read_text())["report"]["costs"]
    assert [name for name, _ in costs] == ["Parameters"]  # a duration would tell how many runs there were
    assert main(["sample", "--model", str(folders / "run" / "model"), "--count", "7", "--out", str(folders / "x")]) == 0


def test_each_rate_of_curiosity_begins_with_its_own_public_training(
    folders: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "draw_run_count", lambda stop, law, noise: 2)
    began: list[float] = []

    def pretrain(plan: Any, encoder: Any, columns: Any, **how: Any) -> Any:
        began.append(plan.pretraining.curiosity.rate if plan.pretraining.curiosity else 0.0)
        short = dataclasses.replace(plan, pretraining=dataclasses.replace(plan.pretraining, steps=21))
        return dataclasses.replace(pretraining.pretrain(short, encoder, columns, **how), provenance="elsewhere")

    monkeypatch.setattr(synthesis, "pretrain", pretrain)
    words = (*SMALL, "--no-match", "--public", str(folders / "others"), "--provenance", "elsewhere")
    assert synthesize(folders, "visits", *words, "--choose", "curiosity-rate=0,0.3", "clip-norm=1") == 0
    assert began == [0.0, 0.3]
    told = capsys.readouterr().out
    assert "each of one of 2 candidates." in told
    assert "candidates: curiosity-rate 0" in told
    assert Certificate.load(folders / "run" / "certificate.json").verify().private
    chosen = hub.load(folders / "run" / "model").value.plan.pretraining
    assert chosen.curiosity is None or chosen.curiosity.rate == 0.3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--choose", "width=16,32"), "one of steps, expected-batch-size"),
        (("--choose", "learning-rate=fast"), "with numbers"),
        (("--choose", "clip-norm=1", "clip-norm=2"), "once"),
        (("--clip-norm", "1", "--choose", "clip-norm=1,2"), "not also as --clip-norm"),
        (("--choose", "curiosity-rate=0,0.3"), "--curiosity-rate has no meaning here; expected it with --public"),
        (("--curiosity-rate", "0.3"), "--curiosity-rate has no meaning here; expected it with --public"),
        (("--method", "mst", "--curiosity-rate", "0.3"), "--curiosity-rate has no meaning here; expected it with a"),
        (("--method", "mst", "--choose", "clip-norm=1,2"), "our settings of privorl"),
        (("--paper", "--choose", "clip-norm=1,2"), "our settings of privorl"),
    ],
)
def test_choices_that_mean_nothing_are_refused_before_anything_is_spent(
    folders: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: str
) -> None:
    assert synthesize(folders, "visits", *words) == 2
    assert expected in " ".join(capsys.readouterr().err.split())
    assert not (folders / "visits.ledger").exists()
