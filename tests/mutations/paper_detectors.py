"""Detectors of what leaves beside a release: warnings of steps in several threads, files of the curator's."""

from __future__ import annotations

import os
import stat
import threading
import warnings
from pathlib import Path

from vault_cases import open_vault, unit_of

from tacit.errors import MechanismError
from tacit.privacy.vault.isolation import behind


def warnings_stay_inside(folder: Path) -> None:
    """Of two steps in two threads, the first to end lets no warning of the other one out."""
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    failed = []

    def first() -> None:
        first_is_in.set()
        second_is_in.wait(10)

    def second() -> None:
        second_is_in.set()
        first_is_out.wait(10)
        warnings.warn("a value of a record", UserWarning, stacklevel=1)

    def later() -> None:
        first_is_in.wait(10)
        try:
            behind("step", second)
        except MechanismError:
            failed.append("raised")

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        thread = threading.Thread(target=later)
        thread.start()
        behind("step", first)
        first_is_out.set()
        thread.join()
    assert not shown, f"{len(shown)} warnings of a step were shown"
    assert not failed, "a warning of a step was raised"


def files_are_the_curators(folder: Path) -> None:
    """What a look writes is for its owner alone, whatever the umask is and whoever made the folder."""
    vault, before = open_vault(folder, [[1.0], [0.5]], unit=unit_of(1_000)), os.umask(0)
    try:
        for made in (False, True):
            out = folder / f"out-{made}"
            if made:
                (out / "private").mkdir(parents=True)
            vault.nonprivate(lambda rows: 1.0, reason="to see", folder=out)
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*")}
            assert modes == {"private": 0o700, "to-see.json": 0o600}, f"{modes} in octal digits"
    finally:
        os.umask(before)


PAPER_DETECTORS = (warnings_stay_inside, files_are_the_curators)
