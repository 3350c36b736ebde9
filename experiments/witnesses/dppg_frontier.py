"""Every arm of `experiments.dppg_frontier` with few people; prints one hash.

    python -m experiments.witnesses.dppg_frontier

Two trees that print the same hash meet, learn and judge to the last bit alike, with noise that is drawn again from a
seed. See `experiments.witness`.
"""

from __future__ import annotations

from experiments import dppg_frontier as experiment
from experiments import dppg_runs
from experiments.witnesses.seeded import Digest, noise

REPLICATES, PEOPLE = 2, 48


def main() -> None:
    """Run and print the hash."""
    digest = Digest()
    seen = set()
    for cell in experiment.grid():
        if (cell.task, cell.arm, cell.correlation, cell.epsilon is None) in seen:
            continue
        seen.add((cell.task, cell.arm, cell.correlation, cell.epsilon is None))
        task, found = experiment.TASKS[cell.task], experiment.recipe(cell, PEOPLE)
        with noise(dppg_runs):
            value = dppg_runs.learned(
                task, found, replicates=REPLICATES, seed=experiment.FIRST_SEED, restarts=cell.arm == "full_slot"
            )
        digest.add(cell.key, value.last)
        digest.add("average", value.average)
        judged = dppg_runs.judged(
            task, value.actor(), replicates=REPLICATES, episodes=2, repeat=found.repeat, seed=experiment.FIRST_SEED
        )
        digest.add("returns", judged)
    print(digest)


if __name__ == "__main__":
    main()
