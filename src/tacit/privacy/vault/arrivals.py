"""Who comes to be met: ids as texts and keys, and the law of who is one person, which a ledger remembers."""

from __future__ import annotations

from typing import Any

from tacit.data import unit_keys
from tacit.errors import LedgerError
from tacit.privacy.ledger.ledger import Ledger

LAW = "unit_key"
"""Under which kind of note a ledger holds that twins are different people."""


def person_text(person: Any) -> str:
    """An id as the users spell it; of one that is no text its key, since 1 and 1.0 are one person."""
    return person if isinstance(person, str) else unit_keys.key_or_none(person) or ""


def person_key(person: str) -> str:
    """By which somebody is known, however the id is spelled; "" for nobody."""
    return unit_keys.key_or_none(person) or ""


def read_notes(ledger: Ledger, kind: str) -> list[str]:
    """A ledger's notes of a kind, in order."""
    payloads = [entry.payload for entry in ledger.entries() if entry.kind == "note"]
    return [payload["text"] for payload in payloads if payload["kind"] == kind]


def require_law(ledger: Ledger, *, exact: bool) -> None:
    """Refuse to meet people of a ledger under another law than before: who contributed would be let in again."""
    if bool(read_notes(ledger, LAW)) != exact:
        what = "people were met before under another law of who is one person"
        expected = "the unit_key with which they were first met: who contributed would be let in again"
        raise LedgerError(what, where=str(ledger.path), expected=expected, remedy="give the users that unit_key")
