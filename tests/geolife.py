"""The real days of Geolife for tests that need them; they skip where the data are not on the machine."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import RegularGrid

GRID = RegularGrid(27, 100, 48, 121, 0.01)
PEOPLE = 83


def shared(name: str) -> Path:
    """A file of the folder of real data (`TACIT_SHARED`, or `shared/data` beside the repository), or a skip."""
    folder = Path(os.environ.get("TACIT_SHARED", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not on this machine (set TACIT_SHARED to its folder)")
    return folder / name


def geolife() -> dict[str, Any]:
    """`grid`; `days`, the 5,616 days of 83 people as `Days`; `test`, the 2,350 days [2350, 48] of no known person."""
    return dict(_read(shared("geolife_cells.npz")))


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        latlon, days, user, test = (file[name] for name in ("cell_latlon", "days", "user", "test_days"))
    cells = GRID.cells(latlon[:, 0].astype(np.float64), latlon[:, 1].astype(np.float64))
    return {"grid": GRID, "days": Days(cells[days], user.astype(np.int64), GRID), "test": cells[test]}
