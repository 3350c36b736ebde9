"""Who may write a ledger or register: one process, on a local disk, remembered across backups."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import threading
import weakref
from pathlib import Path

from tacit.errors import LedgerError
from tacit.privacy.ledger.entries import GENESIS

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NETWORK = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"),
    *("nfs4", "ocfs2", "orangefs", "pvfs2", "smb", "smb2", "smb3", "smbfs"),
    *(f"fuse.{kind}" for kind in ("ceph", "davfs", "gcsfuse", "glusterfs", "goofys", "juicefs", "moosefs", "nfs")),
    *(f"fuse.{kind}" for kind in ("rclone", "s3fs", "smb", "smbnetfs", "sshfs")),
}
_LOCK_BYTE = 1 << 20  # Windows locks bytes, not files: one far behind the recorded head

MUTEX = threading.RLock()  # held during every transaction and every fork: no child inherits a half-done one


class WriterLock:
    """The exclusive lock of one process on `<file>.lock`, which also records the newest head.

    The recorded head tells a file that alone was put back from a backup, or removed, from the newest one.

    Args:
        file: the resolved path of the ledger or register.
        kind: which of the two, for messages.

    Raises:
        LedgerError: the folder is missing, read-only or on a network file system, or another writer holds the lock.
    """

    def __init__(self, file: Path, kind: str = "ledger") -> None:
        self.path = file.with_name(file.name + ".lock")
        refuse_network(file, kind)
        self._pid, self._kind = os.getpid(), kind
        self._handle = _take(self.path, kind)
        self._close = weakref.finalize(self, _release, self._handle, self._pid)
        _OPEN.add(self)

    @property
    def head(self) -> str | None:
        """The recorded head, if any; of a torn record nothing is believed."""
        os.lseek(self._handle, 0, os.SEEK_SET)
        line = os.read(self._handle, len(_record(GENESIS))).decode("ascii", "replace")
        head, plain = line[:64], re.match(r"[0-9a-f]{64}\n", line)  # plain: as earlier versions wrote it
        return head if plain or line == _record(head) else None

    def record(self, head: str) -> None:
        """Record the newest head, after it is durable in the file (a lost write only weakens the check).

        It is flushed, so that a disk which lost the file's own flush is found out by it after a power cut.
        """
        with contextlib.suppress(OSError):
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, _record(head).encode("ascii"))
            os.fsync(self._handle)

    def check(self) -> None:
        """Refuse use after `release`, and in a forked child, which shares its parent's handles.

        Raises:
            LedgerError: as said.
        """
        if os.getpid() != self._pid:
            raise LedgerError(
                f"the {self._kind} was opened by another process",
                where=str(self.path),
                expected="the process that opened it",
                remedy="open it after the fork, in one process only",
            )
        if not self._close.alive:
            raise LedgerError(
                f"the {self._kind} is closed",
                where=str(self.path),
                expected=f"an open {self._kind}",
                remedy=f"open it again with {self._kind.title()}(...)",
            )

    def release(self) -> None:
        """Let the next writer in; releasing twice does nothing."""
        _OPEN.discard(self)
        self._close()

    def leave_to_parent(self) -> None:
        """In a forked child: drop the inherited handle, so that the lock ends with the parent."""
        if self._close.alive:
            os.close(self._handle)


def file_system(path: str, mounts: str) -> str:
    """Type of the file system that holds `path` (absolute, resolved), given the text of /proc/mounts."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[1]).rstrip("/") + "/"
        if f"{path}/".startswith(point) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def refuse_network(path: Path, kind: str = "ledger") -> None:
    """Raise a LedgerError if `path` is on a network file system (known on Linux only)."""
    try:
        mounts = Path("/proc/mounts").read_text("utf-8", "replace")
    except OSError:
        return  # not Linux: nothing known against it
    system = file_system(str(path), mounts)
    if system in _NETWORK:
        raise LedgerError(
            f"the {kind} would be on a network file system ({system})",
            where=str(path),
            expected="a local disk, because locks and flushes over a network do not keep their promise",
            remedy=f"put the {kind} on a local disk",
        )


def unwritable(path: Path, error: OSError) -> LedgerError:
    """The error of a folder in which the file cannot be created or locked."""
    return LedgerError(
        f"the folder cannot be written to ({error.strerror})",
        where=str(path),
        expected="an existing folder with permission to write",
        remedy="create the folder or choose another one",
    )


def _record(head: str) -> str:
    """The line of a head, with a check that no mixture of two such lines passes."""
    return f"{head} {hashlib.sha256(head.encode('ascii', 'replace')).hexdigest()[:16]}\n"


def _take(path: Path, kind: str) -> int:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        if sys.platform == "win32":
            os.lseek(lock, _LOCK_BYTE, os.SEEK_SET)
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise LedgerError(
            f"the {kind} is in use",
            where=str(path),
            expected="one writer at a time",
            remedy=f"wait for the other run to end, or close the {kind} there",
        ) from error
    return lock


def _release(handle: int, pid: int) -> None:
    if os.getpid() == pid:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_UN)  # also for a child that was forked a moment ago
        os.close(handle)


_OPEN: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for lock in list(_OPEN):
        lock.leave_to_parent()
    _OPEN.clear()
    MUTEX.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=MUTEX.acquire, after_in_parent=MUTEX.release, after_in_child=_after_fork_in_child)
