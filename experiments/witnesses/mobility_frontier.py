"""Every row of `experiments.mobility_frontier` on few invented people, with few rounds; prints one hash.

    python -m experiments.witnesses.mobility_frontier

Two trees that print the same hash make the same simulators and measure them to the last bit alike, with noise that is
drawn again from a seed. See `experiments.witness`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from experiments import mobility_runs
from experiments.mobility_ways import WAYS, Federated
from experiments.witnesses.seeded import Digest
from tacit.envs.city import city
from tacit.privacy.federated_vault import FederatedVault
from tacit.privacy.noise import SecretNoise
from tacit.privacy.stacked_devices import StackedDevices
from tacit.privacy.vault import Vault

PEOPLE = 40


def seeded() -> None:
    """Every door that the experiments open draws the same noise again (its ledger is void)."""
    source = SecretNoise.for_tests
    mobility_runs.Vault = partial(Vault, noise=source(1))  # type: ignore[assignment, misc]
    mobility_runs.FederatedVault = partial(FederatedVault, noise=source(2))  # type: ignore[assignment, misc]
    mobility_runs.StackedDevices = partial(StackedDevices, noise=source(3))  # type: ignore[assignment, misc]


def main() -> None:
    """Run and print the hash."""
    seeded()
    days = city(PEOPLE, days=6, seed=3, preset="geolife").days
    here = mobility_runs.World(PEOPLE, days, days, days, "witness")
    digest = Digest()
    for name, way in WAYS.items():
        short = replace(way, changes=(*way.changes, ("rounds", 2), ("days", 40))) if isinstance(way, Federated) else way
        for epsilon in (5.0, float("inf")):
            tables = [
                mobility_runs.generated(found.simulator, here, seed)
                for seed, found in enumerate(short.simulators(here, epsilon, (0, 1)))
            ]
            digest.add(f"{name}/{epsilon:g}", [table.cells.tolist() for table in tables])
            digest.add(f"{name}/{epsilon:g}/measured", here.measured(tables))
    print(digest)


if __name__ == "__main__":
    main()
