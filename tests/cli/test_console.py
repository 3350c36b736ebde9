"""How far a run is, and for how long it will last."""

from __future__ import annotations

import pytest

from tacit.cli import console


def lines(tenth: float, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is printed of ten steps that take so many seconds each."""
    clock = iter(tenth * step for step in range(11))
    monkeypatch.setattr("tacit.cli.console.time.monotonic", lambda: next(clock))
    with console.progress("Training") as advance:
        for step in range(1, 11):
            advance(step, 10)
    return capsys.readouterr().err.splitlines()


def test_a_short_run_says_how_far_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = lines(0.5, capsys, monkeypatch)
    assert said == ["Training ...", *(f"Training ... {10 * tenth} %" for tenth in range(1, 10))]


def test_a_long_run_says_what_is_left(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = lines(60.0, capsys, monkeypatch)
    assert said[1] == "Training ... 10 %, about 9 minutes left"
    assert said[8:] == ["Training ... 80 %, about 2 minutes left", "Training ... 90 %, about 60 seconds left"]
