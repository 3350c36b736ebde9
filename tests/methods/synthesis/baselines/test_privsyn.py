"""PrivSyn: which pairs it measures, how it moves records, and what a run promises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.methods.synthesis.baselines.ring_table import SPEC, UNIT, joint, ring_columns, total_variation, vault_in

from tacit.errors import PlanError, PlanExhausted
from tacit.methods.synthesis.baselines import privsyn
from tacit.methods.synthesis.baselines.plan import SyntheticRecords, TableSynthesizer
from tacit.methods.synthesis.baselines.privsyn import gradual_update
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.privacy.vault.plan import public_fields


def plan_of(epsilon: float = 4.0, **fields: object) -> privsyn.PrivSynPlan:
    small = {"discretisation": Discretisation(SPEC, 8), "records": 20_000, "rounds": 20}
    plan = privsyn.PrivSynPlan(**{**small, **fields})  # type: ignore[arg-type]
    return plan.calibrate(unit=UNIT, epsilon=epsilon, delta=1e-6)


def test_a_run_learns_dependences_within_its_promise(tmp_path: Path) -> None:
    vault, real, spent = vault_in(tmp_path), ring_columns(), []
    public = {name: column[:500] for name, column in real.items()}  # simulated, and so anybody's
    plan = plan_of(
        discretisation=Discretisation.from_public(SPEC, public, provenance="the simulator of the ring", bins=8)
    )
    release = privsyn.fit(plan, vault, seed=1, progress=lambda done, total: spent.append((done, total)))
    rows = release.value.sample_columns(20_000, seed=0)
    for names in (("observations", "actions"), ("actions", "next_observations"), ("observations", "next_observations")):
        wanted = joint(real, *names)
        independent = np.outer(wanted.sum(1), wanted.sum(0))
        distance = total_variation(joint(rows, *names), wanted)
        assert distance < 0.25 * total_variation(independent, wanted)
    assert spent[-1] == (plan.quanta, plan.quanta)
    assert release.certificate.verify().epsilon <= 4.0
    assert release.certificate.epsilon == pytest.approx(4.0, rel=5e-3)
    assert any("the simulator of the ring" in line for line in release.certificate.lines("not_covered"))
    assert release.value.sample(50).unit_kind == "transition"
    with pytest.raises(PlanExhausted):
        privsyn.fit(plan, vault)


def test_less_epsilon_is_more_error(tmp_path: Path) -> None:
    errors, names = [], ("observations", "actions")
    vault = vault_in(tmp_path)
    for epsilon in (0.001, 4.0):
        value = privsyn.fit(plan_of(epsilon, rounds=10), vault).value
        rows = value.sample_columns(20_000, seed=0)
        errors.append(total_variation(joint(rows, *names), joint(ring_columns(), *names)))
    assert errors[0] > 0.15
    assert errors[1] < 0.1


def test_a_constant_column_stays_constant(tmp_path: Path) -> None:
    columns = {**ring_columns(), "rewards": np.zeros(20_000, np.float32)}
    rows = privsyn.fit(plan_of(rounds=2), vault_in(tmp_path, columns)).value.sample_columns(5_000, seed=0)
    assert (rows["rewards"] == 0).mean() > 0.98


def test_pairs_are_measured_while_that_lowers_the_expected_error() -> None:
    shape, pairs = (10, 10, 10), [(0, 1), (0, 2), (1, 2)]
    distances = np.array([500.0, 30.0, 400.0])
    cost = (10 * 10) ** (2 / 3)
    assert privsyn.select(shape, pairs, distances, noise=1.0) == [(0, 1), (1, 2)]
    assert (3 * cost) ** 1.5 > (2 * cost) ** 1.5 + 30  # what the third pair would have cost, and spared
    assert privsyn.select(shape, pairs, distances, noise=0.0) == pairs
    assert privsyn.select(shape, pairs, distances, noise=100.0) == []


def test_small_cliques_of_pairs_are_measured_together() -> None:
    pairs = [(0, 1), (0, 2), (1, 2), (2, 3), (0, 4)]
    assert privsyn.combine_pairs((4,) * 5, pairs, 64) == [(0, 1, 2), (2, 3), (0, 4)]
    assert sorted(privsyn.combine_pairs((4,) * 5, pairs, 63)) == sorted(pairs)
    assert privsyn.combine_pairs((4,) * 5, [], 64) == []


def test_records_are_moved_until_they_have_the_wanted_marginals() -> None:
    rng = np.random.default_rng(5)
    table = rng.dirichlet(np.full(60, 0.3)).reshape(5, 4, 3) * 1_000
    singles = [table.sum((1, 2)), table.sum((0, 2)), table.sum((0, 1))]
    goals = {(0, 1): table.sum(2), (1, 2): table.sum(0)}
    codes = gradual_update(singles, goals, count=20_000, rounds=30, rng=rng)
    for axes, goal in goals.items():
        cells = np.ravel_multi_index(tuple(codes[:, a] for a in axes), goal.shape)
        shares = np.bincount(cells, minlength=goal.size) / len(codes)
        assert np.abs(shares - goal.ravel() / 1_000).sum() / 2 < 0.02


def test_a_saved_table_comes_back_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    plan = plan_of(rounds=1)
    value = TableSynthesizer(plan, SyntheticRecords(np.zeros((10, 5), np.int32)))
    again = TableSynthesizer.from_saved(public_fields(plan), value.to_json(), value.arrays())
    assert again.plan == plan
    np.testing.assert_array_equal(
        again.sample_columns(30, seed=1)["rewards"], value.sample_columns(30, seed=1)["rewards"]
    )
    for codes in (np.zeros((10, 4), np.int32), np.full((10, 5), 9, np.int32), np.zeros((0, 5), np.int32)):
        with pytest.raises(ValueError, match="other bins"):
            TableSynthesizer.from_saved(public_fields(plan), value.to_json(), {"codes": codes})


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"cells": 0}, {"records": 1.5}, {"rounds": 0}):
        with pytest.raises(PlanError, match=next(iter(wrong))):
            privsyn.PrivSynPlan(discretisation=Discretisation(SPEC, 8), **wrong)  # type: ignore[arg-type]
