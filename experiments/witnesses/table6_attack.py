"""A small seeded run of one cell of `experiments.table6_attack`; prints one hash (see `witnesses.synthesis`)."""

from __future__ import annotations

import hashlib
import json
from unittest import mock

from experiments import synthesis_fits as fits
from experiments import table6_attack as table6
from experiments.witnesses.synthesis import seeded, small

if __name__ == "__main__":
    with seeded(), mock.patch.multiple(table6, TOLD=200, domain=lambda cell, scale: small(cell.maze)):
        values = table6.run(table6.CELLS[1], fits.QUICK)
    print(hashlib.sha256(json.dumps({k: v for k, v in values.items() if k != "cpu_s"}).encode()).hexdigest()[:16])
