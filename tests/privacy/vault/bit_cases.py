"""What the attack on last digits is run on: each kind of part through its vault, with the target and without.

The target is alone in a rare category, so the others add exactly 0 wherever it adds something; it adds numbers of many
digits. Populations are powers of two: dividing by them hides nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import expert_cases
import numpy as np
import torch
from bit_attack import Case, Numbers, Release, lattice_step
from torch import Tensor, nn
from user_cases import Scripted, open_user_vault, user_sum
from vault_cases import SPEC, GivenParts, SumPlan, unit_of

from tacit.data.trajectories import Trajectories
from tacit.privacy.gradients.clipping import clip_rows
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.device_sums import DeviceSum, LaplaceSum
from tacit.privacy.mechanisms.kinds import PrivateSelection
from tacit.privacy.mechanisms.marginals import Dependence, Marginal, MarginalChoice, Marginals
from tacit.privacy.mechanisms.releases import Axis, NoisyHistogram, NoisyMaximum
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.mechanisms.smooth_sensitivity import RegularisedLoss, Visits, WeightedStates
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.privacy.noise.correlated import Correlation, sensitivity
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.user_vault import UserVault
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

STEPS, SIGMA = 4, 4.0
"""Releases of a run, and their noise multiplier: from the sizes of a run's numbers at most 60 % are told right."""
WIDTH, WEIGHTS = 1_024, 8_192
"""Numbers of a sum and of a gradient: float32 sums have fewer digits to tell by."""
POPULATION, PEOPLE = 1_024, 64
"""The declared one of `add_or_remove`, and how many there are."""
RARE = 7.0
"""The reward of the target, which nobody else has."""

ADDED, REPLACED = unit_of(POPULATION), unit_of(PEOPLE, "replace_one")


def pattern(width: int) -> np.ndarray:
    """What the target adds, before the clip: numbers of many sizes and digits."""
    return np.random.default_rng(5).normal(size=width).astype(np.float32)


@dataclass(frozen=True)
class OneHot:
    """A linear model of one-hot categories: only the target has the second one."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        rare = (rows["rewards"] == RARE).float()
        out = model(torch.stack([1.0 - rare, rare], dim=-1).flatten(0, 1)).view(*rare.shape, WEIGHTS)
        return ((out * torch.from_numpy(pattern(WEIGHTS))).sum(-1) * rows["mask"]).sum(1)


@dataclass(frozen=True)
class Vector:
    """The like as a contribution."""

    width: int = WIDTH

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        rare = (rows["rewards"][:, :1] == RARE) & rows["mask"][:, :1]
        return rare * pattern(self.width).astype(np.float64)[None]


def records(people: int, target: bool) -> Trajectories:
    """One row each; the last person is the target, or one like the others."""
    rewards = np.arange(people, dtype=np.float32) % 5
    seen = rewards[:, None] / 2 - 3
    if target:
        rewards[-1], seen[-1] = RARE, 3.0
    return Trajectories.from_arrays(
        observations=seen,
        actions=np.zeros(people, np.int64),
        rewards=rewards,
        next_observations=seen,
        terminations=np.zeros(people, bool),
        unit_ids=np.arange(people),
        episode_ids=np.arange(people),
        spec=SPEC,
        simulated=True,
    )


def _ledger(folder: Path, unit: Unit) -> Ledger:
    return Ledger(folder / "a.ledger", unit, epsilon=1e6, delta=0.5 / unit.size, composition=SUM)


def _admitted(vault: Any, *parts: Part) -> Run:
    return vault.reserve(plans.account(GivenParts(parts), unit=vault.unit, delta=1e-4))


def _opened(folder: Path, there: bool, unit: Unit = ADDED) -> Vault:
    """A vault of everybody, and of the target if they are there; where people are replaced, as many in any case."""
    replaced = unit.relation == "replace_one"
    return Vault(records(PEOPLE - (not there and not replaced), there), _ledger(folder, unit))


# -- sums and gradients

Doors = Callable[[Any, Run], Numbers]
"""What a vault releases in all steps of a run, [STEPS, numbers]."""


def by_sum(vault: Any, run: Run, width: int = WIDTH) -> Numbers:
    return np.concatenate([vault.noisy_sum(run, "sum", Vector(width)) for _ in range(STEPS)])


def by_gradient(vault: Any, run: Run) -> Numbers:
    """The coordinates of the rare category."""
    model = nn.Linear(2, WEIGHTS, bias=False)
    means = [vault.noisy_gradient(run, "sum", [model], OneHot())[0] for _ in range(STEPS)]
    return torch.stack(means).view(STEPS, WEIGHTS, 2)[..., 1].double().numpy()


def by_rounds(vault: Any, run: Run) -> Numbers:
    """One sum a round; the target comes to the first."""
    numbers = []
    for _ in range(STEPS):
        vault.enroll(run, _actor)
        numbers.append(vault.noisy_sum(run, "sum", Vector())[0])
    vault._register.close()
    return np.stack(numbers)


def _actor(*_: Any) -> np.ndarray:
    return np.zeros(1)


POISSON = PoissonSum(name="sum", steps=STEPS, sampling_rate=1.0, clip_norm=1.0)
FIXED = FixedSizeSum(name="sum", steps=STEPS, batch_size=PEOPLE, population=PEOPLE, clip_norm=1.0)
FIRST_ROWS = dataclasses.replace(POISSON, rows="first")
POOLED = dataclasses.replace(FIRST_ROWS, rows_per_unit=4)
SHARED = DeviceSum(name="sum", steps=STEPS, devices=PEOPLE, clip_norm=1.0, noise="shared", floor=PEOPLE)
LOCAL = DeviceSum(name="sum", steps=STEPS, devices=PEOPLE, clip_norm=1.0, noise="device")
LAPLACE = LaplaceSum(name="sum", steps=STEPS, size=WIDTH, bound=1.0)
LAPLACE_SCALE = 2.0**15


def of_records(unit: Unit) -> Callable[[Path, bool], Vault]:
    return partial(_opened, unit=unit)


def of_users(folder: Path, there: bool, *, arriving: bool = False) -> UserVault:
    names = [f"{i}" for i in range(PEOPLE - 1)] + ["target"] * there
    rewards = {name: [1.0] for name in names} | {"target": [RARE]}
    return open_user_vault(folder, Scripted([[names]], rewards, pool=() if arriving else [names]), unit=ADDED)


def of_devices(folder: Path, there: bool) -> FederatedVault:
    """Every device answers, the target's with its own vector or as the others': who answers is not hidden."""
    return FederatedVault(StackedDevices(records(PEOPLE, there)), _ledger(folder, unit_of(PEOPLE)))


def summed(
    folder: Path, there: bool, part: Any, sigma: float, opened: Callable[[Path, bool], Any], doors: Doors
) -> Numbers:
    vault = opened(folder, there)
    run = _admitted(vault, dataclasses.replace(part, noise_multiplier=sigma))
    return doors(vault, run) * part.divisor(vault.unit)


# -- single releases, marginals, votes

RARELY = (-10.0, 6.0, 10.0)
"""Edges of two bins: the target is alone in the second."""
CELLS = tuple(np.linspace(-4.0, 4.0, 17).tolist())
AXES = 64


def _once(folder: Path, there: bool, mechanism: Any) -> Numbers:
    """The same mechanism twice, under names of its own."""
    vault = _opened(folder, there)
    names = [f"{mechanism.name} {i}" for i in range(2)]
    run = _admitted(vault, *(dataclasses.replace(mechanism, name=name) for name in names))
    return np.stack([vault.release_once(run, name)[0] for name in names]).astype(np.float64)


HISTOGRAM = NoisyHistogram(name="bins", axes=(Axis("rewards", 0, RARELY),) * AXES, noise_multiplier=SIGMA)


def histograms(folder: Path, there: bool) -> Numbers:
    return _once(folder, there, HISTOGRAM) * POPULATION


def histograms_exactly(folder: Path, there: bool) -> Numbers:
    one_of_each = np.array([[PEOPLE - 1.0, float(there)] * AXES])
    bound = HISTOGRAM.clip_norm * (1 - 1e-4)
    return one_of_each * (bound / HISTOGRAM.clip_norm)


@dataclass(frozen=True)
class Rarity:
    """Scores of two candidates: the second is the target's."""

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        rare = rows["rewards"][:, :1] == RARE
        return {"scores": np.concatenate([~rare / 3, rare / 1.0], axis=1)}


MAXIMUM = NoisyMaximum(name="best", scores=Rarity(), candidates=2, epsilon=0.05, rows_per_unit=1)
VISITS = Visits((Axis("observations", 0, CELLS),), gamma=1.0, horizon=1, low=-10.0, high=10.0)
REGRESSION: dict[str, Any] = {
    "name": "theta",
    "visits": VISITS,
    "features": tuple(map(tuple, np.eye(VISITS.states))),
    "weights": (1.0,) * VISITS.states,
    "epsilon": 0.5,
    "delta": 1e-5,
    "rows_per_unit": 1,
}
STATES = WeightedStates(**REGRESSION)
LOSS = RegularisedLoss(**REGRESSION | {"visits": dataclasses.replace(VISITS, high=16.19)}, ridge=100.0)
"""Here the target lifts the private scale over a power of two, 128: a lattice fixed by it would tell."""


def _totals(there: bool) -> tuple[Numbers, Numbers]:
    """How many people visit each state, and their returns."""
    people = records(PEOPLE - (not there), there)
    rewards, seen = (people.columns[name].ravel() for name in ("rewards", "observations"))
    cells = np.searchsorted(CELLS, seen, side="right") - 1
    return np.bincount(cells, minlength=VISITS.states) * 1.0, np.bincount(cells, rewards, VISITS.states)


def states_exactly(folder: Path, there: bool) -> Numbers:
    return STATES.solve(*_totals(there))


def loss_exactly(folder: Path, there: bool) -> Numbers:
    return LOSS.solve(*_totals(there), POPULATION)


PAIRS = 32
QUERIES: dict[str, Any] = {
    "counts": Marginal((0,), 1),
    "distances": Dependence(((0, 1),) * PAIRS, 1),
    "choice": MarginalChoice(((0,), (1,)), (np.array([PEOPLE - 1.0, 0.0]), np.zeros(16)), (1.0, 1.0), (0.0, 60.0), 1),
}
QUANTA = 16


def marginals(folder: Path, there: bool, sigma: float = 2 * SIGMA, query: str = "counts") -> Numbers:
    vault = _opened(folder, there)
    axes = (Axis("rewards", 0, RARELY), Axis("observations", 0, CELLS))
    run = _admitted(vault, Marginals(name="cells", steps=QUANTA, axes=axes, noise_multiplier=sigma))
    numbers = [vault.noisy_marginals(run, "cells", QUERIES[query]) for _ in range(QUANTA)]
    return np.stack(numbers).astype(np.float64)


@dataclass(frozen=True)
class Reward:
    """A unit's reward."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.asarray(rows["rewards"][:, :1])


VOTES = TeacherVotes(name="votes", steps=STEPS, queries=256, teachers=4, noise_multiplier=SIGMA, width=8)


def votes(folder: Path, there: bool) -> Numbers:
    """Who taught whom is secret, so the exact counts are not known; they are whole numbers."""
    vault, public = _opened(folder, there), torch.linspace(-10, 10, VOTES.queries)[:, None]
    run = _admitted(vault, VOTES)
    shares = [vault.teacher_votes(run, "votes", Reward(), public) for _ in range(STEPS)]
    return torch.stack(shares).double().numpy() * VOTES.teachers


ANSWERS = RandomizedResponses(name="answers", steps=STEPS, users=PEOPLE, answers=64, noise_multiplier=SIGMA)


def answers(folder: Path, there: bool) -> Numbers:
    """The target alone answers; all other places hold coins."""
    vault = of_users(folder, there, arriving=True)
    run, released = _admitted(vault, ANSWERS), []
    for _ in range(STEPS):
        vault.enroll(run, _actor)
        released.append(vault.randomized(run, "answers", Vector(ANSWERS.answers))[0])
    vault._register.close()
    return np.stack(released).astype(np.float64)


# -- prefixes, and the best of several runs


def prefixes(folder: Path, there: bool) -> Numbers:
    """Lengths and rows of prefixes; the target is one expert more, who agrees with all others."""
    data = expert_cases.logs(110 + there, episodes=1)
    vault = expert_cases.vault_of(folder, data)
    part = expert_cases.part(source="clones", rows_per_unit=20)
    run = vault.reserve(expert_cases.plan_of(part))
    found = vault.above_threshold(run, "consensus", clone=expert_cases.Cloned(), world=expert_cases.Counting())[0]
    return np.concatenate([found.lengths, *(np.ravel(column) for column in found.columns.values())]).astype(np.float64)


@dataclass(frozen=True)
class OneSum:
    """One noisy sum under the plan that is given."""

    def __call__(self, plan: Any, vault: Vault) -> Numbers:
        return np.asarray(vault.noisy_sum(vault.reserve(plan), "sum", Vector())[0]) * POPULATION


@dataclass(frozen=True)
class First:
    """The first number is the score."""

    def __call__(self, value: Numbers, plan: None, vault: None) -> float:
        return float(value[0])


def best(folder: Path, there: bool) -> Numbers:
    vault = _opened(folder, there)
    candidates = (SumPlan(steps=1, noise_multiplier=sigma) for sigma in (SIGMA, 1.5 * SIGMA))
    alone = tuple(plans.account(one, unit=vault.unit, delta=1e-4) for one in candidates)
    part = PrivateSelection(name="best", candidates=alone, judge=None, stop=2, law="geometric")
    return np.asarray(vault.select(_admitted(vault, part), "best", OneSum(), First()).value)


# -- all of them


def _sum(
    part: Any, opened: Any, doors: Doors = by_sum, sigma: float = SIGMA, covers: object = None, **given: Any
) -> Case:
    """A sum whose exact value it releases itself, without noise."""
    release, step = partial(summed, part=part, opened=opened, doors=doors), lattice_step(sigma)
    exact = partial(release, sigma=0.0)
    return Case(part.kind, partial(release, sigma=sigma), **{"step": step, "exact": exact, "covers": covers} | given)


def _users(correlation: Any) -> Case:
    """The noise of one sum is so much larger that all of them together have the part's."""
    part = user_sum(name="sum", steps=STEPS, users=PEOPLE, clip_norm=1.0, correlation=correlation)
    scale = SIGMA * sensitivity(correlation, STEPS, 1)
    return _sum(part, of_users, by_rounds, covers=correlation, scale=(scale, scale))


def _regression(mechanism: Any, exact: Release, spread: Callable[[Numbers], float], least: float) -> Case:
    """The scale of the noise is private and has all digits of a float64; the lattice is that of the least scale."""
    scale = tuple(spread(_totals(there)[0]) * (1 + 1e-4) for there in (False, True))
    return Case(
        "smooth_sensitivity",
        partial(_once, mechanism=mechanism),
        lattice_step(least) / 8,
        scale,
        exact,
        leaks=False,
        covers=type(mechanism),
    )


def _query(query: str, scale: float, whole: str = "") -> Case:
    exact = partial(marginals, sigma=0.0, query=query)
    step = 1.0 if whole else lattice_step(scale)
    return Case(
        "marginals",
        partial(marginals, query=query),
        step,
        exact=exact,
        whole=whole,
        leaks=query == "distances",  # counts are whole numbers: too few of a run are near enough to 0
        covers=type(QUERIES[query]),
    )


CHOICE = "the index of a candidate is released"
SLACK = 1 + 1e-4
CASES: tuple[Case, ...] = (
    _sum(POISSON, of_records(ADDED), covers="sum"),
    _sum(POISSON, of_records(ADDED), by_gradient, covers="gradient"),
    _sum(POOLED, of_users, by_rounds, covers="pool"),
    _sum(FIRST_ROWS, of_devices, covers="server"),
    _sum(FIXED, of_records(REPLACED), covers="sum"),
    _sum(FIXED, of_records(REPLACED), by_gradient, covers="gradient"),
    *(_users(correlation) for correlation in get_args(Correlation)),
    _sum(LOCAL, of_devices, covers="device"),
    _sum(
        SHARED,
        of_devices,
        partial(by_sum, width=16),
        step=2.0**-16,
        covers="shared",
        whole="answers and discrete noise are whole multiples of the grid",
    ),
    _sum(
        LAPLACE,
        of_devices,
        sigma=LAPLACE_SCALE,
        step=2.0**-20,
        scale=(LAPLACE_SCALE, LAPLACE_SCALE),
        whole="answers and discrete noise are whole multiples of the grid",
    ),
    Case(
        "noisy_histogram",
        histograms,
        lattice_step(SIGMA * math.sqrt(AXES)),
        exact=histograms_exactly,
        covers=NoisyHistogram,
    ),
    Case("noisy_max", partial(_once, mechanism=MAXIMUM), 1.0, whole=CHOICE, covers=NoisyMaximum),
    _regression(STATES, states_exactly, STATES.scale, STATES.scale(np.full(VISITS.states, float(POPULATION)))),
    _regression(
        LOSS,
        loss_exactly,
        partial(LOSS.scale, population=POPULATION),
        LOSS.scale(np.zeros(VISITS.states), POPULATION),
    ),
    _query("counts", 2 * SIGMA * SLACK),
    _query("distances", 4 * math.sqrt(PAIRS) * 2 * SIGMA * SLACK),
    _query("choice", 1.0, whole=CHOICE),
    Case("teacher_votes", votes, lattice_step(SIGMA * math.sqrt(VOTES.queries) * SLACK), leaks=False),
    Case("randomized_responses", answers, 1.0, whole="1 or -1"),
    Case("above_threshold", prefixes, 1.0, whole="lengths are whole numbers, rows come from a public world"),
    Case(
        "selection",
        best,
        lattice_step(SIGMA),
        exact=lambda folder, there: there * clip_rows(pattern(WIDTH)[None], 1.0)[0],
    ),
)
"""Every kind of part, and of a kind whatever is released in another way."""
