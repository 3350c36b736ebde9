"""The RiverSwim comparison: what its rows are computed from, and that both kinds of learner run through the door."""

from __future__ import annotations

import math

import numpy as np
import pytest
from experiments.dppg.dppg_riverswim import COUNTERS, RECIPES, Occupation, grid, probabilities, row, success, value
from experiments.lib.check import Figure

from experiments.dppg import figure3_budget, trust_region_coverage
from tacit_worlds.river_swim import RiverSwim


def test_values_and_success_are_those_of_the_model() -> None:
    right, left = np.tile([0.0, 1.0], (6, 1)), np.tile([1.0, 0.0], (6, 1))
    best, trap = value(right, RiverSwim(0.9)), value(left, RiverSwim(0.9))
    assert (best, trap) == (pytest.approx(5.195, abs=1e-3), pytest.approx(0.1))
    assert success([best, trap, best, 0.9 * best], 0.9) == 0.5


def test_the_information_is_weighted_by_the_places_that_the_policy_visits() -> None:
    """Scores of an even policy of one-hot places and a bias have norm 1. Swimming left, only the first place counts."""
    recipe = RECIPES["dppg_kl"]()
    even = np.zeros(recipe.policy.parameters, np.float32)
    found = Occupation(RiverSwim())(recipe.policy, even)
    assert sum(found) == pytest.approx(1.0, abs=1e-5)
    assert found[1] > 1e-3
    left = even.copy()
    left[-2:] = 3.0, -3.0
    chances = probabilities(recipe.policy, left)
    np.testing.assert_allclose(chances[:, 0], 1 / (1 + math.exp(-6.0)), rtol=1e-5)
    mostly = Occupation(RiverSwim())(recipe.policy, left)
    assert mostly[0] > 0.99 * sum(mostly) > 0


def test_the_papers_noise_is_the_same_at_every_step_size() -> None:
    recipe = RECIPES["dppg_l2"]()
    region = recipe.plan.trust_region
    assert region is not None
    rates = [recipe.plan.step_at(k) for k in (0, 50, 100, 200, 1_599)]
    assert rates == pytest.approx([12.0, 2.4, 0.48, 0.06, 0.06])
    spread = [4 * rate * region.clip(learning_rate=rate, noise=4.0, dimension=14) for rate in rates]
    assert spread == pytest.approx([spread[0]] * 5)


def test_every_method_is_in_the_grid() -> None:
    cells = grid()
    assert cells[0] == ("recipe", 0.6, 1.0)
    assert {name.rsplit("_", 1)[0] if name.startswith("ucb") else name for name, *_ in cells} == {*RECIPES, *COUNTERS}
    assert {(last, epsilon) for _, last, epsilon in cells} == {(a, e) for a in (0.6, 0.9) for e in (1.0, 10.0, None)}


@pytest.mark.parametrize("name", ["recipe", "ucb_mf_100"])
def test_cells_come_through_the_door(name: str) -> None:
    values = row(name, 0.6, 10.0, replicates=2, seed=3)
    assert len(values["greedy"]) == 2
    assert values["sigma"] == pytest.approx(0.5002, rel=2e-3)
    assert all(0 <= one <= 3.3974 for one in values["greedy"])
    assert success(values["greedy"], 0.6) == 1.0 or name != "recipe"


def test_coverage_is_that_of_drawn_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_region_coverage, "DRAWS", 6_000)
    values = trust_region_coverage.row(trust_region_coverage.decaying(), 8, 4.0, seed=1)
    for name in ("l2", "kl", "gap"):
        assert values[name] == pytest.approx(list(trust_region_coverage.CONFIDENCES), abs=0.03)
    for name in ("l2_markov", "kl_markov", "gap_cantelli", "kl_other"):
        assert (np.array(values[name]) >= np.array(trust_region_coverage.CONFIDENCES) - 0.03).all()
    assert values["l2_markov_clip"] < values["l2_clip"]


def test_the_budgets_of_figure_three() -> None:
    cell = figure3_budget.row(2.0, 1e-5)
    expected = {"exact": 1.993, "published": 2.37, "replace": 4.377, "k=4": 4.377, "k=16": 10.0}
    for name, epsilon in expected.items():
        assert cell[name] == pytest.approx(epsilon, rel=3e-3)
    assert cell["pool"] < cell["exact"] < cell["k=16"] < cell["k=16 added up"]
    assert figure3_budget.noise(1.0, 1e-5) == pytest.approx({"published": 4.609, "exact": 3.7305}, rel=2e-3)
    assert Figure("a", 1.0, 0.9).holds
