"""Selections of noisy sums: what is run, and how it is judged."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from vault_cases import Rewards, SumPlan, open_vault, unit_of

from tacit.errors import MechanismError
from tacit.privacy.accounting.events import Law
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.kinds import PrivateSelection
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.plan import PrivatePlan
from tacit.privacy.vault.selection import BestRun
from tacit.privacy.vault.vault import Vault

DELTA = 1e-4


@dataclass(frozen=True)
class Best(PrivatePlan):
    """The best of some sums; `number` tells equal plans apart."""

    method: ClassVar[str] = "the best of some sums"
    source: ClassVar[str] = "tests"
    candidates: tuple[Any, ...]
    judge: Any = None
    stop: int = 50
    law: Law = "logarithmic"
    number: int = 0

    def parts(self) -> tuple[Part, ...]:
        return (
            PrivateSelection(name="best", candidates=self.candidates, judge=self.judge, stop=self.stop, law=self.law),
        )


@dataclass(frozen=True)
class Sum:
    """One noisy sum of rewards, by the plan that it is given; fails above `fails_above`."""

    fails_above: float = np.inf

    def __call__(self, plan: Any, vault: Vault) -> float:
        run = vault.reserve(plan)
        value = float(vault.noisy_sum(run, "sum", Rewards())[0, 0]) * vault.unit.size
        if value > self.fails_above:
            raise ValueError("too large")
        return value


@dataclass(frozen=True)
class Itself:
    """The value is its own score."""

    def __call__(self, value: float, plan: None, vault: None) -> float:
        return value


def best_of(vault: Vault, *candidates: SumPlan, judge: Any = None, delta: float = DELTA, **fields: Any) -> Best:
    """A priced plan; the candidates' noise multipliers are given."""
    alone = tuple(plans.account(one, unit=vault.unit, delta=delta) for one in candidates)
    judge = judge and plans.account(judge, unit=vault.unit, delta=delta)
    return plans.account(Best(alone, judge, **fields), unit=vault.unit, delta=delta)


def opened(folder: Path, *, name: str = "a", **fields: Any) -> tuple[Vault, Best, Run]:
    """A vault over three people, and an admitted plan over two sums, one of them noisier."""
    vault = open_vault(folder, [[1.0], [0.5], [0.0]], unit=unit_of(1_000), name=name)
    plan = best_of(vault, *(SumPlan(steps=1, noise_multiplier=sigma) for sigma in (3.0, 2.0)), **fields)
    return vault, plan, vault.reserve(plan)


def repeated(
    folder: Path, times: int, attempt: Any, *, name: str = "a", noise: SecretNoise | None = None, **fields: Any
) -> list[BestRun | None]:
    """The best of one kind of sum, many times under plans of their own; None where nothing was released."""
    vault = open_vault(folder, [[0.0]], unit=unit_of(1_000), name=name, noise=noise)
    plan = best_of(vault, SumPlan(steps=1, noise_multiplier=2.0), delta=1e-6, **fields)
    found: list[BestRun | None] = []
    for number in range(times):
        run = vault.reserve(dataclasses.replace(plan, number=number))
        try:
            found.append(vault.select(run, "best", attempt, Itself()))
        except MechanismError:
            found.append(None)
    return found
