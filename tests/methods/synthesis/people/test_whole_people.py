"""Whole people from structured noisy tables: what a unit adds, and what comes out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import hub
from tacit.data import Column, PublicSpec, Trajectories
from tacit.data.spec import space_of
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.synthesis.people import PeoplePlan, fit
from tacit.methods.synthesis.people.plan import HISTOGRAMS, REGRESSION, TABLES
from tacit.methods.synthesis.people.scheme import Scheme, default_nodes
from tacit.methods.synthesis.people.sums import (
    NumberShares,
    VisitMoments,
    VisitTables,
    read_densities,
    solve_regressions,
)
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(
    space_of(
        Column("sex", "category", labels=("m", "w"), static=True),
        Column("age", "integer", low=18, high=100, static=True),
        Column("pressure", low=60, high=260, step=8, missing="flag"),
        Column("ward", "category", labels=("A", "B", "C")),
        Column("gap", "duration", low=0, high=100),
    ),
    space_of(Column("drug", "category", labels=("none", "strong"))),
    space_of(Column("reward", low=-2, high=0)),
    "declared",
    terminals=False,
)
EFFECT, STAY, SPREAD = -12.0, 0.8, 6.0
UNIT = Unit("patient", "add_or_remove", 10_000)


def hospital(patients: int, seed: int, *, copies: bool = True) -> dict[str, Any]:
    """Visits of patients whose pressure goes STAY of the way from 140 and moves by EFFECT under the strong drug."""
    # copies: whether last visits are rows, whose next observation is their own
    rng = np.random.default_rng(seed)
    lengths, rows = rng.integers(2, 8, patients), list[np.ndarray]()
    for patient, length in enumerate(lengths):
        sex, age, ward, pressure = patient % 2, rng.integers(30, 80), rng.integers(3), rng.normal(150, 15)
        for visit in range(length):
            drug = rng.random() < 1 / (1 + np.exp(-(pressure - 140) / 10))
            missing, gap = rng.random() < 0.1, rng.uniform(5, 40) if visit else 0.0
            rows.append(np.array([patient, sex, age, pressure, missing, ward, gap, drug, -abs(pressure - 130) / 130]))
            pressure = np.clip(140 + STAY * (pressure - 140) + EFFECT * drug + rng.normal(0, SPREAD), 61, 259)
            ward = rng.integers(3) if rng.random() < 0.1 else ward
    table = np.array(rows)
    observations = table[:, 1:7].copy()
    observations[:, 2] = np.where(table[:, 4] == 1, 60, table[:, 3])
    observations[:, 3], observations[:, 4] = table[:, 4], table[:, 5]
    last = np.append(np.diff(table[:, 0]) != 0, True)
    following = np.where(last[:, None], observations, np.roll(observations, -1, axis=0))
    columns = {
        "observations": observations,
        "next_observations": following,
        "actions": table[:, 7].astype(int),
        "rewards": table[:, 8],
        "terminations": np.zeros(len(table), bool),
        "truncations": last,
        "unit_ids": table[:, 0].astype(int),
        "episode_ids": table[:, 0].astype(int),
    }
    if copies:
        return columns
    columns["truncations"] = np.roll(last, -1)
    return {name: column[~last] for name, column in columns.items()}


def records(patients: int, seed: int = 0, *, copies: bool = True) -> Trajectories:
    columns = hospital(patients, seed, copies=copies)
    return Trajectories.from_arrays(**columns, spec=SPEC, unit_name="patient", simulated=True, copied_ends=copies)


def padded(columns: dict[str, Any], most: int) -> dict[str, Any]:
    """The rows of each unit, padded, as a vault gives them."""
    ids = columns["unit_ids"]
    place = np.arange(len(ids)) - np.searchsorted(ids, ids)
    kept = place < most
    rows: dict[str, Any] = {}
    for name in ("observations", "next_observations", "actions", "rewards", "terminations", "truncations"):
        values = np.asarray(columns[name])
        values = values.astype(np.float32) if values.dtype == np.float64 else values
        rows[name] = np.zeros((ids[-1] + 1, most, *values.shape[1:]), values.dtype)
        rows[name][ids[kept], place[kept]] = values[kept]
    rows["mask"] = np.zeros((ids[-1] + 1, most), bool)
    rows["mask"][ids[kept], place[kept]] = True
    rows["starts"] = rows["mask"] & (np.arange(most) == 0)
    return rows


def released(rows: dict[str, Any], plan: PeoplePlan) -> Scheme:
    """The scheme of exact sums."""
    scheme = dataclasses.replace(plan.scheme, copied_ends=True)
    scheme = read_densities(scheme, NumberShares(scheme)(rows, None).sum(axis=0), 0.0)[0]
    scheme = solve_regressions(scheme, VisitMoments(scheme)(rows, None).sum(axis=0), 0.0)
    return scheme.with_nodes(10_000.0, 5.0, 10.0)


def pairs(data: Trajectories) -> dict[str, np.ndarray]:
    """Steps between two visits in which the pressure is known."""
    now, following = (np.asarray(data.columns[name]) for name in ("observations", "next_observations"))
    kept = (now[:, 3] == 0) & (following[:, 3] == 0) & ~np.asarray(data.columns["truncations"])
    return {"x": now[kept, 2], "y": following[kept, 2], "a": np.asarray(data.columns["actions"])[kept]}


def test_no_vector_of_a_unit_is_longer_than_its_bound() -> None:
    plan = PeoplePlan(spec=SPEC, most=6)
    columns = hospital(200, 0)
    columns["observations"][:20] = columns["observations"][0]  # a unit that repeats itself
    rows = padded(columns, 6)
    scheme = released(rows, plan)
    bounds = {part.name: part.clip_norm for part in plan.parts()}
    assert bounds == pytest.approx({HISTOGRAMS: 2.0, REGRESSION: 1.49**0.5, TABLES: 26**0.5})
    for name, work in ((HISTOGRAMS, NumberShares), (REGRESSION, VisitMoments), (TABLES, VisitTables)):
        vectors = work(scheme)(rows, None)
        norms = np.linalg.norm(vectors, axis=1)
        assert norms.max() <= bounds[name] * (1 + 1e-9)
        assert norms.max() > 0.5 * bounds[name]


def test_without_noise_no_table_is_made_coarser() -> None:
    scheme = released(padded(hospital(200, 0), 6), PeoplePlan(spec=SPEC, most=6))
    assert scheme.with_nodes(10.0, 5.0, 0.0).nodes == tuple(default_nodes(scheme))
    assert scheme.with_nodes(10.0, 5.0, 1.0).nodes != tuple(default_nodes(scheme))


def test_a_unit_counts_once_what_it_has_once_however_many_visits_it_has() -> None:
    plan = PeoplePlan(spec=SPEC, most=6)
    rows = padded(hospital(200, 0), 6)
    scheme, begin = released(rows, plan), 0
    vectors = VisitTables(scheme)(rows, None)
    for node in scheme.nodes:
        size = scheme.size(node) * int(np.prod(scheme.shape(node)))
        block, begin = vectors[:, begin : begin + size].sum(axis=1), begin + size
        if node.role in ("static", "visits"):
            np.testing.assert_allclose(block, 1.0)
        if node.role == "end":
            visits = np.minimum(rows["mask"].sum(axis=1), 6)
            np.testing.assert_allclose(block, np.sqrt(visits), rtol=1e-6)  # n / sqrt(n), nowhere cut here


def test_regressions_of_exact_sums_find_the_effect() -> None:
    columns = hospital(2_000, 1)
    rows = padded(columns, 8)
    scheme = released(rows, PeoplePlan(spec=SPEC, most=8))
    (regression,) = (each for each in scheme.regressions if each is not None)
    assert 0.9 * SPREAD < regression.spread < 1.25 * SPREAD


@pytest.mark.parametrize("copies", [False, True])
def test_people_are_like_those_they_come_from(copies: bool, tmp_path: Path) -> None:
    data = records(3_000, copies=copies)
    ledger = Ledger(tmp_path / "ledger", UNIT, epsilon=20, delta=1e-5, composition=SUM)
    vault = Vault(data, ledger, noise=SecretNoise.for_tests(0))
    plan = PeoplePlan(spec=SPEC).calibrate(unit=UNIT, epsilon=8, delta=1e-5)
    release = fit(plan, vault)
    drawn = release.value.sample(3_000, seed=1)
    observations = np.asarray(drawn.columns["observations"])
    owners, lengths = np.unique(drawn._records.owners, return_counts=True)
    real = np.bincount(np.diff(data.episodes), minlength=65)
    assert len(owners) == 3_000
    made = np.bincount(lengths, minlength=len(real))
    assert 0.5 * np.abs(made / made.sum() - real / real.sum()).sum() < 0.06
    for place in (0, 1):  # statics
        assert (np.diff(observations[:, place])[np.diff(drawn._records.owners) == 0] == 0).all()
    steps, truth = pairs(drawn), pairs(data)
    for action in (0, 1):
        change = [(each["y"] - each["x"])[each["a"] == action].mean() for each in (steps, truth)]
        assert abs(change[0] - change[1]) < 1.0
    correlation = [np.corrcoef(each["x"], each["y"])[0, 1] for each in (steps, truth)]
    assert abs(correlation[0] - correlation[1]) < 0.06
    assert abs(observations[:, 3].mean() - 0.1) < 0.01
    moved = [
        np.mean(np.diff(each[:, 4])[np.diff(ids) == 0] != 0)
        for each, ids in (
            (observations, drawn._records.owners),
            (np.asarray(data.columns["observations"]), data._records.owners),
        )
    ]
    assert abs(moved[0] - moved[1]) < 0.03
    gaps, first = observations[:, 5], np.diff(drawn._records.owners, prepend=-1) != 0
    assert gaps[first].max() == 0
    assert np.quantile(gaps[~first], [0.02, 0.98]) == pytest.approx([5, 40], abs=4)
    assert len(drawn.to_pandas(shape="visits")) == len(observations) + (0 if copies else 3_000)
    pandas = drawn.to_pandas()
    assert len(pandas) == len(observations) - (3_000 if copies else 0)
    with pytest.raises(PlanExhausted):
        fit(plan, vault)


def test_what_is_saved_draws_the_same_people(tmp_path: Path) -> None:
    vault = Vault(records(500), Ledger(tmp_path / "ledger", UNIT, epsilon=20, delta=1e-5, composition=SUM))
    release = fit(PeoplePlan(spec=SPEC, most=5).calibrate(unit=UNIT, epsilon=8, delta=1e-5), vault)
    hub.save(release, tmp_path / "model")
    loaded = hub.load(tmp_path / "model")
    assert loaded.value.scheme == release.value.scheme
    for name, column in release.value.sample(50, seed=3).columns.items():
        np.testing.assert_array_equal(column, loaded.value.sample(50, seed=3).columns[name])
    assert np.diff(release.value.sample(200, seed=0).episodes).max() <= 5


def test_noise_of_three_sums_is_that_of_one() -> None:
    plan = PeoplePlan(spec=SPEC).calibrate(unit=UNIT, epsilon=2, delta=1e-5)
    assert plan.noise_multiplier is not None
    mus = [1 / part.noise_multiplier**2 for part in plan.parts() if part.noise_multiplier]
    assert sum(mus) == pytest.approx(1 / plan.noise_multiplier**2)
    assert [round(mu / sum(mus), 3) for mu in mus] == [0.07, 0.2, 0.73]


@pytest.mark.parametrize(
    ("fields", "what"), [({"most": 0}, "most"), ({"visits": -1.0}, "visits"), ({"shares": (1.0, 1.0, 1.0)}, "shares")]
)
def test_plans_out_of_range_are_refused(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(PlanError, match=what):
        PeoplePlan(spec=SPEC, **fields)


def test_another_spec_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", UNIT, epsilon=20, delta=1e-5, composition=SUM)
    other = dataclasses.replace(SPEC, reward=space_of(Column("reward", low=-3, high=0)))
    with pytest.raises(PlanError, match="other public bounds"):
        fit(PeoplePlan(spec=other).calibrate(unit=UNIT, epsilon=2, delta=1e-5), Vault(records(20), ledger))
    assert ledger.left() == (20, 1e-5)
