"""What an observer saw leave the doors, and whether it agrees with what the ledgers say.

The observer is told outside the folder that faults happen to, the moment something leaves a door, in lines:
`step LEDGER PLAN PART NUMBER HASH`, and `person PLAN NAME` for everybody who contributed to what left.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import LedgerError
from tacit.privacy.ledger.ledger import Ledger, LedgerView
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.base import BaseVault
from tacit.privacy.vault.devices import Device
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.user_vault import UserVault
from tacit.privacy.vault.vault import Vault

NEVER = ("repeated", "same_noise", "overrun", "over_budget", "over_cap", "void", "crashed", "hung")
"""Counts that are 0, whatever happened."""

SOUND = ("unclaimed", "invalid", "stuck")
"""Counts that are 0 as well where the files are as the last life left them."""

Say = Callable[[str], None]


def observe(say: Say, before: Callable[[], None] = lambda: None) -> None:
    """Let this process tell whatever leaves the doors, and call `before` in front of each; it is never undone."""
    for kind, door in ((Vault, "noisy_sum"), (Vault, "noisy_gradient"), (FederatedVault, "noisy_sum")):
        _steps(kind, door, say, before)
    _steps(UserVault, "noisy_sum", say, before)
    _answers(say)
    _people(say)


def step(ledger: Path, plan: str, part: str, number: int, value: Any = None) -> str:
    """The line of a released step."""
    digest = os.urandom(8).hex() if value is None else hashlib.sha256(np.asarray(value).tobytes()).hexdigest()[:16]
    return f"step {ledger.name} {plan} {part} {number} {digest}"


def _steps(kind: type[BaseVault], door: str, say: Say, before: Callable[[], None]) -> None:
    real = getattr(kind, door)

    def observed(self: Any, run: Any, part: str, *rest: Any) -> Any:
        before()
        number = self.next_step(run, part)
        value = real(self, run, part, *rest)
        say(step(self.ledger.path, run.plan_id, part, number, value))
        return value

    setattr(kind, door, observed)


def _answers(say: Say) -> None:
    real = Device.answer

    def observed(self: Device, plan_id: str, part: str, number: int, public: Any, size: int) -> Any:
        value = real(self, plan_id, part, number, public, size)
        say(step(self.ledger.path, plan_id, part, number, value))
        return value

    Device.answer = observed  # type: ignore[method-assign,assignment]


def _people(say: Say) -> None:
    """Everybody whom the register let in has contributed when the next sum leaves."""
    admit, release, admitted = Register.reserve, UserVault.noisy_sum, list[str]()

    def reserve(self: Register, plan_id: str, people: Sequence[str], cap: int) -> Any:
        granted = admit(self, plan_id, people, cap)
        admitted[:] = [f"person {plan_id} {name}" for name, yes in zip(people, granted, strict=True) if yes]
        return granted

    def noisy_sum(self: UserVault, *rest: Any) -> Any:
        value = release(self, *rest)
        for line in admitted:
            say(line)
        admitted.clear()
        return value

    Register.reserve = reserve  # type: ignore[method-assign,assignment]
    UserVault.noisy_sum = noisy_sum  # type: ignore[method-assign,assignment]


def audit(ledgers: Sequence[Path], released: Sequence[str], most: int) -> Counter[str]:
    """What releases and ledgers say about each other.

    Args:
        ledgers: those of the run, whether or not they exist yet.
        released: the observer's lines.
        most: how often one person may contribute to one plan.

    Returns:
        Counts under the names of `NEVER` and `SOUND`, and "released", "burned" (claimed, and never released) and "kept"
        ledgers.
    """
    found: Counter[str] = Counter()
    steps = [line.split() for line in released if line.startswith("step ")]
    people = Counter(line for line in released if line.startswith("person "))
    names = Counter(tuple(words[1:5]) for words in steps)
    found["released"] = len(names)
    found["repeated"] = sum(count - 1 for count in names.values())
    found["same_noise"] = len(steps) - len({words[5] for words in steps})
    found["over_cap"] = sum(max(0, count - most) for count in people.values())
    for path in ledgers:
        own = [(plan, part, int(number)) for ledger, plan, part, number in names if ledger == path.name]
        if not path.exists():
            found["unclaimed"] += len(own)
            continue
        try:
            view = Ledger.read(path)
            view.verify()
        except LedgerError:
            found["invalid"] += 1
            continue
        found["kept"] += 1
        found.update(_compared(view, own))
    return found


def _compared(view: LedgerView, released: list[tuple[str, str, int]]) -> Counter[str]:
    plans, (epsilon, delta) = view.state.plans, view.spent()
    claimed = {(name, part): count for name, plan in plans.items() for part, count in plan.claimed.items()}
    steps = {(name, part): count for name, plan in plans.items() for part, count in plan.parts.items()}
    return Counter(
        unclaimed=sum(number >= claimed.get((plan, part), 0) for plan, part, number in released),
        overrun=sum(number >= steps.get((plan, part), number + 1) for plan, part, number in released),
        over_budget=int(epsilon > view.epsilon or delta > view.delta),
        void=int(view.void_reason is not None),
        burned=sum(claimed.values()) - len(released),
    )
