"""What the experiments on other plans share (figure 4 and 6, tables V and VII): IQL on umaze, three seeds.

Cells of `tacit` are those of `table1_transitions`, closeness to the real rows is kept by `table3_fidelity`: nothing is
run twice.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from experiments import synthesis_fits as fits
from experiments import synthesis_returns as returns
from experiments import synthesis_ways as ways
from experiments import table1_transitions as table1
from experiments import table3_fidelity as table3
from experiments.store import Store
from experiments.synthesis_returns import Cell

DOMAIN, AGENT, SEEDS = "umaze", "iql", (0, 1, 2)
SHARED = ("real", "tacit", "pretraining")
"""Ways whose agents belong to `table1_transitions`."""


def row(way: str, epsilon: float) -> list[Cell]:
    """The seeds of one way."""
    return returns.cells(DOMAIN, (AGENT,), (way,), (epsilon,), SEEDS)


def rows(names: Iterable[str], epsilons: Sequence[float]) -> list[Cell]:
    """The seeds of several ways; what promises nothing comes once."""
    names = tuple(names)
    found = [cell for epsilon in epsilons for way in names for cell in row(way, epsilon)]
    return list(dict.fromkeys(found))


def fill(name: str, wanted: Sequence[Cell], *, quick: bool) -> None:
    """Put the cells that are missing or stale, each in its own file, seed by seed."""
    scale = fits.QUICK if quick else fits.FULL
    files = {name: returns.store(name, quick=quick), table1.NAME: returns.store(table1.NAME, quick=quick)}
    measures = table3.store(quick=quick)
    for seed in SEEDS[:1] if quick else SEEDS:
        mine = [cell for cell in wanted if cell.seed == seed]
        for file, results in files.items():
            returns.fill(results, [cell for cell in mine if _file(name, cell) == file], scale)
        table3.fill(measures, [(cell.domain, cell.way, cell.epsilon, cell.seed) for cell in mine], scale)


def column(name: str, wanted: Iterable[Cell], measure: str = "return") -> np.ndarray:
    """A return, or a measure of the tables, of these cells.

    Raises:
        LookupError: a cell is missing or stale.
    """
    cells = list(wanted)
    if not measure.startswith("return"):
        kept = table3.store()
        return np.array([kept.fresh(ways.key(c.domain, c.way, c.epsilon, c.seed))[measure] for c in cells])
    files = {file: returns.store(file) for file in {_file(name, cell) for cell in cells}}
    return np.array([files[_file(name, cell)].fresh(cell.key)[measure] for cell in cells])


def store(name: str) -> Store:
    """The result file of an experiment."""
    return returns.store(name)


def main(name: str, words: str | None, wanted: Sequence[Cell], arguments: Sequence[str]) -> None:
    """Run what is missing or stale."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    torch.set_num_threads(1)
    fill(name, wanted, quick=parser.parse_args(arguments).quick)


def _file(name: str, cell: Cell) -> str:
    return table1.NAME if cell.way in SHARED and cell.epsilon in (0.0, *table1.EPSILONS) else name
