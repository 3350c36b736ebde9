"""Golden runs of simulators of movement: one-shot imitation, PateGAIL++ and the baselines, on a small invented city."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.golden import runs
from tests.golden.runs import TRAINED, Numbers, Run

from tacit import Ledger, Unit, mobility
from tacit.methods.mobility import baselines, pategail
from tacit.privacy.ledger.ledger import SUM
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit_worlds.city import city

AREA = "mobility"
PEOPLE = 60
UNIT = Unit("person", "add_or_remove", PEOPLE)
PROMISE: dict[str, Any] = {"unit": UNIT, "epsilon": 5.0, "delta": 1e-3}
CITY = city(PEOPLE, 4, seed=3, preset="geolife").days
QUICK = mobility.Matching(rounds=2, days=200)
MODELS: tuple[baselines.Model, ...] = ("table", "epr", "timegeo", "markov")
KINDS: tuple[pategail.Kind, ...] = ("samples", "table", "linear", "gradient")


def served(folder: Path) -> Any:
    return runs.vault(CITY.trajectories(simulated=True), folder, UNIT)


def devices(folder: Path, unit: Unit = UNIT) -> FederatedVault:
    """Everybody's device, whose noise and seeds are drawn from a seed."""
    ledger = Ledger(folder / "run.ledger", unit, epsilon=1e9, delta=0.5 / unit.size, composition=SUM)
    held = StackedDevices(CITY.trajectories(simulated=True), noise=SecretNoise.for_tests(3))
    return FederatedVault(held, ledger, noise=SecretNoise.for_tests(2))


def numbers(plan: Any, simulator: Any) -> Numbers:
    """The days that a simulator makes; its table of actions where it has one."""
    made = simulator.generate(60, seed=5).cells
    found = {"noise_multiplier": plan.noise_multiplier, "cells": runs.summary(made)}
    found["moves a day"] = float((made[:, 1:] != made[:, :-1]).sum(axis=1).mean())
    table = getattr(getattr(simulator, "policy", None), "table", None)
    if table is None:
        table = simulator.matrix
    return found | {"table": runs.summary(table)}


def once(*, federated: bool = False, **changes: Any) -> Run:
    def make(folder: Path) -> Numbers:
        plan = mobility.OneShotPlan(days=4, matching=QUICK, **changes).calibrate(**PROMISE)
        vault = devices(folder) if federated else served(folder)
        return numbers(plan, mobility.fit(plan, vault, grid=CITY.grid, seed=1).value)

    return Run(make, lambda: () if changes else (mobility.OneShotPlan(), mobility.fit), TRAINED)


def baseline(model: baselines.Model) -> Run:
    def make(folder: Path) -> Numbers:
        plan = baselines.BaselinePlan(model=model, days=4).calibrate(**PROMISE)
        return numbers(plan, baselines.fit(plan, served(folder), grid=CITY.grid).value)

    return Run(make, lambda: (baselines.BaselinePlan(model=model),))


def rounds(plan: pategail.PateGailPlan, *, unit: Unit = UNIT, priced: bool = False) -> Run:
    """A few rounds of PateGAIL++."""

    def make(folder: Path) -> Numbers:
        ready = plan.account(unit=unit, delta=1e-3) if priced else plan.calibrate(**PROMISE)
        value = pategail.fit(ready, devices(folder, unit), grid=CITY.grid, seed=1).value
        return {"epsilon": str(ready.epsilon) if priced else None} | dict(numbers(ready, value))

    return Run(make, lambda: (), TRAINED)


def few(kind: pategail.Kind, **changes: Any) -> pategail.PateGailPlan:
    """The recipe of a kind with few rounds, days and steps."""
    plan = pategail.recipe(kind, PEOPLE)
    short: dict[str, Any] = {"rounds": 2, "days": 20, "queries": 24}
    short["critic"] = dataclasses.replace(plan.critic, steps=2)
    short["ppo"] = dataclasses.replace(plan.ppo, epochs=2, value_steps=2)
    return dataclasses.replace(plan, **short | changes)


def recipe(kind: pategail.Kind) -> tuple[Any, ...]:
    return (pategail.recipe(kind, PEOPLE),)


PAPER = dataclasses.replace(
    pategail.PateGailPlan.paper(PEOPLE), rounds=2, days=2, queries=24, critic=pategail.Critic(penalty=20.0, steps=2)
)
EXCHANGED = Unit("person", "replace_one", PEOPLE)
RUNS = {
    "one-shot imitation": once(),
    "one-shot imitation, shared noise": once(federated=True, noise="shared"),
    "one-shot imitation, noise of each device": once(federated=True, noise="device"),
    "one-shot imitation, given starts": once(shares=mobility.Shares(starts=0.0)),
    "one-shot imitation, silent people": once(zero_contribution=True),
    **{f"baseline {model}": baseline(model) for model in MODELS},
    "defaults of PateGAIL++": Run(lambda folder: {}, lambda: (pategail.PateGailPlan(people=PEOPLE), pategail.fit)),
    **{f"recipe {kind}": Run(lambda folder: {}, partial(recipe, kind)) for kind in KINDS},
    "recipe table, many people": Run(lambda folder: {}, lambda: (pategail.recipe("table", 9_481),)),
    **{f"PateGAIL++, {kind}": rounds(few(kind)) for kind in KINDS},
    "PateGAIL++, memory and variance": rounds(few("samples", memory=0.5, beta=0.5, clip_norm=None)),
    "PateGAIL++, the paper's allocation": rounds(few("samples", allocation="paper", smooth=False)),
    "PateGAIL++, shared noise": rounds(few("table", noise="shared")),
    "PateGAIL++, the paper's mode": rounds(PAPER, unit=EXCHANGED, priced=True),
    "the paper's settings": Run(lambda folder: {}, lambda: (pategail.PateGailPlan.paper(PEOPLE),)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_stored_numbers(name: str, tmp_path: Path) -> None:
    runs.check_numbers(AREA, name, RUNS[name], tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_default_parameters_are_the_stored_ones(name: str) -> None:
    runs.check_parameters(AREA, name, RUNS[name])


def test_every_stored_run_is_run() -> None:
    assert list(runs.stored(AREA)) == list(RUNS)


if __name__ == "__main__":
    runs.write(AREA, RUNS, sys.argv[1:])
