"""A decision process of two states that is small enough to enumerate, with rewards of both signs and terminations."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods.off_policy_evaluation.policies import Tabular
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit.units import Relation, Unit

MOVES = np.array([[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.9, 0.1]]])
"""[state, action, next state]"""
ENDS = np.array([[0.3, 0.0], [0.1, 0.5]])
"""[state, action] probability that the episode ends with this step."""
REWARDS = np.array([[1.0, -2.0], [0.5, -0.25]])
BEHAVIOUR = Tabular(np.array([[0.6, 0.4], [0.5, 0.5]]))
TARGET = Tabular(np.array([[0.9, 0.1], [0.2, 0.8]]))
PROBLEM = Problem(gamma=0.9, horizon=3)
START = np.array([0.75, 0.25])
SPEC = PublicSpec(
    observation=Discrete(2),
    action=Discrete(2),
    reward=Box((-2.0,), (1.0,)),
    source="declared",
    propensities=True,
)


def exact_value(policy: Tabular, problem: Problem = PROBLEM) -> float:
    """J by backward induction."""
    value = np.zeros(2)
    for _ in range(problem.horizon):
        q = REWARDS + problem.gamma * (1 - ENDS) * (MOVES @ value)
        value = (policy.table * q).sum(axis=1)
    return float(START @ value)


def enumerate_episodes(problem: Problem = PROBLEM) -> tuple[list[list[tuple[int, int, int, bool]]], np.ndarray]:
    """Every episode under the behaviour, a list of (state, action, next state, ended), and its probability."""
    unfinished = [([], state, START[state]) for state in (0, 1)]
    finished = []
    for _ in range(problem.horizon):
        following = []
        for (steps, state, p), action, after in itertools.product(unfinished, (0, 1), (0, 1)):
            q = p * BEHAVIOUR.table[state, action] * MOVES[state, action, after]
            for ended, chance in ((True, ENDS[state, action]), (False, 1 - ENDS[state, action])):
                grown = [*steps, (state, action, after, ended)]
                if ended and chance:
                    finished.append((grown, q * chance))
                elif chance:
                    following.append((grown, after, q * chance))
        unfinished = following
    finished += [(steps, p) for steps, _, p in unfinished]
    return [steps for steps, _ in finished], np.array([p for _, p in finished])


def padded(episodes: list[list[tuple[int, int, int, bool]]], problem: Problem = PROBLEM) -> dict[str, np.ndarray]:
    """One episode a unit as the doors hand rows over with rows="first"."""
    shape = (len(episodes), problem.rows_per_unit)
    rows = {
        "observations": np.zeros(shape, np.int64),
        "actions": np.zeros(shape, np.int64),
        "rewards": np.zeros(shape, np.float32),
        "next_observations": np.zeros(shape, np.int64),
        "terminations": np.zeros(shape, bool),
        "truncations": np.zeros(shape, bool),
        "propensities": np.ones(shape, np.float32),
        "mask": np.zeros(shape, bool),
        "starts": np.zeros(shape, bool),
    }
    for i, steps in enumerate(episodes):
        rows["starts"][i, 0] = True
        for t, (state, action, after, ended) in enumerate(steps):
            rows["observations"][i, t], rows["actions"][i, t], rows["next_observations"][i, t] = state, action, after
            rows["rewards"][i, t] = REWARDS[state, action]
            rows["propensities"][i, t] = BEHAVIOUR.table[state, action]
            rows["terminations"][i, t] = ended
            rows["mask"][i, t] = True
    return rows


def simulate(units: int, seed: int, problem: Problem = PROBLEM) -> dict[str, np.ndarray]:
    """Columns of one episode a unit under the behaviour, drawn from the enumeration."""
    episodes, p = enumerate_episodes(problem)
    chosen = np.random.default_rng(seed).choice(len(episodes), size=units, p=p)
    rows = padded([episodes[i] for i in chosen], problem)
    rows["truncations"][:, -1] = rows["mask"][:, -1] & ~rows["terminations"][:, -1]
    ids = np.repeat(np.arange(units)[:, None], problem.rows_per_unit, axis=1)
    keep = rows.pop("mask")
    rows.pop("starts")
    return {**{name: column[keep] for name, column in rows.items()}, "unit_ids": ids[keep], "episode_ids": ids[keep]}


def unit_of(population: int = 500, relation: Relation = "add_or_remove") -> Unit:
    return Unit("patient", relation, population)


def open_vault(
    folder: Path,
    *,
    units: int = 500,
    seed: int = 0,
    unit: Unit | None = None,
    noise: SecretNoise | None = None,
    name: str = "a",
    distinct: bool = False,
    propensities: bool = True,
) -> Vault:
    unit = unit or unit_of(max(2, units))
    columns = simulate(units, seed)
    if distinct:  # few episodes are possible, and units with equal rows would share a fold
        jitter = np.random.default_rng(seed).random(len(columns["propensities"]), np.float32)
        columns["propensities"] *= 1 - 1e-4 * jitter
    if not propensities:
        del columns["propensities"]
    spec = dataclasses.replace(SPEC, propensities=propensities)
    data = Trajectories.from_arrays(**columns, spec=spec, simulated=True)
    return Vault(
        data,
        Ledger(folder / f"{name}.ledger", unit, epsilon=1e6, delta=0.5 / unit.size, composition=SUM),
        noise=noise,
    )


class Silent(SecretNoise):
    """No Gaussian noise: shows what the noise is added to."""

    def gaussian(self, size: int, scale: float = 1.0, out: np.ndarray | None = None) -> np.ndarray:
        return np.zeros(size, np.float32)
