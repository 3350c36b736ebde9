"""Errors that say what is wrong, where, what was expected and how to mend it, in one sentence.

No error of tacit ever carries a private value: `what` and `where` name fields, files, row numbers and public
parameters only.
"""

from __future__ import annotations

_LONGEST = 1_000  # characters of what is wrong that are shown: it may quote a name out of a file


class TacitError(Exception):
    """Base of every error that tacit raises on purpose.

    Args:
        what: what is wrong, without any private value ("the unit id column is missing").
        where: the object, file or parameter concerned ("Trajectories.from_csv('a.csv')").
        expected: what would have been accepted ("a column named by unit=").
        remedy: what the caller can do about it ("pass unit='patient_id'").
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str, expected: str, remedy: str) -> None:
        self.what, self.where, self.expected, self.remedy = what, where, expected, remedy
        short = what if len(what) <= _LONGEST else f"{what[:_LONGEST]}..."
        sentence = f"{where}: {short}; expected {expected}; {remedy}."
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in sentence))  # names of files

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.where, self.expected, self.remedy))


def _rebuild(kind: type[TacitError], what: str, where: str, expected: str, remedy: str) -> TacitError:
    return kind(what, where=where, expected=expected, remedy=remedy)


class DataError(TacitError):
    """The records, or what was declared about them, cannot be used (raised at ingest, before a vault exists)."""


class SealedError(DataError):
    """The records are sealed in a vault; only its mechanisms read them."""


class PlanError(TacitError):
    """A plan's public parameters are invalid, incomplete or not those of the ledger."""


class LedgerError(TacitError):
    """The ledger is damaged, older than a checkpoint, locked by another process, or bound to something else."""

    exit_code = 3


class BudgetExceeded(LedgerError):
    """Admitting the plan would exceed the ledger's budget; nothing was charged.

    Attributes:
        left: (epsilon, delta) of the largest plan of that kind which would be admitted.
    """

    left: tuple[float, float] = (0.0, 0.0)


class PlanExhausted(LedgerError):
    """Every step of the plan has been claimed; a claimed step is never run again."""


class MechanismError(TacitError):
    """A mechanism of the vault was used in a way that its guarantee does not cover; nothing was released."""

    exit_code = 4


class AccountingError(TacitError):
    """No certified bound exists for this (event, relation), or two accountants disagree."""

    exit_code = 4


class CertificateError(TacitError):
    """A certificate was edited, is incomplete, or does not recompute."""

    exit_code = 5


class FileError(TacitError):
    """A file is truncated, of the wrong kind, or outside the run's folder."""

    exit_code = 6


class HardwareError(TacitError):
    """This machine has no such accelerator, or the installed PyTorch cannot use it."""
