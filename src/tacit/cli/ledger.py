"""`tacit ledger`: read and check, without the lock and without writing; needs no PyTorch."""

from __future__ import annotations

from collections import Counter

from tacit.cli.commands import LedgerShow, LedgerVerify
from tacit.cli.console import say
from tacit.errors import LedgerError
from tacit.privacy.ledger.ledger import Ledger

FOLDED = ("register", "callback", "actor")
"""Kinds of notes that are not shown one by one: their times are those of single meetings."""


def run(command: LedgerShow | LedgerVerify) -> None:
    """Dispatch to `show` or `verify`."""
    match command:
        case LedgerShow():
            show(command)
        case LedgerVerify():
            verify(command)


def show(command: LedgerShow) -> None:
    """The unit, the budget, what was spent, every plan, and every note; those of single meetings as a count alone."""
    view = Ledger.read(command.path)
    unit, (epsilon, delta) = view.unit, view.spent()
    say(f"Ledger of the dataset {view.dataset_id}")
    say(f"Protects: {unit.words()} (public population {unit.size:,}, {unit.relation}).")
    say(f"Budget: ({view.epsilon:g}, {view.delta:.3g}). Spent: ({epsilon:.6g}, {delta:.3g}).")
    for plan in view.plans():
        share = "untouched" if plan.claimed == 0 else f"{plan.claimed:,} of {plan.steps:,} steps claimed"
        say(f"  plan {plan.id}: {plan.method}, ({plan.epsilon:.6g}, {plan.delta:.3g}), {share}")
    notes = [entry for entry in view.entries() if entry.kind == "note"]
    for entry in notes:
        if entry.payload["kind"] not in FOLDED:
            say(f"  {entry.time} {entry.payload['kind']}: {entry.payload['text']}")
    if counts := Counter(entry.payload["kind"] for entry in notes if entry.payload["kind"] in FOLDED):
        kinds = ", ".join(f"{counts[kind]:,} of kind {kind}" for kind in FOLDED if counts[kind])
        say(f"  notes that doors keep for themselves: {kinds}")
    if view.void_reason is not None:
        say(f"VOID: nothing is promised any more ({view.void_reason}).")
    say(f"Head: {view.head}")


def verify(command: LedgerVerify) -> None:
    """Check the whole ledger.

    Raises:
        LedgerError: an entry is not valid, or the head that was asked for is not there.
    """
    view = Ledger.read(command.path)
    if command.head is not None and all(entry.hash != command.head for entry in view.entries()):
        raise LedgerError(
            "the ledger does not contain the head that was asked for",
            where=str(command.path),
            expected="the ledger of that certificate or checkpoint, at least as new",
            remedy="look for the newest copy of the ledger",
        )
    say(f"Sound: {len(view.entries()):,} entries in one chain, within the budget.")
    if view.void_reason is not None:
        say(f"VOID: nothing is promised any more ({view.void_reason}).")
    say(f"Head: {view.head}")
