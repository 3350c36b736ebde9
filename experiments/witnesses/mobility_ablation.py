"""Every row of `experiments.mobility_ablation` on invented people, with two rounds; prints one hash.

    python -m experiments.witnesses.mobility_ablation

Two trees that print the same hash make the same simulators and measure them alike to the last bit, with noise that is
drawn again from a seed. See `experiments.witness`.
"""

from __future__ import annotations

from dataclasses import replace

from experiments import mobility_ablation as experiment
from experiments import mobility_runs
from experiments.witnesses.mobility_frontier import seeded
from experiments.witnesses.seeded import Digest
from tacit.envs.city import city
from tacit.methods.imitation import pategail


def main() -> None:
    """Run and print the hash."""
    seeded()
    days = city(mobility_runs.GEOLIFE, days=3, seed=3, preset="geolife").days
    here = mobility_runs.World(mobility_runs.GEOLIFE, days, days, days, "witness")
    short = replace(pategail.recipe("samples", here.people), rounds=2, days=40)
    experiment.world = lambda people: here  # type: ignore[attr-defined]
    pategail.recipe = lambda kind, people: short
    digest = Digest()
    for row in experiment.ROWS:
        made = experiment.values(row, 0)
        digest.add(experiment.key(row, 0), {name: value for name, value in made.items() if name != "seconds"})
    print(digest)


if __name__ == "__main__":
    main()
