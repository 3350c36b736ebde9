"""Transitions from structured noisy tables: columns and bins, choices on public rows, guides, and what comes out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import hub
from tacit.data import Column, PublicSpec, Trajectories
from tacit.data.spec import Box, Discrete, space_of
from tacit.errors import DataError, PlanError, PlanExhausted
from tacit.methods.synthesis.structured import (
    StructuredPlan,
    choose_structure,
    default_structure,
    fit,
    public_means,
    split_worlds,
)
from tacit.methods.synthesis.structured.algorithm import SMALL, TABLES
from tacit.methods.synthesis.structured.columns import Bins, default_columns, nice_edges, public_columns
from tacit.methods.synthesis.structured.guides import shrink_means
from tacit.methods.synthesis.structured.structure import TableParent
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

PLANE = PublicSpec(Box((0, 0), (1, 1)), Box((-1,), (1,)), Box((0,), (1,)), "declared", difference=(0.1, 0.1))
UNIT = Unit("transition", "add_or_remove", 20_000)
MIXED = PublicSpec(
    space_of(
        Column("ward", "category", labels=("A", "B", "C"), static=True),
        Column("age", "integer", low=18, high=100, step=1),
        Column("pulse", low=30, high=220, step=5, missing="flag"),
    ),
    space_of(Column("drug", "category", labels=("none", "a"))),
    space_of(Column("relief", low=0, high=1)),
    "declared",
)


def plane(rows: int, seed: int, *, turn: float = 0.0) -> dict[str, Any]:
    """Points pushed towards the middle: the action goes by x, or by y where `turn` is 1; y never exceeds x."""
    rng = np.random.default_rng(seed)
    x = rng.random(rows)
    y = x * rng.random(rows)
    action = np.clip(np.where(rng.random(rows) < turn, y, x) * 2 - 1 + rng.normal(0, 0.2, rows), -1, 1)
    after = np.clip(np.column_stack([x + 0.1 * action, y]) + rng.normal(0, 0.005, (rows, 2)), 0, 1)
    return {
        "observations": np.column_stack([x, y]).astype(np.float32),
        "actions": action[:, None].astype(np.float32),
        "rewards": (x > 0.9).astype(np.float32),
        "next_observations": after.astype(np.float32),
        "terminations": rng.random(rows) < np.where(x > 0.9, 0.5, 0.0),
    }


def fields(rows: int, seed: int, *, world: int) -> dict[str, Any]:
    """Actions that have a mean of their own in each of 20 x 20 fields of this world."""
    rng = np.random.default_rng(seed)
    seen = rng.random((rows, 2))
    means = np.random.default_rng(world).uniform(-0.8, 0.8, (20, 20))
    place = np.minimum((seen * 20).astype(int), 19)
    action = np.clip(means[place[:, 0], place[:, 1]] + rng.normal(0, 0.2, rows), -1, 1)
    return {
        "observations": seen.astype(np.float32),
        "actions": action[:, None].astype(np.float32),
        "rewards": np.zeros(rows, np.float32),
        "next_observations": seen.astype(np.float32),
        "terminations": np.zeros(rows, bool),
    }


def vault_of(columns: dict[str, Any], spec: PublicSpec, path: Path, epsilon: float = 2.0) -> Vault:
    """A vault of single rows."""
    data = Trajectories.from_arrays(**columns, unit_ids=":transition", spec=spec, simulated=True)
    return Vault(data, Ledger(path, UNIT, epsilon=epsilon, delta=1e-6, composition=SUM))


def test_edges_are_round_numbers() -> None:
    assert nice_edges(0.4, 1.0, 6) == (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert nice_edges(-3, 101, 4) == (-3, 20, 40, 60, 80, 101)  # 0 is nearer to the end than a quarter of a step


def test_bins_code_what_lies_outside_and_atoms() -> None:
    bins = Bins((0.0, 1.0, 3.0), atoms=(1.0, 2.5))
    values = np.array([-5, 0.5, 1.0, 1.5, 2.5, 9])
    np.testing.assert_array_equal(bins.encode(values), [0, 0, 2, 1, 3, 1])
    drawn = bins.draw(np.array([0, 1, 2, 3]), np.random.default_rng(0))
    assert 0 <= drawn[0] <= 1 <= drawn[1] <= 3
    assert drawn[2:].tolist() == [1.0, 2.5]


@pytest.mark.parametrize("even", [True, False])
def test_edges_belong_to_the_bin_above(even: bool) -> None:
    bins = Bins((0.0, 1.0, 2.0, 3.0) if even else (0.0, 1.0, 2.0, 4.0))
    np.testing.assert_array_equal(bins.encode(np.array([0.0, 1.0, 2.0, 3.0])), [0, 1, 2, 2])


def test_columns_come_back() -> None:
    rows = plane(2_000, 1)
    table = public_columns(PLANE, rows)
    assert [(one.role, one.index) for one in table.columns] == [
        ("observation", 0),
        ("observation", 1),
        ("action", 0),
        ("reward", 0),
        ("end", 0),
        ("next", 0),
        ("next", 1),
    ]
    back = table.rows(table.values(rows))
    for name, column in rows.items():
        np.testing.assert_allclose(back[name], column, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(np.asarray(table.prediction)[3], [0.1, 0.0], atol=0.005)  # the change by the action


def test_errors_of_the_prediction_are_what_is_left() -> None:
    rows = plane(5_000, 2)
    table = public_columns(PLANE, rows)
    left = table.values(rows)[5]
    inside = (rows["next_observations"][:, 0] > 0) & (rows["next_observations"][:, 0] < 1)
    assert left[inside].std() == pytest.approx(0.005, rel=0.1)


def test_means_keep_what_many_rows_say_and_forget_noise() -> None:
    middles = np.array([-1.0, 0.0, 1.0])
    told = np.array([[0, 0, 4e6], [4e6, 0, 0]], float)
    np.testing.assert_allclose(shrink_means(told, middles, np.zeros(2), [2], 1.0), [1, -1], atol=1e-3)
    hidden = np.array([[1, 0, 2], [2, 0, 1]], float)
    np.testing.assert_array_equal(shrink_means(hidden, middles, np.array([0.3, -0.2]), [2], 10.0), [0.3, -0.2])


def test_means_without_noise_are_means() -> None:
    rng = np.random.default_rng(3)
    counts = rng.integers(500, 5_000, (8, 3)).astype(float)
    wanted = counts @ [-1.0, 0.0, 1.0] / counts.sum(axis=1)
    found = shrink_means(counts, np.array([-1.0, 0.0, 1.0]), np.zeros(8), [8], 0.0)
    np.testing.assert_allclose(found, wanted, atol=0.03)


def test_public_rows_find_what_depends_on_what() -> None:
    worlds = [plane(30_000, seed) for seed in (4, 5)]
    structure = choose_structure(PLANE, worlds, rows=20_000, multiplier=2.0)
    columns = structure.table.columns
    found = {
        columns[i].role + str(columns[i].index): {
            ("guide" if parent.guide else columns[parent.column].role) + str(0 if parent.guide else parent.column)
            for parent in structure.parents[i]
        }
        for i in range(len(columns))
    }
    assert found["observation1"] == {"observation0"}  # y is at most x
    assert found["action0"] & {"observation0", "guide0"}
    assert found["reward0"] & {"observation0"}
    assert found["end0"] & {"observation0", "reward3"}
    again = choose_structure(PLANE, worlds[::-1], rows=20_000, multiplier=2.0)
    assert {parent.column for parent in again.parents[1]} == {0}


def test_more_noise_has_coarser_tables() -> None:
    worlds = [plane(30_000, 6)]
    sizes = []
    for multiplier in (0.5, 50.0):
        structure = choose_structure(PLANE, worlds, rows=20_000, multiplier=multiplier)
        sizes.append(sum(structure.size(i) for i in range(len(structure.parents))))
    assert sizes[1] < sizes[0]


def test_rows_are_drawn_as_they_are(tmp_path: Path) -> None:
    worlds = [plane(30_000, 7), plane(30_000, 8)]
    private = plane(20_000, 9)
    structure = choose_structure(PLANE, worlds, rows=20_000, multiplier=2.0)
    plan = StructuredPlan(structure=structure, provenance="invented")
    plan = plan.calibrate(unit=UNIT, epsilon=2.0, delta=1e-6)
    vault = vault_of(private, PLANE, tmp_path / "l")
    released = fit(plan, vault, means=public_means(structure, worlds))
    with pytest.raises(PlanExhausted):
        fit(plan, vault, means=public_means(structure, worlds))
    assert released.certificate.epsilon == pytest.approx(2.0, rel=1e-3)
    drawn = released.value.sample(20_000, seed=1).columns
    real, made = private["observations"], drawn["observations"]
    assert (made[:, 1] > made[:, 0] + 0.05).mean() < 0.05
    assert np.corrcoef(real[:, 0], private["actions"][:, 0])[0, 1] == pytest.approx(
        np.corrcoef(made[:, 0], drawn["actions"][:, 0])[0, 1], abs=0.1
    )
    step = drawn["next_observations"][:, 0] - made[:, 0] - 0.1 * drawn["actions"][:, 0]
    assert np.median(np.abs(step)) < 0.01
    assert drawn["terminations"].mean() == pytest.approx(private["terminations"].mean(), abs=0.02)
    hub.save(released, tmp_path / "model")
    back = hub.load(tmp_path / "model").value
    for name, column in released.value.sample_columns(50, seed=3).items():
        np.testing.assert_array_equal(back.sample_columns(50, seed=3)[name], column)


def test_a_guide_finds_the_means_of_a_world_that_no_public_one_has(tmp_path: Path) -> None:
    worlds = [fields(20_000, 20 + world, world=world) for world in (1, 2)]
    private = fields(20_000, 23, world=3)
    structure = choose_structure(PLANE, worlds, rows=20_000, multiplier=0.7)
    assert [guide.column for guide in structure.guides] == [2]
    assert {axis[0] for axis in structure.guides[0].axes} == {0, 1}
    plan = StructuredPlan(structure=structure, provenance="invented").calibrate(unit=UNIT, epsilon=8.0, delta=1e-6)
    released = fit(plan, vault_of(private, PLANE, tmp_path / "l", 8.0), means=public_means(structure, worlds))
    drawn = released.value.sample(20_000, seed=1).columns
    place = np.minimum((drawn["observations"] * 20).astype(int), 19)
    truth = np.random.default_rng(3).uniform(-0.8, 0.8, (20, 20))[place[:, 0], place[:, 1]]
    assert np.corrcoef(truth, drawn["actions"][:, 0])[0, 1] > 0.7  # .92 is that of private rows


def mixed(rows: int, seed: int) -> dict[str, Any]:
    """Rows of categories, whole numbers and missing values."""
    rng = np.random.default_rng(seed)
    ward, age, missing = rng.integers(0, 3, rows), rng.integers(18, 90, rows), rng.random(rows) < 0.1
    pulse, drug = np.where(missing, 125, 60 + 20 * ward + rng.normal(0, 5, rows)), rng.integers(0, 2, rows)
    seen = np.column_stack([ward, age, pulse, missing]).astype(np.float32)
    after = seen.copy()
    after[:, 2] -= 10 * drug
    return {
        "observations": seen,
        "actions": drug,
        "rewards": rng.random(rows).astype(np.float32),
        "next_observations": after,
        "terminations": np.zeros(rows, bool),
    }


def test_columns_of_all_kinds_by_the_spec_alone(tmp_path: Path) -> None:
    structure = default_structure(MIXED, 20_000, 10.0)
    assert structure.guides == ()
    plan = StructuredPlan(structure=structure).calibrate(unit=UNIT, epsilon=8.0, delta=1e-6)
    drawn = fit(plan, vault_of(mixed(20_000, 10), MIXED, tmp_path / "l", 8.0)).value.sample(10_000, seed=1).columns
    seen = drawn["observations"]
    assert set(np.unique(seen[:, 0])) == {0, 1, 2}
    assert (drawn["next_observations"][:, 0] == seen[:, 0]).all()  # static
    assert (seen[:, 1] % 1 == 0).all()
    assert seen[:, 3].mean() == pytest.approx(0.1, abs=0.02)


def test_records_of_labels_alone() -> None:
    spec = PublicSpec(Discrete(5), Discrete(2), Box((0,), (1,)), "declared")
    structure = default_structure(spec, 20_000, 5.0)
    assert [one.role for one in structure.table.columns] == ["observation", "action", "reward", "end", "next"]
    rows = {
        "observations": np.array([0, 4]),
        "actions": np.array([1, 0]),
        "rewards": np.array([0.5, 0.25], np.float32),
        "next_observations": np.array([3, 4]),
        "terminations": np.array([True, False]),
    }
    back = structure.table.rows(structure.table.values(rows))
    for name, column in rows.items():
        np.testing.assert_array_equal(back[name], column)


def test_one_row_attains_the_bound_of_every_sum() -> None:
    structure = default_structure(PLANE, 20_000, 10.0)
    plan = StructuredPlan(structure=structure).calibrate(unit=UNIT, epsilon=1.0, delta=1e-6)
    parts = {part.name: part for part in plan.parts()}
    assert set(parts) == {TABLES, SMALL}
    tables, small = structure.counts[1:]
    assert parts[TABLES].clip_norm == pytest.approx(tables**0.5)
    assert parts[SMALL].clip_norm == pytest.approx(small**0.5)
    price = sum((part.noise_multiplier or 0) ** -2 for part in parts.values()) ** -0.5
    assert price == pytest.approx(plan.noise_multiplier)
    assert parts[SMALL].noise_scale / parts[TABLES].noise_scale == pytest.approx(10**0.5)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="typical size of a step"):
        default_columns(dataclasses.replace(PLANE, difference=None))
    structure = choose_structure(PLANE, [fields(20_000, 11, world=1)], rows=20_000, multiplier=1.0)
    plan = StructuredPlan(structure=structure, provenance="invented")
    plan = plan.calibrate(unit=UNIT, epsilon=2.0, delta=1e-6)
    vault = vault_of(plane(500, 12), PLANE, tmp_path / "l")
    assert structure.guides
    with pytest.raises(PlanError, match="guides"):
        fit(plan, vault)
    other = dataclasses.replace(PLANE, difference=(0.2, 0.2))
    foreign = StructuredPlan(structure=default_structure(other, 20_000, 1.0))
    with pytest.raises(PlanError, match="other public bounds"):
        fit(foreign.calibrate(unit=UNIT, epsilon=2.0, delta=1e-6), vault)
    huge = dataclasses.replace(
        structure, parents=(structure.parents[0], (TableParent(0),) * 40, *structure.parents[2:])
    )
    with pytest.raises(PlanError, match="16,777,216 cells"):
        StructuredPlan(structure=huge)
    with pytest.raises(PlanError, match="where the public rows come from"):
        StructuredPlan(structure=structure)
    with pytest.raises(PlanError, match="come before"):
        dataclasses.replace(structure, parents=structure.parents[:-1])


def test_worlds_are_units_with_many_rows() -> None:
    rows = plane(4_000, 13)
    named = np.repeat([0, 1], 2_000)
    several = Trajectories.from_arrays(**rows, unit_ids=named, spec=PLANE, simulated=True)
    assert [len(world["rewards"]) for world in split_worlds(several)] == [2_000, 2_000]
    people = Trajectories.from_arrays(**rows, unit_ids=np.repeat(np.arange(100), 40), spec=PLANE, simulated=True)
    assert [len(world["rewards"]) for world in split_worlds(people)] == [4_000]
