"""Experts for the tests of the door `above_threshold`: their policies, logs, clones and a world."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from vault_cases import GivenParts

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.mechanisms.thresholds import KappaStop
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(observation=Box((0.0,), (1000.0,)), action=Discrete(2), reward=Box((0.0,), (1.0,)), source="declared")
EXPERTS = Unit("expert", "add_or_remove", 1_000)


class Still(SecretNoise):
    """No noise and no chance stop."""

    def discrete_laplace(self, size: int, scale: int) -> Any:
        return np.zeros(size, np.int64)

    def uniform(self, size: int) -> Any:
        return np.full(size, 1 - 2.0**-53)

    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        return np.zeros(size, np.float32)


@dataclass(frozen=True, eq=False)
class Steppers:
    """m experts who take action 1 in observations below their own limit and action 0 from there on."""

    limits: np.ndarray
    floor: float = 0.0

    actions = 2

    @property
    def count(self) -> int:
        return len(self.limits)

    def greedy(self, observations: Any) -> Any:
        return (observations[:, 0] < self.limits[:, None]).astype(np.int64)

    def disagreements(self, observations: Any, actions: Any) -> Any:
        return self.greedy(observations) != actions

    def likelihoods(self, observations: Any, actions: Any) -> Any:
        return np.where(self.disagreements(observations, actions), self.floor, 1 - self.floor)

    def probabilities(self, observations: Any, which: Any) -> Any:
        ones = self.greedy(observations)[which, np.arange(len(which))]
        return np.where(np.arange(2) == ones[:, None], 1 - self.floor, self.floor)


@dataclass(frozen=True)
class Cloned:
    """The limit of a stepper: one above the largest observation in which it took action 1."""

    def __call__(self, rows: Any) -> Any:
        went = (rows["actions"] == 1) & rows["mask"]
        return {"parameters": np.where(went, rows["observations"][..., 0] + 1, 0).max(axis=1)[:, None]}

    def experts(self, parameters: Any) -> Steppers:
        return Steppers(parameters[:, 0])


@dataclass(frozen=True)
class Whole:
    """Clones that look at everybody's rows."""

    def __call__(self, rows: Any) -> Any:
        return {"parameters": np.full((len(rows["mask"]), 1), rows["observations"].mean())}

    def experts(self, parameters: Any) -> Steppers:
        return Steppers(parameters[:, 0])


class Counting:
    """A world whose observation is the number of steps taken."""

    def starts(self, units: int, generator: Any) -> Any:
        return np.zeros(units)

    def step(self, state: Any, action: Any, generator: Any) -> Any:
        return state + 1, np.ones(len(state)), state >= 30

    def observe(self, state: Any) -> Any:
        return state[:, None].astype(np.float32)


@dataclass(frozen=True)
class Names:
    """Which episodes are read: one-hot at the first row's reward times 100."""

    def __call__(self, rows: Any, state: Any) -> Any:
        seen = np.zeros((len(rows["mask"]), 101))
        for u, unit in enumerate(rows["mask"]):
            seen[u, np.unique(np.rint(rows["rewards"][u, unit] * 100).astype(int))] = 1.0
        return seen


def logs(
    experts: int,
    episodes: int | list[int] = 8,
    length: int = 20,
    simulated: bool = True,
    tell_expert: bool = False,
    propensities: bool = False,
) -> Trajectories:
    """Everyone takes action 1; a reward tells the episode's number, or the expert's; an observation the step's."""
    own = [episodes] * experts if isinstance(episodes, int) else episodes
    unit_ids = np.repeat(np.arange(experts), np.array(own) * length)
    number = np.concatenate([np.repeat(np.arange(n), length) for n in own])
    steps = np.tile(np.arange(length, dtype=np.float32), sum(own))[:, None]
    return Trajectories.from_arrays(
        observations=steps,
        actions=np.ones(len(steps), np.int64),
        rewards=(unit_ids / 1000 if tell_expert else number / 100).astype(np.float32),
        next_observations=steps + 1,
        terminations=steps[:, 0] == length - 1,
        unit_ids=unit_ids,
        episode_ids=unit_ids * 1000 + number,
        propensities=0.5 + unit_ids / 1000 if propensities else None,
        spec=replace(SPEC, propensities=propensities),
        simulated=simulated,
    )


def part(**changes: Any) -> AboveThreshold:
    fields: dict[str, Any] = {"name": "consensus", "trajectories": 4, "horizon": 20, "actions": 2, "experts": 100}
    fields |= {"floor": KappaStop(0.05), "epsilon": 1.0, "delta": 1e-6, "source": "logs"}
    return AboveThreshold(**{**fields, **changes})


def vault_of(tmp_path: Path, data: Trajectories, experts: Any = None, **changes: Any) -> Vault:
    ledger = Ledger(
        tmp_path / changes.pop("name", "ledger"),
        changes.pop("unit", EXPERTS),
        epsilon=1e6,
        delta=9e-4,
        composition=SUM,
    )
    return Vault(data, ledger, experts=experts, **changes)


def plan_of(*parts: Any, unit: Unit = EXPERTS) -> Any:
    return plans.account(GivenParts(parts), unit=unit, delta=1e-4)


def everything(**changes: Any) -> PoissonSum:
    return PoissonSum(
        **{"name": "sum", "steps": 1, "sampling_rate": 1.0, "clip_norm": 1.0, "noise_multiplier": 5.0, **changes}
    )
