"""The pages of results show what the rows say, and say where the rows come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.lib.store import experiment
from experiments.lib.tables import seconds_of

from experiments.lib import coverage, pages

PICTURES = ("figure6_curves", "figure9_learning", "gpope_steps")
FILLED = [*sorted(pages.PAGES.glob("*.md")), pages.SCALE]


@pytest.mark.parametrize("page", FILLED, ids=lambda page: page.stem)
def test_every_table_is_that_of_the_rows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    places = [place for place in pages.PLACE.finditer(text) if place[2] not in PICTURES]
    kinds = {"coverage"} if page.stem == "coverage" else {"rows", "changes"}
    assert kinds <= {place[2].split()[0] for place in places}
    for place in places:
        shown = pages.table(place[2])
        assert shown is not None, place[2]
        assert place[0] == f"{place[1]}\n{shown}\n\n<!-- end -->\n", f"python -m experiments.lib.pages {page.name}"


def test_hours_are_summed_over_stages_and_a_missing_experiment_is_an_error() -> None:
    assert seconds_of({"seconds": 2, "fit": {"cpu_s": 3.0, "epsilon": 9.0}, "in_wall": 1.0}) == 5.0
    assert pages.table("no such table") is None
    with pytest.raises(ModuleNotFoundError):
        pages.table("rows of nothing")


def test_changes_are_said_and_so_is_that_none_is_known() -> None:
    shown = pages.table("changes of table1_transitions table14_accounting")
    assert shown is not None
    first, second = shown.splitlines()
    assert "half-cheetah" in first
    assert second == "- `table14_accounting`: no change is known."


def test_coverage_says_why_and_counts_what_is_stored() -> None:
    everything = coverage.items()
    assert set(everything) == {"privorl", "dppg", "gpope", "pategail", "experts"}
    for item in [one for items in everything.values() for one in items]:
        assert item["state"] in coverage.STATES
        assert item["state"] == "run" or item["how"]
        assert item["state"] != "not run" or "experiments" not in item
        assert all(experiment(name).store().rows for name in item.get("experiments", ()))
    assert coverage.cells(["table2_trajectories"]) == {"umaze": 10, "medium": 10}
    assert coverage.cells(["table1_half_cheetah"]) == {"half-cheetah": 11}
    assert coverage.stored("table1_mazes") == "`table1_mazes` 315"
