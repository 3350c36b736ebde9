"""Settings that stood inside runs: one that is changed in memory makes the stored rows others, and runs use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from experiments.experts.experts_recipes import recipes
from experiments.lib.configuration import calls, describe
from experiments.lib.store import Store
from experiments.privorl.parts import synthesis_ways, trajectory_ways

from experiments.beyond import audits
from experiments.dppg import dppg_audit, dppg_frontier, dppg_riverswim, dppg_runs, dppg_table1, trust_region_coverage
from experiments.experts import experts_accounting, experts_histograms, experts_prefixes, experts_runs, experts_table
from experiments.gpope import gpope_chain, gpope_hiv, gpope_mountain_car, mountain_car, ope_estimators, ope_random_mdp
from experiments.privorl import table1_transitions, table2_trajectories, table3_fidelity
from tacit import experts as learning
from tacit import policy_gradient as pg
from tacit.agents.networks import Mlp
from tacit.methods.off_policy_evaluation import residual
from tacit.methods.policy_gradient.plan import PolicyGradientPlan
from tacit.methods.synthesis import discretisation
from tacit.units import Promise, Unit
from tacit_worlds import acrobot, cart_pole, dosing, hiv, lunar_lander, populations, river_swim
from tacit_worlds.acrobot import Acrobot

CACHED: tuple[Any, ...] = (
    audits.configuration,
    gpope_chain.domain,
    gpope_hiv.domain,
    gpope_mountain_car.domain,
    ope_random_mdp.domain,
    ope_estimators.records,
    synthesis_ways.matching_settings,
    synthesis_ways.configuration,
    trajectory_ways.configuration,
)


def forget() -> None:
    """Domains and configurations are made once a process."""
    for cached in CACHED:
        cached.cache_clear()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


def refused(experiment: ModuleType, key: str, words: str) -> None:
    """As `check` refuses it: the row is there, it does not count, and the setting is named."""
    forget()
    results: Store = experiment.store()
    assert key in results.rows
    assert not results.has(key)
    assert any(change.startswith(words) for change in results.changes(key)), results.changes(key)
    with pytest.raises(LookupError, match="another configuration"):
        results.values(key)


def changed(setting: str, value: Any) -> Callable[[Any], Any]:
    """Recipes with one setting changed."""
    return lambda name: replace(recipes(name), **{setting: value})


EXPERTS, PREFIXES, JOINT = "hiv/good/consensus_only/100", "m=3000/n=25/epsilon=5", "joint"
RIVER, FRONTIER = "recipe/last=0.6/epsilon=1", "cart_pole/local/toeplitz/epsilon=1.0"
HIV, CAR = "hiv/residual/m=1000/epsilon=1/add_or_remove", "mountain_car_on/dp_lstd/m=300/epsilon=1/add_or_remove"
PERSON = "person"
CONTROLS = dppg_table1.CONTROLS


@pytest.mark.parametrize(
    ("experiment", "key", "place", "name", "value", "words"),
    [
        (
            experts_table,
            EXPERTS,
            experts_table,
            "recipes",
            changed("alone_steps", 900),
            "ways.alone_steps: 1000 stored",
        ),
        (
            experts_table,
            EXPERTS,
            experts_table,
            "recipes",
            changed("alone_rate", 0.01),
            "ways.alone_rate: 0.001 stored",
        ),
        (
            experts_table,
            "hiv/good/noise/100",
            experts_table,
            "recipes",
            changed("silent", learning.ReturnWeight(low=1e8, high=2e8, sharpness=3.0)),
            "ways.silent.sharpness: 30.0 stored",
        ),
        (
            experts_table,
            "hiv/good/noise/100",
            experts_table,
            "recipes",
            changed("silent_epsilon", 2.0),
            "ways.silent_epsilon: 1.0 stored",
        ),
        (experts_table, EXPERTS, experts_runs, "DELTA", 1 / 3_000, "delta: 0.000166"),
        (experts_table, EXPERTS, hiv, "SPREAD", 0.3, "field.world.domain.SPREAD: 0.2 stored"),
        (
            experts_table,
            "cart_pole/good/votes/100",
            cart_pole,
            "SECONDS",
            0.01,
            "field.world.domain.SECONDS: 0.02 stored",
        ),
        (experts_table, "acrobot/good/votes/100", acrobot, "GRAVITY", 9.0, "field.world.domain.GRAVITY: 9.8 stored"),
        (experts_table, "acrobot/good/votes/100", populations, "GOOD", 0.1, "field.world.noise.good: 0.05 stored"),
        (experts_table, "lunar_lander/mixed/votes/100", populations, "FLOOR", 0.05, "field.world.floor: 0.02 stored"),
        (
            experts_table,
            "cart_pole/good/votes/100",
            populations,
            "DOUBLINGS",
            8,
            "field.world.gains.doublings: 16 stored",
        ),
        (experts_histograms, "hiv/mixed", hiv, "SUBSTEP", 0.1, "physics.domain.SUBSTEP: 0.01 stored"),
        (experts_histograms, "acrobot/mixed", populations, "WORST", 2.0, "physics.noise.worst: 1.2 stored"),
        (experts_histograms, "lunar_lander/good", lunar_lander, "REWARD", (-1.0, 1.0), "physics.spec.reward.high"),
        (experts_prefixes, PREFIXES, experts_prefixes, "OWN", 0.25, "shares of delta.own: 0.5 stored"),
        (experts_prefixes, PREFIXES, experts_prefixes, "SHARE", 0.25, "shares of delta.all: 0.5 stored"),
        (experts_prefixes, PREFIXES, experts_prefixes, "OVERFLOW", 0.1, "shares of delta.overflow: 0.01 stored"),
        (experts_accounting, JOINT, experts_accounting, "TARGET", 4.0, "target: 5.0 stored, 4.0 asked"),
        (experts_accounting, JOINT, experts_accounting, "OWN", 0.25, "own: 0.5 stored, 0.25 asked"),
        (
            experts_accounting,
            JOINT,
            experts_accounting,
            "JOINT",
            experts_accounting.JOINT | {"steps": 21_000},
            "settings.steps: 22000 stored, 21000 asked",
        ),
        (dppg_table1, "CartPole|dppg|1", dppg_runs, "DELTA", 1e-6, "delta: 1e-05 stored"),
        (
            dppg_table1,
            "CartPole|dppg|1",
            dppg_runs,
            "unit",
            lambda people: Unit(PERSON, "replace_one", people),
            'relation: "add_or_remove" stored, "replace_one" asked',
        ),
        (
            dppg_frontier,
            FRONTIER,
            dppg_runs,
            "unit",
            lambda people: Unit(PERSON, "replace_one", people),
            'relation: "add_or_remove" stored, "replace_one" asked',
        ),
        (
            dppg_riverswim,
            RIVER,
            dppg_runs,
            "unit",
            lambda people: Unit(PERSON, "replace_one", people),
            'relation: "add_or_remove" stored, "replace_one" asked',
        ),
        (
            dppg_audit,
            dppg_audit.CELLS[0].key,
            dppg_audit,
            "UNIT",
            Unit(PERSON, "replace_one", 240),
            'unit.relation: "add_or_remove" stored',
        ),
        (dppg_audit, dppg_audit.CELLS[0].key, dppg_audit, "DELTA", 1e-6, "delta: 1e-05 stored"),
        (dppg_audit, dppg_audit.CELLS[0].key, dppg_audit, "CLIP", 0.1, "plan.clip_norm: 0.05 stored"),
        (dppg_frontier, FRONTIER, dppg_frontier, "CURVE", 5, "curve: 10 stored, 5 asked"),
        (dppg_riverswim, RIVER, river_swim, "FORWARD", 0.4, "river.FORWARD: 0.35 stored, 0.4 asked"),
        (dppg_table1, "Dosing-1|ppo", dosing, "BASE", 900.0, "line.task.domain.BASE: 1000.0 stored, 900.0 asked"),
        (dppg_frontier, FRONTIER, cart_pole, "SECONDS", 0.01, "task.domain.SECONDS: 0.02 stored"),
        (
            trust_region_coverage,
            "network/users=8/sigma=1",
            trust_region_coverage,
            "NETWORK",
            Mlp((4, 32, 64, 2)),
            "spectrum.network.sizes[1]: 64 stored, 32 asked",
        ),
        (
            trust_region_coverage,
            "network/users=8/sigma=1",
            trust_region_coverage,
            "STATES",
            300,
            "spectrum.states: 400",
        ),
        (
            trust_region_coverage,
            "network/users=8/sigma=1",
            trust_region_coverage,
            "SPREAD",
            0.5,
            "spectrum.spread: 0.25",
        ),
        (
            trust_region_coverage,
            "river/users=1/sigma=1",
            trust_region_coverage,
            "RIGHT",
            1.0,
            "spectrum.right: 1.5 stored",
        ),
        *(
            (
                trust_region_coverage,
                key,
                trust_region_coverage,
                "DECAY",
                trust_region_coverage.DECAY | {"last": 1e-3},
                "spectrum.last: 0.0001 stored, 0.001 asked",
            )
            for key in ("decaying/users=1/sigma=1", "correlated/step=25")
        ),
        (gpope_hiv, HIV, hiv, "REWARD", (-1.0, 4.0), "domain.simulator.dynamics.REWARD[1]: 5.0 stored, 4.0 asked"),
        *(
            (experiment, key, residual, name, 77.0, f"{path}.{name}: {value} stored, 77.0 asked")
            for experiment, key, path in (
                (gpope_chain, "chain/residual/m=1000/epsilon=1/add_or_remove", "method.plan"),
                (gpope_hiv, HIV, "method.plan"),
                (ope_estimators, "chain/residual_on_policy/epsilon=1", "plan"),
                (ope_random_mdp, "random_mdp/residual/m=1000/epsilon=1/replace_one", "method.plan"),
            )
            for name, value in (("LOW_BUDGET", 60.0), ("INFLATION", 0.1), ("LEAST_SHRINKAGE", 0.02))
        ),
    ],
)
def test_a_setting_inside_a_run_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    experiment: ModuleType,
    key: str,
    place: ModuleType,
    name: str,
    value: Any,
    words: str,
) -> None:
    assert experiment.store().has(key)
    monkeypatch.setattr(place, name, value)
    refused(experiment, key, words)


@pytest.mark.parametrize(
    ("method", "setting", "value", "words"),
    [
        ("paper", "hidden", (32, 64), "control.hidden[0]: 64 stored, 32 asked"),
        ("paper", "restarts", False, "control.restarts: true stored, false asked"),
        ("noise_only", "plan", {"return_scale": 0.0, "horizon": 2}, "control.plan.horizon: 1 stored, 2 asked"),
        ("noise_only", "noise_of", 1, "control.noise_of: 0 stored, 1 asked"),
        ("ceiling", "clip_of", 0, "control.clip_of: 1 stored, 0 asked"),
    ],
)
def test_a_setting_of_a_control_of_policy_gradients_is_seen(
    monkeypatch: pytest.MonkeyPatch, method: str, setting: str, value: Any, words: str
) -> None:
    key = f"Acrobot|{method}" + ("|1" if method == "paper" else "")
    assert dppg_table1.store().has(key)
    monkeypatch.setitem(CONTROLS, method, CONTROLS[method] | {setting: value})
    refused(dppg_table1, key, words)
    assert dppg_table1.store().has("Acrobot|dppg|1")


def test_controls_of_policy_gradients_are_run_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[Any, float | None]] = []

    def private(line: Any, recipe: Any, level: float | None) -> dict[str, list[float]]:
        ran.append((recipe, level))
        return {}

    monkeypatch.setattr(dppg_table1, "private", private)
    line = dppg_table1.lines()[0]
    for method in ("paper", "noise_only", "ceiling"):
        dppg_table1.measured(line, method, 1.0 if method == "paper" else None)
    (paper, _), (noise, level), (ceiling, _) = ran
    assert paper.policy.network == pg.Policy.default(line.task.spec).network
    assert paper.restarts
    assert (noise.plan.return_scale, noise.plan.horizon, noise.horizon, level) == (0.0, 1, 1, 1.0)
    weaker = dppg_runs.calibrated(line.recipe.plan, 4.0)
    assert (ceiling.plan.noise_multiplier, ceiling.plan.bound) == (0.0, weaker.bound)


def test_a_better_accountant_leaves_the_rows_of_canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = dppg_audit.CELLS[0]
    priced = PolicyGradientPlan.account

    def better(plan: PolicyGradientPlan, *, unit: Unit, delta: float) -> PolicyGradientPlan:
        return replace(priced(plan, unit=unit, delta=delta), promise=Promise(unit, 1.0, delta))

    monkeypatch.setattr(PolicyGradientPlan, "account", better)
    assert cell.plan().epsilon == 1.0
    assert dppg_audit.store().has(cell.key)


@pytest.mark.parametrize("name", ["_INNER", "_EVEN"])
def test_the_cuts_of_bins_are_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = getattr(discretisation, name)
    for experiment, key, where in (
        (table1_transitions, "half_cheetah/td3_bc/aim/10/0", "table.plan.discretisation"),
        (table3_fidelity, "half_cheetah/aim/10/0", "table.plan.discretisation"),
        (table1_transitions, "umaze/iql/raked/1/0", "table.matching"),
        (table2_trajectories, "umaze/iql/tacit_j/1/0", "table.plan.matching"),
    ):
        assert experiment.store().has(key)
        monkeypatch.setattr(discretisation, name, 0.123)
        refused(experiment, key, f"{where}.{name}: {before} stored, 0.123 asked")
        monkeypatch.undo()
        forget()


def test_how_a_simulator_s_q_was_learnt_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The literals inside a call, without making it."""
    learn, fit, collect = mountain_car.learn, hiv.fit, hiv.collect
    assert gpope_mountain_car.store().has(CAR)
    assert gpope_hiv.store().has(HIV)

    def other_car() -> Any:
        low, high = mountain_car.LOW, mountain_car.HIGH
        car = mountain_car.MountainCar()
        public: dict[str, Any] = {"actions": 3, "low": low, "high": high, "order": 5, "gamma": mountain_car.GAMMA}
        return mountain_car.learn(
            car, car.starts, **public, rate=0.3, trace=0.9, epsilon=0.2, episodes=16, horizon=500, steps=60_000, seed=2
        )

    def other_patients() -> Any:
        columns: list[Any] = []
        policy = hiv.uniform_policy(hiv.ACTIONS)
        for seed in (0, 1):
            columns.append(hiv.collect(policy, 100, seed=seed))
            low, high, value = hiv.FEATURE_LOW, hiv.FEATURE_HIGH, (-50.0, 250.0)
            public: dict[str, Any] = {"actions": hiv.ACTIONS, "low": low, "high": high, "gamma": hiv.GAMMA}
            policy = hiv.epsilon_greedy(hiv.fit(columns, **public, order=5, coupled=False, value=value), 0.2)

    monkeypatch.setattr(mountain_car, "learned_q", other_car)
    monkeypatch.setattr(hiv, "learned_q", other_patients)
    refused(gpope_mountain_car, CAR, "domain.simulator.behaviour.learned[0].episodes: 32 stored, 16 asked")
    refused(gpope_hiv, HIV, "domain.simulator.learned[1].units: 150 stored, 100 asked")
    refused(ope_estimators, "mountain_car/wpdis/epsilon=1", "domain.simulator.behaviour.learned[0].episodes")
    refused(ope_estimators, "hiv/wpdis/epsilon=1", "domain.simulator.learned[1].units")
    assert (mountain_car.learn, hiv.fit, hiv.collect) == (learn, fit, collect)


def test_calls_are_noted_with_their_defaults_and_do_not_run() -> None:
    noted = calls(mountain_car, "learned_q", "learn")
    assert noted == gpope_mountain_car.store().stored(CAR)["domain"]["simulator"]["behaviour"]["learned"]
    assert noted[0].keys() >= {"type", "coupled", "steps"}


def test_constants_stand_beside_the_fields_of_classes_of_tacit_alone() -> None:
    assert describe(Acrobot())["SECONDS"] == 0.2

    class Acrobats:
        pass

    Acrobats.__name__ = "Acrobot"
    assert describe(Acrobats()) == {"type": "Acrobot"}


def test_recipes_and_spectra_are_used() -> None:
    ways = replace(recipes("hiv"), alone_steps=7, alone_rate=0.5)
    assert (ways.alone_with(5).steps, ways.alone_with(5).stable_rate, ways.alone_with(5).private_steps) == (7, 0.5, 0)
    assert np.geomspace(1.0, 1e-4, 24).tolist() == trust_region_coverage.decaying().tolist()
    assert trust_region_coverage.NETWORK.parameters == 4_610
