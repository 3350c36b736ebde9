"""A small seeded run of one cell of `experiments.table13_trajscore`; prints one hash (see `witnesses.trajectories`)."""

from __future__ import annotations

import sys

from experiments.witnesses.trajectories import of_table

if __name__ == "__main__":
    print(of_table(sys.argv[1]))
