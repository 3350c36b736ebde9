"""The pages of results show what the rows say, and say where the rows come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.lib import pages

PICTURES = ("figure6_curves", "figure9_learning", "gpope_steps")
FILLED = [*sorted(page for page in pages.PAGES.glob("*.md") if page.stem != "coverage"), pages.SCALE]
"""Coverage has links alone."""


@pytest.mark.parametrize("page", FILLED, ids=lambda page: page.stem)
def test_every_table_is_that_of_the_rows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    places = [place for place in pages.PLACE.finditer(text) if place[2] not in PICTURES]
    assert {"rows", "changes"} <= {place[2].split()[0] for place in places}
    for place in places:
        shown = pages.table(place[2])
        assert shown is not None, place[2]
        assert place[0] == f"{place[1]}\n{shown}\n\n<!-- end -->\n", f"python -m experiments.lib.pages {page.name}"


def test_hours_are_summed_over_stages_and_a_missing_experiment_is_an_error() -> None:
    assert pages._seconds({"seconds": 2, "fit": {"cpu_s": 3.0, "epsilon": 9.0}, "in_wall": 1.0}) == 5.0
    assert pages.table("no such table") is None
    with pytest.raises(ModuleNotFoundError):
        pages.table("rows of nothing")


def test_changes_are_said_and_so_is_that_none_is_known() -> None:
    shown = pages.table("changes of table1_transitions table14_accounting")
    assert shown is not None
    first, second = shown.splitlines()
    assert "half-cheetah" in first
    assert second == "- `table14_accounting`: no change is known."
