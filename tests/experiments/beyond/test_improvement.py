"""The experiment of the improvement: rows as a vault has them, limits of a coverage, clinics that differ, tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.beyond.improvement_peers import LARGEST_REWARD, Ensemble, EnsemblePlan, Prediction, imagined
from experiments.beyond.improvement_worlds import OtherClinic, of_clinic, other_clinic, world

from experiments.beyond import improvement, improvement_null, improvement_peers, improvement_worlds
from tacit_worlds import clinic, clinic_model

TABLE = improvement_peers.TabularPlan(problem=of_clinic().problem)


def test_flat_rows_are_padded_unit_by_unit() -> None:
    columns = {
        "rewards": np.array([1.0, 2.0, 3.0, 4.0]),
        "unit_ids": np.array([5, 5, 5, 9]),
        "episode_ids": np.array([0, 0, 1, 2]),
    }
    rows = improvement.padded(columns, 2)
    assert rows["rewards"].tolist() == [[1.0, 2.0], [4.0, 0.0]]
    assert rows["mask"].tolist() == [[True, True], [True, False]]
    assert rows["starts"].tolist() == [[True, False], [True, False]]
    assert improvement.padded(columns, 3)["starts"][0].tolist() == [True, False, True]


@pytest.mark.parametrize(("covered", "limit"), [(0, 0.0), (2_000, 0.01 ** (1 / 2_000)), (1_900, 0.9375)])
def test_the_exact_lower_limit_of_a_coverage(covered: int, limit: float) -> None:
    assert improvement.least(covered) == pytest.approx(limit, abs=5e-4)


def test_other_clinics_differ_and_have_chances() -> None:
    one, two = OtherClinic(1).tables, OtherClinic(2).tables
    for table, other, own in zip(one, two, (clinic_model.SEVERITY, clinic_model.BURDEN), strict=True):
        assert not np.allclose(table, other)
        assert not np.allclose(table, own[..., :2].cumsum(axis=-1))
        assert (table >= 0).all()
        assert (table <= 1 + 1e-9).all()


def test_people_of_another_clinic_have_one_course_each() -> None:
    columns = other_clinic(3).collect(40, 1)
    assert np.unique(columns["unit_ids"]).tolist() == list(range(40))
    assert (columns["propensities"] > 0).all()
    assert np.array_equal(columns["unit_ids"], columns["episode_ids"])


def test_a_table_names_what_is_missing(tmp_path: Path) -> None:
    results = improvement.store(tmp_path / "none.json")
    assert "not run" in improvement.scores(results)
    assert improvement.statements(results).count("not run") == 24
    assert improvement.units(results) == "not run"
    assert improvement_null.table(improvement_null.store(tmp_path / "nothing.json")) == "not run"
    assert "not run" in improvement_peers.table(improvement_peers.store(tmp_path / "neither.json"))


def test_every_row_of_a_setting_has_a_world() -> None:
    names = {key.split("/")[1] if key.startswith("coverage") else key.split("/")[0] for key in improvement.rows()}
    clinics = {"clinic", "clinic-narrow", "other-5", "other-6", "clinic-untuned"}
    assert names == {*clinics, "clicks", "clicks-10", "clicks-100", "purchases", "stock", "cart_pole", "hiv"}
    assert world("clinic-narrow").problem.return_range == (-5.0, 3.0)


def test_imagined_rows_stay_in_the_public_range_and_pay_for_disagreement() -> None:
    plan = EnsemblePlan(starts=50, length=3, penalty=1e3)
    rows = imagined(plan, Ensemble(plan), np.random.default_rng(0))
    assert len(rows["rewards"]) > 50
    assert (rows["next_observations"] >= clinic.LOW).all()
    assert (rows["next_observations"] <= clinic.HIGH).all()
    np.testing.assert_array_equal(rows["rewards"], -LARGEST_REWARD)


def test_a_prediction_that_is_right_costs_less() -> None:
    rows = {
        "mask": torch.tensor([[True, False]]),
        "observations": torch.zeros(1, 2, 6),
        "next_observations": torch.zeros(1, 2, 6),
        "actions": torch.zeros(1, 2),
        "rewards": torch.zeros(1, 2),
        "terminations": torch.zeros(1, 2, dtype=torch.bool),
    }

    def answer(reward: float, ends: float) -> torch.nn.Module:
        model = torch.nn.Module()
        row = torch.tensor([*[0.0] * 6, reward, ends])
        model.forward = lambda inputs, actions: row.expand(3, len(inputs), 8)  # type: ignore[method-assign]
        return model

    assert Prediction().loss(answer(0.0, -40.0), rows).tolist() == pytest.approx([0.0], abs=1e-6)
    assert Prediction().loss(answer(0.5, -40.0), rows).tolist() == pytest.approx([3 * 0.25], abs=1e-6)
    assert Prediction().loss(answer(0.0, 0.0), rows).tolist() == pytest.approx([3 * np.log(2)], rel=1e-6)


def test_cells_of_public_cuts() -> None:
    seen = np.array([[0.0, -1.0, -1.0, 0.0, 0.0, 0.0], [9.0, 1.0, 1.0, 5.0, 0.0, 0.0]])
    assert TABLE.cells == 48
    assert TABLE.cells_of(seen).tolist() == [0, 47]


def test_value_iteration_on_counts_without_noise_finds_the_action_that_pays() -> None:
    cells, actions = 48, 6
    moves = np.zeros((cells, actions, cells + 1))
    moves[..., -1] = 1e6  # every course ends at once
    paid = np.zeros((cells, actions))
    paid[:, 4] = 2e6
    noisy = np.concatenate([moves.ravel(), paid.ravel()])
    assert (improvement_peers.planned(TABLE, noisy, 0.0) == 4).all()


def test_click_rates_are_exact() -> None:
    seen, weight = improvement_worlds.contexts()
    assert weight.sum() == pytest.approx(1.0)
    logged = np.tile(improvement_worlds.SHOWN, (len(weight), 1))
    by_hand = 0.6 * (0.025 + 0.03 + 0.008) + 0.4 * (0.025 + 0.009 + 0.018) + 0.02 * 5 / 24
    assert improvement_worlds.rate_of(logged) == pytest.approx(by_hand)
    best = np.eye(3)[np.where(seen[:, 0] == 0, 1, 2)]
    assert improvement_worlds.rate_of(best) == pytest.approx(0.6 * 0.1 + 0.4 * 0.09 + 0.02 * 5 / 24)
    assert round(improvement_worlds.rate_of(logged), 7) == improvement_worlds.LOGGED_RATE
    assert round(improvement_worlds.rate_of(best), 7) == improvement_worlds.BEST_RATE


def test_a_shop_s_reference_is_what_its_simulator_pays() -> None:
    columns = improvement_worlds.collect(
        improvement_worlds.Shop(), lambda seen: np.full((len(seen), 4), 0.25), 4_000, seed=1, horizon=20
    )
    paid = np.bincount(columns["unit_ids"], columns["rewards"])
    low, high = improvement_worlds.stock_reference()
    assert abs(paid.mean() - low) < 5 * paid.std() / 4_000**0.5
    assert high > low + 400
    assert improvement_worlds.stock_normalised(np.array([low, high])).tolist() == [0.0, 100.0]


def test_the_null_world_has_no_gain() -> None:
    columns = improvement_null.columns(4_000, 0)
    paid, actions = columns["rewards"][1::2], columns["actions"][1::2]
    means = np.array([paid[actions == a].mean() for a in range(4)])
    assert np.abs(means - 0.5).max() < 5 * 0.5 / 1_000**0.5
    assert not columns["rewards"][::2].any()
