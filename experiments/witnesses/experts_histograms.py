"""A few experts of every population of `experiments.experts_histograms`; prints one hash.

    python -m experiments.witnesses.experts_histograms

Two trees that print the same hash make the same experts, which play to the last bit alike. See `experiments.witness`.
"""

from __future__ import annotations

from experiments import experts_histograms as experiment
from experiments.witnesses.seeded import Digest


def main() -> None:
    """Run and print the hash."""
    digest = Digest()
    for name, kind in experiment.grid():
        digest.add(experiment.key(name, kind), experiment.row(name, kind, 5 if name == "lunar_lander" else 40, 2))
    print(digest)


if __name__ == "__main__":
    main()
