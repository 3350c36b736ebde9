"""Every method and attack of `experiments.mobility_attack` on invented people, few runs; prints one hash.

    python -m experiments.witnesses.mobility_attack

Two trees that print the same hash give the attacker the same scores to the last digit, with noise that is drawn again
from a seed. See `experiments.witness`.
"""

from __future__ import annotations

from experiments import mobility_attack as experiment
from experiments import mobility_runs, mobility_shadows
from experiments.witnesses.mobility_frontier import seeded
from experiments.witnesses.seeded import Digest
from tacit.envs.city import city
from tacit.measure.attacks import trials


def main() -> None:
    """Run and print the hash."""
    seeded()
    days = city(mobility_runs.GEOLIFE, days=3, seed=3, preset="geolife").days
    here = mobility_runs.World(mobility_runs.GEOLIFE, days, days, days, "witness")
    for module in (experiment, mobility_shadows):
        module.world = lambda people: here  # type: ignore[attr-defined]
    experiment.ROUNDS, mobility_shadows.GENERATED = 2, 100
    digest = Digest()
    for name, epsilon in experiment.settings():
        run, mu = experiment.method(name, epsilon)
        for attack, found in trials(run, experiment.scores(run), here.people, runs=2, seed=1).items():
            digest.add(f"{name}/{epsilon:g}/{attack}", found.scores)
            digest.add(str(mu), found.present)
    print(digest)


if __name__ == "__main__":
    main()
