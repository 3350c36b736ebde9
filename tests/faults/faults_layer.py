"""The fault-injecting file layer, from Python: compiled on first use, preloaded, armed; and the disks of a power cut.

A module that calls `require` first starts itself again with the layer preloaded (Linux, with a C compiler). After a
fork, `arm` chooses what happens to the child's files.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
SECTOR = 512


class Fault(IntEnum):
    """What happens at the chosen operation; the values are those of the C source."""

    NOTHING, KILL_BEFORE, KILL_AFTER, TEAR, FAIL_ONCE, FAIL_ON, STOP_AFTER = range(7)


class Kind(IntEnum):
    """Of a recorded operation; the values are those of the C source."""

    CREATE, WRITE, TRUNCATE, FLUSH, RENAME, UNLINK, MAKE_FOLDER, MARK = range(8)


@dataclass(frozen=True)
class Operation:
    """One recorded change of a file, or a mark of the application's (`path` is then its text)."""

    kind: Kind
    path: str
    place: int
    data: bytes


def available() -> bool:
    """Whether this machine can preload the layer."""
    return sys.platform == "linux" and shutil.which("cc") is not None


@functools.cache
def library() -> Path:
    """The compiled layer, built again where the source has changed."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"tacit-faults-{os.getuid()}-{digest}.so"
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", partial, SOURCE, "-ldl"], check=True)
        os.replace(partial, path)
    return path


def require(module: str, arguments: list[str]) -> None:
    """Start `python -m module arguments` again in the place of this process, unless the layer is preloaded."""
    if os.environ.get("LD_PRELOAD") != str(library()):
        os.environ["LD_PRELOAD"] = str(library())
        os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


@functools.cache
def _functions() -> ctypes.CDLL:
    functions = ctypes.CDLL(str(library()))
    functions.faults_seen.restype = ctypes.c_long
    functions.faults_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_int]
    functions.faults_clock.argtypes = [ctypes.c_long]
    functions.faults_mark.argtypes = [ctypes.c_char_p]
    return functions


def arm(folder: Path, fault: Fault, at: int = 0, *, error: int = errno.EIO, log: int = -1) -> None:
    """From now on: the `at`-th change below `folder` meets the fault; changes are recorded to the handle `log`."""
    _functions().faults_arm(str(folder).encode(), int(fault), at, error, log)


def mark(text: str) -> None:
    """Put a line of the application's own between the recorded operations."""
    _functions().faults_mark(text.encode())


def set_clock(seconds: int) -> None:
    """Move this process's wall clock."""
    _functions().faults_clock(seconds)


def seen() -> int:
    """Changes since `arm`."""
    return int(_functions().faults_seen())


def recorded(path: Path) -> list[Operation]:
    """The log of a process that was killed or ended: its last operation may be missing."""
    content, place, found = path.read_bytes(), 0, []
    while place + 32 <= len(content):
        kind, name, where, size = struct.unpack_from("<4q", content, place)
        end = place + 32 + name + size
        if end > len(content):
            break
        text = content[place + 32 : place + 32 + name].decode()
        found.append(Operation(Kind(kind), text, where, content[end - size : end]))
        place = end
    return found


@dataclass
class _File:
    """What of a file is on the disk for good, and what was asked of it since its last flush."""

    kept: bytearray
    waiting: list[Operation] = field(default_factory=list)


Flushed = Callable[[str, int], bool]
"""(path, number of the flush) -> whether this flush does what it says."""


@dataclass
class Disk:
    """The files below a folder as a disk with a volatile cache keeps them.

    Changes of names (created, renamed, removed) are kept in order, and for good once a folder was flushed; bytes once
    their file was. Whatever waits may or may not survive: bytes sector by sector, names up to some change. Folders that
    were there at the beginning stay.

    Args:
        folder: whose files these are; what it holds now is on the disk.
        flushed: which flushes are honoured.
    """

    folder: Path
    flushed: Flushed = lambda path, number: True
    _files: dict[str, _File] = field(default_factory=dict)
    _kept_names: dict[str, str] = field(default_factory=dict)
    _waiting_names: list[Operation] = field(default_factory=list)
    _now: dict[str, str] = field(default_factory=dict)
    _flushes: int = 0
    _made: int = 0

    def __post_init__(self) -> None:
        self._folders = [path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_dir()]
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                self._files[str(path)] = _File(bytearray(path.read_bytes()))
                self._kept_names[str(path)] = self._now[str(path)] = str(path)

    def apply(self, operation: Operation) -> None:
        """One more operation reaches the cache."""
        path = operation.path
        if operation.kind == Kind.CREATE:
            self._made += 1
            self._files[f"{path}#{self._made}"] = _File(bytearray())
            self._now[path] = f"{path}#{self._made}"
            self._waiting_names.append(Operation(Kind.CREATE, path, 0, self._now[path].encode()))
        elif operation.kind in (Kind.WRITE, Kind.TRUNCATE) and path in self._now:
            self._files[self._now[path]].waiting.append(operation)
        elif operation.kind in (Kind.RENAME, Kind.UNLINK):
            self._now = _renamed(self._now, operation)
            self._waiting_names.append(operation)
        elif operation.kind == Kind.FLUSH:
            self._flushes += 1
            if self.flushed(path, self._flushes):
                self._flush(path)

    def _flush(self, path: str) -> None:
        if path in self._now:
            file = self._files[self._now[path]]
            for waiting in file.waiting:
                _change(file.kept, waiting)
            file.waiting.clear()
        else:  # a folder
            self._kept_names = self._names(self._waiting_names)
            self._waiting_names.clear()

    def _names(self, changes: list[Operation]) -> dict[str, str]:
        names = dict(self._kept_names)
        for change in changes:
            if change.kind == Kind.CREATE:
                names[change.path] = change.data.decode()
            else:
                names = _renamed(names, change)
        return names

    def cut(self, target: Path, draw: random.Random) -> None:
        """Write to `target` one of the disks that a power cut could leave now."""
        for folder in self._folders:
            (target / folder).mkdir(parents=True, exist_ok=True)
        share = draw.choice((0.0, 0.5, 1.0))
        kept = sum(1 for _ in _until(draw, share, self._waiting_names))
        for path, file in self._names(self._waiting_names[:kept]).items():
            content = bytearray(self._files[file].kept)
            for waiting in self._files[file].waiting:
                for piece in _sectors(waiting):
                    if draw.random() < share:
                        _change(content, piece)
            place = target / Path(path).relative_to(self.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            place.chmod(0o600)


def _until(draw: random.Random, share: float, changes: list[Operation]) -> Iterator[Operation]:
    for change in changes:
        if draw.random() >= share:
            return
        yield change


def _renamed(names: dict[str, str], change: Operation) -> dict[str, str]:
    """The names after one was renamed or removed; of a folder, those of all its files."""
    below, to = f"{change.path}/", change.data.decode()
    moved = dict[str, str]()
    for name, file in names.items():
        if name != change.path and not name.startswith(below):
            if change.kind == Kind.UNLINK or name != to:
                moved[name] = file
        elif change.kind == Kind.RENAME:
            moved[to + name[len(change.path) :]] = file
    return moved


def _sectors(change: Operation) -> Iterator[Operation]:
    """A write cut at the borders of sectors, each of which reaches the disk or does not; a truncation as it is."""
    if change.kind != Kind.WRITE:
        yield change
        return
    place, end = change.place, change.place + len(change.data)
    while place < end:
        stop = min(end, (place // SECTOR + 1) * SECTOR)
        yield Operation(Kind.WRITE, change.path, place, change.data[place - change.place : stop - change.place])
        place = stop


def _change(content: bytearray, change: Operation) -> None:
    if change.kind == Kind.TRUNCATE:
        del content[change.place :]
        content.extend(bytes(change.place - len(content)))
        return
    content.extend(bytes(max(0, change.place - len(content))))
    content[change.place : change.place + len(change.data)] = change.data
