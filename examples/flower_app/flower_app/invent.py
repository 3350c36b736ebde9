"""Days of invented people, each in the folder of her device: `python -m flower_app.invent FOLDER`.

A real device has its folder `days` from `Days.trajectories().save`, or from nothing at all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from flower_app import agreement
from tacit.data.mobility.days import Days
from tacit_worlds.city import city


def main(folder: Path) -> None:
    """Write everybody's days."""
    days = city(agreement.PEOPLE, days=agreement.DAYS, seed=0).days
    for person in range(agreement.PEOPLE):
        hers = days.cells[days.person == person]
        records = Days(hers, np.zeros(len(hers), np.int64), days.grid).trajectories(simulated=True)
        records.save(folder / f"device{person}" / "days")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
