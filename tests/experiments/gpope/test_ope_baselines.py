"""Off-policy evaluation: fast trials are what the doors give, best values follow the mean, rows know their settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from experiments.gpope.ope_baselines import Pool, ahead, curve, draws, rounded
from experiments.gpope.ope_methods import DELTA, Setting, named, unit_of
from experiments.lib.plots import Curve, Panel, draw
from experiments.lib.store import Store

from experiments.beyond import ope_open_bandit
from experiments.dppg import figure3_budget
from experiments.gpope import (
    gpope_chain,
    gpope_chain_baselines,
    gpope_hiv,
    gpope_mountain_car,
    ope_accounting,
    ope_baselines,
    ope_estimators,
    ope_methods,
    ope_random_mdp,
)
from experiments.privorl import table14_accounting
from tacit import off_policy_evaluation as ope
from tacit.methods.off_policy_evaluation.baselines import Lsl

SETTING, TRIALS = Setting(120, 1.0, "replace_one"), 8


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool(gpope_chain.domain(), 150, seed=1)


@pytest.mark.parametrize("name", ["dp_lstd", "dp_lsl", pytest.param("gpope", marks=pytest.mark.slow)])
def test_the_fast_trials_are_what_the_doors_give(name: str, pool: Pool) -> None:
    """Mean RMSE over 8 trials each, within five standard errors of their difference."""
    domain = pool.domain
    base = {"problem": domain.problem, "features": domain.features}
    plan: Any
    match name:
        case "dp_lstd":
            lstd = ope_baselines.PRIVATE["dp_lstd_centred"].trials(pool, SETTING, TRIALS)
            expected = lstd["rmse"]
            plan = ope_baselines.ope_ssp(domain, lstd["grid"][lstd["best"]], ope_baselines.CENTRED_SHARE)
        case "dp_lsl":
            lsl = ope_baselines.dp_lsl(pool, SETTING, TRIALS)
            expected, plan = lsl["rmse"], Lsl(**base, ridge=float(lsl["grid"][lsl["best"]]))
        case _:
            expected = ope_baselines.gpope(pool, SETTING, TRIALS, steps=20)["default_rmse"]
            plan = ope.Gpope(**base, steps=20, value_share=0.0)
    calibrated = plan.calibrate(unit=unit_of(SETTING), epsilon=1.0, delta=DELTA)
    found = [ope_methods.run(calibrated, domain, pool.subset(m), SETTING) for m, _ in draws(pool, SETTING, TRIALS)]
    rmse = pool.judged(np.array([one.theta for one in found]))["rmse"]
    error = np.sqrt((rmse.var() + np.var(expected)) / TRIALS)
    assert abs(rmse.mean() - np.mean(expected)) < 5 * error + 0.01


def test_the_best_of_a_grid_has_the_least_mean_error(pool: Pool) -> None:
    truth = pool.domain.yardstick.truth
    theta = np.stack([[truth + 0.3, truth + 0.01, np.full(39, np.nan)]] * 2)
    values = curve(pool, theta, np.array([1.0, 2.0, 3.0]), default=0)
    assert values["best"] == 1
    np.testing.assert_allclose(values["rmse"], 0.01, atol=3e-3)
    assert values["default_rmse"].mean() > 0.05
    assert rounded(values)["rmse_mean"][2] is None
    assert rounded({"x": 0.123456, "n": 3, "y": np.array([1.0, np.inf])}) == {"x": 0.1235, "n": 3, "y": [1.0, None]}


def test_subsets_hold_the_units_asked_for(pool: Pool) -> None:
    columns = pool.subset(np.array([3, 7]))
    assert set(columns["unit_ids"].tolist()) == {3, 7}
    own = pool.columns["unit_ids"] == 7
    np.testing.assert_array_equal(columns["rewards"][columns["unit_ids"] == 7], pool.columns["rewards"][own])


def test_being_ahead_is_a_ratio_below_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.json", lambda key: {"key": key}, hyperparameters="none")
    store.put(SETTING.key("chain", "gpope"), dataset="d", seed=0, values={"rmse": [0.5, 0.7]})
    (behind,) = ahead(0.3, store, "chain", SETTING, ["gpope"])
    assert behind.value == pytest.approx(0.5)
    assert behind.holds
    (lost,) = ahead(0.9, store, "chain", SETTING, ["gpope"])
    assert not lost.holds


def test_a_picture_has_a_line_for_every_curve(tmp_path: Path) -> None:
    curves = [Curve("one", [1, 10], [0.5, 0.05]), Curve("two", [1, 10], [0.7, 0.7], flat=True)]
    draw([Panel("error", "units", curves)] * 3, "errors", tmp_path / "a.svg")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    lines = [node for node in root.iter() if node.get("class", "").startswith("line")]
    assert len(lines) == 3 * 2 + 2
    assert root.find("{http://www.w3.org/2000/svg}title") is not None


EXPERIMENTS = (
    figure3_budget,
    gpope_chain,
    gpope_chain_baselines,
    gpope_hiv,
    gpope_mountain_car,
    ope_accounting,
    ope_estimators,
    ope_open_bandit,
    ope_random_mdp,
    table14_accounting,
)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.__name__.split(".")[-1])
def test_every_stored_row_is_asked_for_and_was_made_with_what_is_asked_for(experiment: ModuleType) -> None:
    results: Store = experiment.store()
    keys = experiment.rows()
    assert len(keys) == len(set(keys))
    assert set(keys) == set(results.rows)
    assert all(results.stored(key) is not None for key in keys)
    assert [key for key in keys if not results.has(key)] == []


def test_rows_that_differ_in_their_seed_alone_have_equal_configurations() -> None:
    first, second = (ope_open_bandit.configuration(f"men/epsilon=1/seed={seed}") for seed in (0, 1))
    assert first == second != ope_open_bandit.configuration("men/epsilon=10/seed=0")
    kinds = {str(ope_open_bandit.configuration(key)) for key in ope_open_bandit.rows()}
    assert len(kinds) == 3 * (1 + len(ope_open_bandit.EPSILONS))


def later_gpope(domain: ope_methods.Domain, **fields: Any) -> ope.Gpope:
    plan = ope.Gpope(problem=domain.problem, features=domain.features, value_share=0.0)
    return dataclasses.replace(plan, **{"steps": 50, **fields})


def later_lstd(domain: ope_methods.Domain, clip: float, share: float) -> Any:
    base = {"problem": domain.problem, "features": domain.features}
    return ope.SufficientStatistics(**base, clip_norm=2 * clip, value_share=share)


@pytest.mark.parametrize(
    ("experiment", "key", "place", "name", "value", "setting"),
    [
        (
            gpope_chain_baselines,
            "chain/gpope/m=1000/epsilon=1/replace_one",
            ope_baselines,
            "gpope_plan",
            later_gpope,
            "method.plan.steps: 100 stored, 50 asked",
        ),
        (
            gpope_mountain_car,
            "mountain_car_on/dp_lstd/m=300/epsilon=1/add_or_remove",
            ope_baselines,
            "ope_ssp",
            later_lstd,
            "method.plan.clip_norm: 1.0 stored, 2.0 asked",
        ),
        (
            gpope_hiv,
            "hiv/residual/m=1000/epsilon=1/add_or_remove",
            gpope_hiv,
            "POOLED",
            dataclasses.replace(gpope_hiv.POOLED, pool=2_000),
            "pool: 4000 stored, 2000 asked",
        ),
        (
            ope_random_mdp,
            "random_mdp/residual/m=1000/epsilon=1/replace_one",
            ope_methods,
            "TRIALS",
            50,
            "trials: 100 stored, 50 asked",
        ),
        (
            ope_estimators,
            "random_mdp/wpdis/epsilon=1",
            ope_estimators,
            "DATA_SETS",
            200,
            "data_sets: 500 stored, 200 asked",
        ),
        (
            ope_accounting,
            "noise/epsilon=1",
            ope_accounting,
            "STEPS",
            500,
            "steps: 1000 stored, 500 asked",
        ),
        (
            table14_accounting,
            "umaze/epsilon=10",
            table14_accounting,
            "BATCH",
            256,
            "training.batch: 128 stored, 256 asked",
        ),
    ],
)
def test_a_row_fails_once_another_setting_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    experiment: ModuleType,
    key: str,
    place: Any,
    name: str,
    value: Any,
    setting: str,
) -> None:
    assert experiment.store().has(key)
    monkeypatch.setattr(place, name, value)
    later: Store = experiment.store()
    assert not later.has(key)
    assert setting in later.changes(key)
    with pytest.raises(LookupError, match="another configuration"):
        later.values(key)


def test_a_clip_of_a_default_plan_is_part_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "men/epsilon=1/seed=0"

    def later(target: np.ndarray) -> dict[str, ope.Plan]:
        return before(target) | {"pdis": ope.ImportanceSampling(problem=problem, weighting="pdis", clip=3.0)}

    before, problem = ope_open_bandit.plans, ope.Problem(gamma=1.0, horizon=1)
    monkeypatch.setattr(ope_open_bandit, "plans", later)
    assert ope_open_bandit.store().changes(key) == ["plans.pdis.clip: null stored, 3.0 asked"]


def test_a_key_names_its_domain_method_and_setting() -> None:
    assert named(SETTING.key("chain", "gpope")) == ("chain", "gpope", SETTING)
    assert named("hiv/zero/m=300") == ("hiv", "zero", Setting(300))
