"""Every planted mistake is seen by the detectors that should see it; the real code by none.

`python tests/mutations/matrix.py` runs every detector on every mistake and prints the matrix.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from detectors import DETECTORS
from matrix import NAMES, alarms, planted, row

from mutations import MUTATIONS, Mutation


def test_the_real_code_raises_no_alarm(tmp_path: Path) -> None:
    assert alarms(tmp_path) == {}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_mutation_is_caught(mutation: Mutation, tmp_path: Path) -> None:
    missed = set(mutation.seen_by) - set(
        planted(mutation, tmp_path, [d for d in DETECTORS if d.__name__ in mutation.seen_by])
    )
    assert not missed, f"{mutation.name} was not seen by {missed}"


def test_every_mistake_has_a_detector_and_every_detector_a_mistake() -> None:
    assert len(MUTATIONS) >= 205, "a mistake that was planted once stays"
    assert all(mutation.seen_by for mutation in MUTATIONS)
    assert {name for mutation in MUTATIONS for name in mutation.seen_by} == set(NAMES)
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


def test_the_matrix_shows_what_was_seen_and_what_was_missed() -> None:
    line = row("a mistake", {NAMES[0]: "seen"}, (NAMES[0], NAMES[2]))
    assert line.split() == ["a", "mistake", "x", ".", "o", *["."] * (len(NAMES) - 3)]
