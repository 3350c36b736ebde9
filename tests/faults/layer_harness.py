"""One trial of `faults_trials` on one life, with the code as it is or with a file layer that was broken.

Run with the layer preloaded as `python layer_harness.py TRIAL LIFE COUNT MODE FOLDER`; prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.faults import faults
from tests.faults.faults_lives import LIVES
from tests.faults.faults_runs import warm

from tacit.privacy.ledger import store as ledger_lock
from tacit.privacy.ledger import store as ledger_store
from tacit.privacy.ledger.store import WriterLock


def _without_flushes() -> None:
    """SQLite returns from a commit before anything is on the disk."""
    real = ledger_store._connect

    def connect(path: Path, mode: str) -> object:
        connection = real(path, mode)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    ledger_store._connect = connect  # type: ignore[assignment]


def _head_in_the_cache() -> None:
    """The head beside the ledger is written and not flushed."""

    def record(self: WriterLock, head: str) -> None:
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, ledger_lock._record(head).encode("ascii"))

    WriterLock.record = record  # type: ignore[method-assign]


MODES = {"as it is": lambda: None, "no flush": _without_flushes, "no flush of the head": _head_in_the_cache}


if __name__ == "__main__":
    trial, life, count, mode, folder = sys.argv[1:]
    MODES[mode]()
    pace = warm(LIVES[life], Path(folder))
    print(json.dumps(dict(faults.TRIALS[trial].run(LIVES[life], Path(folder), int(count), 1, pace=pace))))
