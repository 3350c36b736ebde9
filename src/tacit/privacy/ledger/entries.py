"""The lines of a ledger and the hash that chains them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.errors import LedgerError

GENESIS = "0" * 64  # what the first entry follows


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Args:
        seq: position, from 1.
        time: UTC wall clock to the second; informational, no rule looks at it.
        kind: create, reserve, claim, cancel, void or note.
        payload: public JSON values.
        hash: SHA-256 over the previous entry's hash and this entry's canonical JSON, in hex.
    """

    seq: int
    time: str
    kind: str
    payload: Mapping[str, Any]
    hash: str


def canonical(value: Any) -> str:
    """One text per JSON value: sorted keys, no spaces, ASCII, no NaN or infinity (ValueError or TypeError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def link(previous: str, seq: int, time: str, kind: str, payload: Mapping[str, Any]) -> str:
    """The hash that chains an entry to the previous one's."""
    body = canonical({"kind": kind, "payload": payload, "seq": seq, "time": time})
    return hashlib.sha256(f"{previous}\n{body}".encode("ascii")).hexdigest()


def broken(what: str) -> LedgerError:
    """The error of a ledger whose content cannot be trusted."""
    return LedgerError(
        what,
        where="ledger",
        expected="entries as tacit wrote them, unedited and in order",
        remedy="restore the newest copy of the ledger; do not go on with a damaged one",
    )
