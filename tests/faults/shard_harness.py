"""Runs the ranks of a sharded vault over gloo, kills one of them at a point of a step, and says what went wrong.

Nobody contributes anything, so that what is released is noise alone, whose size tells how many ranks added theirs. The
mode "as it is" runs the real code; "forgets claims" is broken.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).parents[1] / "privacy" / "vault"))

import torch.distributed as dist
from scipy import stats
from shard_cases import SIGMA, Zeros, shard
from vault_cases import priced, unit_of

from tacit.errors import TacitError
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.sharded_vault import Ranks, ShardedVault, serve
from tacit.privacy.vault.steps import VectorStep

WIDE, STEPS, TURN, PLANS, PATIENCE = 2_000, 99, 15, 49, 60
POINTS: tuple[tuple[type, str, int], ...] = (
    (Ledger, "claim", 12),
    (Ranks, "tell", 12),
    (Ranks, "gather", 3),
    (SecretNoise, "gaussian", 12),
    (VectorStep, "add_samples", 12),
    (Ranks, "add", 12),
)
"""Where a rank is killed, before or after, and how many calls there are in each turn."""
RARE = 1e-9


def deadly(kind: type, name: str, after: bool, call: int) -> None:
    """Make the n-th call of a method this process's last."""
    real, left = getattr(kind, name), [call]

    @functools.wraps(real)
    def killed(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if not left[0] and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **options)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(kind, name, killed)


def forgetful(self: Ledger, plan_id: str, part: str, count: int) -> range:
    """Broken: what was claimed is known to this process alone."""
    start = getattr(self, "_given", 0)
    self._given = start + count  # type: ignore[attr-defined]
    return range(start, start + count)


def rank_of(rank: int, count: int, folder: Path, turn: int, mode: str) -> None:
    """What one process does: serve its shard, or ask for every step that is left and write down what came."""
    store = dist.FileStore(str(folder / f"store{turn}"), count)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=timedelta(seconds=PATIENCE))
    run(Ranks(patience=PATIENCE), folder, mode)


def run(ranks: Ranks, folder: Path, mode: str) -> None:
    """The same, of a process that has joined the others."""
    data = shard([[0.0]] * 4, range(4 * ranks.rank, 4 * ranks.rank + 4))
    if mode == "forgets claims":
        Ledger.claim = forgetful  # type: ignore[method-assign]
    if ranks.rank:
        serve(data, ranks)
        return
    unit = unit_of()
    with (
        Ledger(folder / "ledger", unit, epsilon=1e6, delta=0.005, composition=SUM) as ledger,
        ShardedVault(data, ledger, ranks=ranks) as vault,
        (folder / "released").open("a") as released,
    ):
        left = TURN
        for i in range(PLANS):
            if not left:
                break
            plan = priced(vault, noise_multiplier=SIGMA, steps=STEPS, clip_norm=1.0 + i)
            asked = vault.reserve(plan)  # the same plan again costs nothing
            while left and vault.steps_left(asked, "sum"):
                left -= 1
                step = vault.next_step(asked, "sum")
                mean = vault.noisy_sum(asked, "sum", Zeros(WIDE))[0]
                squares = float(((mean * unit.size / (SIGMA * plan.clip_norm)) ** 2).sum())
                released.write(json.dumps([asked.plan_id, step, squares]) + "\n")
                released.flush()


def forked(rank: int, count: int, folder: Path, turn: int, mode: str, point: Any) -> int:
    """The process id of a rank; `point` is where it dies, or None."""
    child = os.fork()
    if child:
        return child
    code = 3
    with contextlib.suppress(TacitError, RuntimeError):
        if point is not None:
            deadly(*point)
        rank_of(rank, count, folder, turn, mode)
        code = 0
    os._exit(code)


def ended(children: list[int], found: Counter[str]) -> None:
    """Wait until all ranks have ended; those that do not are ended, and counted."""
    until = time.monotonic() + 2 * PATIENCE
    for child in children:
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                found["hung"] += 1
                break
            time.sleep(0.005)
        killed = os.WIFSIGNALED(status)
        found["kills"] += killed
        found["ended otherwise"] += not killed and os.WEXITSTATUS(status) not in (0, 3)


def judged(folder: Path, found: Counter[str]) -> None:
    """Every release is of a step that was claimed, once, and has the noise of all ranks."""
    lines = [json.loads(line) for line in (folder / "released").read_text().splitlines()]
    steps = Counter((plan, step) for plan, step, _ in lines)
    claimed = {plan.id: plan.claimed for plan in Ledger.read(folder / "ledger").plans()}
    law = stats.chi2(WIDE)
    found["released"] = len(lines)
    found["twice"] = sum(count - 1 for count in steps.values())
    found["unclaimed"] = sum(step >= claimed[plan] for plan, step in steps)
    found["burnt"] = sum(claimed.values()) - len(steps)
    found["other noise"] = sum(not RARE < law.cdf(squares) < 1 - RARE for _, _, squares in lines)


def main(folder: Path, kills: int, ranks: int, mode: str, seed: int) -> Counter[str]:
    """Kill so many ranks, one a turn, and count."""
    found: Counter[str] = Counter()
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    for turn in range(3 * kills):
        if found["kills"] >= kills:
            break
        victim = rng.randrange(ranks)
        points = POINTS if victim == 0 else POINTS[1:]
        kind, name, calls = rng.choice(points)
        point = (kind, name, rng.random() < 0.5, rng.randint(1, calls))
        ended([forked(r, ranks, folder, turn, mode, point if r == victim else None) for r in range(ranks)], found)
    judged(folder, found)
    return found
