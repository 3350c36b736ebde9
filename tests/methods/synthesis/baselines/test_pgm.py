"""PGM on random cliques: drawn publicly, within a size, measured with equal shares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.methods.synthesis.baselines.ring_table import SPEC, UNIT, joint, ring_columns, total_variation, vault_in

from tacit.errors import PlanError
from tacit.methods.synthesis.baselines import pgm
from tacit.methods.synthesis.baselines.graphical import model_cells
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.privacy.vault.plan import public_fields
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS


def test_a_run_keeps_its_promise_with_gaussians_alone(tmp_path: Path) -> None:
    pytest.importorskip("mbi")
    plan = pgm.PgmPlan(discretisation=Discretisation(SPEC, 4), pairs=4, triples=1, iterations=50)
    plan = plan.calibrate(unit=UNIT, epsilon=4.0, delta=1e-6)
    spent: list[int] = []
    release = pgm.fit(plan, vault_in(tmp_path), progress=lambda done, total: spent.append(done))
    rows = release.value.sample_columns(20_000, seed=0)
    (pair, *_) = (pair for pair in plan.cliques[1] if 2 not in pair)  # two discrete columns
    names = [plan.discretisation.axes[column].column for column in pair]
    assert total_variation(joint(rows, *names), joint(ring_columns(), *names)) < 0.03
    assert spent[-1] == plan.quanta
    assert release.certificate.verify().epsilon <= 4.0
    assert "exponential" not in str(plan)


def test_the_papers_setting_fits_into_the_declared_size() -> None:
    plan = pgm.PgmPlan.paper(maze.spec(LAYOUTS["ring"]))
    singles, pairs, triples = plan.cliques
    assert plan.discretisation.shape == (4,) * 11
    assert len(singles) == 11
    assert 20 < len(pairs) <= 50
    assert len(triples) == 10
    assert model_cells(plan.discretisation.shape, [*singles, *pairs, *triples]) <= plan.cells
    assert pgm.PgmPlan.from_json(json.loads(json.dumps(public_fields(plan)))) == plan
    share = plan.quanta // 3
    assert all(share % len(group) == 0 for group in plan.cliques)


def test_another_seed_draws_other_cliques_and_none_are_possible() -> None:
    cut = Discretisation(SPEC, 4)
    drawn = {pgm.PgmPlan(discretisation=cut, pairs=3, triples=0, cliques_seed=seed).cliques for seed in range(5)}
    assert len(drawn) > 1
    assert len(pgm.PgmPlan(discretisation=cut, pairs=0, triples=0).cliques) == 1
    for wrong in ({"pairs": -1}, {"triples": 0.5}, {"cells": 0}, {"cliques_seed": -1}, {"iterations": 0}):
        with pytest.raises(PlanError, match=next(iter(wrong))):
            pgm.PgmPlan(discretisation=cut, **wrong)  # type: ignore[arg-type]
