"""Seeded runs of cells of `experiments.table2_trajectories`; a hash for each (see `witnesses.trajectories`)."""

from __future__ import annotations

import sys

from experiments.witnesses.trajectories import of_agent

if __name__ == "__main__":
    for key in sys.argv[1:]:
        print(of_agent(key))
