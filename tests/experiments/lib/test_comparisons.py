"""Tests of results: every cell in both directions, agents of one table together, and counts as the rows say."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lib.comparisons import FAMILIES, Family, pooled

from experiments.lib import comparisons

LOW, HIGH = np.array([0.0, 1.0, 2.0, 1.0]), np.array([90.0, 91.0, 92.0, 91.0])


def test_agents_that_share_tables_are_one_run_of_their_mean() -> None:
    cells = {
        ("mst", f"umaze, {agent}, epsilon 1"): (HIGH + more, LOW + more) for agent, more in (("IQL", 0), ("EDAC", 4))
    }
    alone = {("mst", "large, IQL, epsilon 1"): (LOW, HIGH)}
    found = pooled(cells | alone)
    assert [key for key in found if key not in cells | alone] == [("mst", "umaze, all agents, epsilon 1")]
    own, theirs = found["mst", "umaze, all agents, epsilon 1"]
    np.testing.assert_array_equal(own.mean(1), HIGH + 2)
    np.testing.assert_array_equal(theirs.mean(1), LOW + 2)


def test_a_table_counts_cells_in_both_directions_and_names_those_below(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = {
        ("mst", "a"): (LOW, HIGH),
        ("mst", "b"): (HIGH, LOW),
        ("mst", "c"): (LOW, LOW + 0.1),
        ("aim", "a"): (HIGH, LOW),
    }
    monkeypatch.setattr(comparisons, "FAMILIES", {"any": Family("tacit", "return", lambda: pairs)})
    title, _, _, _, first, second = comparisons.table("any", {"mst": "MST"}).splitlines()
    assert title == "Tacit against each rival, return: 4 tests, 5 % for all together"
    assert first == "| MST | 1 | 1 | 1 | a |"
    assert second == "| aim | 0 | 0 | 1 |  |"


def test_errors_are_compared_with_their_sign_changed() -> None:
    pairs = FAMILIES["mobility_frontier"].pairs()
    assert all((own <= 0).all() and (theirs <= 0).all() for own, theirs in pairs.values())


@pytest.mark.parametrize("name", FAMILIES)
def test_every_experiment_has_tests_of_all_runs(name: str) -> None:
    pairs = FAMILIES[name].pairs()
    assert min(len(side) for pair in pairs.values() for side in pair) >= 2
    assert len(FAMILIES[name].compared()) == len(pairs)
