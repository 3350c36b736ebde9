"""Every method of `experiments.experts_table` in every world, with few experts and steps; prints one hash.

    python -m experiments.witnesses.experts_table

Two trees that print the same hash log, learn and judge to the last bit alike, with noise that is drawn again from a
seed and data sets of the same names (they decide which episodes are the reserve). See `experiments.witness`.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import get_args

from experiments import experts_runs
from experiments import experts_table as experiment
from experiments.experts_recipes import recipes
from experiments.witnesses.seeded import Digest
from tacit.envs.populations import Kind
from tacit.privacy.ledger import ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault


class Names:
    """Stands for `secrets` where ledgers name their data sets: numbers in order."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def token_hex(self, size: int) -> str:
        """The next name."""
        return f"{next(self._count):0{2 * size}x}"


def main() -> None:
    """Run and print the hash."""
    ledger.secrets = Names()  # type: ignore[attr-defined, assignment]
    digest = Digest()
    for name in experts_runs.SIZES:
        for kind in get_args(Kind):
            here = experts_runs.Field.of(name, kind, 100).small()
            with here.logs() as logs:
                run = experiment.quick(experiment.Run(here, logs, recipes(name)))
                for method in experiment.METHODS:
                    seeded = partial(Vault, noise=SecretNoise.for_tests(1))
                    experts_runs.Vault = seeded  # type: ignore[assignment, misc]
                    digest.add(f"{name}/{kind}/{method}", run.values(method))
    print(digest)


if __name__ == "__main__":
    main()
