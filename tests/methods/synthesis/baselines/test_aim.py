"""AIM: workload weights, what may be chosen, and a run that learns what MST's tree has no room for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.methods.synthesis.baselines.ring_table import SPEC, UNIT, joint, ring_columns, total_variation, vault_in

from tacit.errors import PlanError
from tacit.methods.synthesis.baselines import aim
from tacit.methods.synthesis.discretisation import Discretisation


def test_a_run_learns_all_pairs_and_spends_its_budget_to_the_last_quantum(tmp_path: Path) -> None:
    pytest.importorskip("mbi")
    plan = aim.AimPlan(discretisation=Discretisation(SPEC, 4), rounds=8, iterations=50).calibrate(
        unit=UNIT, epsilon=4.0, delta=1e-6
    )
    spent: list[int] = []
    release = aim.fit(plan, vault_in(tmp_path), progress=lambda done, total: spent.append(done))
    rows, real = release.value.sample_columns(20_000, seed=0), ring_columns()
    for names in (("observations", "actions"), ("actions", "next_observations"), ("observations", "next_observations")):
        wanted = joint(real, *names)
        independent = total_variation(np.outer(wanted.sum(1), wanted.sum(0)), wanted)
        assert total_variation(joint(rows, *names), wanted) < 0.2 * independent
    assert spent[-1] == plan.quanta
    assert release.certificate.verify().epsilon <= 4.0


def test_budgets_grow_where_noise_drowns_what_a_round_teaches(tmp_path: Path) -> None:
    pytest.importorskip("mbi")
    plan = aim.AimPlan(discretisation=Discretisation(SPEC, 4), rounds=8, iterations=1).calibrate(
        unit=UNIT, epsilon=0.02, delta=1e-6
    )
    spent: list[int] = []
    aim.fit(plan, vault_in(tmp_path), progress=lambda done, total: spent.append(done))
    assert spent[-1] == plan.quanta
    assert max(np.diff(spent)) >= 4 * aim.MEASUREMENT


def test_weights_count_the_columns_shared_with_the_workload() -> None:
    weights = aim.workload_weights(4, 2)
    assert weights[(0,)] == 3  # in three pairs
    assert weights[(0, 1)] == 2 + 4  # itself, and one column of four others
    assert len(weights) == 4 + 6
    assert aim.workload_weights(3, 3)[(0, 1, 2)] == 3


def test_candidates_are_held_already_or_affordable() -> None:
    shape, held = (4, 4, 4, 4), [(0,), (1,), (2,), (3,), (0, 1), (1, 2)]
    everything = list(aim.workload_weights(4, 2))
    allowed = aim.affordable_cliques(shape, everything, held, cells=16 + 16 + 16)
    assert (0, 2) not in allowed  # would join three columns: 64 cells
    assert {(2, 3), (0, 1), (0,)} <= set(allowed)
    assert (0, 2) in aim.affordable_cliques(shape, everything, held, cells=64 + 4)
    assert set(aim.affordable_cliques(shape, everything, held, cells=0)) == {*held}


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"degree": 1}, {"rounds": 1}, {"cells": 0}, {"iterations": 0}):
        with pytest.raises(PlanError, match=next(iter(wrong))):
            aim.AimPlan(discretisation=Discretisation(SPEC, 8), **wrong)
