"""A tiny synthesis run whose releases are written down the moment they leave the vault."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from witness import open_witness, whole_lines

from tacit.data import Box, Discrete, PublicSpec, Trajectories
from tacit.methods.synthesis.algorithm import Synthesizer, fit
from tacit.methods.synthesis.plan import PART, TransitionsPlan
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

UNIT = Unit("person", "add_or_remove", 100)
DELTA = 1e-3
SPEC = PublicSpec(Box((-4.0,), (4.0,)), Discrete(2), Box((-10.0,), (10.0,)), "declared", difference=(0.5,))


def small_plan(steps: int = 200, epsilon: float = 1.0) -> TransitionsPlan:
    plan = TransitionsPlan(steps=steps, sampling_rate=0.2, width=8, depth=1, warmup=1, learning_rate=1e-3)
    return plan.calibrate(unit=UNIT, epsilon=epsilon, delta=DELTA)


def private_records() -> Trajectories:
    rng = np.random.default_rng(5)
    units = np.repeat(np.arange(30), 3)
    observations = rng.uniform(-3, 3, (90, 1))
    return Trajectories.from_arrays(
        observations=observations,
        actions=rng.integers(0, 2, 90),
        rewards=rng.uniform(-9, 9, 90),
        next_observations=observations + 0.1,
        terminations=np.zeros(90, bool),
        unit_ids=units,
        episode_ids=units,
        spec=SPEC,
    )


def open_ledger(folder: Path, epsilon: float = 2.0) -> Ledger:
    return Ledger(folder / "ledger", UNIT, epsilon=epsilon, delta=2 * DELTA, composition=SUM)


@contextmanager
def logged(folder: Path) -> Iterator[None]:
    """Every noisy gradient, as soon as a door hands it out, leaves its step and hash in `folder/released`, flushed."""
    real = Vault.noisy_gradient
    log = open_witness(folder / "released")

    def noisy_gradient(self: Vault, run: Any, part: str, *rest: Any) -> Any:
        step = self.next_step(run, part)
        result = real(self, run, part, *rest)
        os.write(log, f"{step} {hashlib.sha256(result.numpy().tobytes()).hexdigest()}\n".encode())
        os.fsync(log)
        return result

    Vault.noisy_gradient = noisy_gradient  # type: ignore[method-assign]
    try:
        yield
    finally:
        Vault.noisy_gradient = real  # type: ignore[method-assign]
        os.close(log)


def train(folder: Path, plan: TransitionsPlan, **options: Any) -> Release[Synthesizer]:
    """One life of the run: from its checkpoint, if there is one, to the end."""
    with open_ledger(folder) as ledger, logged(folder):
        return fit(plan, Vault(private_records(), ledger), folder=folder / "checkpoint", resume=True, **options)


def released(folder: Path) -> list[tuple[int, str]]:
    """(step, hash of the noisy gradient) of every release, in order."""
    lines = whole_lines(folder / "released")
    return [(int(step), digest) for step, digest in (line.split(" ") for line in lines)]


def claimed(folder: Path, plan_id: str) -> int:
    with open_ledger(folder) as ledger:
        ledger.verify()
        return ledger.claimed(plan_id, PART)
