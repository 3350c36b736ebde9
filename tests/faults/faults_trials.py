"""What happens to lives: kills, failing operations, power cuts, clocks, second writers, forks and restored backups."""

from __future__ import annotations

import errno
import math
import os
import random
import shutil
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

from tests.faults import faults_layer as layer
from tests.faults.faults_audit import NEVER, SOUND
from tests.faults.faults_layer import Disk, Fault, Kind, recorded
from tests.faults.faults_lives import Life
from tests.faults.faults_runs import ENDED, REFUSED, Pace, Run, after_kill, born, ended, history, outcome

from tacit.privacy.ledger.ledger import Ledger

LIES = ("none", "one flush", "the ledger's", "all")
"""Of which flushes a disk only pretends."""

BACKUPS = ("the ledger", "the register", "the checkpoint", "the ledger and its lock", "everything")
"""What may be put back."""


def _place(draw: random.Random, operations: int) -> int:
    """Of an operation from 1: early ones as likely as late ones, on a logarithmic scale."""
    return round(math.exp(draw.uniform(0, math.log(operations))))


# -- kills --------------------------------------------------------------------------------------------------------


def random_moments(life: Life, shelf: Path, count: int, seed: int, pace: Pace) -> Counter[str]:
    """SIGKILL after a random time; the longest is found on the way, since machines are busy at times."""
    longest = [pace.seconds]

    def one(run: Run, draw: random.Random) -> Counter[str]:
        pid = born(life, run)
        time.sleep(longest[0] * draw.random() ** 2)
        os.kill(pid, signal.SIGKILL)
        code, killed = ended(pid)
        longest[0] *= 1.01 if killed else 0.8
        return after_kill(run, code, killed) + Counter(faults=int(killed))

    return history(life, shelf, count, seed, one)


def chosen_writes(life: Life, shelf: Path, count: int, seed: int, pace: Pace) -> Counter[str]:
    """SIGKILL before, after or in the middle of a file operation."""

    def one(run: Run, draw: random.Random) -> Counter[str]:
        fault = draw.choice((Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.TEAR))
        at = _place(draw, pace.operations)
        code, killed = ended(born(life, run, lambda files: layer.arm(files, fault, at)))
        return after_kill(run, code, killed) + Counter(faults=int(killed), torn=int(killed and fault == Fault.TEAR))

    return history(life, shelf, count, seed, one)


def course(life: Life, shelf: Path, seed: int, pace: Pace) -> list[list[float]]:
    """One run that is killed at chosen writes until no step is left: [kills, steps released, steps burned, epsilon]."""
    draw, run, rows = random.Random(seed), Run.new(life, shelf), [[0.0, 0.0, 0.0, 0.0]]
    ledger = run.files / life.ledgers[0]
    while True:
        doom = partial(layer.arm, fault=Fault.KILL_BEFORE, at=draw.randint(20, max(21, pace.operations // 25)))
        code, killed = ended(born(life, run, doom))
        found = run.audit(life)
        epsilon = Ledger.read(ledger).spent()[0] if ledger.exists() else 0.0
        rows.append([rows[-1][0] + killed, float(found["released"]), float(found["burned"]), epsilon])
        if not killed:
            assert code == ENDED, run.lines("messages")
            run.remove()
            return rows


# -- operations that fail -----------------------------------------------------------------------------------------


def failing(life: Life, shelf: Path, count: int, seed: int, pace: Pace, kind: str) -> Counter[str]:
    """The disk is full from some operation on ("full"), read-only ("read-only"), or fails once ("error").

    A life that meets this ends with a message; the next one has a sound disk.
    """
    fault = Fault.FAIL_ONCE if kind == "error" else Fault.FAIL_ON
    number = {"full": errno.ENOSPC, "read-only": errno.EROFS, "error": errno.EIO}[kind]

    def one(run: Run, draw: random.Random) -> Counter[str]:
        at = 1 if kind == "read-only" and draw.random() < 0.5 else _place(draw, pace.operations)
        before = len(run.lines("messages"))
        found = outcome(*ended(born(life, run, lambda files: layer.arm(files, fault, at, error=number))))
        if found["refused"] or found["ended"]:  # a life may end well if only something unneeded failed
            found["faults"] += 1
        found["messages"] += len(run.lines("messages")) - before
        if not found["ended"]:  # some more on a sound disk, so that the run gets on
            later = ended(born(life, run, lambda files: layer.arm(files, Fault.KILL_AFTER, 300)))
            found.update(after_kill(run, *later))
        return found

    return history(life, shelf, count, seed, one)


# -- power cuts ---------------------------------------------------------------------------------------------------


def power_cuts(life: Life, shelf: Path, count: int, seed: int, pace: Pace, lie: str) -> Counter[str]:
    """A life is recorded; the power fails at a random operation, and what a disk may have kept is gone on with."""

    def one(run: Run, draw: random.Random) -> Counter[str]:
        before, lost = run.lines("released"), [0]
        disk = Disk(run.files, flushed=_honoured(lie, lost))

        def doom(files: Path) -> None:
            handle = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            layer.arm(files, Fault.KILL_AFTER, _place(draw, pace.operations), log=handle)

        code, killed = ended(born(life, run, doom))
        log = recorded(run.log)
        cut = draw.randint(0, len(log))
        flushes = sum(operation.kind == Kind.FLUSH for operation in log[:cut])
        lost[0] = flushes - draw.randint(0, 4)
        for operation in log[:cut]:
            disk.apply(operation)
        shutil.rmtree(run.files)
        run.files.mkdir()
        disk.cut(run.files, draw)
        seen = [operation.path for operation in log[:cut] if operation.kind == Kind.MARK]
        (run.root / "released").write_text("".join(f"{line}\n" for line in (*before, *seen)))
        found = Counter(faults=1, crashed=outcome(code, killed)["crashed"])
        return found + _taken_up(life, run, must=lie == "none")

    sound = (*NEVER, *SOUND) if lie == "none" else NEVER if lie != "all" else ("crashed", "hung")
    return history(life, shelf, count, seed, one, bad=sound)


def _honoured(lie: str, lost: list[int]) -> layer.Flushed:
    """Which flushes do what they say; the one that is lost is one of the last, since the next one makes up for it."""
    return {
        "none": lambda path, number: True,
        "one flush": lambda path, number: number != lost[0],
        "the ledger's": lambda path, number: not path.endswith(("ledger", "-journal", "register")),
        "all": lambda path, number: False,
    }[lie]


def _taken_up(life: Life, run: Run, *, must: bool = False) -> Counter[str]:
    """Some more of the run: it goes on, which it may have to, or says why it may not; then the run is over."""
    found = after_kill(run, *ended(born(life, run, lambda files: layer.arm(files, Fault.KILL_AFTER, 200))))
    if not must:
        found["stuck"] = 0
    return found + Counter(noticed=found.pop("refused", 0))


# -- clocks, writers, forks, backups ------------------------------------------------------------------------------


def clocks(life: Life, shelf: Path, count: int, seed: int, pace: Pace) -> Counter[str]:
    """Each life has another wall clock, up to thirty years back or forth, and is killed at a random moment."""

    def one(run: Run, draw: random.Random) -> Counter[str]:
        seconds = draw.randint(-(10**9), 10**9)
        pid = born(life, run, lambda files: layer.set_clock(seconds))
        time.sleep(pace.seconds * draw.random())
        os.kill(pid, signal.SIGKILL)
        return after_kill(run, *ended(pid)) + Counter(faults=1)

    return history(life, shelf, count, seed, one)


def two_writers(life: Life, shelf: Path, count: int, seed: int, pace: Pace) -> Counter[str]:
    """A second process opens the run while the first is stopped; sometimes the lock files are removed before."""

    def one(run: Run, draw: random.Random) -> Counter[str]:
        stop = partial(layer.arm, fault=Fault.STOP_AFTER, at=_place(draw, pace.operations))
        first = born(life, run, stop)
        if not os.WIFSTOPPED(os.waitpid(first, os.WUNTRACED)[1]):
            return Counter(ended=1)  # it had fewer operations
        if draw.random() < 0.3:
            for lock in run.files.rglob("*.lock"):
                lock.unlink()
        second = outcome(*ended(born(life, run, lambda files: layer.arm(files, Fault.KILL_AFTER, 150))))
        os.kill(first, signal.SIGCONT)
        time.sleep(pace.seconds * draw.random())
        os.kill(first, signal.SIGKILL)
        return outcome(*ended(first)) + second + Counter(faults=1)

    return history(life, shelf, count, seed, one)


def forks(life: Life, shelf: Path, count: int, seed: int, pace: Pace) -> Counter[str]:
    """A process forks in front of a door: the child goes on in its parent's place, then the parent itself."""

    def one(run: Run, draw: random.Random) -> Counter[str]:
        left, codes = [draw.randint(1, 12)], run.root / "codes"

        def before() -> None:
            left[0] -= 1
            if left[0] == 0 and (pid := os.fork()):
                codes.write_text(str(ended(pid)[0]))
                layer.arm(run.files, Fault.KILL_AFTER, 100)

        found = outcome(*ended(born(life, run, before=before)))
        code = codes.read_text() if codes.exists() else ""
        codes.unlink(missing_ok=True)
        told = Counter(faults=int(bool(code)), noticed=int(code == str(REFUSED)), allowed=int(code == str(ENDED)))
        return found + told + Counter(crashed=int(code not in ("", str(ENDED), str(REFUSED))))

    return history(life, shelf, count, seed, one, bad=(*NEVER, *SOUND, "allowed"))


def backups(life: Life, shelf: Path, count: int, seed: int, pace: Pace, what: str) -> Counter[str]:
    """An older copy of some files is put back after the run went on; then the run is taken up once more."""

    def one(run: Run, draw: random.Random) -> Counter[str]:
        def some() -> None:
            at = draw.randint(pace.operations // 10, pace.operations // 3)
            ended(born(life, run, lambda files: layer.arm(files, Fault.KILL_AFTER, at)))

        some()
        copy = run.root / "copy"
        shutil.copytree(run.files, copy)
        some()
        if what == "the ledger and its lock" and life.checkpoint and _same(copy, run.files, life.checkpoint):
            return Counter(ended=1)  # nothing has been kept since that could remember
        for path in sorted(path for path in copy.rglob("*") if path.is_file()):
            name = path.relative_to(copy)
            if _restored(life, what, str(name)):
                shutil.copy2(path, run.files / name)
        shutil.rmtree(copy)
        return _taken_up(life, run) + Counter(faults=1, ended=1)

    bad = ("crashed", "hung") if what == "everything" else NEVER
    return history(life, shelf, count, seed, one, bad=bad)


def _same(one: Path, other: Path, name: str) -> bool:
    """Whether a file is not there, or the same in both folders."""
    return not (other / name).exists() or (
        (one / name).exists() and (one / name).read_bytes() == (other / name).read_bytes()
    )


def _restored(life: Life, what: str, name: str) -> bool:
    """Whether a file is among those that are put back."""
    file = name.removesuffix("-journal").removesuffix(".lock")
    return {
        "the ledger": file in life.ledgers[:1] and not name.endswith(".lock"),
        "the ledger and its lock": file in life.ledgers[:1],
        "the register": file == life.register and not name.endswith(".lock"),
        "the checkpoint": file == life.checkpoint,
        "everything": True,
    }[what]
