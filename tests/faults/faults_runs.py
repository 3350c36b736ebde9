"""Runs, and the lives that take them up one after another.

All children are forked from one warm process, in which everything is imported and calibrated; each opens its ledger,
its vault and its noise itself. A run is taken up by one life after another until one reaches its end; then a new run
begins. After every life the observer's lines are compared with the ledgers.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults import faults_layer as layer
from tests.faults.faults_audit import NEVER, SOUND, audit, observe
from tests.faults.faults_layer import Fault
from tests.faults.faults_lives import Life
from tests.faults.witness import open_witness, whole_lines

from tacit.errors import TacitError

ENDED, REFUSED, CRASHED = 0, 3, 4
PATIENCE = 120  # seconds until a life counts as hanging
LONGEST = 0.6  # seconds until the latest kill at a random moment
LOST = ("the register is gone", "a claimed step is never run again")
"""Refusals by which a run ends for good, as it is meant to: its register was killed while it was made (the key is there
and nothing else, which may as well be somebody's doing), or a release that happens once before it was kept."""


@dataclass(frozen=True)
class Pace:
    """How long a life is waited for, in seconds, and how many file operations a whole one has."""

    seconds: float
    operations: int


Doom = Callable[[Path], None]
"""What a child does to itself before it lives, given the folder of its files."""


@dataclass(frozen=True)
class Run:
    """One run: the folder that faults happen to, and what is written down beside it."""

    root: Path

    @classmethod
    def new(cls, life: Life, shelf: Path) -> Run:
        """An empty run."""
        run = cls(Path(tempfile.mkdtemp(dir=shelf)))
        run.files.mkdir()
        life.begin(run.files)
        return run

    @property
    def files(self) -> Path:
        """The folder of ledgers, checkpoints and outputs."""
        return self.root / "files"

    @property
    def log(self) -> Path:
        """The operations of a recorded life."""
        return self.root / "log"

    def lines(self, name: str) -> list[str]:
        """What is written in a file beside the folder: "released", "messages" or "crashes"."""
        return whole_lines(self.root / name)

    def audit(self, life: Life) -> Counter[str]:
        """Observer against ledgers."""
        found = audit([self.files / name for name in life.ledgers], self.lines("released"), life.most)
        found["burned"] -= life.claimed
        return found

    def remove(self) -> None:
        """It is needed no more."""
        shutil.rmtree(self.root)


def warm(life: Life, shelf: Path) -> Pace:
    """One undisturbed life in this process, so that its children need not import or calibrate anything."""
    run = Run.new(life, shelf)
    layer.arm(run.files, Fault.NOTHING)
    begun = time.monotonic()
    life.run(run.files, lambda line: None)
    run.remove()
    return Pace(min(LONGEST, time.monotonic() - begun), layer.seen())


def born(life: Life, run: Run, doom: Doom = lambda files: None, before: Callable[[], None] = lambda: None) -> int:
    """Fork a child that lives, and calls `before` in front of each door; its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = CRASHED
    try:
        signal.alarm(PATIENCE)
        handle = open_witness(run.root / "released")

        def say(line: str) -> None:
            os.write(handle, f"{line}\n".encode())
            layer.mark(line)

        observe(say, before)
        doom(run.files)
        life.run(run.files, say)
        code = ENDED
    except TacitError as error:
        code = REFUSED
        note(run, "messages", str(error))
    except BaseException:
        note(run, "crashes", traceback.format_exc())
    finally:
        os._exit(code)


def note(run: Run, name: str, text: str) -> None:
    layer.arm(run.root, Fault.NOTHING)
    with (run.root / name).open("a") as file:
        file.write(text + "\n")


def ended(pid: int) -> tuple[int | None, bool]:
    """(exit code or None, whether it was killed by SIGKILL) of a child, waited for."""
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status) == signal.SIGKILL
    return os.WEXITSTATUS(status), False


def history(
    life: Life,
    shelf: Path,
    count: int,
    seed: int,
    one: Callable[[Run, random.Random], Counter[str]],
    *,
    bad: tuple[str, ...] = (*NEVER, *SOUND),
) -> Counter[str]:
    """Runs of which `one` makes one life after another, until `count` of them met their fault.

    `one` returns counts with "faults" (1 if the fault was met), "ended" (1 if the run is over) and what else it saw.
    What the observer and the ledgers say is added up at the end of each run. A count of `file_error` ends the history,
    and what was said last is shown.
    """
    draw, total = random.Random(seed), Counter[str]()
    run = Run.new(life, shelf)
    while True:
        found = one(run, draw)
        total.update(found)
        state = run.audit(life)
        last, wrong = total["faults"] >= count, [name for name in bad if state[name] + found[name]]
        if last or wrong or found["ended"]:
            total.update(state)
            total["runs"] += 1
            if wrong:
                _show(run, wrong)
            run.remove()
            if last or wrong:
                return +total
            run = Run.new(life, shelf)


def _show(run: Run, wrong: list[str]) -> None:
    print(f"  {', '.join(wrong)}")
    for name in ("messages", "crashes"):
        for line in run.lines(name)[-20:]:
            print(f"  {name}: {line}", flush=True)


def outcome(code: int | None, killed: bool) -> Counter[str]:
    """How a life ended."""
    return Counter(
        ended=int(code == ENDED),
        refused=int(code == REFUSED),
        crashed=int(code not in (None, ENDED, REFUSED)),
        hung=int(code is None and not killed),
    )


def after_kill(run: Run, code: int | None, killed: bool) -> Counter[str]:
    """As `outcome`; a run that cannot go on is stuck, unless that is what should happen (`LOST`)."""
    found = outcome(code, killed)
    lost = int(found["refused"] and any(words in run.lines("messages")[-1] for words in LOST))
    return found + Counter(lost=lost, stuck=found["refused"] - lost, ended=found["refused"])
