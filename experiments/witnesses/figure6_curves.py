"""A small seeded run of one cell of `experiments.figure6_curves`; prints one hash (see `witnesses.synthesis`)."""

from __future__ import annotations

import sys

from experiments.witnesses.synthesis import of_agent

if __name__ == "__main__":
    print(of_agent(sys.argv[1]))
