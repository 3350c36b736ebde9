"""The attacked runs are those of the doors, and results are made of raw scores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.pategail.mobility_runs import DELTA, GEOLIFE, World
from experiments.pategail.mobility_shadows import InMemory, Sums

from experiments.pategail import mobility_ablation, mobility_attack, mobility_shadows, mobility_ways
from tacit.methods import mobility
from tacit.methods.mobility.moves import MOVES_PART
from tacit.methods.mobility.places import STARTS
from tacit_worlds.city import city

CITY = city(GEOLIFE, 3, seed=5, preset="geolife").days
WORLD = World(GEOLIFE, CITY, CITY, CITY, "invented people")


@pytest.fixture(autouse=True)
def invented(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Invented people in the place of Geolife's."""
    mobility_shadows.everybody.cache_clear()
    for module in (mobility_attack, mobility_shadows, mobility_ways):
        monkeypatch.setattr(module, "world", lambda people: WORLD)
    monkeypatch.setattr(mobility_shadows, "GENERATED", 200)
    yield
    mobility_shadows.everybody.cache_clear()


def test_sums_of_everybody_are_those_of_the_door() -> None:
    plan = mobility.OneShotPlan(noise_multiplier=0.0).account(unit=WORLD.unit, delta=DELTA)
    works = mobility.build_contributions(plan, CITY.grid)
    with WORLD.vault() as vault:
        run = vault.reserve(plan)
        for name in (MOVES_PART, STARTS):
            sums = Sums.of(works[name], 1.0, 0.0)
            drawn = sums.draw(np.ones(GEOLIFE), np.random.default_rng(0))
            assert drawn == pytest.approx(vault.noisy_sum(run, name, works[name])[0], abs=1e-9)


def test_noise_is_that_of_the_plan() -> None:
    sums = Sums.of(mobility.build_contributions(_plan(), CITY.grid)[MOVES_PART], 0.5, 3.0)
    still = replace(sums, noise=0.0)
    rng, nobody = np.random.default_rng(0), np.zeros(GEOLIFE)
    drawn = np.array([sums.draw(nobody, rng) for _ in range(400)]) * GEOLIFE
    assert np.std(drawn) == pytest.approx(1.5, rel=0.02)
    assert not still.draw(nobody, rng).any()
    assert np.linalg.norm(sums.vectors, axis=1).max() <= 0.5 + 1e-12
    assert sums.own == pytest.approx(sums.vectors / 1.5)


def test_an_attack_is_made_of_raw_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mobility_attack, "BLOCK", 16)
    results = mobility_attack.store(tmp_path / "attack.json")
    run, mu = mobility_attack.method("table", math.inf)
    assert isinstance(run, InMemory)
    assert math.isinf(mu)
    for cell in mobility_attack.wanted("table", math.inf, least=True):
        results.put(cell.key, dataset="none", seed=cell.seed, values=mobility_attack.values(cell, run, mu))
    found = mobility_attack.attacked(results, "table", math.inf, least=True)
    assert set(found) == {"likelihood", "nearest", "overlap", "copied starts", "release"}
    assert found["release"].auc == 1.0
    assert found["copied starts"].auc > 0.7
    assert found["nearest"].auc > 0.7  # without noise homes are known to the block
    lines = mobility_attack.lines(results, "table", math.inf, least=True)
    assert len(lines) == 5
    assert {len(line) for line in lines} == {1 + len(mobility_attack.COLUMNS)}


def test_shadow_and_target_runs_share_no_seed() -> None:
    cells = [cell for pair in mobility_attack.settings() for cell in mobility_attack.wanted(*pair)]
    assert len({cell.key for cell in cells}) == len(cells)
    for name, epsilon in mobility_attack.settings():
        seeds = [cell.seed for cell in mobility_attack.wanted(name, epsilon)]
        assert len(set(seeds)) == len(seeds)
        assert (
            sum(cell.side == "shadow" for cell in mobility_attack.wanted(name, epsilon)) * mobility_attack.BLOCK >= 64
        )


def test_fewer_people_are_a_population_of_their_own() -> None:
    row = next(row for row in mobility_ablation.ROWS.every if row.people == 33)
    here = row.world(0)
    assert here.people == here.unit.size == row.plan().people == 33
    assert set(here.days.person.tolist()) == set(range(33))
    assert here.judged is WORLD.judged
    assert not np.array_equal(here.days.cells, row.world(1).days.cells)


def _plan() -> mobility.OneShotPlan:
    return mobility.OneShotPlan().calibrate(unit=WORLD.unit, epsilon=2.0, delta=DELTA)
