"""A plan's own mechanisms of which one run tells one canary alone: votes, choices, single releases, prefixes.

As in `apart`, the parts are a method's with its default options, and go through the real vault. Each function here
makes the runs of a `cases.Case` whose plan has one part.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.audits.cases import Asked, Floats, Seen, ledgers
from tacit.evaluation.audits.mechanisms import Mechanisms
from tacit.privacy.gradients.clipping import SLACK
from tacit.privacy.mechanisms.base import calibrated
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

STATES = 4
ROWS = PublicSpec(observation=Discrete(STATES), action=Discrete(2), reward=Box((-1.0,), (1.0,)), source="declared")
OTHER, CANARY = 0, 1
"""Actions by which rows say whose they are."""
PATTERN = torch.tensor([[1.0] * 4, *[[-1.0] * 4] * 7])
"""Public rows that teachers learn against: one is the canary's own, which they take for public unless they hold it."""


def votes(unit: Unit, plan: Mechanisms, asked: Asked) -> Seen:
    """Runs of a part of teachers' votes: only with the canary does its teacher know rows like those it votes on."""
    # A vault takes one ledger here, so a run is a part of a plan that holds as many copies of it as there are runs.
    (part,) = plan.queries
    copies = tuple(dataclasses.replace(part, name=f"{part.name} {r}") for r in range(asked.replicates))
    many = Mechanisms(queries=copies).account(unit=unit, delta=plan.delta or 0.0)
    count, scale = part.teachers, calibrated(part.noise_multiplier, part.name) * math.sqrt(part.queries)
    scores = np.zeros((asked.replicates, 1))
    with ledgers(unit, 1) as ((ledger,), _):
        vault = Vault(rows_of(_units([OTHER], asked)), ledger, noise=asked.noise)
        run = vault.reserve(many)
        asked_about = PATTERN[:1].expand(part.queries, -1).contiguous()
        for r, copy in enumerate(copies):
            for _ in range(part.steps):
                seen = vault.teacher_votes(run, copy.name, Pattern(), asked_about, against=PATTERN)
                scores[r] += ((seen.double().numpy() * count - 0.5) / scale**2).sum()
    return Seen(scores, np.zeros((asked.replicates, 0)))


def choice(unit: Unit, plan: Mechanisms, asked: Asked) -> Seen:
    """Runs of a choice between two candidates, which another unit holds in the balance."""

    def score(vault: Vault, run: Any) -> Floats:
        (part,) = plan.queries
        return 0.5 - vault.release_once(run, part.name)

    return _released(unit, plan, asked, [OTHER], score)


def least_squares(unit: Unit, plan: Mechanisms, asked: Asked) -> Seen:
    """Runs of a regression on first visits; the canary visits states where nobody was, and is paid the most."""

    def score(vault: Vault, run: Any) -> Floats:
        (part,) = plan.queries
        return np.asarray(vault.release_once(run, part.name).sum(axis=1, keepdims=True), np.float64)

    return _released(unit, plan, asked, [OTHER], score)


def prefixes(unit: Unit, plan: Mechanisms, asked: Asked) -> Seen:
    """Runs of a release of prefixes: with the canary just as many act alike as the threshold asks for."""
    (part,) = plan.queries
    alike = math.ceil(part.thresholds.threshold) - 1
    others = [CANARY] * alike + [OTHER] * max(1, part.experts - alike)

    def score(vault: Vault, run: Any) -> Floats:
        released = vault.above_threshold(run, part.name, clone=Herd(), world=Nowhere())
        return np.array([[prefix.lengths.sum()] for prefix in released], np.float64)

    return _released(unit, plan, asked, others, score)


def selection(unit: Unit, plan: Mechanisms, asked: Asked) -> Seen:
    """One run of a selection: the best run is the one that seems most to hold the canary."""
    (part,) = plan.queries
    with ledgers(unit, 1) as ((ledger,), _):
        vault = Vault(rows_of(_units([OTHER], asked)), ledger, noise=asked.noise)
        best = vault.select(vault.reserve(plan), part.name, Summed(), Largest())
    return Seen(np.array([[best.value]]), np.zeros((1, 0)))


@dataclass(frozen=True)
class Pattern:
    """A row as teachers see it: the canary's is the first of `PATTERN`, that of others the second."""

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Any) -> NDArray[np.float32]:
        """[U, 4]."""
        return np.asarray(PATTERN.numpy()[np.where(rows["actions"][:, 0] == CANARY, 0, 1)])


@dataclass(frozen=True)
class Liking:
    """The canary likes candidate 0 as much as may be; everybody else likes candidate 1 half as much."""

    def __call__(self, rows: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
        """[U, 2]."""
        canary = rows["actions"][:, 0] == CANARY
        return {"scores": np.where(canary[:, None], [1.0, 0.0], [0.0, 0.5]) * rows["mask"][:, :1]}


@dataclass(frozen=True)
class One:
    """What a canary adds to a sum of one number: more than the clip."""

    clip_norm: float

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Any) -> Floats:
        """[U, 1]."""
        return np.where(rows["actions"][:, :1] == CANARY, 1e3 * self.clip_norm, 0.0)


@dataclass(frozen=True)
class Summed:
    """A run of a selection: the first part of its plan, summed over all of its steps, in clips."""

    def __call__(self, plan: Any, vault: Any) -> float:
        """The sum."""
        run, part = vault.reserve(plan), plan.parts()[0]
        means = [float(vault.noisy_sum(run, part.name, One(part.clip_norm))[0, 0]) for _ in range(part.steps)]
        return float(sum(means) * part.expected(vault.unit) / (part.clip_norm * (1 - SLACK)))


@dataclass(frozen=True)
class Largest:
    """The better run is the one with the larger sum."""

    def __call__(self, value: Any, plan: Any, vault: Any) -> float:
        """The sum."""
        return float(value)


@dataclass(frozen=True)
class Herd:
    """Clones that always act as their expert did first."""

    def __call__(self, rows: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
        """[U, 1]."""
        return {"parameters": (rows["actions"][:, :1] * rows["mask"][:, :1]).astype(np.float64)}

    def experts(self, parameters: Floats) -> Steady:
        """The policies."""
        return Steady(parameters[:, 0].astype(np.int64))


@dataclass(frozen=True, eq=False)
class Steady:
    """m experts with an action each."""

    action: NDArray[np.int64]  # [m]
    actions = 2
    floor = 0.0

    @property
    def count(self) -> int:
        """m."""
        return len(self.action)

    def greedy(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """[m, S]."""
        return np.repeat(self.action[:, None], len(observations), axis=1)

    def disagreements(self, observations: NDArray[Any], actions: NDArray[Any]) -> NDArray[np.bool_]:
        """[m, S]."""
        return np.asarray(self.greedy(observations) != actions)

    def chances(self, observations: NDArray[Any], actions: NDArray[Any]) -> Floats:
        """[m, S]."""
        return np.where(self.disagreements(observations, actions), 0.0, 1.0)

    def probabilities(self, observations: NDArray[Any], which: NDArray[np.int64]) -> Floats:
        """[S, 2]."""
        return np.eye(2)[self.action[which]]


@dataclass(frozen=True)
class Nowhere:
    """A world of one state, without an end."""

    def starts(self, units: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """[N]."""
        return np.zeros(units, np.int64)

    def step(
        self, state: NDArray[np.int64], action: NDArray[np.int64], generator: np.random.Generator
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_]]:
        """The same state, paid nothing."""
        return state, np.zeros(len(state)), np.zeros(len(state), np.bool_)

    def observe(self, state: NDArray[np.int64]) -> NDArray[np.int64]:
        """[N]."""
        return state


def rows_of(units: Sequence[int]) -> Trajectories:
    """Units by their action: a canary has a row in every state and is paid for the last one, others have one row."""
    lengths = np.where(np.array(units) == CANARY, STATES, 1)
    owner = np.repeat(np.arange(len(units)), lengths)
    place = np.concatenate([np.arange(length) for length in lengths])
    return Trajectories.from_arrays(
        observations=place,
        actions=np.array(units, np.int64)[owner],
        rewards=(place == STATES - 1).astype(np.float32),
        next_observations=place,
        terminations=np.append(np.diff(owner) != 0, True),
        unit_ids=owner,
        episode_ids=owner,
        spec=ROWS,
        simulated=True,
    )


def _released(
    unit: Unit, plan: Mechanisms, asked: Asked, others: Sequence[int], score: Callable[[Vault, Any], Floats]
) -> Seen:
    """Runs side by side, a ledger each."""
    with ledgers(unit, asked.replicates) as (run_ledgers, _):
        vault = Vault(rows_of(_units(others, asked)), run_ledgers, noise=asked.noise)
        return Seen(score(vault, vault.reserve(plan)), np.zeros((asked.replicates, 0)))


def _units(others: Sequence[int], asked: Asked) -> list[int]:
    return [*others, *([CANARY] if asked.present[0] else [])]
