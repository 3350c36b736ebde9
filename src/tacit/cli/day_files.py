"""Files of generated days: a CSV of where somebody is, half-hour by half-hour, and what belongs to it beside.

    days.csv          what `trips.to_days_csv` writes: 48 rows a day, of an invented person each
    days.csv.json     the grid of the cells, the certificate, and the digest of days.csv

`tacit map` draws such a file, and no other table: whatever is drawn came out of a released simulator.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.mobility import trips
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import grid_from_json
from tacit.errors import FileError, TacitError
from tacit.privacy.certificate.certificate import Certificate

FORMAT = "tacit days of movement"
_CELL = 3
"""The column of the cell."""


def sidecar(path: Path) -> Path:
    """The file beside a CSV of days."""
    return path.with_name(f"{path.name}.json")


def write(days: Days, path: Path, certificate: Certificate) -> None:
    """Write both files.

    Raises:
        FileError: one of them exists already or cannot be written.
    """
    trips.to_days_csv(days, path)
    values = {
        "format": FORMAT,
        "grid": days.grid.to_json(),
        "sha256": _digest(path),
        "certificate": certificate.to_json(),
    }
    try:
        with sidecar(path).open("x", encoding="utf-8") as file:
            json.dump(values, file, indent=1)
    except OSError as error:
        path.unlink()
        raise FileError(
            f"the days cannot be written ({error.strerror})",
            where=str(sidecar(path)),
            expected="a name that is still free, in a writable folder",
            remedy="choose another name",
        ) from None


def read(path: Path) -> tuple[Days, Certificate]:
    """The days that `write` wrote, with the certificate, which is verified.

    Raises:
        FileError: a file is missing, edited or of another kind.
        CertificateError: the certificate does not hold.
    """
    values = _beside(path)
    if values["sha256"] != _digest(path):
        raise _unknown(path)
    try:
        grid = grid_from_json(values["grid"])
        cells = np.loadtxt(path, dtype=np.int64, delimiter=",", skiprows=1, usecols=_CELL, ndmin=1).reshape(-1, SLOTS)
        days = Days(cells, np.arange(len(cells)), grid)
    except (OSError, ValueError, TypeError, OverflowError, TacitError):
        raise _unknown(path) from None
    certificate = Certificate.from_json(values["certificate"])
    certificate.verify()
    return days, certificate


def _beside(path: Path) -> dict[str, Any]:
    values = None
    with suppress(OSError, ValueError, RecursionError):
        values = json.loads(sidecar(path).read_text(encoding="utf-8"))
    if (
        not isinstance(values, dict)
        or values.get("format") != FORMAT
        or not {"grid", "sha256", "certificate"} <= values.keys()
    ):
        raise _unknown(path)
    return values


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise _unknown(path) from None


def _unknown(path: Path) -> FileError:
    return FileError(
        "the days are missing, edited or not of a released simulator",
        where=str(path),
        expected=f"a file of `tacit generate --format csv`, with {path.name}.json beside it",
        remedy="generate the days again; real days are never drawn",
    )
