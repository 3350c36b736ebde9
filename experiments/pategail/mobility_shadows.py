"""Runs of simulators with any half of Geolife's people, many of them: what `mobility_attack` attacks.

One-shot methods are run on everybody's vectors, which are computed once, as the vault's doors compute them; PateGAIL++
on the devices of those who are present, and the attacker hears what the server hears. The population is the same in all
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from experiments.lib.attacks import ContributionDirection, Floats, Presence, Released
from experiments.pategail.mobility_runs import GEOLIFE, world
from tacit.data.mobility.days import SLOTS, Days
from tacit.envs.movement import play
from tacit.methods.mobility import pategail
from tacit.methods.mobility.moves import MOVES_PART
from tacit.methods.mobility.pategail.plan import CRITICS
from tacit.methods.mobility.pategail.rewards import LocalCritics
from tacit.methods.mobility.places import JUMPS, STARTS, HomeSums, JumpSums
from tacit.privacy.gradients.clipping import clip_rows
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.isolation import IsolationChecks

GENERATED = 2_000  # days that a run generates
DISTRUST = 10.0
"""By how much the attacker takes the spread of a critic's answers to be larger than two critics show it: chosen on
invented people."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Noisy sums of one part over any half of the people."""

    vectors: Floats  # [U, k], everybody's clipped contribution where anybody's is not 0
    columns: np.ndarray  # [k] of the part's d numbers
    size: int  # d
    noise: float  # standard deviation of the noise in the sum

    @classmethod
    def of(cls, contribution: Any, clip: float, noise_multiplier: float) -> Sums:
        rows = everybody()
        made = np.asarray(contribution(contribution.summary(rows), None), np.float64)
        vectors = clip_rows(made, clip)
        columns = np.flatnonzero(vectors.any(axis=0))
        return cls(vectors[:, columns], columns, made.shape[1], noise_multiplier * clip)

    def draw(self, members: np.ndarray, rng: np.random.Generator) -> Floats:
        """The noisy mean [d] over the population, these [U] being present."""
        total = rng.normal(size=self.size) * self.noise if self.noise else np.zeros(self.size)
        total[self.columns] += members @ self.vectors
        return total / GEOLIFE

    def seen(self, mean: Floats) -> Floats:
        """What is told by a mean [d]: its numbers in standard deviations of the noise, if there is noise."""
        return mean[self.columns] * GEOLIFE / (self.noise or 1.0)

    @property
    def own(self) -> Floats:
        """[U, k] in the units of `seen`."""
        return self.vectors / (self.noise or 1.0)


@cache
def everybody() -> dict[str, np.ndarray]:
    days, steps = world(GEOLIFE).days, SLOTS - 1
    length = int(np.bincount(days.person).max()) * steps
    shape = (GEOLIFE, length)
    rows = {name: np.zeros(shape, np.int64) for name in ("observations", "next_observations")}
    rows |= {name: np.zeros(shape, bool) for name in ("mask", "starts")}
    for person in range(GEOLIFE):
        own = days.cells[days.person == person]
        size = len(own) * steps
        rows["observations"][person, :size] = own[:, :-1].ravel()
        rows["next_observations"][person, :size] = own[:, 1:].ravel()
        rows["mask"][person, :size], rows["starts"][person, :size:steps] = True, True
    return rows


@dataclass(frozen=True, eq=False)
class InMemory:
    """A method of three sums: moves, starts and jumps."""

    plan: Any  # calibrated
    moves: Any  # the contribution of the first
    policy: Callable[[Floats, int], Any]  # from its noisy mean [d] and a seed to a policy

    def __post_init__(self) -> None:
        parts = {part.name: part for part in self.plan.parts()}
        grid = world(GEOLIFE).days.grid
        noise = (parts[STARTS].noise_multiplier or 0.0) * parts[STARTS].clip_norm / GEOLIFE
        readers = {STARTS: HomeSums.for_people(grid, GEOLIFE, noise), JUMPS: JumpSums.from_grid(grid)}
        sums = {
            name: Sums.of(one, parts[name].clip_norm, parts[name].noise_multiplier or 0.0)
            for name, one in {MOVES_PART: self.moves, **readers}.items()
        }
        object.__setattr__(self, "_readers", readers)
        object.__setattr__(self, "_sums", sums)

    def __call__(self, present: Presence, seed: int) -> Released:
        """As `attacks.Run`."""
        rng, found = np.random.default_rng(seed), []
        for members in present:
            means = {name: one.draw(members, rng) for name, one in self._sums.items()}
            starts, jumps = (self._readers[n].read(means[n], self._sums[n].noise / GEOLIFE) for n in (STARTS, JUMPS))
            simulator = self.policy(means[MOVES_PART], int(rng.integers(2**31))), starts, jumps, self.plan
            seen = np.concatenate([one.seen(means[name]) for name, one in self._sums.items()])
            impossible = getattr(self.plan, "meaning", "mask")  # what an impossible action is
            found.append({"sum": seen, **played(*simulator[:3], impossible, members, rng)})
        return stacked(found)

    def own(self) -> Floats:
        """[U, k] contributions to `sum`."""
        return np.concatenate([one.own for one in self._sums.values()], axis=1)


@dataclass(frozen=True, eq=False)
class Heard:
    """The doors to devices, and what a server hears through them."""

    doors: FederatedVault  # all else
    # of each, what was asked and the noisy mean [d] of critics' answers
    rounds: list[tuple[Mapping[str, np.ndarray], Floats]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.doors, name)

    def noisy_sum(self, run: Any, part: str, work: Any, state: Mapping[str, np.ndarray] | None = None) -> Floats:
        mean = self.doors.noisy_sum(run, part, work, state)
        if part == CRITICS:
            self.rounds.append((dict(state or {}), mean[0]))
        return mean


class Untried(IsolationChecks):
    """Checks without the trial of critics on invented rows: it reads no record and would take minutes in every run."""

    def try_work(self, part: Any, work: Any, public: Any) -> int:
        return int(work.width(public)) if isinstance(work, LocalCritics) else super().try_work(part, work, public)


@dataclass(frozen=True, eq=False)
class OnDevices:
    """PateGAIL++ on the devices of those who are present."""

    plan: pategail.PateGailPlan  # calibrated
    heard: bool = False  # whether the attacker hears what the server hears

    def __call__(self, present: Presence, seed: int) -> Released:
        """As `attacks.Run`; if heard, `critics` [R, U] is what the answers tell of each person."""
        here, rng, found = world(GEOLIFE), np.random.default_rng(seed), []
        for members in present:
            kept = members[here.days.person]
            some = Days(here.days.cells[kept], here.days.person[kept], here.days.grid)
            with replace(here, days=some).devices() as vault:
                vault._checks, heard = Untried(vault.spec), Heard(vault)
                doors: Any = heard
                made = pategail.fit(self.plan, doors, grid=some.grid, seed=int(rng.integers(2**31))).value
            told = {"critics": suspected(self.plan, heard.rounds, rng)} if self.heard else {}
            found.append(told | played(made.policy, made.starts, made.space, "mask", members, rng))
        return stacked(found)


def suspected(
    plan: pategail.PateGailPlan, rounds: Sequence[tuple[Mapping[str, np.ndarray], Floats]], rng: np.random.Generator
) -> Floats:
    """[U], by how much each person's critic seems to be among those that answered.

    The attacker trains everybody's critic again, twice, on the questions that were public; the mean of both is a
    person's direction in the noisy sums, and how far both are apart is how well the attacker knows it.
    """
    one, other = (answers(plan, [public for public, _ in rounds], rng) for _ in range(2))
    directions = (one + other) / 2
    unknown = DISTRUST * 0.75 * len(directions) * float(np.square(one - other).mean()) / 2
    noise = float(np.hypot(plan.noise_std(CRITICS) * GEOLIFE, np.sqrt(unknown)))
    total = np.concatenate([mean for _, mean in rounds]) * GEOLIFE - directions.sum(axis=0) / 2
    return ContributionDirection(directions, noise)({"sum": total[None]})[0]


def answers(
    plan: pategail.PateGailPlan, questions: Sequence[Mapping[str, np.ndarray]], rng: np.random.Generator
) -> Floats:
    """[U, rounds d], what everybody's critics answer, clipped, with random numbers of the attacker's own."""
    work = plan.work()
    rows = {name: column[:, : plan.rows_per_unit] for name, column in everybody().items()}

    def seeds() -> np.ndarray:
        return rng.integers(2**64, size=GEOLIFE, dtype=np.uint64)

    own, found = work.begin(rows, seeds()), []
    for public in questions:
        answer, own = work(own, public, seeds())
        found.append(clip_rows(answer, plan.bound))
    return np.concatenate(found, axis=1)


def played(
    policy: Any, starts: Any, space: Any, invalid: Any, members: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """A simulator's policy, its days, and days whose starts are copied from members' days."""
    days = world(GEOLIFE).days
    real = days.cells[members[days.person], 0]
    first = {"days": starts.draw(GENERATED, rng), "copied": real[rng.integers(len(real), size=GENERATED)]}
    return {
        "policy": policy,
        **{name: play(policy, space, cells, rng, invalid=invalid) for name, cells in first.items()},
    }


def stacked(runs: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Arrays [R, ...] of what R runs released."""
    found = {name: np.stack([run[name] for run in runs]) for name in runs[0] if name != "policy"}
    found["policy"] = np.empty(len(runs), object)
    found["policy"][:] = [run["policy"] for run in runs]
    return found
