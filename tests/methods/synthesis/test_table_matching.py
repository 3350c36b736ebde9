"""Matching noisy tables: what a unit adds to them, which there are by default, and weights that match them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError
from tacit.methods import synthesis
from tacit.methods.synthesis.table_matching import (
    MOST_TABLES,
    PART,
    Histograms,
    NoisyHistograms,
    TableMatching,
    cell_codes,
    effective_size,
    match_weights,
    resample,
    shrink_table,
)
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.mechanisms.tallies import contribution_vectors
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.plan import plan_id, public_fields
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

LINE = PublicSpec(Box((0.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", difference=(0.1,))
PLANE = PublicSpec(
    Box((0.0,) * 4, (1.0,) * 4), Box((-1.0,) * 2, (1.0,) * 2), Box((0.0,), (1.0,)), "declared", False, (0.1,) * 4
)
WIDE = PublicSpec(
    Box((0.0,) * 17, (1.0,) * 17), Box((-1.0,) * 6, (1.0,) * 6), Box((0.0,), (1.0,)), "declared", False, (0.1,) * 17
)
GRID = PublicSpec(Discrete(5), Discrete(3), Box((0.0,), (1.0,)), "declared", terminals=False)
UNIT = Unit("person", "add_or_remove", 400)
HALVES = Axis("observations", 0, (0.0, 0.5, 1.0))
ACTIONS = Axis("actions", 0, (-0.5, 0.5, 1.5))


def rows_of(observations: Any, actions: Any, mask: Any) -> dict[str, np.ndarray]:
    observations = np.asarray(observations, np.float32)
    return {
        "observations": observations[..., None],
        "next_observations": observations[..., None],
        "actions": np.asarray(actions),
        "rewards": observations,
        "terminations": np.zeros(observations.shape, bool),
        "mask": np.asarray(mask),
    }


def test_a_unit_adds_the_mean_of_its_rows_whatever_their_number() -> None:
    rows = rows_of([[0.1, 0.2, 0.9], [0.9, 0.0, 0.0]], [[0, 1, 1], [1, 0, 0]], [[True] * 3, [True, False, False]])
    added = contribution_vectors(Histograms(((HALVES,), (HALVES, ACTIONS))), rows, None)
    np.testing.assert_allclose(added, np.array([[2, 1, 1, 1, 0, 1], [0, 3, 0, 0, 0, 3]]) / 3)
    nobody = rows_of(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2), bool))
    assert contribution_vectors(Histograms(((HALVES,),)), nobody, None).tolist() == [[0, 0]]


def test_what_lies_on_an_edge_or_outside_has_a_cell() -> None:
    columns = rows_of([-1.0, 0.0, 0.5, 1.0, 2.0], [0] * 5, [True] * 5)
    np.testing.assert_array_equal(cell_codes([(HALVES,)], columns)[0], [0, 0, 1, 1, 1])


def test_default_tables_follow_from_the_spec() -> None:
    def columns(matching: TableMatching) -> list[tuple[tuple[str, int], ...]]:
        return [tuple((axis.column, axis.index) for axis in table) for table in matching.tables]

    line = columns(TableMatching.of(LINE))
    assert line[:5] == [((n, 0),) for n in ("observations", "actions", "rewards", "differences", "terminations")]
    assert line[5:] == [
        (("observations", 0), ("actions", 0)),
        (("observations", 0), ("rewards", 0)),
        (("actions", 0), ("differences", 0)),
    ]
    assert (("actions", 0), ("next_observations", 0)) in columns(TableMatching.of(GRID))
    assert len(TableMatching.of(PLANE).tables) == 37
    assert len(TableMatching.of(WIDE).tables) == 41 <= MOST_TABLES


def test_tables_of_a_plane_need_a_plane() -> None:
    matching = TableMatching.plane(PLANE, cells=4)
    assert (0, 1, 0) in [tuple(axis.index for axis in table) for table in matching.joint]
    assert max(len(table) for table in matching.tables) == 4
    with pytest.raises(PlanError, match="observation"):
        TableMatching.plane(LINE)


@pytest.mark.parametrize(
    "change",
    [
        {"clip_norm": 0.0},
        {"noise": -1.0},
        {"steps": 0},
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.1},
        {"pool": 0},
        {"sweeps": 0},
        {"rows_per_unit": 0},
        {"joint": ((),)},
        {"joint": ((Axis("observations", 7, (0.0, 1.0)),),)},
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        dataclasses.replace(TableMatching.of(LINE), **change)


def test_the_noise_of_the_histograms_is_tied_to_that_of_the_gradients() -> None:
    matching = TableMatching.of(LINE, noise=3.0)
    plan = synthesis.TransitionsPlan(steps=100, sampling_rate=0.2, warmup=0, noise_multiplier=4.0, matching=matching)
    gradients, histograms = plan.parts()
    assert (histograms.name, histograms.steps, histograms.sampling_rate) == (PART, 1, 1.0)
    assert histograms.noise_multiplier == pytest.approx(3 * 4.0 / (0.2 * math.sqrt(100)))
    assert histograms.clip_norm == pytest.approx(0.3 * math.sqrt(8))
    sampled = dataclasses.replace(matching, steps=25, sampling_rate=0.1).tied_part(gradients)
    assert sampled.noise_multiplier == pytest.approx(3 * 4.0 * (0.1 * 5) / (0.2 * 10))
    calibrated = plan.calibrate(unit=UNIT, epsilon=3.0, delta=1e-4)
    alone = dataclasses.replace(plan, matching=None).calibrate(unit=UNIT, epsilon=3.0, delta=1e-4)
    assert calibrated.noise_multiplier is not None
    assert alone.noise_multiplier is not None
    assert 1.02 < calibrated.noise_multiplier / alone.noise_multiplier < 1.08
    assert synthesis.TransitionsPlan.from_json(public_fields(calibrated)) == calibrated


def test_a_plan_without_matching_has_the_fields_and_the_id_that_it_always_had() -> None:
    plan = synthesis.TransitionsPlan(noise_multiplier=1.0)
    assert "matching" not in public_fields(plan)
    assert "matching" in public_fields(dataclasses.replace(plan, matching=TableMatching.of(LINE)))
    assert plan_id(plan) == "0bfe8c1679e7d902"


def test_very_many_units_are_met_in_samples() -> None:
    few, many = (TableMatching.of(LINE, population=population) for population in (10_000, 1_000_000))
    assert (few.steps, few.sampling_rate) == (1, 1.0)
    assert (many.steps, many.sampling_rate) == (100, 0.01)
    gradients = synthesis.TransitionsPlan(noise_multiplier=4.0).parts()[0]
    one, sampled = few.tied_part(gradients).noise_multiplier, many.tied_part(gradients).noise_multiplier
    assert one is not None
    assert sampled == pytest.approx(one / 10)  # the rate * sqrt(steps) of either


def test_weights_bring_the_tables_to_their_goals() -> None:
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 3, 5_000), rng.integers(0, 4, 5_000)]
    goals = [np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])]
    weights = match_weights(codes, goals, 30)
    for code, goal in zip(codes, goals, strict=True):
        np.testing.assert_allclose(np.bincount(code, weights), goal, atol=1e-6)
    assert 1 < effective_size(weights) < 5_000
    assert effective_size(np.full(10, 0.1)) == pytest.approx(10)


def test_goals_where_no_row_lies_are_left_to_the_others() -> None:
    weights = match_weights([np.array([0, 0, 1])], [np.array([0.25, 0.25, 0.5])], 3)
    np.testing.assert_allclose(weights, [0.25, 0.25, 0.5])
    np.testing.assert_allclose(match_weights([np.array([0, 0])], [np.array([0.0, 1.0])], 3), [0.5, 0.5])


def test_resampling_keeps_every_weight_up_to_one_row() -> None:
    weights = np.array([0.5, 0.0, 0.3, 0.2])
    drawn = resample(weights, 1_000, np.random.default_rng(1))
    assert np.abs(np.bincount(drawn, minlength=4) - 1_000 * weights).max() <= 1


def test_noise_alone_moves_nothing_and_a_clear_difference_stays() -> None:
    own, rng = np.full(100, 0.01), np.random.default_rng(2)
    noise = 0.02 * rng.standard_normal(100)
    assert np.abs(shrink_table(own + noise, own, 0.02) - own).sum() < 0.3 * np.abs(noise).sum()
    other = np.r_[np.full(50, 0.02), np.zeros(50)]
    np.testing.assert_allclose(shrink_table(other, own, 1e-4), other, atol=1e-5)
    np.testing.assert_allclose(shrink_table(own, own, 0.1), own)


# -- with a vault -----------------------------------------------------------------------------------------------------


def records(people: int = 300, rows: int = 12) -> Trajectories:
    """Low observations; the reward follows the observation."""
    rng = np.random.default_rng(3)
    observations = rng.beta(2, 6, (people * rows, 1)).astype(np.float32)
    return Trajectories.from_arrays(
        observations=observations,
        actions=(observations[:, 0] > 0.3).astype(np.int64),
        rewards=observations[:, 0],
        next_observations=observations,
        terminations=np.zeros(people * rows, bool),
        unit_ids=np.repeat(np.arange(people), rows),
        spec=LINE,
        simulated=True,
    )


def matching_plan(**changes: Any) -> synthesis.TransitionsPlan:
    matching = dataclasses.replace(TableMatching.of(LINE, bins=8), pool=4_000, noise=0.2)
    small = {
        "steps": 3,
        "sampling_rate": 0.5,
        "width": 8,
        "depth": 1,
        "warmup": 0,
        "rows_per_unit": 4,
        "matching": matching,
    }
    return synthesis.TransitionsPlan(**{**small, **changes}).calibrate(unit=UNIT, epsilon=20.0, delta=1e-4)


def vault_of(folder: Path, noise: SecretNoise | None = None) -> Vault:
    path = folder / "one.ledger"
    ledger = Ledger(path) if path.exists() else Ledger(path, UNIT, epsilon=50.0, delta=1e-3, composition=SUM)
    return Vault(records(), ledger, noise=noise)


def test_released_histograms_weight_what_is_sampled(tmp_path: Path) -> None:
    release = synthesis.fit(matching_plan(), vault_of(tmp_path))
    value = release.value
    assert value.histograms is not None
    rows = value.sample_columns(2_000, seed=0)
    plain = dataclasses.replace(value, histograms=None).sample_columns(2_000, seed=0)
    truth = records().columns["observations"].mean()
    assert abs(rows["observations"].mean() - truth) < 0.05 < abs(plain["observations"].mean() - truth)
    assert len(rows["rewards"]) == len(rows["truncations"]) == 2_000
    assert all(np.array_equal(rows[name], column) for name, column in value.sample_columns(2_000, seed=0).items())
    assert {part["name"] for part in release.certificate.parts} == {"denoiser", PART}
    assert any("histograms" in line for line in release.certificate.lines("covered"))
    assert release.certificate.verify().epsilon <= 20.0


def test_gradients_and_their_noise_are_those_of_a_plan_without_matching(tmp_path: Path) -> None:
    seen: dict[str, list[Any]] = {"with": [], "without": []}
    plan = matching_plan()
    without = dataclasses.replace(plan, matching=None)
    for name, one in (("with", plan), ("without", without)):
        (tmp_path / name).mkdir()
        vault = vault_of(tmp_path / name, SecretNoise.for_tests(5))
        synthesis.fit(one, vault, observe=lambda step, model, gradient, name=name: seen[name].append(gradient.clone()))  # type: ignore[misc]
    assert all((a == b).all() for a, b in zip(seen["with"], seen["without"], strict=True))


def test_a_resumed_run_asks_for_the_histograms_that_are_left(tmp_path: Path) -> None:
    plan = matching_plan()

    def stop(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    vault = vault_of(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        synthesis.fit(plan, vault, folder=tmp_path, progress=stop)
    vault.ledger.close()
    again = vault_of(tmp_path)
    value = synthesis.fit(plan, again, folder=tmp_path, resume=True).value
    assert value.histograms is not None
    finished = synthesis.fit(plan, again, folder=tmp_path, resume=True).value
    assert finished.histograms is not None
    np.testing.assert_array_equal(finished.histograms, value.histograms)


def test_bins_of_other_bounds_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    with pytest.raises(PlanError, match="other public bounds"):
        synthesis.fit(matching_plan(matching=TableMatching.of(GRID)), vault)
    assert vault.ledger.spent() == (0.0, 0.0)


def test_public_rows_that_shape_the_bins_are_named(tmp_path: Path) -> None:
    matching = TableMatching.of(LINE, bins=8, public=records().columns, provenance="simulated elsewhere", pool=4_000)
    release = synthesis.fit(matching_plan(matching=matching), vault_of(tmp_path))
    assert any("simulated elsewhere" in line for line in release.certificate.lines("not_covered"))
    assert len(matching.sizes) == 8


def test_of_fewer_sums_the_noise_is_larger() -> None:
    matching, unit = TableMatching.of(LINE, population=40_000), Unit("person", "add_or_remove", 40_000)
    part = matching.part(2.0)
    released = np.full(sum(matching.sizes), 0.01)
    all_of_them, one = (
        NoisyHistograms(matching, part, unit, released, sums).shares()[1] for sums in (matching.steps, 1)
    )
    assert one == pytest.approx(all_of_them * np.sqrt(matching.steps))
    assert matching.steps == 4
