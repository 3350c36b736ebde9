"""Mistakes with people who are enrolled online, planted as those of `mutations.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tacit.privacy.ledger.register import Register
from tacit.privacy.mechanisms.sums import UserSum
from tacit.privacy.noise import correlated
from tacit.privacy.vault import user_vault


def everybody_is_let_in(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks who has contributed before."""
    real = Register.reserve

    def reserve(self: Register, plan_id: str, people: Sequence[str], most: int) -> np.ndarray:
        return np.ones_like(real(self, plan_id, people, most))

    patch.setattr(Register, "reserve", reserve)


def register_kept_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Who contributed is forgotten when the process ends."""

    def reserve(self: Any, plan_id: str, people: Sequence[str], most: int) -> np.ndarray:
        held = self.__dict__.setdefault("in_memory", Counter())
        granted = np.array([held[p] < most and p not in people[:i] for i, p in enumerate(people)], bool)
        held.update({p for p, yes in zip(people, granted, strict=True) if yes})
        return granted

    patch.setattr(Register, "reserve", reserve)
    patch.setattr(Register, "commit", lambda self: None)


def a_meeting_released_twice(patch: pytest.MonkeyPatch) -> None:
    """The same people's sum may be asked for again."""

    class Forgetful(set[str]):
        def __contains__(self, value: object) -> bool:
            return False

    real = user_vault._EnrolledBatch
    patch.setattr(user_vault, "_EnrolledBatch", lambda plan_id, rows, fold: real(plan_id, rows, fold, Forgetful()))


def divisor_counted_at_the_meeting(patch: pytest.MonkeyPatch) -> None:
    """The sum is divided by how many contributed, which is private."""
    came = [1]
    real = user_vault.enrolled_rows

    def enrolled_rows(*arguments: Any) -> dict[str, np.ndarray]:
        rows = real(*arguments)
        came[0] = max(1, len(rows["replicate"]))
        return rows

    patch.setattr(user_vault, "enrolled_rows", enrolled_rows)
    patch.setattr(UserSum, "divisor", lambda self, unit: came[0])


def sensitivity_of_one_step(patch: pytest.MonkeyPatch) -> None:
    """Correlated noise is scaled to one step, as if C were the identity."""
    patch.setattr(correlated, "sensitivity", lambda *arguments: 1.0)
