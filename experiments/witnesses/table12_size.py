"""Small seeded runs of cells of `experiments.table12_size`; a hash for each (see `witnesses.synthesis`)."""

from __future__ import annotations

import sys

from experiments.witnesses.synthesis import of_agent

if __name__ == "__main__":
    for key in sys.argv[1:]:
        print(of_agent(key))
