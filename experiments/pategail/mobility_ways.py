"""The rows of `mobility_frontier`: each a way from people's days to simulators, at an epsilon.

Hyper-parameters are the methods' defaults and recipes, which were chosen on invented people; those of the law of starts
(block side, nearness, Zipf's weights) and of the baseline `markov` were looked at on Geolife too. What depends on the
number of people or on the noise (the number of states) follows public rules of the methods.
"""

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from experiments.lib.experiment import Json, Store, describe, store_of
from experiments.lib.vaults import calibrated
from experiments.pategail.mobility_runs import DELTA, GEOLIFE, Values, World, described, generated, unit, world
from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import Grid
from tacit.methods import mobility
from tacit.methods.mobility import baselines, pategail
from tacit.privacy.mechanisms.device_sums import LaplaceSum
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

MOST = 20_000  # vectors of people in memory at a time


@dataclass(frozen=True, eq=False)
class Found:
    """A simulator and the epsilon that its plan honestly has."""

    simulator: Any
    epsilon: float


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
    """Plans that a vault serves, several seeds in one pass over invented days; real ones have a vault for each seed."""

    planned: Callable[[int, float], Any]  # of a number of people and an epsilon
    # from the calibrated plan, the vault, the grid and a seed to one simulator for each ledger
    fit: Callable[..., Sequence[Any]]
    together: bool = True  # whether one pass may serve several seeds

    def simulators(self, here: World, epsilon: float, seeds: Sequence[int]) -> list[Found]:
        plan = calibrated(self.planned(here.people, epsilon), here.unit, epsilon, DELTA)
        found: list[Any] = []
        at_once = max(1, MOST // here.people) if self.together and here.simulated else 1
        for start in range(0, len(seeds), at_once):
            with here.vault(len(seeds[start : start + at_once])) as vault:
                found += self.fit(plan, vault, here.days.grid, seeds[start])
        return [Found(simulator, plan.epsilon) for simulator in found]


@dataclass(frozen=True)
class Federated:
    """PateGAIL++ over everybody's devices, in process; one run for each seed."""

    kind: pategail.Kind  # what a round asks
    changes: tuple[tuple[str, Any], ...] = ()  # of the recipe's plan

    def planned(self, people: int, epsilon: float) -> pategail.PateGailPlan:
        """The recipe for so many people and this epsilon, with the row's changes."""
        return replace(pategail.recipe(self.kind, people, epsilon), **dict(self.changes))

    def simulators(self, here: World, epsilon: float, seeds: Sequence[int]) -> list[Found]:
        plan, found = calibrated(self.planned(here.people, epsilon), here.unit, epsilon, DELTA), []
        for seed in seeds:
            with here.devices() as vault:
                release = pategail.fit(plan, vault, grid=here.days.grid, seed=seed)
                found.append(Found(release.value, plan.epsilon))
        return found


@dataclass(frozen=True)
class Change:
    """One change of PateGAIL++'s recipe of rewards of samples, on Geolife."""

    name: str  # of the change
    epsilon: float = math.inf  # of the promise; inf is without noise
    people: int = GEOLIFE  # how many of the 83 take part, who are the population then
    critic: tuple[tuple[str, Any], ...] = ()  # changes of the critic
    changes: tuple[tuple[str, Any], ...] = ()  # of the plan
    # splits a round's budget, for a plan with the allocation "own"
    allocate: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    asked: tuple[tuple[str, Json], ...] = ()  # what `allocate` is, for configurations

    @property
    def start(self) -> str:
        return f"{self.name}/{self.epsilon:g}"

    def plan(self) -> pategail.PateGailPlan:
        recipe = pategail.recipe("samples", GEOLIFE)
        critic = replace(recipe.critic, **dict(self.critic))
        return replace(recipe, people=self.people, critic=critic, **dict(self.changes))

    def world(self, seed: int) -> World:
        """Those who take part: a fresh draw for every seed."""
        here = world(GEOLIFE)
        if self.people == GEOLIFE:
            return here
        chosen = np.sort(np.random.default_rng([seed, self.people]).choice(GEOLIFE, self.people, replace=False))
        kept = np.isin(here.days.person, chosen)
        person = np.searchsorted(chosen, here.days.person[kept])
        return replace(here, people=self.people, days=Days(here.days.cells[kept], person, here.days.grid))

    def run(self, seed: int) -> Values:
        began, here = time.process_time(), self.world(seed)
        own = calibrated(self.plan(), here.unit, self.epsilon, DELTA)
        with here.devices() as vault:
            simulator = pategail.fit(own, vault, grid=here.days.grid, seed=seed, allocate=self.allocate).value
        (measured,) = here.measured([generated(simulator, here, seed)])
        certified = own.epsilon if math.isfinite(own.epsilon or 0.0) else "inf"
        return {"certified": certified, **measured, "seconds": round(time.process_time() - began, 2)}


@dataclass(frozen=True)
class Changes:
    """The rows of an experiment on changes: five training seeds each, with noise of their own."""

    file: str  # of the experiment
    every: tuple[Change, ...]  # change, in the order in which they are made
    seeds: ClassVar[tuple[int, ...]] = tuple(range(5))

    @property
    def store(self) -> Callable[..., Store]:
        return store_of(self.file, self.configuration, "the recipe of PateGAIL++ for 83 people, chosen on the city")

    def rows(self) -> list[str]:
        return [f"{change.start}/{seed}" for seed in self.seeds for change in self.every]

    def configuration(self, key: str) -> Json:
        change = self._of(key)
        data = described(GEOLIFE) | {"people": change.people}
        promised = guaranteed(change.plan(), unit(change.people), change.epsilon)
        return {"data": data, **dict(change.asked), **promised}

    def run_row(self, key: str, results: Store) -> None:
        seed = int(key.rpartition("/")[2])
        results.put(key, dataset=world(GEOLIFE).words, seed=seed, values=self._of(key).run(seed))

    def column(self, results: Store, change: Change) -> np.ndarray:
        """SEQ for every seed."""
        return np.array([results.values(f"{change.start}/{seed}")["sequence"]["SEQ"] for seed in self.seeds])

    def _of(self, key: str) -> Change:
        return {change.start: change for change in self.every}[key.rpartition("/")[0]]


def baseline(model: baselines.Model, *, together: bool = True) -> InProcess:
    return InProcess(lambda people, epsilon: baselines.BaselinePlan(model=model), counted, together)


def imitated(plan: mobility.OneShotPlan, vault: Vault, grid: Grid, seed: int) -> Sequence[Any]:
    return mobility.fit_replicates(plan, vault, grid=grid, seed=seed)


def counted(plan: baselines.BaselinePlan, vault: Vault, grid: Grid, seed: int) -> Sequence[Any]:
    """A baseline's simulators, which need no seed."""
    return baselines.fit_replicates(plan, vault, grid=grid)


@functools.cache
def one_shot(people: int, epsilon: float) -> mobility.OneShotPlan:
    return mobility.OneShotPlan.for_people(people, epsilon)


def table(people: int, epsilon: float) -> baselines.BaselinePlan:
    return baselines.BaselinePlan(model="table", layout=one_shot(people, epsilon).layout)


Way = InProcess | Federated
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
