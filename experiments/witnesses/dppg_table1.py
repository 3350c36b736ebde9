"""Every method of `experiments.dppg_table1` on every task, a few updates each; prints one hash.

    python -m experiments.witnesses.dppg_table1

Two trees that print the same hash meet, learn and judge to the last bit alike, with noise that is drawn again from a
seed. See `experiments.witness`.
"""

from __future__ import annotations

from dataclasses import replace

from experiments import dppg_runs
from experiments import dppg_table1 as experiment
from experiments.witnesses.seeded import Digest, noise


def main() -> None:
    """Run and print the hash."""
    digest = Digest()
    for line in map(experiment.small, experiment.lines()):
        for method, level in dict(reversed(line.cells)).items():
            if method == "ceiling" or (method == "paper" and line.setting == "mujoco"):
                continue  # the code of "no_noise"; and 512 minibatches a person, the code of the other tasks
            with noise(dppg_runs):
                digest.add(line.key(method, level), experiment.measured(replace(line, episodes=2), method, level))
    print(digest)


if __name__ == "__main__":
    main()
