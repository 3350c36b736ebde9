"""The rows of `mobility_frontier`: each a way from people's days to simulators, at an epsilon.

Hyper-parameters are the methods' defaults and recipes, which were chosen on invented people; those of the law of starts
(block side, nearness, Zipf's weights) and of the baseline `markov` were looked at on Geolife too. What depends on the
number of people or on the noise (the number of states) follows public rules of the methods.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from experiments.lib.experiment import Json, describe
from experiments.pategail.mobility_runs import DELTA, Values, World, generated
from tacit.data.mobility.grids import Grid
from tacit.methods import mobility
from tacit.methods.mobility import baselines, pategail
from tacit.privacy.mechanisms.device_sums import LaplaceSum
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

MOST = 20_000
"""Vectors of people in memory at a time."""


@dataclass(frozen=True, eq=False)
class Found:
    """A simulator and the epsilon that its plan honestly has."""

    simulator: Any
    epsilon: float


class Way(Protocol):
    """How a row's simulators are made."""

    def planned(self, people: int, epsilon: float) -> Any:
        """The plan for so many people and this epsilon, not yet calibrated."""

    def simulators(self, here: World, epsilon: float, seeds: Sequence[int]) -> list[Found]:
        """One for each seed."""


def calibrated(plan: Any, here: World, epsilon: float) -> Any:
    """The plan at this epsilon; without noise where it is infinite."""
    if math.isinf(epsilon):
        return replace(plan, noise_multiplier=0.0).account(unit=here.unit, delta=DELTA)
    return plan.calibrate(unit=here.unit, epsilon=epsilon, delta=DELTA)


def guaranteed(plan: Any, unit: Unit, epsilon: float) -> Json:
    """A plan before its calibration, its sums, and the guarantee that it is calibrated to; for configurations."""
    sums = {
        part.name: {
            "steps": part.steps,
            "clip_norm": part.bound if isinstance(part, LaplaceSum) else part.clip_norm,
            "relative_noise": round(part.noise_multiplier, 9),
        }
        for part in replace(plan, noise_multiplier=1.0).parts()
    }
    return {
        "plan": describe(plan),
        "sums": describe(sums),
        "guarantee": {"epsilon": describe(epsilon), "delta": DELTA, "unit": describe(unit)},
    }


@dataclass(frozen=True)
class InProcess:
    """Plans that a vault serves, several seeds in one pass over invented days; real ones have a vault for each seed.

    Args:
        planned: of a number of people and an epsilon.
        fit: from the calibrated plan, the vault, the grid and a seed to one simulator for each ledger.
        together: whether one pass may serve several seeds.
    """

    planned: Callable[[int, float], Any]
    fit: Callable[..., Sequence[Any]]
    together: bool = True

    def simulators(self, here: World, epsilon: float, seeds: Sequence[int]) -> list[Found]:
        plan = calibrated(self.planned(here.people, epsilon), here, epsilon)
        found: list[Any] = []
        at_once = max(1, MOST // here.people) if self.together and here.simulated else 1
        for start in range(0, len(seeds), at_once):
            with here.vault(len(seeds[start : start + at_once])) as vault:
                found += self.fit(plan, vault, here.days.grid, seeds[start])
        return [Found(simulator, plan.epsilon) for simulator in found]


@dataclass(frozen=True)
class Federated:
    """PateGAIL++ over everybody's devices, in process; one run for each seed.

    Args:
        kind: what a round asks.
        changes: of the recipe's plan.
    """

    kind: pategail.Kind
    changes: tuple[tuple[str, Any], ...] = ()

    def planned(self, people: int, epsilon: float) -> pategail.PateGailPlan:
        """The recipe for so many people and this epsilon, with the row's changes."""
        return replace(pategail.recipe(self.kind, people, epsilon), **dict(self.changes))

    def simulators(self, here: World, epsilon: float, seeds: Sequence[int]) -> list[Found]:
        plan, found = calibrated(self.planned(here.people, epsilon), here, epsilon), []
        for seed in seeds:
            with here.devices() as vault:
                release = pategail.fit(plan, vault, grid=here.days.grid, seed=seed)
                found.append(Found(release.value, plan.epsilon))
        return found


def changed(plan: pategail.PateGailPlan, here: World, epsilon: float, seed: int, **arguments: Any) -> Values:
    """One run of a changed recipe of PateGAIL++, and its measures."""
    began, own = time.process_time(), calibrated(plan, here, epsilon)
    with here.devices() as vault:
        simulator = pategail.fit(own, vault, grid=here.days.grid, seed=seed, **arguments).value
    (measured,) = here.measured([generated(simulator, here, seed)])
    certified = own.epsilon if math.isfinite(own.epsilon or 0.0) else "inf"
    return {"certified": certified, **measured, "seconds": round(time.process_time() - began, 2)}


def baseline(model: baselines.Model, *, together: bool = True) -> InProcess:
    """A row of `mobility.baselines`."""
    return InProcess(lambda people, epsilon: baselines.BaselinePlan(model=model), counted, together)


def imitated(plan: mobility.OneShotPlan, vault: Vault, grid: Grid, seed: int) -> Sequence[Any]:
    return mobility.fit_replicates(plan, vault, grid=grid, seed=seed)


def counted(plan: baselines.BaselinePlan, vault: Vault, grid: Grid, seed: int) -> Sequence[Any]:
    """A baseline's simulators, which need no seed."""
    return baselines.fit_replicates(plan, vault, grid=grid)


@functools.cache
def one_shot(people: int, epsilon: float) -> mobility.OneShotPlan:
    """The default, with the number of states of its public rule."""
    return mobility.OneShotPlan.for_people(people, epsilon)


def table(people: int, epsilon: float) -> baselines.BaselinePlan:
    """The table of actions over the same states."""
    return baselines.BaselinePlan(model="table", layout=one_shot(people, epsilon).layout)


WAYS: dict[str, Way] = {
    "one_shot": InProcess(one_shot, imitated),
    "table": InProcess(table, counted),
    "epr": baseline("epr"),
    "timegeo": baseline("timegeo"),
    "markov": baseline("markov", together=False),
    "silence": InProcess(lambda people, epsilon: replace(one_shot(people, epsilon), zero_contribution=True), imitated),
    "samples": Federated("samples"),
    "rewards": Federated("table"),
    "linear": Federated("linear"),
    "gradient": Federated("gradient"),
    "local": Federated("table", (("noise", "device"),)),
    "noise": Federated("samples", (("zero_contribution", True),)),
}
