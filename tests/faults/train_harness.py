"""Forks children that train, kills them at random moments until runs finish, and says what went wrong.

The parent only imports and calibrates, so that a child lives from the fork on like a process of its own: it opens
ledger, vault and noise itself.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import torch._dynamo  # noqa: F401 - the first optimiser imports it, which takes a child a second
from dooming import doom
from training_cases import DELTA, claimed, open_ledger, released, small_plan, train

from tacit.errors import TacitError
from tacit.methods.synthesis import training
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.privacy.gradients import clipped_sums as gradients
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans

POINTS = {
    "after a claim": (Ledger, "claim", "after"),
    "while noise is drawn": (SecretNoise, "gaussian", "after"),
    "before the sum": (gradients, "add_clipped", "before"),
    "after the weights change": (training.TrainingState, "update", "after"),
    "in a checkpoint": (checkpoint.os, "replace", "before"),
    "after a checkpoint": (checkpoint.os, "replace", "after"),
}


def life(folder: Path, plan: TransitionsPlan) -> None:
    """Train until the end, or until the kill."""
    release = train(folder, plan)
    release.certificate.verify()
    (folder / "finished").write_text(json.dumps({"epsilon": release.certificate.epsilon}))


def kill_at(point: str, calls: int) -> None:
    """Let this process be killed at the `calls`-th time that it passes the point."""
    doom(*POINTS[point], calls)


def fork(folder: Path, plan: TransitionsPlan, point: str | None = None, calls: int = 0) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if point is not None:
                kill_at(point, calls)
            life(folder, plan)
            code = 0
        except TacitError as error:
            print(error, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def audit(folder: Path, plan: TransitionsPlan) -> Counter[str]:
    """What releases, ledger and checkpoint say about each other."""
    found: Counter[str] = Counter()
    identity = plans.plan_id(plan)
    if not (folder / "ledger").exists() or not Ledger.read(folder / "ledger").plans():
        return Counter(released_before_reserved=len(released(folder)))
    steps, hashes = [step for step, _ in released(folder)], [digest for _, digest in released(folder)]
    count = claimed(folder, identity)
    found["twice"] = len(steps) - len(set(steps))
    found["same_noise"] = len(hashes) - len(set(hashes))
    found["unclaimed"] = sum(step >= count for step in steps)
    found["over_plan"] = sum(step >= plan.steps for step in steps)
    found["out_of_order"] = int(steps != sorted(steps))
    with open_ledger(folder) as ledger:
        found["over_budget"] = int(ledger.spent()[0] > 1.0 or ledger.spent()[1] > DELTA or len(ledger.plans()) != 1)
        found["void"] = int(ledger.void_reason is not None)
        path = folder / "checkpoint" / "checkpoint.safetensors"
        if path.exists():
            kept = int(checkpoint.load(path, plan_id=identity, ledger=ledger)["average.calls"])
            found["kept_more_than_released"] = int(kept > len(steps))
    return found


def main(root: Path, kills: int, seed: int) -> Counter[str]:
    """Killed at random moments until so many kills fell into runs, and the last run is finished."""
    draw, total, longest = random.Random(seed), Counter[str](), 0.15
    plan = small_plan()
    plans.certified_bound(plan)  # what the children would all compute again
    folder, quiet = root / "0", 0
    folder.mkdir(parents=True)
    while total["kills"] < kills or not (folder / "finished").exists():
        before = len(released(folder))
        pid = fork(folder, plan)
        if total["kills"] < kills:
            time.sleep(draw.uniform(0, longest))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        total["kills"] += int(os.WIFSIGNALED(status))
        total["killed_in_checkpoint"] += int((folder / "checkpoint" / "checkpoint.partial").exists())
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            total["child_failed"] += 1
            break
        quiet = 0 if len(released(folder)) > before else quiet + 1
        if quiet == 10:  # a busy machine: let the children live longer
            longest, quiet = 2 * longest, 0
        bad = {name: count for name, count in audit(folder, plan).items() if count}
        if bad:
            total.update(bad)
            break
        if (folder / "finished").exists():
            total["finished"] += 1
            total["released"] += len(released(folder))
            total["burned"] += plan.steps - len(released(folder))
            total["left"] += plan.steps - claimed(folder, plans.plan_id(plan))
            if total["kills"] < kills:
                folder = root / str(total["finished"])
                folder.mkdir()
    return total


def points(root: Path) -> dict[str, Counter[str]]:
    """Killed at each point, at its first passage and at a later one, then left to finish."""
    total: dict[str, Counter[str]] = {}
    plan = small_plan(steps=40)  # the later passage is in the tenth step after the first kill, at most
    plans.certified_bound(plan)
    for number, point in enumerate(POINTS):
        folder = root / str(number)
        folder.mkdir(parents=True)
        found: Counter[str] = Counter()
        for calls in (1, 5, 0):  # 0: never
            _, status = os.waitpid(fork(folder, plan, point, calls), 0)
            found["kills"] += int(os.WIFSIGNALED(status))
            found["finished"] += int(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0)
            found.update(audit(folder, plan))
        found["burned"] = plan.steps - len(released(folder))
        total[point] = +found
    return total
