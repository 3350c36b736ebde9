"""The accounting of `experiments.mobility_noise` and a short run of the paper's mode; prints one hash.

    python -m experiments.witnesses.mobility_noise

Two trees that print the same hash compute and run to the last bit alike. Real days are not needed. See
`experiments.witness`.
"""

from __future__ import annotations

from experiments import mobility_noise as experiment
from experiments import mobility_runs
from experiments.witnesses import mobility_frontier
from experiments.witnesses.seeded import Digest
from tacit.envs.city import city


def main() -> None:
    """Run and print the hash."""
    mobility_frontier.seeded()
    days = city(experiment.GEOLIFE, days=6, seed=3, preset="geolife").days
    here = mobility_runs.World(experiment.GEOLIFE, days, days, days, "witness")
    experiment.world = lambda people: here  # type: ignore[assignment]
    digest = Digest()
    for people in experiment.PEOPLE:
        for scale in experiment.SCALES:
            digest.add(f"epsilon/{people}/{scale:g}", experiment.honest(people, scale))
    digest.add("run", experiment.play(0.1, 0, rounds=2))
    print(digest)


if __name__ == "__main__":
    main()
