"""Detectors of what goes from person to person by another way than releases, as those of `detectors.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from locality_cases import MET, PLANS, VOTED, plan, run, same

LEARNERS = {
    "own critic": PLANS["own critic"],
    "local updates": PLANS["local updates"],
    "votes": VOTED,
    "raw rewards": plan(critic="none", standardised=False, clip_norm=100.0),
}


def later_meetings(folder: Path) -> None:
    """What one person does in a meeting whose release is held at what it was changes nothing that comes later."""
    for name, learner in LEARNERS.items():
        with pytest.MonkeyPatch.context() as patch:
            before = run(folder / name, learner, patch)
            for change in ("falls", "earns otherwise"):
                held = run(folder / name, learner, patch, change=change, held=before.released[MET])
                assert same(before, held), f"somebody who {change} is felt by later people ({name})"


LEARNING_DETECTORS = (later_meetings,)
