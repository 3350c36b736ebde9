"""Other private ways from the same logs, memory and budget to a policy, beside `experiments.improvement`.

    python -m experiments.improvement_peers                  # all rows; resumable
    python -m experiments.improvement_peers bc cql           # rows whose keys begin so

A key is WAY/PEOPLE/EPSILON/SEED, in the clinic, with the seeds, people and evaluation of `experiments.improvement`.
No peer spends anything on a statement: the whole budget goes into its policy.

bc, cql    cloning and conservative Q-learning by DP-SGD (the noisy steps of `tacit.experts`, one unit a patient)
tabular    private value iteration on noisy counts of public cells, with a bonus that the noise makes necessary (after
           Qiao and Wang, "Offline reinforcement learning with differential privacy", NeurIPS 2023; their counts are
           those of tuples, ours of whole patients, whose vectors are clipped)
primorl, synthesis
           Q-learning from rows of a private world model or of raking (`experiments.improvement_generators`)

Settings are usual ones. The learner of primorl alone was chosen, between two, on another clinic and a seed of no row.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from experiments import improvement, improvement_generators
from experiments.check import Figure
from experiments.configuration import Json, describe
from experiments.dppg_tables import markdown
from experiments.improvement import EPSILONS, SEEDS
from experiments.improvement_generators import EnsemblePlan
from experiments.improvement_worlds import COURSE, EPISODES, of_clinic
from experiments.store import RESULTS, Store
from tacit import experts as learning
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.learners import BC, CQL
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.envs import clinic
from tacit.methods.improvement import Problem
from tacit.methods.improvement.moments import Visits, grouped
from tacit.methods.synthesis.baselines.raking_alone import RakingPlan
from tacit.privacy.certificate.words import Label
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault.plan import PrivatePlan
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

NAME = "improvement_peers"
WAYS = ("bc", "cql", "tabular", "primorl", "synthesis")
PEOPLE = 10_000
EDGES = ((2.5, 4.0, 5.5), (0.0,), (0.0,), (1.0, 2.0))
"""Public cuts of symptoms, both markers and side effects: 48 cells."""
CELLS = 48
ROWS = 16.0
"""Norm that a patient's counts are clipped to: about its number of visits."""


@dataclass(frozen=True)
class TabularPlan(PrivatePlan):
    """One noisy sum of counts and rewards of cells."""

    method: ClassVar[str] = "private value iteration on counts"
    source: ClassVar[str] = "Qiao and Wang (NeurIPS 2023)"
    problem: Problem
    noise_multiplier: float | None = None
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def parts(self) -> tuple[PoissonSum, ...]:
        """The sum."""
        return (self.problem.part("counts", self.noise_multiplier),)


@dataclass(frozen=True)
class Counts:
    """Each unit's counts of (cell, action, next cell or end), and summed rewards of (cell, action), over `ROWS`."""

    problem: Problem

    def __call__(self, rows: Mapping[str, np.ndarray], state: object) -> NDArray[np.float64]:
        """Rows [U, L, ...] -> [U, S A (S + 2)]."""
        visits = Visits.of(rows, self.problem, COURSE)
        pair = cells(visits.seen) * clinic.ACTIONS + visits.actions
        after = np.where(visits.terminations, CELLS, cells(visits.after))
        pairs = CELLS * clinic.ACTIONS
        width = pairs * (CELLS + 1)
        place = visits.unit * width + pair * (CELLS + 1) + after
        moves = np.bincount(place, minlength=visits.units * width).reshape(visits.units, width)
        paid = grouped(visits.unit * pairs + pair, visits.rewards[:, None], visits.units * pairs)
        vectors = np.concatenate([moves, paid.reshape(visits.units, pairs)], axis=1) / ROWS
        return np.asarray(vectors / np.maximum(1, np.linalg.norm(vectors, axis=1, keepdims=True)))


def cells(seen: NDArray[Any]) -> NDArray[np.int64]:
    """Cells [N] of memories [N, 6]."""
    found = np.zeros(len(seen), np.int64)
    for column, edges in enumerate(EDGES):
        found = found * (len(edges) + 1) + np.searchsorted(edges, seen[:, column])
    return found


def planned(noisy: NDArray[np.float64], noise: float) -> NDArray[np.int64]:
    """The best action of each cell by pessimistic value iteration on noisy sums.

    Args:
        noisy: sums [S A (S + 2)].
        noise: standard deviation of each of them.
    """
    pairs = CELLS * clinic.ACTIONS
    moves = np.maximum(noisy[: pairs * (CELLS + 1)].reshape(CELLS, clinic.ACTIONS, CELLS + 1), 0)
    count = np.maximum(moves.sum(-1), noise * math.sqrt(CELLS))
    chances, paid = moves / count[..., None], noisy[-pairs:].reshape(CELLS, clinic.ACTIONS) / count
    bonus = (1 / np.sqrt(count) + noise * math.sqrt(CELLS) / count) * (clinic.REWARD[1] - clinic.REWARD[0]) / 2
    value = np.zeros(CELLS)
    action_values = paid
    for _ in range(clinic.HORIZON):
        action_values = np.clip(paid - bonus + chances[..., :CELLS] @ value, -9.0, 5.0)
        value = action_values.max(axis=1)
    return np.asarray(action_values.argmax(axis=1))


@dataclass(frozen=True, eq=False)
class Table:
    """Acts by a table of cells."""

    actions: NDArray[np.int64]

    def __call__(
        self, observations: NDArray[Any], replicate: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Actions [N] of memories [N, 6]."""
        return self.actions[cells(observations)]


def plan_of(way: str) -> learning.Consensus | TabularPlan | EnsemblePlan | RakingPlan:
    """The plan of a way, not calibrated."""
    if way == "tabular":
        return TabularPlan(of_clinic().problem)
    if way == "primorl":
        return EnsemblePlan()
    if way == "synthesis":
        return improvement_generators.raking_plan()
    features = Scaled(clinic.LOW, clinic.HIGH)
    policy = Policy(features, Mlp((6, 32, clinic.ACTIONS)), Categorical(clinic.ACTIONS))
    return learning.Consensus(
        policy=policy,
        learner=BC() if way == "bc" else CQL(gamma=0.99, reward_scale=1.0),
        trajectories=0,
        stable_fraction=0.0,
        steps=600,
        expected_batch_size=512,
        rows_per_expert=16,
        clip_norm=1.0,
        rate=1e-2,
    )


def rows() -> list[str]:
    """All keys."""
    return [f"{way}/{PEOPLE}/{epsilon:g}/{seed}" for way in WAYS for epsilon in EPSILONS[:3] for seed in SEEDS]


def configuration(key: str) -> Json:
    """Everything that decides a row, but its seed."""
    way, people, epsilon, _ = key.split("/")
    extra = {"edges": describe(EDGES), "rows": ROWS} if way == "tabular" else {}
    if way in ("primorl", "synthesis"):
        extra = {"learner": describe(improvement_generators.learner_of(way)), "steps": improvement_generators.STEPS}
    return {"plan": describe(plan_of(way)), "people": people, "epsilon": epsilon, "episodes": EPISODES, **extra}


def store(path: Path | None = None) -> Store:
    """The result file."""
    return Store(path or RESULTS / f"{NAME}.json", configuration, hyperparameters="usual ones, chosen once")


def run_row(key: str, results: Store) -> None:
    """Make one row."""
    way, people, epsilon, seed = key.split("/")
    began, here, plan = time.process_time(), of_clinic(), plan_of(way)
    unit, delta = Unit("patient", "add_or_remove", int(people)), 0.1 / int(people)
    plan = plan.calibrate(unit=unit, epsilon=float(epsilon), delta=delta)
    data = here.data(int(people), int(seed))
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger(Path(folder) / "ledger", unit, epsilon=float(epsilon), delta=delta) as ledger,
    ):
        if isinstance(plan, TabularPlan):
            vault = Vault(data, ledger)
            run = vault.reserve(plan)
            noisy = vault.noisy_sum(run, "counts", Counts(plan.problem))[0] * unit.size * ROWS
            assert plan.noise_multiplier is not None
            table = Table(planned(noisy, plan.noise_multiplier * ROWS))
            actor: Any = vault.release(run, table, label=Label(("counts",), (), ())).value
        elif isinstance(plan, EnsemblePlan | RakingPlan):
            vault = Vault(data.remember(COURSE), ledger)
            actor = improvement_generators.learned(way, improvement_generators.made(plan, vault, int(seed)), int(seed))
        else:
            actor = learning.fit(plan, Vault(data.remember(COURSE), ledger)).value.actor()
    values = {"score": here.score(actor, COURSE, int(seed)), "cpu_s": round(time.process_time() - began, 1)}
    results.put(key, dataset="simulated clinic", seed=int(seed), values=values)
    print(f"{key}: {values}", flush=True)


def figures() -> list[Figure]:
    """How far our way is ahead of each peer, recomputed from the raw rows.

    Raises:
        LookupError: a row is missing or has another configuration.
    """
    results, found = store(), []
    for epsilon in EPSILONS[:3]:
        mine = np.mean([improvement.store().values(f"clinic/{PEOPLE}/{epsilon:g}/{seed}")["score"] for seed in SEEDS])
        for way in WAYS:
            score = np.mean([results.values(f"{way}/{PEOPLE}/{epsilon:g}/{seed}")["score"] for seed in SEEDS])
            found.append(Figure(f"clinic, epsilon {epsilon:g}: ahead of {way}", float(mine - score), 0.0))
    return found


def table(results: Store) -> str:
    """Mean scores, a line a way; a cell without rows says so."""
    lines = []
    for way in WAYS:
        cells = []
        for epsilon in EPSILONS[:3]:
            keys = [f"{way}/{PEOPLE}/{epsilon:g}/{seed}" for seed in SEEDS]
            found = [results.values(key)["score"] for key in keys if results.has(key)]
            few = f" ({len(found)} runs)" if len(found) < len(SEEDS) else ""
            cells.append(f"{np.mean(found):.1f}{few}" if found else "not run")
        lines.append([way, *cells])
    return markdown([f"epsilon {epsilon:g}" for epsilon in EPSILONS[:3]], lines)


def main(arguments: list[str]) -> None:
    """Make missing rows."""
    improvement.main(arguments, sys.modules[__name__])


if __name__ == "__main__":
    main(sys.argv[1:])
