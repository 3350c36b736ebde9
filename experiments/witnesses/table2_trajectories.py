"""A seeded run of one cell of `experiments.table2_trajectories`; prints one hash (see `witnesses.trajectories`)."""

from __future__ import annotations

import sys

from experiments.witnesses.trajectories import of_agent

if __name__ == "__main__":
    print(of_agent(sys.argv[1]))
