"""What the tests of the ledger share."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tacit.errors import LedgerError
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.state import canonical_json, link
from tacit.units import Unit

UNIT = Unit("patient", "add_or_remove", 1000)


def make(path: Path, **kwargs: object) -> Ledger:
    return Ledger(path, UNIT, **{"epsilon": 1.0, "delta": 1e-4, "composition": SUM, **kwargs})  # type: ignore[arg-type]


def reserve(ledger: Ledger, plan: str = "p", *, steps: int = 250, epsilon: float = 0.4, **kwargs: object) -> None:
    settings = {"delta": 1e-5, "parts": {"a": steps, "b": 3}, **kwargs}
    ledger.reserve(plan, {"method": "synthesis", "rate": 0.01}, epsilon=epsilon, **settings)  # type: ignore[arg-type]


def in_child(function: Callable[[], None]) -> int:
    """Exit code of a forked child that runs `function` (0: fine, 3: LedgerError, 1: anything else)."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        except LedgerError:
            code = 3
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def edit(path: Path, *statements: str) -> None:
    """What somebody with a SQLite shell can do."""
    triggers = ("entries_only_grow", "entries_stay", "entries_remain")
    connection = sqlite3.connect(path)
    kept = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid")]
    for trigger in triggers:
        connection.execute(f"DROP TRIGGER {trigger}")
    for statement in statements:
        connection.execute(statement)
    for sql in kept:
        connection.execute(sql)
    connection.commit()
    connection.close()


def filled(path: Path) -> None:
    with make(path) as ledger:
        reserve(ledger)
        for _ in range(5):
            ledger.claim("p", "a", 3)
        ledger.note("curator", "x" * 3000)
        ledger.claim("p", "a", 3)


def forge(path: Path, kind: str, payload: dict[str, object]) -> None:
    """Append an entry with a right hash, as a patched program could."""
    connection = sqlite3.connect(path)
    seq, head = connection.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    text = canonical_json(payload)
    row = (seq + 1, "t", kind, text, link(head, seq + 1, "t", kind, text))
    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()
