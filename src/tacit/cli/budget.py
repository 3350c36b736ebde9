"""The ledger that pays for a run: where it lies, how it is begun, and that records have one alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from tacit.cli.console import Interrupted, complain, say
from tacit.data.store import read_spec, read_unit
from tacit.errors import DataError, LedgerError
from tacit.privacy.ledger.ledger import Ledger
from tacit.units import Unit

_NOTE = "ledger.json"
"""Beside or in the records: where their ledger lies, and the random name that it gave them."""


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

    A name fits what it begins with: `doctor_id` a doctor; of a nested key the last name counts. Where ids have no
    name that is said, since nothing can be checked; where there are no ids the certificate says what counts as a unit.

    Raises:
        DataError: --unit names another unit than the records do.
        FileError: the folder holds no records.
    """
    name = read_unit(command.data)
    if name is not None and not name.rpartition("/")[2].casefold().startswith(command.unit.casefold()):
        raise DataError(
            f"the units of these records are called {name!r}, and --unit says {command.unit!r}",
            where=str(command.data),
            expected="a promise to the units whose ids the records have",
            remedy=f"give --unit {name}, or import the records again with the column of the other ids",
        )
    if name is None and read_spec(command.data)[2] == "id":
        complain(
            f"{command.data} does not say whose ids it holds: that each unit is one {command.unit} is not checked."
        )


def ledger_path(command: Budget) -> Path:
    """The ledger's file: as asked for, else beside the records, never in the folder that gets published."""
    return _beside(command) if command.ledger is None else command.ledger


def _beside(command: Budget) -> Path:
    data = command.data.resolve()
    return data.with_name(f"{data.name}.ledger")


def require_only(command: Budget) -> None:
    """Refuse any ledger but the one that the records began with.

    Where it lies is noted with private records on first use. So a copy or another place of the folder knows it too;
    a ledger that was moved is known by the random name that it gave the records.

    Raises:
        LedgerError: --ledger names another, the one that was noted is gone, or another one lies in its place.
    """
    chosen, own, note = _real(ledger_path(command)), _real(_beside(command)), _noted(command.data)
    kept = own if note is None else note["path"]
    if chosen != kept and os.path.exists(kept):
        raise LedgerError(
            "these records have a ledger already",
            where=kept,
            expected="that one: of two ledgers neither knows what the other promised, and both promises add up",
            remedy="leave --ledger out" if kept == own else f"give --ledger {kept}",
        )
    if note is not None and (not os.path.exists(chosen) or Ledger.read(chosen).dataset_id != note["dataset"]):
        raise LedgerError(
            "the ledger of these records is not where it was",
            where=kept,
            expected="the ledger that they began with, which knows what was promised",
            remedy=(
                "put it back, or give --ledger with the place that it was moved to; only if nothing was ever released "
                f"from these records, remove {_note_of(command.data)}"
            ),
        )


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _note_of(data: Path) -> Path:
    """In a folder of our own format; beside files and folders of others, which may not like another file."""
    data = data.resolve()
    return data / _NOTE if (data / "spec.json").is_file() else data.with_name(f"{data.name}.{_NOTE}")


def _noted(data: Path) -> dict[str, str] | None:
    """Path and random name of the ledger that the records began with, or None.

    Raises:
        LedgerError: the note is damaged.
    """
    path = _note_of(data)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {"path": str(found["path"]), "dataset": str(found["dataset"])}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise LedgerError(
            "the note of where the ledger lies is damaged",
            where=str(path),
            expected='{"path": ..., "dataset": ...}, as it was written',
            remedy="write the path of the ledger there, and the dataset id that `tacit ledger show` gives",
        ) from None


def _note(command: Budget, ledger: Ledger) -> bool:
    """Note where the ledger lies, if it is noted otherwise or not at all; whether that was so.

    Simulated records, behind which nobody is, may be tried with as many ledgers as anybody likes.

    Raises:
        LedgerError: the note cannot be written, and the ledger does not lie where it is looked for anyway.
    """
    now = {"path": _real(ledger.path), "dataset": ledger.dataset_id}
    path = _note_of(command.data)
    nobody = path.parent == command.data.resolve() and read_spec(command.data)[1]
    if nobody or not command.data.exists() or _noted(command.data) == now:
        return False
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(json.dumps(now) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError:
        if now["path"] == _real(_beside(command)):
            return False
        raise LedgerError(
            "where the ledger lies cannot be noted with the records",
            where=str(path),
            expected="a place that can be written, or the ledger beside the records",
            remedy="leave --ledger out, or make the place writable",
        ) from None
    return True


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
        noted, before = False, len(ledger.entries())
        try:
            noted = _note(command, ledger)
            if begun:
                say(_begun(command, ledger))
            yield ledger
        except KeyboardInterrupt:
            charged = any(entry.kind in ("reserve", "claim") for entry in ledger.entries()[before:])
            if charged and not hasattr(command, "resume"):
                raise Interrupted(f"what was charged stays charged (see tacit ledger show {path})") from None
            raise
        finally:
            if begun and [entry.kind for entry in ledger.entries()] == ["create"]:
                _remove(path)
                if noted:
                    _note_of(command.data).unlink(missing_ok=True)


def _begun(command: Budget, ledger: Ledger) -> str:
    whole = f"New ledger {ledger_path(command)}: budget ({ledger.epsilon:g}, {ledger.delta:g})"
    if (ledger.epsilon, ledger.delta) == (command.epsilon, command.delta):
        return f"{whole}, all of it for this run; --budget-epsilon and --budget-delta set more."
    return f"{whole}, of which this run may take ({command.epsilon:g}, {command.delta:g})."


def _remove(path: Path) -> None:
    """Take back a ledger that this process holds. Its lock file stays, empty: without it two writers could get in."""
    path = Path(os.path.realpath(path))
    with suppress(OSError):
        os.truncate(f"{path}.lock", 0)  # first, so that no recorded head misses its ledger
        path.unlink()
        Path(f"{path}-journal").unlink(missing_ok=True)
