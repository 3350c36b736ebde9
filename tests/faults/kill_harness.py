"""Runs children that reserve, claim and release, kills them at random moments, and says what went wrong.

Run as `python kill_harness.py FOLDER KILLS MODE SEED`; prints one JSON object. A "release" appends the step's name
to a flushed file, as a door hands out a noisy sum. MODE "claim_first" is how a door works; the others are broken.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from witness import open_witness, whole_lines

from tacit.errors import BudgetExceeded, LedgerError
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.units import Unit

UNIT = Unit("patient", "add_or_remove", 1000)
PARTS = {"denoiser": 250, "histogram": 3}
PLANS = 3  # each costs 0.25 of the budget of 0.75


class ClaimFirst:
    def __init__(self, ledger: Ledger, release) -> None:
        self.ledger, self.release = ledger, release

    def step(self, plan: str, part: str) -> None:
        for step in self.ledger.claim(plan, part, 3):
            self.release(plan, part, step)


class ReleaseFirst(ClaimFirst):
    """Broken: what it releases just before a crash is released again afterwards."""

    def step(self, plan: str, part: str) -> None:
        self.release(plan, part, self.ledger.claimed(plan, part))
        self.ledger.claim(plan, part, 1)


class WriteBehind(ClaimFirst):
    """Broken: keeps claims in memory and writes them down every fifth step."""

    waiting = 0

    def step(self, plan: str, part: str) -> None:
        self.release(plan, part, self.ledger.claimed(plan, part) + self.waiting)
        self.waiting += 1
        if self.waiting == 5 or self.ledger.claimed(plan, part) + self.waiting == PARTS[part]:
            for _ in range(self.waiting):
                self.ledger.claim(plan, part, 1)
            self.waiting = 0


MODES = {"claim_first": ClaimFirst, "release_first": ReleaseFirst, "write_behind": WriteBehind}


def child(folder: Path, mode: str) -> None:
    """Go on where the last one died, until the budget is used up."""
    log = open_witness(folder / "released")

    def release(plan: str, part: str, step: int) -> None:
        os.write(log, f"{plan} {part} {step}\n".encode())
        os.fsync(log)

    ledger = Ledger(folder / "ledger", UNIT, epsilon=0.75, delta=3e-5, composition=SUM)
    runner = MODES[mode](ledger, release)
    for number in itertools.count():
        plan = f"plan{number}"
        try:
            ledger.reserve(plan, {"method": "kill"}, parts=PARTS, epsilon=0.25, delta=1e-5)
        except BudgetExceeded:
            ledger.close()
            return
        for part, steps in PARTS.items():
            while ledger.claimed(plan, part) < steps:
                runner.step(plan, part)


def audit(folder: Path) -> dict[str, int]:
    """What the released file and the ledger say about each other."""
    found = Counter(verify_failed=0)
    if not (folder / "ledger").exists():
        return found
    try:
        view = Ledger.read(folder / "ledger")  # before anyone rolls back what the crash left
        with Ledger(folder / "ledger") as ledger:
            ledger.verify()
            found["over_budget"] = int(ledger.spent()[0] > 0.75 or ledger.spent()[1] > 3e-5)
            claimed = {(p.id, part): ledger.claimed(p.id, part) for p in ledger.plans() for part in PARTS}
            found["torn_view"] = int(view.head != ledger.head)
    except LedgerError:
        return {**found, "verify_failed": 1}
    steps = Counter(tuple(line.split(" ")) for line in whole_lines(folder / "released"))
    found["released"] = steps.total()
    found["twice"] = sum(n - 1 for n in steps.values())
    found["unclaimed"] = sum(int(step) >= claimed.get((plan, part), 0) for plan, part, step in steps)
    found["over_plan"] = sum(int(step) >= PARTS[part] for _, part, step in steps)
    found["burned"] = sum(claimed.values()) - len(steps)
    return found


def main(root: Path, kills: int, mode: str, seed: int) -> dict[str, int]:
    draw, total, longest = random.Random(seed), Counter(), 0.01
    folder, quiet = root / "0", 0
    folder.mkdir(parents=True)
    # Until one of them falls into a transaction: how many do depends on the machine.
    most = 10 * kills if mode == "claim_first" else kills
    while total["kills"] < kills or (not total["killed_in_transaction"] and total["kills"] < most):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child(folder, mode)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        before = os.path.getsize(folder / "released") if (folder / "released").exists() else 0
        time.sleep(draw.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            total["kills"] += 1
        elif os.WEXITSTATUS(status):
            total["child_failed"] += 1
            break
        journal = folder / "ledger-journal"
        hot = journal.exists() and journal.stat().st_size > 0
        total["killed_in_transaction"] += int(hot)
        after = os.path.getsize(folder / "released") if (folder / "released").exists() else 0
        quiet = 0 if after > before else quiet + 1
        if quiet == 20:  # a busy machine: let the children live longer
            longest, quiet = 2 * longest, 0
        elif quiet == 0:
            longest = max(0.005, 0.98 * longest)
        done = os.WIFEXITED(status)
        if hot or done or total["kills"] % 20 == 0 or total["kills"] >= kills:
            found = audit(folder)
            if any(found.get(name, 0) for name in ("verify_failed", "torn_view", "over_budget")):
                total.update({name: found.get(name, 0) for name in ("verify_failed", "torn_view", "over_budget")})
                break
        if done or total["kills"] >= kills:
            total.update(audit(folder))
            total["ledgers"] += 1
            folder = root / str(total["ledgers"])
            folder.mkdir()
    return dict(total)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
