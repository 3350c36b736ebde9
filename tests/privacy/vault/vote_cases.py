"""People whose votes are known: each earns what the played parameters say, and only some of them answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from user_cases import open_user_vault
from vault_cases import Silent, unit_of

from tacit.agents.features import Scaled
from tacit.agents.heads import Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.spec import Box, PublicSpec
from tacit.envs.serving import SimulatedUsers
from tacit.methods.policy_gradient import VotesPlan, fit

SPEC = PublicSpec(
    observation=Box((-1.0,) * 2, (1.0,) * 2),
    action=Box((-9.0,) * 2, (9.0,) * 2),
    reward=Box((-20.0,), (20.0,)),
    source="declared",
)
POLICY = Policy(
    Scaled((-1.0,) * 2, (1.0,) * 2), Mlp((2, 2), gain=0.0), Gaussian((-9.0,) * 2, (9.0,) * 2, (0.0,) * 2, 0.5)
)
ROUNDS, PEOPLE, DIRECTIONS, LENGTH = 6, 4, 3, 4
GRID = 0.01
"""How far a sum moves to the lattice that releases lie on, and by the slack of the clip."""


class Slope:
    """An observation stays where it began; a step pays the first action less the second one."""

    def starts(self, units: int, generator: np.random.Generator) -> np.ndarray:
        return generator.uniform(-1, 1, (units, 2))

    def step(
        self, state: np.ndarray, action: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return state, action[:, 0].astype(float) - action[:, 1], np.zeros(len(state), bool)

    def observe(self, state: np.ndarray) -> np.ndarray:
        return state.astype(np.float32)


class Some(SimulatedUsers):
    """People; those whose place is in `answers` of the round answer; what was played and paid is kept."""

    def __init__(self, answers: Sequence[Sequence[int]], replicates: int = 1, rounds: int = 0) -> None:
        super().__init__(Slope(), SPEC, horizon=LENGTH, replicates=replicates, seed=3, rounds=rounds)
        self.answers, self.actors, self.rows = answers, list[Any](), list[Mapping[str, np.ndarray]]()

    def serve(self, people: Sequence[Sequence[str]], actor: Any) -> Mapping[str, np.ndarray]:
        rows = dict(super().serve(people, actor))
        self.rows.append({name: column.copy() for name, column in rows.items()})
        answered = np.isin(np.arange(len(rows["mask"])) % PEOPLE, self.answers[len(self.actors)])
        rows["mask"] &= answered[:, None]
        self.actors.append(actor)
        return rows

    def votes(self, round_: int, radius: float) -> np.ndarray:
        """What each person would add to a round, [U, P], from what was played and paid in it."""
        played = self.actors[round_].acting.theta
        rewards = self.rows[round_]["rewards"].reshape(-1, 2 * DIRECTIONS, LENGTH).sum(axis=2)
        steps = played.reshape(-1, DIRECTIONS, 2, POLICY.parameters).astype(np.float64)
        signs = np.sign(rewards[:, ::2] - rewards[:, 1::2])
        return np.einsum("up,upd->ud", signs, (steps[:, :, 0] - steps[:, :, 1]) / (2 * radius))


def plan(**fields: Any) -> VotesPlan:
    few: dict[str, Any] = {"rounds": ROUNDS, "users": PEOPLE, "directions": DIRECTIONS, "episode_length": LENGTH}
    return VotesPlan(**few | {"radius": 0.5, "noise_multiplier": 1.0} | fields).account(unit=unit_of(1_000), delta=1e-4)


def steps_of(folder: Path, users: Some, voted: VotesPlan) -> np.ndarray:
    """N times each round's released mean without noise, [T, R, P]."""
    folder.mkdir(parents=True, exist_ok=True)
    vault = open_user_vault(folder, users, noise=Silent(), unit=unit_of(1_000))  # type: ignore[arg-type]
    released = []
    real = vault.noisy_sum

    def noisy_sum(*arguments: Any) -> np.ndarray:
        released.append(real(*arguments))
        return released[-1]

    vault.noisy_sum = noisy_sum  # type: ignore[method-assign]
    fit(voted, vault, POLICY)
    vault.ledger.close()
    vault._register.close()
    return PEOPLE * np.array(released)
