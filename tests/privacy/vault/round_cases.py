"""A pool whose people each mark a coordinate of their own, so that a released sum tells who was in which round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from user_cases import Scripted, open_user_vault, priced, user_sum
from vault_cases import Silent, unit_of

from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit

PEOPLE, ROUNDS, EXPECTED = 24, 4, 6
POOL = [f"p{i}" for i in range(PEOPLE)]
SLACK = 2.0**-7
"""How far the clip's slack and the public grid move a sum."""


@dataclass(frozen=True)
class Marked:
    """A vector of norm 1 along the coordinate that a person's first reward says, four to a unit."""

    width: int = 2 * PEOPLE

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Any) -> NDArray[np.float64]:
        place = np.rint(4 * rows["rewards"][:, 0]).astype(int)
        return np.eye(self.width)[np.clip(place, 0, self.width - 1)]


def marks(people: Sequence[str]) -> dict[str, list[float]]:
    """What people earn, so that pi marks coordinate i."""
    return {person: [float(person.strip()[1:]) / 4] for person in people}


def still(*_: Any) -> np.ndarray:
    return np.zeros(1)


def plan_of(unit: Unit | None = None, **fields: Any) -> Any:
    few: dict[str, Any] = {"steps": ROUNDS, "users": EXPECTED, "clip_norm": 1.0}
    return priced(user_sum(**few | fields), unit=unit)


def opened(folder: Path, users: Scripted, **options: Any) -> UserVault:
    folder.mkdir(parents=True, exist_ok=True)
    return open_user_vault(folder, users, noise=Silent(), **options)


def rounds_of(
    folder: Path, people: Sequence[str], *, arriving: Sequence[Sequence[str]] | None = None, plan: Any = None
) -> NDArray[np.float64]:
    """What every round adds up to [T, width], without noise; of a pool, or of those who arrive, round by round."""
    users = Scripted([[ids] for ids in arriving or ()], marks(people), pool=[people] if arriving is None else ())
    plan = plan or plan_of()
    part = plan.parts()[0]
    vault = opened(folder, users)
    run = vault.reserve(plan)
    sums = []
    for _ in range(part.steps):
        vault.enroll(run, still)
        sums.append(vault.noisy_sum(run, part.name, Marked())[0] * part.users)
    close(vault)
    return np.array(sums)


def close(vault: UserVault) -> None:
    vault.ledger.close()
    vault._register.close()


LARGE = unit_of(1_000)
