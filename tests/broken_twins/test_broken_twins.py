"""Every planted mistake is seen by the detectors that should see it; the real code by none.

`python tests/broken_twins/matrix.py` runs every detector on every mistake and prints the matrix.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from detectors import DETECTORS
from matrix import NAMES, alarms, planted, row
from twins import TWINS, Twin

pytestmark = pytest.mark.usefixtures("temporary_in_ram")


def test_the_real_code_raises_no_alarm(ram_path: Path) -> None:
    assert alarms(ram_path) == {}


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_the_twin_is_caught(twin: Twin, ram_path: Path) -> None:
    missed = set(twin.seen_by) - set(planted(twin, ram_path, [d for d in DETECTORS if d.__name__ in twin.seen_by]))
    assert not missed, f"{twin.name} was not seen by {missed}"


def test_every_mistake_has_a_detector_and_every_detector_a_mistake() -> None:
    assert all(twin.seen_by for twin in TWINS)
    assert {name for twin in TWINS for name in twin.seen_by} == set(NAMES)
    assert len({twin.name for twin in TWINS}) == len(TWINS) >= 25


def test_the_matrix_shows_what_was_seen_and_what_was_missed() -> None:
    line = row("a mistake", {NAMES[0]: "seen"}, (NAMES[0], NAMES[2]))
    assert line.split() == ["a", "mistake", "x", ".", "o", *["."] * (len(NAMES) - 3)]
