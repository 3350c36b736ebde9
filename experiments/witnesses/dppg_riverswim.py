"""Every method of `experiments.dppg_riverswim` with few people; prints one hash.

    python -m experiments.witnesses.dppg_riverswim

Two trees that print the same hash meet, learn, count and judge to the last bit alike, with noise that is drawn again
from a seed. See `experiments.witness`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from experiments import dppg_riverswim as experiment
from experiments import dppg_runs
from experiments.witnesses.seeded import Digest, noise
from tacit.methods.policy_gradient.recipes import Recipe

REPLICATES, ROUNDS = 2, 48


def short(make: Callable[[], Recipe]) -> Recipe:
    """The recipe with fewer rounds."""
    return experiment.changed(make(), rounds=ROUNDS)


def main() -> None:
    """Run and print the hash."""
    digest = Digest()
    experiment.RECIPES.update({name: partial(short, make) for name, make in experiment.RECIPES.items()})
    seen = set()
    for name, last, epsilon in experiment.grid():
        name = f"{name.rsplit('_', 1)[0]}_{ROUNDS}" if name.startswith("ucb") else name
        if epsilon == 1.0 or (name, last, epsilon) in seen:
            continue
        seen.add((name, last, epsilon))
        with noise(dppg_runs):
            values = experiment.row(name, last, epsilon, REPLICATES, experiment.SEED)
        digest.add(experiment.key(name, last, epsilon), values)
    print(digest)


if __name__ == "__main__":
    main()
