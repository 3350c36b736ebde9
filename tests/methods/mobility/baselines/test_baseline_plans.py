"""Baselines through the vault: promises, parts, and what comes out for a small city."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from tacit.data.mobility.days import Days
from tacit.errors import PlanError, TacitError
from tacit.evaluation.movement.divergences import sequence_divergences
from tacit.methods.mobility import baselines
from tacit.methods.mobility.baselines import BaselinePlan, fit, fit_replicates
from tacit.methods.mobility.moves import MOVES_PART
from tacit.methods.mobility.places import JUMPS, STARTS
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.city import city

PEOPLE, DELTA = 400, 1e-4
UNIT = Unit("person", "add_or_remove", PEOPLE)
CITY = city(PEOPLE, 6, seed=3, preset="geolife").days
MODELS = ("table", "epr", "timegeo", "markov")


def vault(folder: Path, ledgers: int = 1, seed: int = 0, days: Days = CITY) -> Vault:
    held = [Ledger(folder / f"{seed}-{i}", UNIT, epsilon=1e6, delta=DELTA, composition=SUM) for i in range(ledgers)]
    return Vault(days.trajectories(simulated=True), held, noise=SecretNoise.for_tests(seed))


def noiseless(plan: BaselinePlan) -> BaselinePlan:
    return dataclasses.replace(plan, noise_multiplier=0.0).account(unit=UNIT, delta=DELTA)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_keeps_its_promise_in_parts_that_share_rho(model: baselines.Model) -> None:
    plan = BaselinePlan(model=model, days=6).calibrate(unit=UNIT, epsilon=2.0, delta=DELTA)
    assert plans.certified_bound(plan).epsilon <= 2.0
    rho = {part.name: 1 / (part.noise_multiplier or 1.0) ** 2 for part in plan.parts()}
    assert sum(rho.values()) == pytest.approx(1 / (plan.noise_multiplier or 1.0) ** 2)
    assert rho[STARTS] / sum(rho.values()) == pytest.approx(0.30)
    assert (JUMPS in rho) == (model != "markov")
    assert rho[MOVES_PART] / sum(rho.values()) == pytest.approx(0.70 if model == "markov" else 0.55)
    assert BaselinePlan.from_json(plans.public_fields(plan)) == plan
    assert "promises (2" in str(plan)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_makes_days_on_the_grid(model: baselines.Model, tmp_path: Path) -> None:
    plan = BaselinePlan(model=model, days=6).calibrate(unit=UNIT, epsilon=5.0, delta=DELTA)
    release = fit(plan, vault(tmp_path), grid=CITY.grid)
    made = release.value.generate(300, seed=1)
    assert made.cells.shape == (300, 48)
    assert made.grid == CITY.grid
    assert np.array_equal(made.cells, release.value.generate(300, seed=1).cells)
    assert release.certificate.method == "baseline simulator of movement"


def test_more_states_come_nearer_to_people_and_silence_does_not(tmp_path: Path) -> None:
    def seq(number: int, plan: BaselinePlan) -> float:
        made = fit(plan, vault(tmp_path, seed=number), grid=CITY.grid).value.generate(2_000)
        return sequence_divergences(CITY, made)["SEQ"]

    table, epr, rhythm = (
        seq(i, noiseless(BaselinePlan(model=m, days=6))) for i, m in enumerate(("table", "epr", "timegeo"))
    )
    calibrated = BaselinePlan(days=6, model="table", zero_contribution=True).calibrate(
        unit=UNIT, epsilon=2.0, delta=DELTA
    )
    silent = seq(3, calibrated)
    assert table < 0.6 * epr
    assert rhythm < epr
    assert silent > 2 * table


def test_replicates_are_one_simulator_a_ledger(tmp_path: Path) -> None:
    plan = BaselinePlan(model="epr", days=6).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    found = fit_replicates(plan, vault(tmp_path, 3), grid=CITY.grid)
    tables = [simulator.policy.table for simulator in found]
    assert len(found) == 3
    assert not np.array_equal(tables[0], tables[1])
    assert np.abs(tables[0] - tables[1]).max() < 0.1
    markov = BaselinePlan(model="markov", days=6).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    with pytest.raises(PlanError, match="each ledger's own"):
        fit_replicates(markov, vault(tmp_path, 2, seed=1), grid=CITY.grid)


def test_a_plan_runs_once_and_only_on_its_grid(tmp_path: Path) -> None:
    plan = BaselinePlan(model="epr", days=6).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    opened = vault(tmp_path)
    with pytest.raises(PlanError, match="not days on this grid"):
        fit(plan, opened, grid=CITY.grid.coarse_grid(2))
    fit(plan, opened, grid=CITY.grid)
    with pytest.raises(TacitError):
        fit(plan, opened, grid=CITY.grid)


def test_people_without_days_and_odd_days_are_no_error(tmp_path: Path) -> None:
    some = Days(CITY.cells[:40], CITY.person[:40], CITY.grid)
    still = Days(np.repeat(some.cells[:, :1], 48, axis=1), some.person, some.grid)
    for number, model in enumerate(MODELS):
        release = fit(
            noiseless(BaselinePlan(model=model, days=2)), vault(tmp_path, seed=number, days=still), grid=CITY.grid
        )
        assert math.isinf(release.certificate.epsilon)
        assert (np.diff(release.value.generate(50).cells, axis=1) == 0).mean() > 0.9


@pytest.mark.parametrize(
    ("field", "value"), [("model", "gan"), ("days", 0), ("invalid", "explode"), ("noise_multiplier", -1.0)]
)
def test_bad_plans_are_named(field: str, value: object) -> None:
    with pytest.raises(PlanError, match=field):
        BaselinePlan(**{field: value})  # type: ignore[arg-type]
