"""A small seeded run of one cell of `experiments.table11_cost`; prints one hash (see `witnesses.synthesis`)."""

from __future__ import annotations

import sys

from experiments.witnesses.synthesis import of_table

if __name__ == "__main__":
    print(of_table(sys.argv[1]))
