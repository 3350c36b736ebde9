"""Every cell of `experiments.dppg_audit` with few runs; prints one hash.

    python -m experiments.witnesses.dppg_audit

Two trees that print the same hash give every attacker the same ratios to the last digit. See `experiments.witness`.
"""

from __future__ import annotations

from experiments import dppg_audit as experiment
from experiments.witnesses.seeded import Digest


def main() -> None:
    """Run and print the hash."""
    digest = Digest()
    for cell in experiment.CELLS:
        digest.add(cell.key, experiment.scores(cell, runs=6, together=3, rounds=6))
        digest.add("claimed", cell.claimed())
    print(digest)


if __name__ == "__main__":
    main()
