"""A process of two states, two treatments and three visits, small enough to enumerate, with one number to look at."""

from __future__ import annotations

import itertools
from pathlib import Path
from unittest import mock

import numpy as np

from tacit.data.memory import Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods.improvement import ImprovementPlan, Problem
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit.units import Promise, Unit

SPEC = PublicSpec(Box((-1.0,), (2.0,)), Discrete(2), Box((-4.0,), (2.0,)), "declared", propensities=True)
PROBLEM = Problem(gamma=1.0, horizon=3, episodes_per_unit=2, return_range=(-9.0, 5.0))
MEMORY = Memory((0.5,))
CHOICE = np.array([[0.9, 0.1], [0.3, 0.7]])
"""[state, action] of the records."""
MOVES = np.array([[0.2, 0.6], [0.5, 0.9]])
"""[state, action] chance of state 1 at the next visit."""
ENDS = np.array([[0.1, 0.0], [0.2, 0.4]])
PAID = np.array([[-1.0, 0.5], [-4.0, 2.0]])
Step = tuple[int, int, int, bool]


def courses(choice: np.ndarray = CHOICE) -> tuple[list[list[Step]], np.ndarray]:
    """Every course from state 0, a list of (state, action, next state, ended), and its chance under a policy [S, A]."""
    open_courses: list[tuple[list[Step], int, float]] = [([], 0, 1.0)]
    done: list[tuple[list[Step], float]] = []
    for visit in range(PROBLEM.horizon):
        after: list[tuple[list[Step], int, float]] = []
        for (steps, state, p), action, following in itertools.product(open_courses, (0, 1), (0, 1)):
            moves = MOVES[state, action] if following else 1 - MOVES[state, action]
            q = p * choice[state, action] * moves
            for ended, chance in ((True, ENDS[state, action]), (False, 1 - ENDS[state, action])):
                if q * chance:
                    grown = [*steps, (state, action, following, ended)]
                    over = ended or visit == PROBLEM.horizon - 1
                    done.append((grown, q * chance)) if over else after.append((grown, following, q * chance))
        open_courses = after
    return [steps for steps, _ in done], np.array([p for _, p in done])


def value(choice: np.ndarray) -> float:
    """The exact mean return of a policy [S, A]."""
    after = np.zeros(2)
    for _ in range(PROBLEM.horizon):
        moved = (1 - MOVES) * after[0] + MOVES * after[1]
        after = (choice * (PAID + (1 - ENDS) * moved)).sum(axis=1)
    return float(after[0])


def columns(listed: list[list[Step]], owners: list[int]) -> dict[str, np.ndarray]:
    """Rows of courses with their owners, as `Trajectories.from_arrays` takes them."""
    steps = [(k, *step) for k, course in enumerate(listed) for step in course]
    course, state, action, after, ended = (np.array(part) for part in zip(*steps, strict=True))
    return {
        "observations": state[:, None].astype(np.float32),
        "next_observations": after[:, None].astype(np.float32),
        "actions": action.astype(np.int64),
        "rewards": PAID[state, action].astype(np.float32),
        "terminations": ended.astype(bool),
        "propensities": CHOICE[state, action].astype(np.float32),
        "unit_ids": np.array(owners)[course],
        "episode_ids": course,
    }


def padded(listed: list[list[Step]]) -> dict[str, np.ndarray]:
    """One course a unit, as a vault hands rows to a contribution."""
    table, length = columns(listed, list(range(len(listed)))), PROBLEM.rows_per_unit
    place = np.concatenate([np.arange(len(course)) for course in listed])
    rows = {
        name: np.zeros((len(listed), length, *column.shape[1:]), column.dtype)
        for name, column in table.items()
        if name not in ("unit_ids", "episode_ids")
    }
    for name, column in rows.items():
        column[table["unit_ids"], place] = table[name]
    rows["mask"] = np.zeros((len(listed), length), bool)
    rows["mask"][table["unit_ids"], place] = True
    rows["starts"] = np.zeros((len(listed), length), bool)
    rows["starts"][:, 0] = True
    return rows


def plan_of(unit: Unit | None = None, **settings: object) -> ImprovementPlan:
    promise = None if unit is None else Promise(unit, 1.0, 0.1 / unit.size)
    return ImprovementPlan.of(SPEC, **{"problem": PROBLEM, "memory": MEMORY, "promise": promise, **settings})


def people(units: int, seed: int) -> Trajectories:
    """Records of people with one or two courses each."""
    generator = np.random.default_rng(seed)
    listed, chances = courses()
    owners = np.repeat(np.arange(units), generator.integers(1, 3, units))
    drawn = [listed[k] for k in generator.choice(len(listed), len(owners), p=chances / chances.sum())]
    return Trajectories.from_arrays(**columns(drawn, owners.tolist()), spec=SPEC, simulated=True)


def open_vault(folder: Path, units: int = 400, seed: int = 0, noise: SecretNoise | None = None) -> Vault:
    """A vault whose halves are fixed by the seed."""
    unit = Unit("patient", "add_or_remove", units)
    with mock.patch("secrets.token_hex", lambda size=32: f"{seed:0{2 * size}x}"):
        ledger = Ledger(folder / f"{seed}.ledger", unit, epsilon=1e5, delta=0.9 / units, composition=SUM)
    return Vault(people(units, seed), ledger, noise=noise)
