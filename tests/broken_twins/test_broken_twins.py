"""Every planted mistake is seen by the detectors that should see it; the real code by none.

Run with `-s` to see the matrix.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from detectors import DETECTORS
from twins import TWINS, Twin

from tacit.errors import TacitError

NAMES = [detector.__name__ for detector in DETECTORS]
Matrix = dict[str, dict[str, str]]


def alarms(folder: Path) -> dict[str, str]:
    """Detector -> what it saw, for those that saw something in the code as it is now."""
    seen = {}
    for detector in DETECTORS:
        own = folder / detector.__name__
        own.mkdir(parents=True)
        try:
            detector(own)
        except (AssertionError, TacitError) as alarm:  # tacit's own refusal is an alarm too
            seen[detector.__name__] = str(alarm)
    return seen


@pytest.fixture(scope="module")
def matrix() -> Iterator[Matrix]:
    """Twin -> its alarms; filled by the tests and printed at the end."""
    rows: Matrix = {}
    yield rows
    print("\n\n" + table(rows))


def table(rows: Matrix) -> str:
    lines = [f"{'twin':34}" + " ".join(str(i) for i in range(len(NAMES)))]
    lines += [f"{name:34}" + " ".join("x" if d in seen else "." for d in NAMES) for name, seen in rows.items()]
    return "\n".join([*lines, *(f"  {i} {name}" for i, name in enumerate(NAMES))])


@pytest.fixture
def folder() -> Iterator[Path]:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base) as path:
        yield Path(path)


def test_the_real_code_raises_no_alarm(matrix: Matrix, folder: Path) -> None:
    matrix["the real code"] = alarms(folder)
    assert matrix["the real code"] == {}


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_the_twin_is_caught(twin: Twin, matrix: Matrix, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twin.plant(monkeypatch)
    matrix[twin.name] = alarms(folder)
    missed = set(twin.seen_by) - set(matrix[twin.name])
    assert not missed, f"{twin.name} was not seen by {missed}"


def test_every_detector_is_needed_for_some_twin() -> None:
    assert {name for twin in TWINS for name in twin.seen_by} == set(NAMES)
