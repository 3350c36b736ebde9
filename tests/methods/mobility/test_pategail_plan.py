"""Plans of PateGAIL++: what they cost, what they refuse, and whole runs through the door."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid
from tacit.envs.spaces import JumpLaw
from tacit.errors import PlanError
from tacit.methods.mobility.pategail import Critic, Embedding, PateGailPlan, Ppo, build_contributions, fit, recipe
from tacit.methods.mobility.pategail.plan import CRITICS, Kind
from tacit.methods.mobility.places import StartDistribution
from tacit.methods.mobility.simulator import Simulator
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.units import Unit

PEOPLE, DELTA = 12, 1e-3
UNIT = Unit("person", "add_or_remove", PEOPLE)
GEOLIFE = Unit("person", "replace_one", 83)
GRID = RegularGrid(30.0, 100.0, 30.45, 100.45, 0.05)
KINDS: tuple[Kind, ...] = ("samples", "table", "linear", "gradient")


def small(kind: Kind = "table", **fields: Any) -> PateGailPlan:
    flat = kind == "gradient"
    settings: dict[str, Any] = {
        "people": PEOPLE,
        "kind": kind,
        "rounds": 3,
        "queries": 20,
        "days": 10,
        "updates": 1,
        "clip_norm": 0.5 if kind in ("linear", "gradient") else None,
        "critic": Critic(hidden=(4,), steps=2, batch=8),
        "ppo": Ppo(hidden=() if flat else (4,), epochs=2, value_steps=2),
        "rows_per_unit": 2 * (SLOTS - 1),
    }
    return PateGailPlan(**settings | fields)


def people(count: int = PEOPLE) -> Days:
    rng = np.random.default_rng(0)
    cells = np.repeat(rng.integers(0, GRID.size, (2 * count, 6)), 8, axis=1)
    return Days(cells, np.repeat(np.arange(count), 2), GRID)


def run(plan: PateGailPlan, folder: Path, **arguments: Any) -> Release[Simulator]:
    with Ledger(folder / "ledger", UNIT, epsilon=1e6, delta=2 * DELTA, composition=SUM) as ledger:
        vault = FederatedVault(StackedDevices(people().trajectories(simulated=True)), ledger)
        return fit(plan, vault, grid=GRID, **arguments)


def test_even_noise_without_compensation_has_the_honest_epsilon() -> None:
    """141 rewards in 50 updates among 83 people, delta 1e-5: 90 at the paper's 0.1, which it does not say."""
    plan = replace(PateGailPlan.paper(83, scale=0.1, variant="PATEGAIL", starts="given"), beta=0.0)
    priced = plan.account(unit=GEOLIFE, delta=1e-5)
    assert 88 <= priced.epsilon <= 93
    assert (priced.rounds, priced.queries) == (50, 141)
    assert "Laplace" in str(priced)


def test_copied_starts_cost_everything() -> None:
    priced = PateGailPlan.paper(83).account(unit=GEOLIFE, delta=1e-5)
    assert priced.epsilon == math.inf
    assert "NOTHING" in str(priced)
    for one in (priced, PateGailPlan.paper(83, starts="given")):
        with pytest.raises(PlanError, match="paper"):
            one.calibrate(unit=GEOLIFE, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_all_rounds_starts_and_jumps_cost_one_gaussian(kind: Kind) -> None:
    plan = small(kind).calibrate(unit=UNIT, epsilon=2.0, delta=DELTA)
    assert plan.noise_multiplier is not None
    rho = sum(part.steps / part.noise_multiplier**2 for part in plan.parts() if part.noise_multiplier)
    assert rho == pytest.approx(1 / plan.noise_multiplier**2)
    longer = replace(small(kind), rounds=50).calibrate(unit=UNIT, epsilon=2.0, delta=DELTA)
    assert longer.noise_multiplier == pytest.approx(plan.noise_multiplier, rel=1e-3)


@pytest.mark.parametrize("noise", ["server", "shared", "device"])
def test_who_adds_the_noise_is_the_plan_s(noise: Any) -> None:
    plan = small(noise=noise, floor=PEOPLE if noise == "shared" else None)
    plan = plan.calibrate(unit=UNIT, epsilon=2.0, delta=DELTA)
    bound = accounting.epsilon(plans.event(plan), delta=DELTA, relation="add_or_remove")
    assert bound.epsilon <= 2.0
    assert {type(part).__name__ for part in plan.parts()} == {"PoissonSum" if noise == "server" else "DeviceSum"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_through_the_door(kind: Kind, tmp_path: Path) -> None:
    release = run(small(kind).calibrate(unit=UNIT, epsilon=5.0, delta=DELTA), tmp_path)
    made = release.value.generate(40, seed=1)
    assert made.cells.shape == (40, SLOTS)
    assert np.array_equal(made.cells, release.value.generate(40, seed=1).cells)
    assert release.certificate.epsilon <= 5.0
    assert Simulator.from_json(release.value.to_json()).policy.kinds == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "samples", "beta": 0.5},
        {"beta": 0.5, "allocation": "paper"},
        {"kind": "samples", "allocation": "utility", "smooth": False},
        {"critic": Critic(hidden=(4,), steps=2, batch=8, loss="cross_entropy", penalty=0.0), "last": False},
        {"critic": Critic(hidden=(4, 4), steps=2, batch=8, spectral=True)},
        {"zero_contribution": True},
        {"memory": 0.5},
        {"kind": "samples", "memory": 0.5},
        {"noise": "device"},
        {"embedding": Embedding(harmonics=0)},
    ],
    ids=lambda fields: "-".join(fields),
)
def test_every_option_runs(fields: dict[str, Any], tmp_path: Path) -> None:
    plan = small(**fields).calibrate(unit=UNIT, epsilon=5.0, delta=DELTA)
    made = run(plan, tmp_path).value
    assert made.generate(5).cells.shape == (5, SLOTS)
    assert "nan" not in str(made.to_json()).lower()  # also where a product of matrices was called invalid


@pytest.mark.parametrize(
    "fields",
    [{}, {"variant": "PATEGAIL"}, {"local": True}, {"local": True, "sensitivity": False}, {"scale": 0.0}],
    ids=lambda fields: "-".join(fields),
)
def test_the_paper_s_mode_runs_and_says_infinite(fields: dict[str, Any], tmp_path: Path) -> None:
    older = fields.get("variant") == "PATEGAIL"
    critic = Critic(steps=1, batch=8, loss="cross_entropy" if older else "wasserstein")
    plan = PateGailPlan.paper(PEOPLE, critic=critic, **fields)
    plan = replace(plan, rounds=2, rows_per_unit=2 * (SLOTS - 1))
    release = run(plan.account(unit=UNIT, delta=DELTA), tmp_path)
    assert release.certificate.epsilon == math.inf
    assert release.value.generate(3).cells.shape == (3, SLOTS)


def test_given_starts_are_used_and_named(tmp_path: Path) -> None:
    plan = small(starts="given").calibrate(unit=UNIT, epsilon=5.0, delta=DELTA)
    assert [part.name for part in plan.parts()] == [CRITICS]
    assert set(build_contributions(plan, GRID)) == {CRITICS}
    starts, space = StartDistribution.uniform(GRID), JumpLaw(GRID, (1.0, 5.0), (1.0,))
    release = run(plan, tmp_path, starts=starts, space=space)
    assert release.value.starts is starts
    assert any("declared public" in words for words in release.certificate.lines("not_covered"))


def test_an_own_allocation_is_asked_with_public_values(tmp_path: Path) -> None:
    seen: list[tuple[int, ...]] = []

    def allocate(pilot: np.ndarray, share: np.ndarray) -> np.ndarray:
        seen.append((*pilot.shape, *share.shape))
        assert np.abs(pilot).max() <= 0.5
        assert share.sum() <= 1 + 1e-9
        return np.exp(pilot)

    plan = small("samples", allocation="own").calibrate(unit=UNIT, epsilon=5.0, delta=DELTA)
    run(plan, tmp_path, allocate=allocate)
    assert seen == [(20, 20)] * 4  # it was tried before anything was spent


def test_without_noise_a_run_is_that_of_its_seed(tmp_path: Path) -> None:
    """Weights of the policy depend on the devices' own seeds too, which are secret: only the control is repeatable."""
    plan = small(zero_contribution=True, starts="given", noise_multiplier=0.0).account(unit=UNIT, delta=DELTA)
    starts, space = StartDistribution.uniform(GRID), JumpLaw(GRID, (1.0, 5.0), (1.0,))
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        found.append(run(plan, tmp_path / name, starts=starts, space=space, seed=3).value.policy)
    assert np.array_equal(found[0].table, found[1].table)


@pytest.mark.parametrize("kind", KINDS)
def test_plans_come_back_from_json(kind: Kind) -> None:
    for plan in (small(kind), small(kind).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA), recipe(kind, 1_000)):
        assert PateGailPlan.from_json(plans.public_fields(plan)) == plan
    with pytest.raises(PlanError, match="missing or unknown"):
        PateGailPlan.from_json(plans.public_fields(small(kind)) | {"colour": 1})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [83, 1_000, 9_481])
def test_recipes_are_plans(kind: Kind, number: int) -> None:
    for epsilon in (2.0, 10.0, math.inf):
        plan = recipe(kind, number, epsilon)
        assert (plan.kind, plan.people) == (kind, number)
    plan = recipe(kind, number)
    unit = Unit("person", "add_or_remove", number)
    assert plan.calibrate(unit=unit, epsilon=2.0, delta=1e-5).epsilon == 2.0


@pytest.mark.parametrize(
    "fields",
    [
        {"rounds": 0},
        {"memory": 1.0},
        {"kind": "votes"},
        {"allocation": "greedy"},
        {"starts": "real"},
        {"shares": (0.6, 0.5)},
        {"clip_norm": 0.0},
        {"clip_norm": 0.5, "beta": 0.1},
        {"kind": "linear", "clip_norm": None},
        {"kind": "gradient", "clip_norm": None},
        {"kind": "gradient", "ppo": Ppo(hidden=(8,))},
        {"kind": "gradient", "allocation": "paper"},
        {"kind": "linear", "zero_contribution": True},
        {"laplace": 0.1},
        {"kind": "samples", "laplace": -0.1},
        {"rows_per_unit": 46},
    ],
)
def test_a_plan_refuses_what_cannot_be(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        small(**{"kind": "table", **fields})


def test_arguments_have_to_fit_the_plan(tmp_path: Path) -> None:
    plan = small().calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    with pytest.raises(PlanError, match="starts"):
        run(plan, tmp_path, starts=StartDistribution.uniform(GRID))
    with pytest.raises(PlanError, match="allocate"):
        run(plan, tmp_path, allocate=lambda pilot, share: share)
    with pytest.raises(PlanError, match="people"):
        small().calibrate(unit=Unit("person", "add_or_remove", 13), epsilon=1.0, delta=DELTA)
