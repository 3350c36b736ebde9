"""MST end to end on a small table: it finds the tree, keeps its promise and can be saved."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.methods.synthesis.baselines.ring_table import SPEC, UNIT, joint, ring_columns, total_variation, vault_in

from tacit.errors import PlanError, PlanExhausted
from tacit.methods.synthesis.baselines import TableSynthesizer, mst
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.privacy.vault.plan import public_fields
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS


def plan_of(epsilon: float = 4.0, discretisation: Discretisation | None = None) -> mst.MstPlan:
    plan = mst.MstPlan(discretisation=discretisation or Discretisation(SPEC, 8), iterations=50)
    return plan.calibrate(unit=UNIT, epsilon=epsilon, delta=1e-6)


def test_a_run_finds_the_strongest_pairs_within_its_promise(tmp_path: Path) -> None:
    pytest.importorskip("mbi")
    vault, plan, real, spent = vault_in(tmp_path), plan_of(), ring_columns(), []
    release = mst.fit(plan, vault, progress=lambda done, total: spent.append((done, total)))
    rows = release.value.sample_columns(20_000, seed=0)
    wanted = joint(real, "observations", "actions")
    independent = total_variation(np.outer(wanted.sum(1), wanted.sum(0)), wanted)
    assert total_variation(joint(rows, "observations", "actions"), wanted) < 0.2 * independent
    assert total_variation(joint(rows, "next_observations"), joint(real, "next_observations")) < 0.02
    assert plan.quanta - len(plan.discretisation.shape) <= spent[-1][0] <= plan.quanta  # the last edge needs no choice
    assert release.certificate.verify().epsilon <= 4.0
    assert "exponential mechanism" in str(plan)

    value = release.value
    again = TableSynthesizer.from_saved(public_fields(plan), value.to_json(), value.arrays())
    np.testing.assert_array_equal(
        again.sample_columns(99, seed=2)["rewards"], value.sample_columns(99, seed=2)["rewards"]
    )
    broken = {**value.arrays(), "table.0": np.full((5,), 0.3)}
    with pytest.raises(ValueError, match="probabilities"):
        TableSynthesizer.from_saved(public_fields(plan), value.to_json(), broken)
    with pytest.raises(PlanExhausted):
        mst.fit(plan, vault)


def test_nothing_is_paid_where_the_run_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = vault_in(tmp_path)
    foreign = Discretisation(maze.spec(LAYOUTS["ring"]), 8)
    pytest.importorskip("mbi")
    with pytest.raises(PlanError, match="other public bounds"):
        mst.fit(plan_of(discretisation=foreign), vault)
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(PlanError, match=r"tacit\[marginals\]"):
        mst.fit(plan_of(), vault)
    assert vault.ledger.spent() == (0.0, 0.0)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(PlanError, match="iterations"):
        mst.MstPlan(discretisation=Discretisation(SPEC, 8), iterations=0)
    with pytest.raises(PlanError, match="a field is missing"):
        mst.MstPlan.from_json({"bins": 3})
