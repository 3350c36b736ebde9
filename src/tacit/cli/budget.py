"""The ledger that pays for a run: where it lies, and how it is begun."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from tacit.cli.console import Interrupted
from tacit.data.store import read_unit
from tacit.errors import DataError, LedgerError
from tacit.privacy.ledger import Ledger
from tacit.units import Unit


class Budget(Protocol):
    """A command that spends from a ledger."""

    @property
    def unit(self) -> str:
        """What one protected unit is called."""

    @property
    def data(self) -> Path:
        """Folder of the records."""

    @property
    def epsilon(self) -> float:
        """The promise of this run."""

    @property
    def delta(self) -> float:
        """Its slack."""

    @property
    def ledger(self) -> Path | None:
        """The ledger's file, or None for the one beside the records."""

    @property
    def budget_epsilon(self) -> float | None:
        """The whole budget, or None."""

    @property
    def budget_delta(self) -> float | None:
        """Likewise."""


def require_unit(command: Budget) -> None:
    """Refuse a promise to others than those whose ids the records were imported with.

    A column fits what it begins with: `doctor_id` a doctor; of a nested key the last name counts.

    Raises:
        DataError: --unit names another unit than the column of the ids.
        FileError: the folder holds no records.
    """
    column = read_unit(command.data)
    if column is not None and not column.rpartition("/")[2].casefold().startswith(command.unit.casefold()):
        raise DataError(
            f"the records were imported with the ids of the column {column!r}, and --unit says {command.unit!r}",
            where=str(command.data),
            expected="a promise to the units whose ids the records have",
            remedy=f"give --unit {column}, or import the records again with the column of the other ids",
        )


def ledger_path(command: Budget) -> Path:
    """The ledger's file: as asked for, else beside the records, never in the folder that gets published."""
    return _beside(command) if command.ledger is None else command.ledger


def _beside(command: Budget) -> Path:
    data = command.data.resolve()
    return data.with_name(f"{data.name}.ledger")


def require_only(command: Budget) -> None:
    """Refuse a second ledger where the records have one beside them.

    Raises:
        LedgerError: there is one, and --ledger names another.
    """
    own = _beside(command)
    if command.ledger is not None and own.exists() and os.path.realpath(command.ledger) != os.path.realpath(own):
        raise LedgerError(
            "these records have a ledger already",
            where=str(own),
            expected="that one: of two ledgers neither knows what the other promised, and both promises add up",
            remedy="leave --ledger out",
        )


@contextmanager
def open_ledger(command: Budget, unit: Unit) -> Iterator[Ledger]:
    """The budget of the records: opened, or begun with what this run needs unless more was declared.

    A ledger that was begun here is removed again if the command fails before anything was entered in it: a slip of the
    pen does not bind the records for good. A look at the records is an entry: it stays on record.

    Raises:
        LedgerError: the ledger is bound to another unit or budget, damaged, held by another process, or not the one
            that lies beside the records.
        KeyboardInterrupt: as it came; an `Interrupted` if this run had charged or claimed something and cannot be
            resumed.
    """
    require_only(command)
    path, epsilon, delta = ledger_path(command), command.budget_epsilon, command.budget_delta
    begun = not path.exists()
    if begun:
        epsilon = command.epsilon if epsilon is None else epsilon
        delta = command.delta if delta is None else delta
    with Ledger(path, unit, epsilon=epsilon, delta=delta) as ledger:
        before = len(ledger.entries())
        try:
            yield ledger
        except KeyboardInterrupt:
            charged = any(entry.kind in ("reserve", "claim") for entry in ledger.entries()[before:])
            if charged and not hasattr(command, "resume"):
                raise Interrupted(f"what was charged stays charged (see tacit ledger show {path})") from None
            raise
        finally:
            if begun and [entry.kind for entry in ledger.entries()] == ["create"]:
                _remove(path)


def _remove(path: Path) -> None:
    """Take back a ledger that this process holds. Its lock file stays, empty: without it two writers could get in."""
    path = Path(os.path.realpath(path))
    with suppress(OSError):
        os.truncate(f"{path}.lock", 0)  # first, so that no recorded head misses its ledger
        path.unlink()
        Path(f"{path}-journal").unlink(missing_ok=True)
