"""Simulated records behind doors whose ledgers lie in a folder that goes away."""

import contextlib
import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.data.trajectories import Trajectories
from tacit.privacy.accounting.filters import SUM, Composition
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where such folders are: ledgers of simulated people need no disk."""


def calibrated(plan: Any, unit: Unit, epsilon: float, delta: float) -> Any:
    """The plan at this epsilon; without noise, and so without a promise, where it is infinite."""
    if math.isinf(epsilon):
        return replace(plan, noise_multiplier=0.0).account(unit=unit, delta=delta)
    return plan.calibrate(unit=unit, epsilon=epsilon, delta=delta)


@contextlib.contextmanager
def ledgers(
    unit: Unit, count: int = 1, *, epsilon: float, delta: float, composition: Composition = SUM
) -> Iterator[list[Ledger]]:
    """So many ledgers with this budget each."""
    budget = epsilon if math.isfinite(epsilon) else 1.0  # which a plan without a promise makes void
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, contextlib.ExitStack() as opened:
        paths = (Path(folder) / f"{r}.ledger" for r in range(count))
        terms = {"epsilon": budget, "delta": delta}
        yield [opened.enter_context(Ledger(path, unit, composition=composition, **terms)) for path in paths]


@contextlib.contextmanager
def vault(data: Trajectories, unit: Unit, epsilon: float, delta: float) -> Iterator[Vault]:
    """A vault of these records that can pay for one plan."""
    with ledgers(unit, epsilon=epsilon, delta=delta) as (ledger,):
        yield Vault(data, ledger)
