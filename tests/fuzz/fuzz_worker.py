"""One reader under libFuzzer (by `atheris`), in a process of its own: `python -m tests.fuzz.fuzz_worker READER ...`.

What an input did is counted in a file that survives the process, since libFuzzer ends it when a reader hangs or dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import fnmatch
import hashlib
import importlib
import operator
import os
import random
import re
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Set
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError

SECONDS, MEMORY, BURST = 60, 2**31, 2**30
"""Within which an input has to be read: of time, on a machine that may be busy, of address space beyond what the
process needs without it, and of memory (the rise of its peak)."""
OWN = 0.8
"""Of the changes, those that follow the rules of the file's own format; the others are libFuzzer's."""
LARGEST = 2**18
"""Bytes of an input."""
LONGEST = 2_000
"""Characters of a message."""
COUNTS = ("tried", "read", "refused", "crashes", "bombs", "outside", "written", "deleted")
_IN_OPEN, _IN_CHANGED = 0x20, 0x2 | 0x100 | 0x200
Seen = dict[str, tuple[int, ...]]
"""Path -> mode, inode, bytes and time of the last change."""


def look(folder: Path) -> Seen:
    """Everything below a folder; no link is followed and nothing is opened."""
    found: Seen = {}
    waiting = [str(folder)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            status = entry.stat(follow_symlinks=False)
            folded = entry.is_dir(follow_symlinks=False)
            size = () if folded else (status.st_size, status.st_mtime_ns)
            found[entry.path] = (status.st_mode, status.st_ino, *size)
            waiting += [entry.path] if folded else []
    return found


def changes(
    before: Seen, after: Seen, own: tuple[str, ...] = (), exchanged: Set[str] = frozenset()
) -> tuple[list[str], list[str]]:
    """(what was written, what was deleted) between two looks, but for these paths and names like a pattern of `own`."""

    def others(paths: Iterable[str]) -> list[str]:
        names = ((path, os.path.basename(path)) for path in paths)
        kept = (path for path, name in names if not any(fnmatch.fnmatch(name, pattern) for pattern in own))
        return sorted(path for path in kept if path not in exchanged)

    return others(path for path in after if after[path] != before.get(path)), others(before.keys() - after.keys())


def memory(name: str) -> int:
    """Bytes of this process by their name in /proc/self/status: VmSize, of addresses; VmRSS, in use; VmHWM, peak."""
    line = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert line is not None
    return 1024 * int(line[1])


def forget_peak() -> None:
    """Let the peak begin at what is in use."""
    Path("/proc/self/clear_refs").write_text("5")


@contextlib.contextmanager
def limited(space: int) -> Iterator[None]:
    """Within so many bytes of address space."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (space, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


class Watch:
    """Whether anything touched a folder, be it from Python or from a library in C (inotify)."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle < 0 or libc.inotify_add_watch(self._handle, os.fsencode(folder), _IN_OPEN | _IN_CHANGED) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def touched(self) -> bool:
        """Since it was last asked."""
        try:
            return bool(os.read(self._handle, 2**16))
        except BlockingIOError:
            return False


class Doorman:
    """Notes files that Python opens, while it is told to, outside the folder of the input and of the installation."""

    def __init__(self, folder: Path) -> None:
        places = (folder, Path(__file__).parents[2], sys.prefix, sys.base_prefix, "/proc", "/sys", "/usr/share")
        devices = ("/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
        self._allowed = (*(f"{os.path.realpath(place)}{os.sep}" for place in places), *devices)
        self.watching, self.seen = False, set[str]()
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.watching and event in ("open", "os.remove", "os.rename", "os.mkdir", "subprocess.Popen", "os.system"):
            path = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else ""
            if event in ("os.remove", "os.rename", "os.mkdir"):  # of the name itself, wherever a link leads
                path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            else:
                path = path and os.path.realpath(path)
            nothing = event == "open" and not arguments[2] & os.O_CREAT and not os.path.exists(path)
            if path and not nothing and not path.startswith(self._allowed):
                self.seen.add(path)


def sentence(error: TacitError) -> bool:
    """Whether the message is one: printable, in a line, with an end, and no longer than anybody reads."""
    text = str(error)
    return text.isprintable() and text.endswith(".") and len(text) <= LONGEST


def plant(folder: Path) -> None:
    """Files outside the folder of the input that paths in hostile files lead to; each would be read gladly."""
    import h5py

    folder.mkdir(exist_ok=True)
    for name in ("secret", "secret.raw"):
        (folder / name).write_bytes(np.ones(48, np.float32).tobytes())
    with h5py.File(folder / "secret.h5", "w") as file:
        file["rewards"] = np.full(12, 0.5)


def judge(attempt: Callable[[], object]) -> tuple[str, BaseException | None]:
    """What became of an input: "read", "refused", "bombs" or "crashes", and the error of the last two."""
    try:
        attempt()
    except MemoryError as error:
        return "bombs", error
    except TacitError as error:
        return ("refused", None) if sentence(error) else ("crashes", error)
    except Exception as error:
        return "crashes", error
    return "read", None


def main(name: str, folder: Path, module: str, options: list[str]) -> None:
    """Fuzz one reader of a module in a folder; the options are libFuzzer's."""
    import atheris

    with atheris.instrument_imports(include=["tacit"], enable_loader_override=False):
        exchanged = importlib.import_module("tests.fuzz.fuzz_cases").EXCHANGED
        reader = next(one for one in importlib.import_module(module).READERS if one.name == name)
        inside = folder / "inside"
        first = not inside.exists()
        if first:
            inside.mkdir(parents=True)
            plant(folder / "outside")
            for path in (folder / "corpus", folder / "finds"):
                path.mkdir()
            (folder / "counts").write_bytes(np.zeros(len(COUNTS), np.int64).tobytes())
        os.chdir(inside)
        tempfile.tempdir = str(inside)
        if first:
            for seed in reader.seeds(inside):
                (folder / "corpus" / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
        for seed in sorted((folder / "corpus").iterdir())[:8]:  # what is imported when it is needed is instrumented too
            judge(partial(reader.attempt, inside, seed.read_bytes()))
    counts = np.memmap(folder / "counts", np.int64, "r+", shape=(len(COUNTS),))
    watch, doorman, known = Watch(folder / "outside"), Doorman(inside), {path.name for path in folder.glob("finds/*")}

    def keep(kind: str, content: bytes, told: str) -> None:
        counts[COUNTS.index(kind)] += 1
        label = f"{kind}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
        if label not in known:
            known.add(label)
            (folder / "finds" / label).write_bytes(content)
            (folder / "finds" / f"{label}.txt").write_text(told)

    def test(content: bytes) -> None:
        counts[0] += 1
        reader.prepare(inside, content)
        before, planted = look(inside), look(folder / "outside")
        watch.touched()  # by what was prepared, and by looking
        forget_peak()
        used = memory("VmRSS")
        doorman.watching = True
        with limited(memory("VmSize") + MEMORY):
            kind, error = judge(lambda: reader.read(inside))
        doorman.watching = False
        if kind != "bombs" and (peak := memory("VmHWM") - used) > BURST:
            keep("bombs", content, f"{peak / 2**30:.0f} GiB")
        if watch.touched() or doorman.seen:
            keep("outside", content, f"{sorted(doorman.seen) or 'planted'}")
            doorman.seen.clear()
        ours, theirs = changes(before, look(inside), reader.own, exchanged), changes(planted, look(folder / "outside"))
        for what, paths in zip(("written", "deleted"), map(operator.add, ours, theirs), strict=True):
            if paths:
                keep(what, content, "\n".join(paths))
        if any(theirs):
            plant(folder / "outside")
        if error is None:
            counts[COUNTS.index(kind)] += 1
        else:
            frames = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            ours = [frame for frame in frames if f"{os.sep}tacit{os.sep}" in frame]
            keep(kind, content, "\n".join((type(error).__name__, *ours[-3:], *frames[-1:], str(error)[:300])))

    def mutate(content: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        found = content
        if rng.random() >= OWN:
            found = bytes(atheris.Mutate(content, most))
        else:
            with contextlib.suppress(MemoryError), limited(memory("VmSize") + MEMORY):  # it may parse a bomb
                found = reader.mutate(content, rng)
        return found if len(found) <= most else content

    limits = (
        f"-timeout={SECONDS}",
        f"-max_len={LARGEST}",
        "-rss_limit_mb=0",
        "-len_control=0",
        "-report_slow_units=60",
    )
    corpus, finds = str(folder / "corpus"), f"-artifact_prefix={folder / 'finds'}{os.sep}"
    atheris.Setup([sys.argv[0], *limits, finds, *options, corpus], test, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3], sys.argv[4:])
