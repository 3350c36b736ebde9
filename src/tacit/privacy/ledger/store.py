"""The file under a ledger: durable appends to SQLite, one writer at a time, on a local disk.

SQLite runs with a truncated rollback journal and synchronous=FULL: a commit returns after the rows, and the fact
that they are committed, are on the disk. (With journal_mode=DELETE that would need synchronous=EXTRA; a write-ahead
log would leave the newest claims outside the file that people copy, and could be torn by a forked child that exits.)
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

from tacit.errors import LedgerError
from tacit.privacy.ledger.entries import Entry, broken, canonical
from tacit.privacy.ledger.lock import MUTEX, WriterLock, unwritable

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
    """The ledger file of one process, locked until `close`.

    Args:
        path: where the ledger is or shall be, on a local file system.

    Raises:
        LedgerError: the folder is missing, read-only or on a network file system, or another writer holds the lock.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        self.lock = WriterLock(self.path)
        self._connections: list[sqlite3.Connection] = []
        self._identity: tuple[int, int] | None = None
        self._disconnect = weakref.finalize(self, _disconnect, self._connections, os.getpid())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """One thread of the owning process at a time; refused elsewhere and after `close`."""
        self.lock.check()
        with MUTEX:
            yield

    def create(self, entry: Entry) -> None:
        """Write a new ledger holding one entry: the file appears complete, or not at all."""
        new = self.path.with_name(self.path.name + ".new")
        journal = new.with_name(new.name + "-journal")
        try:
            for leftover in (new, journal):
                leftover.unlink(missing_ok=True)
            with _sqlite(self.path), contextlib.closing(_connect(new, "rwc")) as connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.values():
                    connection.execute(statement)
                connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", _row(entry))
                connection.execute("COMMIT")
            journal.unlink(missing_ok=True)
            os.replace(new, self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            raise unwritable(self.path, error) from error

    def open(self) -> list[Entry]:
        """Connect for writing and return the entries; the file's own integrity and triggers are checked.

        Raises:
            LedgerError: the file is damaged, not a ledger, not writable, or has a second name (hard link).
        """
        _disconnect(self._connections, os.getpid())
        status = os.stat(self.path)
        if status.st_nlink > 1:
            raise LedgerError(
                "the file has several names (hard links)",
                where=str(self.path),
                expected="one name, because the lock and the journal go by name",
                remedy="remove the other names, or copy the file",
            )
        self._identity = (status.st_dev, status.st_ino)
        with _sqlite(self.path):
            connection = _connect(self.path, "rw")
            self._connections.append(connection)
            connection.execute("BEGIN IMMEDIATE")  # undoes what a crash left half-done
            connection.execute("DELETE FROM entries WHERE 0")  # fails on a read-only file
            connection.execute("ROLLBACK")
            entries = _load(connection)
        recorded = self.lock.head
        if recorded is not None and all(entry.hash != recorded for entry in entries):
            raise LedgerError(
                "the ledger is older than the head recorded beside it",
                where=str(self.path),
                expected="the newest copy of the ledger",
                remedy="put the newest copy back; steps claimed since the older one must not run again",
            )
        return entries

    def append(self, entry: Entry, *, after: str) -> None:
        """Add one entry behind the entry whose hash is `after`, durably, or not at all.

        Raises:
            LedgerError: the disk is full or failing, the file was exchanged, or something else wrote to it.
        """
        (connection,) = self._connections
        with _sqlite(self.path):
            self._check_identity()
            try:
                connection.execute("BEGIN IMMEDIATE")
                last = connection.execute("SELECT hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
                if last != (after,):
                    raise broken("something else has written to the ledger while it was open")
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
            raise broken("the file was removed or exchanged while the ledger was open")


def read_entries(path: Path) -> list[Entry]:
    """The entries of a ledger file, without the lock and without writing to it.

    A transaction that a crash left half-done is undone on a private copy.
    """
    if not path.is_file():
        raise LedgerError(
            "there is no ledger",
            where=str(path),
            expected="an existing ledger file",
            remedy="check the path, or create the ledger with a unit and a budget",
        )
    try:
        return _read(path)
    except LedgerError as error:
        if getattr(error.__cause__, "sqlite_errorname", "") != "SQLITE_READONLY_ROLLBACK":
            raise
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        for suffix in ("", "-journal"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        with _sqlite(path), contextlib.closing(_connect(copy, "rw")) as connection:
            return _load(connection)


def _read(path: Path) -> list[Entry]:
    with _sqlite(path), contextlib.closing(_connect(path, "ro")) as connection:
        return _load(connection)


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
            raise broken("the file is damaged")
        if dict(connection.execute("SELECT name, sql FROM sqlite_master")) != _SCHEMA:
            raise broken("the table or the triggers that make it append-only are not those of a ledger")
        rows = connection.execute("SELECT seq, time, kind, payload, hash FROM entries ORDER BY seq").fetchall()
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    entries = []
    for position, (seq, time, kind, payload, digest) in enumerate(rows, start=1):
        try:
            value = json.loads(payload)
            intact = isinstance(value, dict) and canonical(value) == payload
        except (TypeError, ValueError, RecursionError):
            intact = False
        if not intact:
            raise broken(f"entry {position} is not valid (its content is not canonical JSON)")
        entries.append(Entry(seq, time, kind, value, digest))
    return entries


def _disconnect(connections: list[sqlite3.Connection], pid: int) -> None:
    while connections and os.getpid() == pid:
        connections.pop().close()


def _row(entry: Entry) -> Sequence[object]:
    return (entry.seq, entry.time, entry.kind, canonical(dict(entry.payload)), entry.hash)


def _sync_folder(folder: Path) -> None:
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _sqlite(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # of a message that quotes a damaged schema
        told = str(error) if isinstance(error, sqlite3.Error) and str(error).isprintable() else "its schema is damaged"
        raise LedgerError(
            f"the file cannot be used ({told})",
            where=str(path),
            expected="an undamaged ledger on a disk with space left and permission to write",
            remedy="free the disk or restore the newest copy, then open the ledger again; nothing half-done is kept",
        ) from error
