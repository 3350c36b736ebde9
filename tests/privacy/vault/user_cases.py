"""People for the tests of the online vault: what each of them does is written down beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from vault_cases import SPEC, GivenParts, unit_of

from tacit.data.spec import PublicSpec
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.sums import UserSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit

LENGTH = 4
"""Rows of a meeting that are read at most."""


@dataclass
class Scripted:
    """Rounds of ids by replicate; person `id` earns the listed rewards (none: did not answer)."""

    rounds: Sequence[Sequence[Sequence[str]]]
    rewards: Mapping[str, Sequence[float]]
    simulated: bool = True
    replicates: int = 1
    spec: PublicSpec = SPEC
    length: int = LENGTH
    pool: Sequence[Sequence[str]] = ()
    met: list[Any] = field(default_factory=list)

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        return self.rounds[len(self.met)] if len(self.met) < len(self.rounds) else [[]] * self.replicates

    def serve(self, people: Sequence[Sequence[str]], actor: Any) -> dict[str, np.ndarray]:
        self.met.append((people, actor))
        flat = [person for some in people for person in some]
        shape = (len(flat), self.length)
        rewards, mask = np.zeros(shape), np.zeros(shape, bool)
        for place, person in enumerate(flat):
            own = self.rewards.get(person, ())[: self.length]
            rewards[place, : len(own)], mask[place, : len(own)] = own, True
        zeros = np.zeros((*shape, 1))
        return {
            "observations": zeros,
            "actions": np.zeros(shape, int),
            "rewards": rewards,
            "next_observations": zeros,
            "terminations": np.zeros(shape, bool),
            "truncations": np.zeros(shape, bool),
            "mask": mask,
        }


@dataclass(frozen=True)
class Earned:
    """The sum of a person's rewards in the first coordinate, 0 in the others."""

    width: int = 1

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        vectors = np.zeros((len(rows["mask"]), self.width))
        vectors[:, 0] = (rows["rewards"] * rows["mask"]).sum(1)
        return vectors


def user_sum(**fields: Any) -> UserSum:
    defaults: dict[str, Any] = {"name": "policy", "steps": 3, "users": 4, "clip_norm": 10.0, "rows_per_unit": LENGTH}
    return UserSum(**defaults | {"noise_multiplier": 1.0} | fields)


def priced(*parts: Part, unit: Unit | None = None) -> GivenParts:
    return plans.account(GivenParts(parts), unit=unit or unit_of(), delta=1e-4)


def open_user_vault(
    folder: Path, users: Scripted, *, noise: SecretNoise | None = None, unit: Unit | None = None, name: str = "a"
) -> UserVault:
    """A vault with its ledgers in `folder/ledgers` and the register's key beside them."""
    unit = unit or unit_of()
    (folder / "ledgers").mkdir(exist_ok=True)
    (folder / "keys").mkdir(exist_ok=True)
    ledgers = [
        Ledger(
            folder / "ledgers" / f"{name}{r}.ledger",
            unit,
            epsilon=1e6,
            delta=0.5 / unit.size,
            composition=SUM,
        )
        for r in range(users.replicates)
    ]
    register = Register(folder / "ledgers" / f"{name}.register", key=folder / "keys" / f"{name}.key")
    return UserVault(users, ledgers, register, noise=noise)
