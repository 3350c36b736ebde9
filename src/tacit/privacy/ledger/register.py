"""The register of contributions: who was let contribute to which plan how often, under a keyed hash, in one file.

It is not public: a reader can count people, and a reader with its key can ask who they are.
"""

from __future__ import annotations

import hmac
import json
import operator
import os
import secrets
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from tacit import plain_files
from tacit.data import unit_keys
from tacit.errors import LedgerError, PlanError
from tacit.privacy.ledger.state import GENESIS, canonical_json
from tacit.privacy.ledger.store import MUTEX, WriterLock, resolve_plain

_KEY_BYTES = 32
_PERSON_BYTES = 16  # two people with one hash share one cap, which is safe
_LARGEST = 2**32
_BINARY = getattr(os, "O_BINARY", 0)


class Register:
    """How often each person was let contribute to each plan, kept beyond the process; one process holds it at a time.

    A reservation is on the disk before the person is served, and stays spent if the process dies before `commit`.
    Each line ends with a message authentication code over itself and the line before, so nobody without the key can
    write, change or reorder one unnoticed.

    Args:
        path: the file, on a local disk; `<path>.lock` is kept beside it.
        key: the file of the 32 secret bytes, readable by its owner only, outside the register's folder, so that a copy
            of that folder says nothing about whom it names. Both files are created if neither exists.

    Raises:
        LedgerError: only one of the two exists, the key is another one or lies in or below the register's folder, the
            register is damaged, edited, older than the head recorded beside it, in use or on a network file system.

    Guarantee:
        For every plan and person, over all processes and crashes, `reserve` says yes at most `most` times, unless the
        file and its `.lock` were both put back from an older copy; `require` finds that.

    Edge cases:
        A torn last line is dropped when the register is opened: its call never returned. Ids count by their keys (see
        `tacit.data.unit_keys`); one person under two keys is two people.
    """

    _file: tuple[int, int, int]

    def __init__(self, path: str | os.PathLike[str], *, key: str | os.PathLike[str]) -> None:
        self.path, self._key_path = resolve_plain(path, "register"), resolve_plain(key, "register")
        if self.key_folder == self.path.parent or self.path.parent in self.key_folder.parents:
            raise self._error(
                "the key is in the register's folder",
                "a key elsewhere, because a copy of the folder would tell who is in the register",
                "keep the key where copies of the register do not go",
            )
        self._lock = WriterLock(self.path, "register")
        try:
            exists = self.path.exists(), self._key_path.exists()
            if exists == (False, False):
                self._create()
            elif exists != (True, True):
                raise self._missing_error("key" if exists[0] else "register")
            secret = self._secret()
            self._people_key = hmac.digest(secret, b"people", "sha256")
            self._lines_key = hmac.digest(secret, b"lines", "sha256")
            self._load()
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise self._access_error(error) from error
            raise

    @property
    def key_folder(self) -> Path:
        """The folder of the key, resolved."""
        return self._key_path.parent

    @property
    def head(self) -> str:
        """Code of the newest line, 64 hexadecimal digits."""
        with MUTEX:
            self._require_usable()
            return self._heads[-1]

    def require(self, head: str) -> None:
        """Refuse to go on if no line has this code: the register is older, or another one.

        Raises:
            LedgerError: as said.
        """
        with MUTEX:
            self._require_usable()
            if head not in self._heads:
                raise self._error(
                    "the register does not contain the head that was required of it",
                    "the register that the ledger was used with, at least as new",
                    "put the newest copy of that register back; an older one would let people contribute again",
                )

    def reserve(self, plan_id: str, people: Sequence[str], cap: int) -> npt.NDArray[np.bool_]:
        """Who of these may contribute now, on the disk before it returns.

        Args:
            plan_id: the plan that they would contribute to.
            people: ids in the order of arrival; "" and other words for nothing are somebody unknown.
            most: to how many calls of one plan a person may say yes.

        Returns:
            [len(people)]: False for somebody unknown, for the second place of the same person in this call, and for
            who contributed `most` times before. Private: it stays in the vault.

        Raises:
            PlanError: `most` is below 1, or an id is not text.
            LedgerError: the line could not be made durable; nobody may be served.
        """
        if operator.index(cap) < 1 or not all(isinstance(person, str) for person in people):
            what, expected = "the cap is below 1, or an id is not text", "most >= 1 and text ids"
            remedy = "pass participations= of the plan, and each person's id as a str"
            raise PlanError(what, where="Register.reserve", expected=expected, remedy=remedy)
        with MUTEX:
            self._require_usable()
            before = self._counts.get(plan_id, Counter())
            granted, chosen = np.zeros(len(people), bool), dict[str, None]()
            for place, person in enumerate(people):
                key = unit_keys.key_or_none(person)
                name = "" if key is None else self._hash(key)
                if name and name not in chosen and before[name] < cap:
                    granted[place] = True
                    chosen[name] = None
            self._append({"kind": "reserve", "plan": plan_id, "people": list(chosen)})
        return granted

    def bind(self, datasets: Sequence[str]) -> None:
        """Bind the register, at its first call, to these ledgers; later calls must name the same.

        Args:
            datasets: the ids of the ledgers, whose people the register counts together with no others.

        Raises:
            LedgerError: the register belongs to other ledgers, which would not know of each other's releases.
        """
        with MUTEX:
            self._require_usable()
            wanted = sorted(datasets)
            if self._datasets is None:
                self._append({"kind": "bind", "datasets": wanted})
            elif self._datasets != wanted:
                raise self._error(
                    "the register belongs to another ledger",
                    "the ledger that it was first used with: two would not add up what one person contributes to both",
                    "open that ledger, or make a new register for people who are not in this one",
                )

    def commit(self) -> None:
        """Record that what the last reservation let in was released.

        Raises:
            LedgerError: no reservation of this process is waiting, or the line could not be made durable.
        """
        with MUTEX:
            self._require_usable()
            if not self._pending:
                raise self._error(
                    "no reservation is waiting to be committed", "one commit for a reservation", "reserve first"
                )
            self._append({"kind": "commit"})

    def close(self) -> None:
        """Let the next process in; closing twice does nothing."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Register({str(self.path)!r})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        expected, remedy = "one object in one process", "pass its path and key, and open it in the process that uses it"
        raise LedgerError("a register cannot be pickled or copied", where="Register", expected=expected, remedy=remedy)

    # -- lines -----------------------------------------------------------------------------------------------------

    def _append(self, entry: Mapping[str, Any]) -> None:
        text = canonical_json(dict(entry))
        head = self._code(self._heads[-1], text)
        line = f"{text} {head}\n".encode("ascii")
        self._intact = False  # whatever interrupts the next lines: the file decides what happened
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | _BINARY)
            try:
                status = os.fstat(handle)
                if _identity(status) != self._file:
                    what = "something else has written to the register, or exchanged it, while it was open"
                    raise self._damage_error(what)
                _write(handle, line)
                status = os.fstat(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise self._access_error(error) from error
        self._file = _identity(status)
        self._apply(entry, head)
        self._lock.record(head)
        self._intact = True

    def _load(self) -> None:
        content = plain_files.read(self.path, _LARGEST)
        lines = content.split(b"\n")
        torn = lines.pop()
        if not torn and lines and b"\0" in lines[-1]:  # a block that never reached the disk reads as zeros
            torn = lines.pop() + b"\n"
        self._heads = [GENESIS]
        self._counts: dict[str, Counter[str]] = {}
        self._datasets: list[str] | None = None
        for position, line in enumerate(lines, start=1):
            text, _, head = line.decode("ascii", "replace").rpartition(" ")
            if not hmac.compare_digest(self._code(self._heads[-1], text).encode(), head.encode()):
                raise self._damage_error(
                    "the key is not this register's, or its first line was changed"
                    if position == 1
                    else f"line {position} was not written by this register"
                )
            try:
                self._apply(json.loads(text), head)
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
                raise self._damage_error(f"line {position} is not one of a register") from None
        if not lines:
            raise self._damage_error("the register is empty")
        if self._lock.head is not None and self._lock.head not in self._heads:
            raise self._damage_error("the register is older than the head recorded beside it")
        if self.path.stat().st_nlink > 1:
            raise self._damage_error("the register has several names (hard links)")
        with self.path.open("r+b") as file:
            if torn:
                file.truncate(len(content) - len(torn))
                os.fsync(file.fileno())
            self._file = _identity(os.fstat(file.fileno()))
        self._pending, self._intact = False, True
        self._lock.record(self._heads[-1])

    def _apply(self, entry: Mapping[str, Any], head: str) -> None:
        self._pending = entry["kind"] == "reserve"
        if self._pending:
            self._counts.setdefault(entry["plan"], Counter()).update(entry["people"])
        if entry["kind"] == "bind":
            self._datasets = list(entry["datasets"])
        self._heads.append(head)

    def _code(self, previous: str, text: str) -> str:
        return hmac.digest(self._lines_key, f"{previous}\n{text}".encode(), "sha256").hex()

    def _hash(self, key: str) -> str:
        name = key.encode("utf-8", "surrogatepass")
        return hmac.digest(self._people_key, name, "sha256")[:_PERSON_BYTES].hex()

    def _require_usable(self) -> None:
        self._lock.require_owner()
        if not self._intact:
            raise self._damage_error("the last line may not have reached the disk")

    # -- files -----------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        if self._lock.head is not None:
            raise self._missing_error("register and key")
        secret = secrets.token_bytes(_KEY_BYTES)
        text = canonical_json({"kind": "create", "name": secrets.token_hex(16), "version": 1})
        self._lines_key = hmac.digest(secret, b"lines", "sha256")
        for path, content in (
            (self._key_path, secret),
            (self.path, f"{text} {self._code(GENESIS, text)}\n".encode("ascii")),
        ):
            new = path.with_name(path.name + ".new")
            new.unlink(missing_ok=True)
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
            try:
                _write(handle, content)
            finally:
                os.close(handle)
            os.replace(new, path)
            plain_files.sync_folder(path.parent)

    def _secret(self) -> bytes:
        secret = plain_files.read(self._key_path, 2**10)
        shared = sys.platform != "win32" and self._key_path.stat().st_mode & 0o077
        if len(secret) != _KEY_BYTES or shared:
            raise self._error(
                "the key file is not a key, or others than its owner may use it",
                f"a file of {_KEY_BYTES} bytes with mode 0600",
                "put the key that the register was made with back, with that mode",
            )
        return secret

    def _missing_error(self, what: str) -> LedgerError:
        return self._error(
            f"the {what} is gone",
            f"the register and its key {str(self._key_path)!r}, or neither when a new one is to be made",
            "put back what is missing; only if nobody ever contributed, remove what is left and the .lock file",
        )

    def _damage_error(self, what: str) -> LedgerError:
        return self._error(
            what,
            "lines as tacit wrote them, unedited and in order, and the key that it was made with",
            "open the newest copy with its key; do not go on with a damaged one, it would let people contribute again",
        )

    def _access_error(self, error: OSError) -> LedgerError:
        return self._error(
            f"a file of the register cannot be used ({error.strerror})",
            "existing folders on disks with space left and permission to write",
            "mend that and open the register again; nobody was let in by a line that was not written",
        )

    def _error(self, what: str, expected: str, remedy: str) -> LedgerError:
        return LedgerError(what, where=str(self.path), expected=expected, remedy=remedy)


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_dev, status.st_ino, status.st_size)


def _write(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]
    os.fsync(handle)
