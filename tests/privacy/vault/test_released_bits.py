"""Nobody is told apart by the last digits of a release."""

from __future__ import annotations

from pathlib import Path

import pytest
from bit_cases import RIGHT, Release, gradient, guessed_right, total


@pytest.mark.parametrize(("release", "sigma"), [(gradient, 2.0), (gradient, 8.0), (total, 2.0)])
def test_nobody_is_told_apart_by_the_last_digits(ram_path: Path, release: Release, sigma: float) -> None:
    assert guessed_right(ram_path, release, sigma) <= RIGHT


def test_the_attack_tells_everybody_apart_without_the_lattice(ram_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.privacy.noise.secret.step", lambda scale: 0.0)
    assert guessed_right(ram_path, gradient, 2.0, trials=20) == 20
