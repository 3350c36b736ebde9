"""Table II in the mazes with agents whose ceiling is high: every row alike, both epsilons, people never seen before.

Unit: a person with one episode, 10,000 of them, delta 1e-6. The agents are those of `table1_mazes`.
`tacit_j` synthesizes whole trajectories, `raked` rows of them, `raked_by_gradients` transitions, `raked_of`
these with the histograms of any task; `unet` and `dp_transformer` are PrivORL's rivals, and the baselines of Table I
make rows under the same guarantee (`trajectory_baselines`). Three sets of people, for every row alike (five
exceeded the hours), each with noise, samples, one agent of a kind and starts of its own. Policies that learn nothing
stand in `table1_trivial`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.lib.check import Figure
from experiments.lib.queue import command_line
from experiments.lib.store import Store, store_of
from experiments.privorl import table1_mazes
from experiments.privorl import table2_trajectories as table2
from experiments.privorl.parts import synthesis_fits as fits
from experiments.privorl.parts import trajectory_ways as ways
from experiments.privorl.table1_mazes import DOMAINS, EPSILONS, agents_of, ceilings, last
from experiments.privorl.table2_trajectories import Cell, configuration

__all__ = ["configuration", "figures", "rows", "run_row", "store"]

SEEDS = table1_mazes.SEEDS
WAYS = (
    *("real", "raked_by_gradients", "tacit_j", "raked", "mst", "aim_3", "privsyn", "pate_gan", "unet"),
    *("dp_transformer", "raked_of", "noise_only"),
)


store = store_of(__file__, configuration, table2.WORDS)


def tables() -> list[tuple[str, float]]:
    """The ways with their epsilons, 0 where nothing is promised."""
    return [(way, epsilon) for way in WAYS for epsilon in (EPSILONS if ways.WAYS[way].private else (0.0,))]


def cells(domains: Sequence[str] = DOMAINS) -> list[Cell]:
    """All of them, a set of people of every maze after the other."""
    return [
        Cell(domain, agent, way, epsilon, seed)
        for seed in SEEDS
        for domain in domains
        for agent in agents_of(domain)
        for way, epsilon in tables()
    ]


def rows() -> list[str]:
    return [cell.key for cell in sorted(cells(), key=lambda cell: last(cell.domain, cell.epsilon))]


together = table1_mazes.together


def run_rows(keys: Sequence[str], results: Store) -> None:
    """Cells at full size; those of one kind, maze and data set in one stack."""
    table2.fill(results, [Cell.of(key) for key in keys], fits.FULL)


def run_row(key: str, results: Store) -> None:
    table2.fill(results, [Cell.of(key)], fits.FULL)


def column(results: Store, domain: str, agent: str, way: str, epsilon: float) -> np.ndarray:
    """Returns of all sets of people.

    Raises:
        LookupError: a cell is missing or has another configuration.
    """
    return np.array([results.values(Cell(domain, agent, way, epsilon, seed).key)["return"] for seed in SEEDS])


def figures() -> list[Figure]:
    """Recomputed from the raw rows: whether real rows clear the straight run, without which no row says anything."""
    return ceilings("people", SEEDS, lambda domain, agent: column(store(), domain, agent, "real", 0.0))


if __name__ == "__main__":
    command_line(__file__)
