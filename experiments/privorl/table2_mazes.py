"""Table II in the mazes with agents whose ceiling is high: every row alike, both epsilons, people never seen before.

    python -m experiments.privorl.table2_mazes                  # all cells, set by set of people; resumable
    python -m experiments.privorl.table2_mazes --domains umaze  # a part
    python -m experiments.lib.check table2_mazes

Unit: a person with one episode, 10,000 of them, delta 1e-6. The agents are those of `table1_mazes`.
`tacit_j` synthesizes whole trajectories, `raked` rows of them, `raked_by_gradients` transitions, `raked_of`
these with the histograms of any task; `unet` and `dp_transformer` are PrivORL's rivals, and the baselines of Table I
make rows under the same guarantee (`trajectory_baselines`). Three sets of people, for every row alike (five
exceeded the hours), each with noise, samples, one agent of a kind and starts of its own. Policies that learn nothing
stand in `table1_trivial`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from experiments.lib.check import Figure
from experiments.lib.store import Store
from experiments.privorl import table1_mazes
from experiments.privorl import table2_trajectories as table2
from experiments.privorl.parts import synthesis_fits as fits
from experiments.privorl.parts import trajectory_ways as ways
from experiments.privorl.parts.synthesis_returns import folder
from experiments.privorl.table1_mazes import DOMAINS, EPSILONS, agents_of, ceilings, last
from experiments.privorl.table2_trajectories import Cell, configuration

__all__ = ["configuration", "figures", "main", "rows", "run_row", "store"]

NAME, SEEDS = "table2_mazes", table1_mazes.SEEDS
WAYS = (
    *("real", "raked_by_gradients", "tacit_j", "raked", "mst", "aim_3", "privsyn", "pate_gan", "unet"),
    *("dp_transformer", "raked_of", "noise_only"),
)


def store(path: Path | None = None, *, quick: bool = False) -> Store:
    """The result file."""
    return table2.store(path or folder(quick=quick) / f"{NAME}.json", quick=quick)


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
    """All keys, in the order in which they are run."""
    return [cell.key for cell in sorted(cells(), key=lambda cell: last(cell.domain, cell.epsilon))]


def together(keys: Sequence[str]) -> list[list[str]]:
    """Agents of one kind, maze and data set learn in one stack: in half the time."""
    groups: dict[tuple[str, str, int, bool], list[str]] = {}
    for key in keys:
        cell = Cell.of(key)
        late = last(cell.domain, cell.epsilon)
        groups.setdefault((cell.domain, cell.agent, cell.seed, late), []).append(key)
    return list(groups.values())


def run_rows(keys: Sequence[str], results: Store) -> None:
    """Cells at full size; those of one kind, maze and data set in one stack."""
    table2.fill(results, [Cell.of(key) for key in keys], fits.FULL)


def run_row(key: str, results: Store) -> None:
    """One cell, at full size."""
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


def main(arguments: Sequence[str]) -> None:
    """Run what is missing: the agents of one kind, maze and set of people in one stack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=DOMAINS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    wanted, scale = cells(options.domains), fits.QUICK if options.quick else fits.FULL
    wanted = [cell for cell in wanted if cell.seed == SEEDS[0]] if options.quick else wanted
    table2.fill(store(quick=options.quick), wanted, scale)


if __name__ == "__main__":
    main(sys.argv[1:])
