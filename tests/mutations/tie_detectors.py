"""Detectors of decisions that depend on who else is in a batch, as those of `detectors.py`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling
from tacit.methods.off_policy_evaluation.policies import Network
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

WIDTH, ACTIONS, PEOPLE = 64, 6, 50
UNIT = Unit("patient", "add_or_remove", 100)
SPEC = PublicSpec(
    observation=Box((-1e3,) * WIDTH, (1e3,) * WIDTH),
    action=Discrete(ACTIONS),
    reward=Box((0.0,), (1.0,)),
    source="declared",
    terminals=True,
    propensities=True,
)
PLAN = ImportanceSampling(problem=Problem(gamma=1.0, horizon=1), clip=2.0)


def tying() -> Network:
    """A greedy public policy of which actions 0 and 5 tie in every state."""
    weight, bias = np.random.default_rng(0).normal(size=(ACTIONS, WIDTH)), np.full(ACTIONS, -1e3)
    weight[5], bias[[0, 5]] = weight[0], 0.0
    return Network(((weight, bias),), greedy=True)


def people(seed: int) -> np.ndarray:
    """What they were seen in, [U, d]; everybody took action 0 with probability 1/2, and earned 1."""
    return np.random.default_rng(seed).normal(size=(PEOPLE, WIDTH)).astype(np.float32)


def released(folder: Path, seen: np.ndarray) -> np.ndarray:
    """The sum of their scores through a vault, without noise."""
    count, exact = len(seen), dataclasses.replace(PLAN, noise_multiplier=0.0).account(unit=UNIT, delta=1e-3)
    data = Trajectories.from_arrays(
        observations=seen,
        next_observations=seen,
        actions=np.zeros(count, int),
        rewards=np.ones(count),
        terminations=np.ones(count, bool),
        propensities=np.full(count, 0.5),
        unit_ids=np.arange(count),
        spec=SPEC,
    )
    vector = scores.ScoreVector(PLAN.problem, tying(), None, SPEC, PLAN.clip)
    with Ledger(folder, UNIT, epsilon=1e6, delta=5e-3, composition=SUM) as ledger:
        vault = Vault(data, ledger)
        run = vault.reserve(exact)
        return vault.noisy_sum(run, scores.NAME, vector)[0] * exact.parts()[0].divisor(UNIT)


def ties_stay(folder: Path) -> None:
    """When one person leaves, the sum moves by what that person added: nobody else's tie is decided otherwise."""
    for seed in range(3):
        seen = people(seed)
        everybody, others, alone = (
            released(folder / f"{seed}-{name}", some)
            for name, some in (("everybody", seen), ("others", seen[1:]), ("alone", seen[:1]))
        )
        moved = np.linalg.norm(everybody - others - alone)
        assert moved <= 1e-9, f"others moved by {moved:.3f} clips when somebody left"


TIE_DETECTORS = (ties_stay,)
