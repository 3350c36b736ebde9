"""One-shot imitation through vaults: its price, its parts, what comes out, what is refused and certified."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.geolife import PEOPLE as GEOLIFE_PEOPLE
from tests.geolife import geolife

from tacit.data.mobility.days import Days
from tacit.errors import PlanError, PlanExhausted
from tacit.evaluation.movement.divergences import reference_divergences, sequence_divergences
from tacit.methods import mobility
from tacit.methods.mobility import Matching, OneShotPlan, Shares, StateLayout, Weights, largest_layout
from tacit.methods.mobility.baselines import BaselinePlan as Baseline
from tacit.methods.mobility.baselines import fit_replicates as baseline_replicates
from tacit.methods.mobility.moves import MOVES_PART
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.sentences import clauses, say
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.city import city

PEOPLE, DELTA = 300, 1e-4
UNIT = Unit("person", "add_or_remove", PEOPLE)
CITY = city(PEOPLE, 6, seed=3, preset="geolife").days
QUICK = Matching(rounds=6, days=1_000)
SIX_DAYS = OneShotPlan(days=6, matching=QUICK)


def calibrated(plan: OneShotPlan = SIX_DAYS, epsilon: float = 2.0) -> OneShotPlan:
    return plan.calibrate(unit=UNIT, epsilon=epsilon, delta=DELTA)


def ledger(folder: Path, name: str = "ledger", unit: Unit = UNIT, delta: float = DELTA) -> Ledger:
    return Ledger(folder / name, unit, epsilon=1e6, delta=delta, composition=SUM)


def vault(folder: Path, ledgers: int = 1, days: Days = CITY, seed: int = 0) -> Vault:
    held = [ledger(folder, f"{seed}-{i}") for i in range(ledgers)]
    return Vault(days.trajectories(simulated=True), held, noise=SecretNoise.for_tests(seed))


def test_the_plan_costs_one_gaussian() -> None:
    plan = calibrated()
    assert plan.noise_multiplier is not None
    assert accounting.mu_gdp(plans.event(plan), "add_or_remove") == pytest.approx(1 / plan.noise_multiplier)
    assert plans.certified_bound(plan).epsilon <= 2.0
    shares = {part.name: (plan.noise_multiplier / (part.noise_multiplier or 0)) ** 2 for part in plan.parts()}
    assert shares == pytest.approx({"moves": 0.55, "starts": 0.30, "jumps": 0.15})


@pytest.mark.parametrize(
    ("people", "epsilon", "states"),
    [
        (83, 1, 24),
        (83, 2, 24),
        (83, 5, 48),
        (83, 10, 48),
        (200, 8, 48),
        (1_000, 2, 48),
        (9_481, 1, 48),
        (9_481, 2, 768),
        (83, math.inf, 768),
    ],
)
def test_the_k_rule(people: int, epsilon: float, states: int) -> None:
    layout = OneShotPlan.for_people(people, epsilon, delta=1e-5).layout
    assert layout is not None
    assert layout.size == states


def test_the_k_rule_is_about_the_noise_alone() -> None:
    assert [largest_layout(signal).size for signal in (0.0, 15.9, 16.0, 31.9, 32.0, math.inf)] == [
        6,
        6,
        24,
        24,
        48,
        768,
    ]
    plan = calibrated()
    signal = PEOPLE / (plan.noise_multiplier or 0) * math.sqrt(0.55)
    assert plan.layout == largest_layout(signal)
    own = StateLayout(times=2)
    assert calibrated(dataclasses.replace(SIX_DAYS, layout=own)).layout == own


@pytest.mark.parametrize(
    ("people", "exploring", "weights"),
    [
        (83, "even", Weights(stay=0.2, day=0.2)),
        (499, "even", Weights(stay=0.2, day=0.2)),
        (500, "gravity", Weights(stay=0.2, day=0.2)),
        (4_999, "gravity", Weights(stay=0.2, day=0.2)),
        (5_000, "gravity", Weights(stay=0.5, day=0.02)),
    ],
)
def test_the_rules_of_people(people: int, exploring: str, weights: Weights) -> None:
    unit = dataclasses.replace(UNIT, population=people)
    for epsilon in (0.5, 8.0):
        plan = OneShotPlan().calibrate(unit=unit, epsilon=epsilon, delta=DELTA)
        assert (plan.exploring, plan.weights) == (exploring, weights)
    nowhere = OneShotPlan(shares=Shares(starts=0.0)).calibrate(unit=unit, epsilon=2.0, delta=DELTA)
    assert nowhere.exploring == "even"
    own = OneShotPlan(exploring="gravity", weights=Weights(day=0.1)).calibrate(unit=unit, epsilon=2.0, delta=DELTA)
    assert (own.exploring, own.weights) == ("gravity", Weights(day=0.1))


def test_local_noise_bears_fewer_states() -> None:
    device = calibrated(dataclasses.replace(SIX_DAYS, noise="device"))
    server = calibrated()
    assert device.noise_std(MOVES_PART) == pytest.approx(server.noise_std(MOVES_PART) * math.sqrt(PEOPLE), rel=1e-6)
    assert device.layout is not None
    assert device.layout.size == 6


def test_a_noiseless_price_is_infinite() -> None:
    plan = dataclasses.replace(SIX_DAYS, noise_multiplier=0.0).account(unit=UNIT, delta=DELTA)
    assert plan.epsilon == math.inf
    assert plan.layout is not None
    assert plan.layout.size == 768


def test_a_simulator_is_released_once_with_its_certificate(tmp_path: Path) -> None:
    plan, held = calibrated(), vault(tmp_path)
    release = mobility.fit(plan, held, grid=CITY.grid)
    days = release.value.generate(2_000, seed=1)
    assert days.cells.max() < CITY.grid.size
    np.testing.assert_array_equal(days.cells, release.value.generate(2_000, seed=1).cells)
    assert sequence_divergences(CITY, days)["SEQ"] < 0.03
    assert release.certificate.epsilon <= 2.0
    with pytest.raises(PlanExhausted):
        mobility.fit(plan, held, grid=CITY.grid)


def test_replicates_have_noise_of_their_own(tmp_path: Path) -> None:
    plan = calibrated()
    one, two = mobility.fit_replicates(plan, vault(tmp_path, ledgers=2), grid=CITY.grid)
    assert isinstance(one.policy, mobility.TablePolicy)
    assert isinstance(two.policy, mobility.TablePolicy)
    assert not np.array_equal(one.policy.table, two.policy.table)
    with pytest.raises(PlanError, match="2 ledgers"):
        mobility.fit(plan, vault(tmp_path, ledgers=2, seed=1), grid=CITY.grid)


@pytest.mark.parametrize("noise", ["server", "shared"])
def test_the_same_over_devices(tmp_path: Path, noise: Any) -> None:
    plan = calibrated(dataclasses.replace(SIX_DAYS, noise=noise), epsilon=4.0)
    devices = StackedDevices(CITY.trajectories(simulated=True))
    release = mobility.fit(plan, FederatedVault(devices, ledger(tmp_path)), grid=CITY.grid)
    assert sequence_divergences(CITY, release.value.generate(2_000))["SEQ"] < 0.03
    assert set(mobility.build_contributions(plan, CITY.grid)) == {part.name for part in plan.parts()}


def test_without_people_only_noise_is_left(tmp_path: Path) -> None:
    silent = calibrated(dataclasses.replace(SIX_DAYS, zero_contribution=True))
    (nothing,) = mobility.fit_replicates(silent, vault(tmp_path), grid=CITY.grid)
    (something,) = mobility.fit_replicates(calibrated(), vault(tmp_path, seed=1), grid=CITY.grid)
    far, near = (sequence_divergences(CITY, one.generate(2_000))["SEQ"] for one in (nothing, something))
    assert near < 0.5 * far


def test_starts_may_be_left_out(tmp_path: Path) -> None:
    south, west, north, east = 39.85, 116.3, 39.95, 116.5
    plan = calibrated(dataclasses.replace(SIX_DAYS, shares=Shares(starts=0.0), box=(south, west, north, east)))
    assert [part.name for part in plan.parts()] == ["moves", "jumps"]
    release = mobility.fit(plan, vault(tmp_path), grid=CITY.grid)
    lat, lon = CITY.grid.centres(release.value.generate(500).cells[:, 0]).T
    assert south - 0.01 < lat.min() <= lat.max() < north + 0.01
    assert west - 0.01 < lon.min() <= lon.max() < east + 0.01
    assert any("uniform" in line for line in release.certificate.lines("not_covered"))


def test_a_small_population_is_told_what_it_cannot_have() -> None:
    unit = Unit("person", "add_or_remove", 83)
    few = OneShotPlan().calibrate(unit=unit, epsilon=2.0, delta=1e-5)
    many = OneShotPlan().calibrate(unit=dataclasses.replace(unit, population=9_481), epsilon=2.0, delta=1e-5)
    cautions = ([say(line, "person") for line in clauses(one.label().not_protected)] for one in (few, many))
    assert [sum("origin-destination" in line for line in lines) for lines in cautions] == [1, 0]


@pytest.mark.parametrize("plan", [SIX_DAYS, calibrated(), calibrated(OneShotPlan(box=(39.0, 116.0, 41.0, 117.0)))])
def test_plans_survive_json(plan: OneShotPlan) -> None:
    assert OneShotPlan.from_json(plans.public_fields(plan)) == plan
    with pytest.raises(PlanError, match="missing or unknown"):
        OneShotPlan.from_json({"layout": None})


def test_broken_uses_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="calibrate the plan"):
        mobility.fit(SIX_DAYS, vault(tmp_path), grid=CITY.grid)
    with pytest.raises(PlanError, match="not days on this grid"):
        mobility.fit(calibrated(), vault(tmp_path, seed=1), grid=CITY.grid.coarse_grid(2))
    for fields in ({"days": 0}, {"noise": "all"}, {"floor": 3}, {"weights": Weights(day=0.0)}):
        with pytest.raises(PlanError, match=next(iter(fields))):
            OneShotPlan(**fields)  # type: ignore[arg-type]
    for fields in ({"exploring": "far"}, {"exploring": "gravity", "shares": Shares(starts=0.0)}):
        with pytest.raises(PlanError, match="exploring"):
            OneShotPlan(**fields)  # type: ignore[arg-type]
    for shares in ((0.6, 0.4), (-0.1, 0.1), (0.3, 0.0)):
        with pytest.raises(PlanError, match="shares"):
            Shares(starts=shares[0], jumps=shares[1])


@pytest.mark.slow  # its code is pinned by golden runs, its figures by the rows of the experiments
def test_geolife_at_epsilon_two(tmp_path: Path) -> None:
    """The targets of this method on real days, everything private, two draws of the noise."""
    days, unit = geolife()["days"], Unit("person", "add_or_remove", GEOLIFE_PEOPLE)
    plan = OneShotPlan().calibrate(unit=unit, epsilon=2.0, delta=1e-5)

    def opened(seed: int) -> Vault:
        held = [ledger(tmp_path, f"{seed}-{i}", unit, 1e-5) for i in range(2)]
        return Vault(days.trajectories(simulated=True), held, noise=SecretNoise.for_tests(seed))

    ours = [one.generate(4_000) for one in mobility.fit_replicates(plan, opened(0), grid=days.grid)]
    table = Baseline(model="table", layout=plan.layout or StateLayout())
    table = table.calibrate(unit=unit, epsilon=2.0, delta=1e-5)
    theirs = [one.generate(4_000) for one in baseline_replicates(table, opened(1), grid=days.grid)]
    found = [sequence_divergences(days, one) for one in ours]
    assert np.mean([one["SEQ"] for one in found]) <= 0.022
    assert np.mean([one["DailyLoc"] for one in found]) <= 0.035
    assert np.mean([one["Motif"] for one in found]) <= 0.08
    assert np.mean([reference_divergences(days, one)["I-rank"] for one in ours]) <= 0.010
    assert np.mean([one["SEQ"] for one in found]) <= 0.85 * np.mean(
        [sequence_divergences(days, one)["SEQ"] for one in theirs]
    )
