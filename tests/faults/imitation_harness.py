"""Forks children that run PateGAIL++, kills them at named points, resumes, and says what ledger and releases show.

The parent only imports and calibrates: a child opens ledger, vault and noise itself.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from dooming import doom
from safetensors.torch import load_file

from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid
from tacit.errors import TacitError
from tacit.methods.mobility.pategail import Critic, PateGailPlan, Ppo, fit
from tacit.methods.mobility.pategail.plan import CRITICS
from tacit.methods.mobility.pategail.training import PpoLearner
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.units import Unit

UNIT, DELTA, ROUNDS = Unit("person", "add_or_remove", 12), 1e-3, 6
GRID = RegularGrid(30.0, 100.0, 30.45, 100.45, 0.05)
POINTS = {
    "after a claim": (Ledger, "claim", "after", 4),  # the first two are those of starts and jumps
    "while devices answer": (StackedDevices, "ask", "before", 4),
    "before the sum is heard": (StackedDevices, "ask", "after", 4),
    "after the weights change": (PpoLearner, "learn", "after", 2),
    "in a checkpoint": (checkpoint.os, "replace", "before", 3),
    "after a checkpoint": (checkpoint.os, "replace", "after", 3),
}
"""Where a child is killed, each time in its second round; the last number counts calls."""


def small_plan() -> PateGailPlan:
    critic, ppo = Critic(hidden=(4,), steps=1, batch=8), Ppo(hidden=(4,), epochs=1, value_steps=1)
    plan = PateGailPlan(
        people=UNIT.size, rounds=ROUNDS, days=5, updates=1, critic=critic, ppo=ppo, rows_per_unit=2 * 47
    )
    return plan.calibrate(unit=UNIT, epsilon=5.0, delta=DELTA)


def life(folder: Path, plan: PateGailPlan) -> None:
    """Run until the end, or until the kill; what leaves the vault is written down at once."""
    cells = np.repeat(np.random.default_rng(0).integers(0, GRID.size, (24, SLOTS // 8)), 8, axis=1)
    data = Days(cells, np.repeat(np.arange(12), 2), GRID).trajectories(simulated=True)
    log, real = os.open(folder / "released", os.O_WRONLY | os.O_APPEND | os.O_CREAT), FederatedVault.noisy_sum

    def noisy_sum(self: FederatedVault, run: Any, part: str, *rest: Any) -> Any:
        step = self.next_step(run, part)
        mean = real(self, run, part, *rest)
        os.write(log, f"{part} {step} {hashlib.sha256(mean.tobytes()).hexdigest()}\n".encode())
        return mean

    FederatedVault.noisy_sum = noisy_sum  # type: ignore[method-assign]
    with Ledger(folder / "ledger", UNIT, epsilon=5.0, delta=DELTA, composition=SUM) as ledger:
        vault = FederatedVault(StackedDevices(data), ledger)
        release = fit(plan, vault, grid=GRID, folder=folder / "checkpoint", resume=True)
    release.certificate.verify()
    release.value.save(folder / "simulator.json")


def kill_at(point: str) -> None:
    """Let this process be killed when it passes the point."""
    doom(*POINTS[point])


def child(folder: Path, plan: PateGailPlan, point: str | None) -> int:
    """The status of a child that lives until the end, or until the point."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if point is not None:
                kill_at(point)
            life(folder, plan)
            code = 0
        except TacitError as error:
            print(error, file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def killed_and_resumed(folder: Path, plan: PateGailPlan, point: str) -> Counter[str]:
    """What came of a run that was killed at a point and resumed to its end."""
    folder.mkdir(parents=True)
    found = Counter(kills=int(os.WIFSIGNALED(child(folder, plan, point))))
    found["finished"] = int(child(folder, plan, None) == 0 and (folder / "simulator.json").exists())
    lines = [line.split() for line in (folder / "released").read_text().splitlines()]
    steps, hashes = [tuple(line[:2]) for line in lines], [line[2] for line in lines]
    with Ledger(folder / "ledger", UNIT, epsilon=5.0, delta=DELTA, composition=SUM) as ledger:
        ledger.verify()
        left = plan.rounds - ledger.claimed(plans.plan_id(plan), CRITICS)
        wrong = int(ledger.spent()[0] > 5.0 or len(ledger.plans()) != 1 or ledger.void_reason is not None)
    heard = int(load_file(folder / "checkpoint" / "checkpoint.safetensors")["heard"][0])
    found.update(twice=len(steps) - len(set(steps)), same_noise=len(hashes) - len(set(hashes)), left=left, wrong=wrong)
    return found + Counter(burnt=plan.rounds - heard)
