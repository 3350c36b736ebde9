"""Runs children that reserve, serve and commit, kills them at random moments, and says what went wrong.

Run as `python register_harness.py FOLDER KILLS MODE SEED`; prints one JSON object. "Serving" somebody appends their
name to a flushed file. MODE "reserve_first" is how a vault works; the others are broken.
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
from collections.abc import Callable
from pathlib import Path

from witness import open_witness, whole_lines

from tacit.errors import LedgerError
from tacit.privacy.ledger.register import Register

MOST = 2
PLAN = "plan"


class ReserveFirst:
    def __init__(self, register: Register, serve: Callable[[list[str]], None]) -> None:
        self.register, self.serve = register, serve

    def enroll(self, people: list[str]) -> None:
        granted = self.register.reserve(PLAN, people, MOST)
        self.serve([person for person, yes in zip(people, granted, strict=True) if yes])
        self.register.commit()


class ServeFirst(ReserveFirst):
    """Broken: who is killed between the two steps serves the same people once more afterwards."""

    def enroll(self, people: list[str]) -> None:
        counts = self.register._counts.get(PLAN, Counter[str]())
        self.serve([person for person in people if counts[self.register._hash(person)] < MOST])
        self.register.reserve(PLAN, people, MOST)
        self.register.commit()


class CountCommits(ReserveFirst):
    """Broken: a reservation is written down at the commit only."""

    def enroll(self, people: list[str]) -> None:
        write, self.register._append = self.register._append, lambda entry: None
        counts = self.register._counts.get(PLAN, Counter[str]())
        self.register.reserve(PLAN, people, MOST)
        self.serve([person for person in people if counts[self.register._hash(person)] < MOST])
        self.register._append = write
        self.register.reserve(PLAN, people, MOST)
        self.register.commit()


MODES = {"reserve_first": ReserveFirst, "serve_first": ServeFirst, "count_commits": CountCommits}


def open_(root: Path) -> Register:
    return Register(root / "vault" / "register", key=root / "keys" / "key")


def child(root: Path, mode: str, seed: int) -> None:
    """The same people come again and again, and new ones all the time."""
    draw = random.Random(seed)
    log = open_witness(root / "served")
    newest = max((int(name.split()[1]) for name in whole_lines(root / "served")), default=0)

    def serve(people: list[str]) -> None:
        os.write(log, "".join(f"{person}\n" for person in people).encode())
        os.fsync(log)

    meeting = MODES[mode](open_(root), serve)
    while True:
        newest += 1
        meeting.enroll([f"person {number}" for number in draw.sample(range(max(0, newest - 20), newest + 4), 4)])


def audit(root: Path) -> dict[str, int]:
    """What the served people and the register say about each other."""
    try:
        register = open_(root)
    except LedgerError:
        return {"verify_failed": 1}
    with register:
        spent = register._counts.get(PLAN, Counter[str]())
        served = Counter(whole_lines(root / "served"))
        return {
            "served": served.total(),
            "over_cap": sum(max(0, number - MOST) for number in served.values()),
            "over_register": sum(max(0, number - MOST) for number in spent.values()),
            "unwritten": sum(max(0, number - spent[register._hash(name)]) for name, number in served.items()),
            "burned": spent.total() - served.total(),
        }


def _wait_for_more(path: Path) -> None:
    """Until the file has grown, however busy the machine is."""
    before, patience = path.stat().st_size if path.exists() else 0, time.monotonic() + 5
    while time.monotonic() < patience and (not path.exists() or path.stat().st_size <= before):
        time.sleep(0.0005)


def main(root: Path, kills: int, mode: str, seed: int) -> dict[str, int]:
    draw, done = random.Random(seed), 0
    for name in ("vault", "keys"):
        (root / name).mkdir(parents=True)
    open_(root).close()
    while done < kills:
        pid = os.fork()
        if pid == 0:
            try:
                child(root, mode, draw.randrange(10**9))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        if done % 4:  # the others may die while they open the register
            _wait_for_more(root / "served")
        time.sleep(draw.uniform(0, 0.003))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            return {"kills": done, "child_failed": 1}
        done += 1
        if done % 20 == 0 and "verify_failed" in audit(root):
            break
    return {"kills": done, **audit(root)}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
