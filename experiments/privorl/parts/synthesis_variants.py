"""What the experiments on other plans share (figure 4 and 6, tables V and VII): IQL on umaze, three seeds.

Every cell has one home: `tacit` is that of `table1_transitions`, closeness to the real rows is kept by
`table3_fidelity`. So nothing is run twice.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from experiments.lib.store import Store
from experiments.privorl import table1_transitions as table1
from experiments.privorl import table3_fidelity as table3
from experiments.privorl.parts import synthesis_fits as fits
from experiments.privorl.parts import synthesis_returns as returns
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_returns import Cell

DOMAIN, AGENT, SEEDS = "umaze", "iql", (0, 1, 2)
SHARED = ("real", "raked", "tacit", "pretraining")
"""Ways whose agents belong to `table1_transitions`, at its epsilons."""
HOMES = {
    "non_pre": "figure4_ablation",
    "cur": "figure4_ablation",
    "fine_cur": "table5_curiosity",
    "non_priv": "table7_nonprivate",
}
"""The experiments that other ways belong to; what is left belongs to figure 6."""


def row(way: str, epsilon: float) -> list[Cell]:
    """The seeds of one way."""
    return returns.cells(DOMAIN, (AGENT,), (way,), (epsilon,), SEEDS)


def both(names: Iterable[str], epsilons: Sequence[float]) -> list[Cell]:
    """The seeds of several ways; what promises nothing comes once."""
    names = tuple(names)
    found = [cell for epsilon in epsilons for way in names for cell in row(way, epsilon)]
    return list(dict.fromkeys(found))


def home(cell: Cell) -> str:
    """The experiment that keeps a cell."""
    if cell.way in SHARED and cell.epsilon in (0.0, *table1.EPSILONS):
        return table1.NAME
    return HOMES.get(cell.way, "figure6_curves")


def fill(wanted: Sequence[Cell], *, quick: bool) -> None:
    """Put the cells that are missing, each at its home, seed by seed."""
    scale = fits.QUICK if quick else fits.FULL
    files = {name: returns.store(name, quick=quick) for name in dict.fromkeys(map(home, wanted))}
    measures = table3.store(quick=quick)
    for seed in SEEDS[:1] if quick else SEEDS:
        mine = [cell for cell in wanted if cell.seed == seed]
        for file, results in files.items():
            returns.fill(results, [cell for cell in mine if home(cell) == file], scale)
        table3.fill(measures, [(cell.domain, cell.way, cell.epsilon, cell.seed) for cell in mine], scale)


def column(wanted: Iterable[Cell], measure: str = "return") -> np.ndarray:
    """A return, or a measure of the tables, of these cells.

    Raises:
        LookupError: a cell is missing or has another configuration.
    """
    cells = list(wanted)
    if not measure.startswith("return"):
        kept = table3.store()
        return np.array([kept.values(ways.key(c.domain, c.way, c.epsilon, c.seed))[measure] for c in cells])
    files = {file: returns.store(file) for file in set(map(home, cells))}
    return np.array([files[home(cell)].values(cell.key)[measure] for cell in cells])


def store(name: str, path: Path | None = None) -> Store:
    """The result file of an experiment."""
    return returns.store(name, path=path)


def keys(name: str, wanted: Iterable[Cell]) -> list[str]:
    """Of the cells that an experiment keeps itself."""
    return [cell.key for cell in wanted if home(cell) == name]


def run_row(key: str, results: Store) -> None:
    """One cell, at full size."""
    returns.fill(results, [Cell.of(key)], fits.FULL)


def main(words: str | None, wanted: Sequence[Cell], arguments: Sequence[str]) -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    torch.set_num_threads(1)
    fill(wanted, quick=parser.parse_args(arguments).quick)
