"""What `check` finds missing is said in the text, losses first."""

from __future__ import annotations

import re

import pytest
from experiments.lib.check import CHANGED_AFTER_EVALUATION, EXPERIMENTS, check

from experiments.lib import pages

LOSSES = re.compile(r"^## Losses first\n(.*?)^## ", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def losses() -> str:
    """All sections of losses together."""
    found = {page.stem: LOSSES.search(page.read_text(encoding="utf-8")) for page in pages.PAGES.glob("*.md")}
    return "\n".join(section[1] for section in found.values() if section)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_missed_figure_s_experiment_is_named_among_the_losses(name: str, losses: str) -> None:
    lines, good = check(name)
    missed = [line for line in lines if line.startswith("MISS")]
    assert bool(missed) != good
    assert not missed or f"`{name}`" in losses, missed


def test_changes_are_whole_sentences() -> None:
    assert all(isinstance(text, tuple) and min(map(len, text)) > 20 for text in CHANGED_AFTER_EVALUATION.values())
