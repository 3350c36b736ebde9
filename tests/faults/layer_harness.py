"""Trials of `faults_trials` on a life, with the code as it is or with a file layer that was broken.

Run with the layer preloaded as `python layer_harness.py FOLDER`; prints a JSON object for each of `TRIALS`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from tests.faults import faults
from tests.faults.faults_lives import LIVES
from tests.faults.faults_runs import warm

from tacit.privacy.ledger import store as ledger_lock
from tacit.privacy.ledger import store as ledger_store
from tacit.privacy.ledger.store import WriterLock

TRIALS = [
    *((name, 12, "as it is") for name in ("write", "power", "lost ledger", "full")),
    ("power", 60, "no flush"),
    ("lost ledger", 60, "no flush of the head"),
]
"""The trial, how many faults, and the mode of the layer."""


def _without_flushes(patch: pytest.MonkeyPatch) -> None:
    """SQLite returns from a commit before anything is on the disk."""
    real = ledger_store._connect

    def connect(path: Path, mode: str) -> object:
        connection = real(path, mode)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    patch.setattr(ledger_store, "_connect", connect)


def _head_in_the_cache(patch: pytest.MonkeyPatch) -> None:
    """The head beside the ledger is written and not flushed."""

    def record(self: WriterLock, head: str) -> None:
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, ledger_lock._record(head).encode("ascii"))

    patch.setattr(WriterLock, "record", record)


MODES = {"as it is": lambda patch: None, "no flush": _without_flushes, "no flush of the head": _head_in_the_cache}


if __name__ == "__main__":
    shelf, life = Path(sys.argv[1]), LIVES["ledger"]
    for trial, count, mode in TRIALS:
        with pytest.MonkeyPatch.context() as patch:
            MODES[mode](patch)
            found = faults.TRIALS[trial].run(life, shelf, count, 1, pace=warm(life, shelf))
        print(json.dumps(dict(found)), flush=True)
