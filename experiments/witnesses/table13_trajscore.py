"""Small seeded runs of cells of `experiments.table13_trajscore`; a hash for each (see `witnesses.trajectories`)."""

from __future__ import annotations

import sys

from experiments.witnesses.trajectories import of_table

if __name__ == "__main__":
    for key in sys.argv[1:]:
        print(of_table(key))
