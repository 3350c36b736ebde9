"""The file under a ledger: durable appends to SQLite, one writer at a time, on a local disk.

SQLite runs with a truncated rollback journal and synchronous=FULL: a commit returns after the rows, and the fact
that they are committed, are on the disk. (With journal_mode=DELETE that would need synchronous=EXTRA; a write-ahead
log would leave the newest claims outside the file that people copy, and could be torn by a forked child that exits.)
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

from tacit import plain_files
from tacit.errors import LedgerError
from tacit.privacy.ledger.state import GENESIS, Entry, damage_error

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
_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""With which a roll-back journal begins, and ends if it names a super-journal (SQLite file format, section 3)."""
_HEADS = re.compile(rb"[0-9a-f \n\0]{0,82}")
"""What a lock may hold: nothing, a head with its check, or what a power cut left of them."""
_LOCK_BYTE = 1 << 20  # Windows locks bytes, not files: one far behind the recorded head

MUTEX = threading.RLock()  # held during every transaction and every fork: no child inherits a half-done one


class WriterLock:
    """The exclusive lock of one process on `<file>.lock`, which also records the newest head."""

    # The recorded head tells a file that alone was put back from a backup, or removed, from the newest one.

    def __init__(self, file: Path, kind: str = "ledger") -> None:
        self.path = file.with_name(file.name + ".lock")
        require_local(file, kind)
        self._pid, self._kind = os.getpid(), kind
        self._handle = _take(self.path, kind)
        self._close = weakref.finalize(self, _release, self._handle, self._pid)
        _OPEN.add(self)

    @property
    def head(self) -> str | None:
        """The recorded head, if any; of a torn record nothing is believed."""
        os.lseek(self._handle, 0, os.SEEK_SET)
        line = os.read(self._handle, len(_record(GENESIS))).decode("ascii", "replace")
        return line[:64] if line == _record(line[:64]) else None

    def record(self, head: str) -> None:
        """Record the newest head, after it is durable in the file (a lost write only weakens the check)."""
        # It is flushed, so that a disk which lost the file's own flush is found out by it after a power cut.
        with contextlib.suppress(OSError):
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, _record(head).encode("ascii"))
            os.fsync(self._handle)

    def require_owner(self) -> None:
        """Refuse use after `release`, and in a forked child, which shares its parent's handles."""
        if os.getpid() != self._pid:
            what = f"the {self._kind} was opened by another process"
            expected, remedy = "the process that opened it", "open it after the fork, in one process only"
            raise LedgerError(what, where=str(self.path), expected=expected, remedy=remedy)
        if not self._close.alive:
            expected, remedy = f"an open {self._kind}", f"open it again with {self._kind.title()}(...)"
            raise LedgerError(f"the {self._kind} is closed", where=str(self.path), expected=expected, remedy=remedy)

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


def require_local(path: Path, kind: str = "ledger") -> None:
    """Raise a LedgerError if `path` is on a network file system (known on Linux only)."""
    try:
        mounts = Path("/proc/mounts").read_text("utf-8", "replace")
    except OSError:
        return  # not Linux: nothing known against it
    system = file_system(str(path), mounts)
    if system in _NETWORK:
        what = f"the {kind} would be on a network file system ({system})"
        expected = "a local disk, because locks and flushes over a network do not keep their promise"
        raise LedgerError(what, where=str(path), expected=expected, remedy=f"put the {kind} on a local disk")


def write_error(path: Path, error: OSError) -> LedgerError:
    """The error of a folder in which the file cannot be created or locked."""
    what, remedy = f"the folder cannot be written to ({error.strerror})", "create the folder or choose another one"
    return LedgerError(what, where=str(path), expected="an existing folder with permission to write", remedy=remedy)


def _record(head: str) -> str:
    """The line of a head, with a check that no mixture of two such lines passes."""
    return f"{head} {hashlib.sha256(head.encode('ascii', 'replace')).hexdigest()[:16]}\n"


def require_plain(path: Path, kind: str = "ledger") -> None:
    """Refuse a name under which something other than a plain file with that one name is found; nothing may be there."""
    # A link that somebody left in place of a lock, a journal or a key would lead writes to a file of their choice.
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise write_error(path, error) from error
    if not plain_files.has_single_link(status):
        raise _plain_file_error(path, kind)


def resolve_plain(path: str | os.PathLike[str], kind: str = "ledger") -> Path:
    """The file behind the links that a path may go through."""
    found = Path(os.path.realpath(path))
    if os.path.islink(path) and not os.path.exists(path):
        raise _plain_file_error(Path(path), kind)
    require_plain(found, kind)
    return found


def _plain_file_error(path: Path, kind: str) -> LedgerError:
    what = "the file is a link, has several names (hard links) or is no plain file"
    expected = f"a plain file with one name beside the {kind}, as tacit makes it"
    remedy = f"remove it if you did not make it, and ask for a plain copy of the {kind}"
    return LedgerError(what, where=str(path), expected=expected, remedy=remedy)


def _take(path: Path, kind: str) -> int:
    require_plain(path, kind)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        lock = os.open(path, flags, 0o600)
    except OSError as error:
        raise write_error(path, error) from error
    if not plain_files.has_single_link(os.fstat(lock)):  # another one since
        os.close(lock)
        raise _plain_file_error(path, kind)
    if not _HEADS.fullmatch(os.read(lock, len(_record(GENESIS)) + 1)):
        os.close(lock)
        what = f"a file that is no lock of tacit has the name of the lock of the {kind}"
        expected = "a file with nothing but the newest head, as tacit makes it"
        remedy = f"choose another name for the {kind}; if the file is of no use, remove it"
        raise LedgerError(what, where=str(path), expected=expected, remedy=remedy)
    try:
        if sys.platform == "win32":
            os.lseek(lock, _LOCK_BYTE, os.SEEK_SET)
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        expected, remedy = "one writer at a time", f"wait for the other run to end, or close the {kind} there"
        raise LedgerError(f"the {kind} is in use", where=str(path), expected=expected, remedy=remedy) from error
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


_SCHEMA = {
    "entries": "CREATE TABLE entries (seq INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, "
    "payload TEXT NOT NULL, hash TEXT NOT NULL)",
    "entries_only_grow": "CREATE TRIGGER entries_only_grow BEFORE INSERT ON entries "
    "WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entries) "
    "BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END",
    "entries_stay": "CREATE TRIGGER entries_stay BEFORE UPDATE ON entries "
    "BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END",
    "entries_remain": "CREATE TRIGGER entries_remain BEFORE DELETE ON entries "
    "BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END",
}


class Store:
    """The ledger file of one process, locked until `close`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = resolve_plain(path)
        self.lock = WriterLock(self.path)
        self._connections: list[sqlite3.Connection] = []
        self._identity: tuple[int, int] | None = None
        self._disconnect = weakref.finalize(self, _disconnect, self._connections, os.getpid())

    @contextlib.contextmanager
    def exclusive_access(self) -> Iterator[None]:
        """One thread of the owning process at a time; refused elsewhere and after `close`."""
        self.lock.require_owner()
        with MUTEX:
            yield

    def create(self, entry: Entry) -> None:
        """Write a new ledger holding one entry: the file appears complete, or not at all."""
        new = self.path.with_name(self.path.name + ".new")
        journal = new.with_name(new.name + "-journal")
        try:
            for leftover in (new, journal):
                leftover.unlink(missing_ok=True)
            os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with _sqlite(self.path), contextlib.closing(_connect(new, "rw")) as connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.values():
                    connection.execute(statement)
                connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", _row(entry))
                connection.execute("COMMIT")
            journal.unlink(missing_ok=True)
            os.replace(new, self.path)
            plain_files.sync_folder(self.path.parent)
        except OSError as error:
            raise write_error(self.path, error) from error

    def open(self) -> list[Entry]:
        """Connect for writing and return the entries; the file's own integrity and triggers are checked."""
        _disconnect(self._connections, os.getpid())
        require_plain(self.path)  # the lock and the journal go by name
        _require_single_file(self.path)
        with _sqlite(self.path):
            status = os.stat(self.path)
            self._identity = (status.st_dev, status.st_ino)
            connection = _connect(self.path, "rw")
            self._connections.append(connection)
            connection.execute("BEGIN IMMEDIATE")  # undoes what a crash left half-done
            connection.execute("DELETE FROM entries WHERE 0")  # fails on a read-only file
            connection.execute("ROLLBACK")
            entries = _load(connection)
        recorded = self.lock.head
        if recorded is not None and all(entry.hash != recorded for entry in entries):
            what, expected = "the ledger is older than the head recorded beside it", "the newest copy of the ledger"
            remedy = "put the newest copy back; steps claimed since the older one must not run again"
            raise LedgerError(what, where=str(self.path), expected=expected, remedy=remedy)
        return entries

    def append(self, entry: Entry, *, previous: str) -> None:
        """Add one entry behind the entry whose hash is `after`, durably, or not at all."""
        (connection,) = self._connections
        with _sqlite(self.path):
            self._check_identity()
            try:
                connection.execute("BEGIN IMMEDIATE")
                last = connection.execute("SELECT hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
                if last != (previous,):
                    raise damage_error("something else has written to the ledger while it was open")
                connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", _row(entry))
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
        self.lock.record(entry.hash)

    def close(self) -> None:
        """Disconnect and let the next writer in; closing twice, or in a forked child, does nothing."""
        with MUTEX:
            self._disconnect()
            self.lock.release()

    def _check_identity(self) -> None:
        try:
            status = os.stat(self.path)
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            raise damage_error("the file was removed or exchanged while the ledger was open")


def read_entries(path: Path) -> list[Entry]:
    """The entries of a ledger file, without the lock and without writing to it."""
    # A transaction that a crash left half-done is undone on a private copy.
    if not path.is_file():
        expected, remedy = "an existing ledger file", "check the path, or create the ledger with a unit and a budget"
        raise LedgerError("there is no ledger", where=str(path), expected=expected, remedy=remedy)
    _require_single_file(path)
    try:
        with _sqlite(path), contextlib.closing(_connect(path, "ro")) as connection:
            return _load(connection)
    except LedgerError as error:
        if getattr(error.__cause__, "sqlite_errorname", "") != "SQLITE_READONLY_ROLLBACK":
            raise
    with _sqlite(path), tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        for suffix in ("", "-journal"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        _require_single_file(copy)  # whatever became of the journal since
        with contextlib.closing(_connect(copy, "rw")) as connection:
            return _load(connection)


def _require_single_file(path: Path) -> None:
    """Refuse what would make SQLite touch other files than the ledger and its journal."""
    # A journal that ends in a super-journal record names a file that a roll-back deletes; a write-ahead log is made
    # beside the file even by a reader. tacit writes neither.
    journal = path.with_name(f"{path.name}-journal")
    require_plain(journal)
    logs = any(os.path.lexists(f"{path}{suffix}") for suffix in ("-wal", "-shm"))
    named = False
    with _sqlite(path), path.open("rb") as file:
        versions = file.read(20)[18:20]
    with _sqlite(path), contextlib.suppress(FileNotFoundError), journal.open("rb") as file:
        if file.seek(0, os.SEEK_END) >= 16:
            file.seek(-8, os.SEEK_END)
            named = file.read(8) == _JOURNAL
    if named or logs or any(version != 1 for version in versions):
        what = "the file comes with a journal that tacit did not write"
        expected = "a ledger with a plain roll-back journal, or none"
        remedy = "do not open it; ask its author for a copy made while no run had it open"
        raise LedgerError(what, where=str(path), expected=expected, remedy=remedy)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = FULL")
        if mode != "ro":
            connection.execute("PRAGMA journal_mode = TRUNCATE")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = 1")
    except BaseException:
        connection.close()
        raise
    return connection


def _load(connection: sqlite3.Connection) -> list[Entry]:
    connection.execute("BEGIN")
    try:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise damage_error("the file is damaged")
        if dict(connection.execute("SELECT name, sql FROM sqlite_master")) != _SCHEMA:
            raise damage_error("the table or the triggers that make it append-only are not those of a ledger")
        rows = connection.execute("SELECT seq, time, kind, payload, hash FROM entries ORDER BY seq").fetchall()
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return [Entry(*row) for row in rows]


def _disconnect(connections: list[sqlite3.Connection], pid: int) -> None:
    while connections and os.getpid() == pid:
        connections.pop().close()


def _row(entry: Entry) -> Sequence[object]:
    return (entry.seq, entry.time, entry.kind, entry.text, entry.hash)


@contextlib.contextmanager
def _sqlite(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:  # the last of a message with a damaged schema
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if isinstance(error, UnicodeDecodeError) or not f"{reason}".isprintable():
            reason = "its schema is damaged"
        what = f"the file cannot be used ({reason})"
        expected = "an undamaged ledger on a disk with space left and permission to write"
        remedy = "free the disk or restore the newest copy, then open the ledger again; nothing half-done is kept"
        raise LedgerError(what, where=str(path), expected=expected, remedy=remedy) from error
