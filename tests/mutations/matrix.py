"""The matrix of planted mistakes and detectors: `python tests/mutations/matrix.py`, some minutes.

A row is a mistake, a column a detector; an x says that the detector saw it, an o that it was to and did not. Every
detector works from outside: it looks at what comes out of the doors, the ledger or a certificate, never at the code.
Exits with 1 when a mistake was missed, or when the real code raises an alarm.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path[1:1] = [str(Path(__file__).parents[1] / "privacy" / "vault"), str(Path(__file__).parents[2])]
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from detectors import DETECTORS

from mutations import MUTATIONS, Mutation
from tacit.errors import TacitError

NAMES = [detector.__name__ for detector in DETECTORS]
Alarms = dict[str, str]


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder on a RAM disk where there is one."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base) as path:
        yield Path(path)


def alarms(folder: Path, detectors: Sequence[Callable[[Path], None]] = DETECTORS) -> Alarms:
    """Detector -> what it saw, for those that saw something in the code as it is now."""
    seen = {}
    for detector in detectors:
        own = folder / detector.__name__
        own.mkdir(parents=True)
        try:
            detector(own)
        except (AssertionError, TacitError) as alarm:  # tacit's own refusal is an alarm too
            seen[detector.__name__] = str(alarm)
    return seen


def planted(mutation: Mutation, folder: Path, detectors: Sequence[Callable[[Path], None]] = DETECTORS) -> Alarms:
    """The alarms of the code with the mistake in it."""
    with pytest.MonkeyPatch.context() as patch:
        mutation.plant(patch)
        return alarms(folder, detectors)


def row(name: str, seen: Alarms, expected: Sequence[str] = ()) -> str:
    """One line of the matrix."""
    marks = ("x" if known in seen else "o" if known in expected else "." for known in NAMES)
    return f"{name:34}" + "  ".join(marks)


def main() -> int:
    """Print everything; the exit code."""
    print(f"{'':34}" + " ".join(f"{i:<2}" for i in range(len(NAMES))))
    with quick_folder() as folder:
        real = alarms(folder)
    print(row("the real code", real), flush=True)
    missed = 0
    for mutation in MUTATIONS:
        with quick_folder() as folder:
            seen = planted(mutation, folder)
        missed += bool(set(mutation.seen_by) - set(seen))
        print(row(mutation.name, seen, mutation.seen_by), flush=True)
    print("\n".join(f"  {i:<2} {name}" for i, name in enumerate(NAMES)))
    print(f"{len(MUTATIONS)} mistakes, {len(NAMES)} detectors, {missed} missed, {len(real)} false alarms")
    return int(bool(missed or real))


if __name__ == "__main__":
    sys.exit(main())
