"""What the experiments on other plans share (figure 4 and 6, tables V and VII): IQL on umaze, three seeds.

Every cell has one home: `tacit` is that of `table1_transitions`, closeness to the real rows is kept by
`table3_fidelity`. So nothing is run twice.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.lib.experiment import Store, store_of
from experiments.privorl import table1_transitions as table1
from experiments.privorl import table3_fidelity as table3
from experiments.privorl.parts import synthesis_returns as returns
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_returns import Cell

DOMAIN, AGENT, SEEDS = "umaze", "iql", (0, 1, 2)
SHARED = ("real", "raked", "tacit", "pretraining")  # ways whose agents belong to `table1_transitions`, at its epsilons
HOMES = {  # the experiments that other ways belong to; what is left belongs to figure 6
    "non_pre": "figure4_ablation",
    "cur": "figure4_ablation",
    "fine_cur": "table5_curiosity",
    "non_priv": "table7_nonprivate",
}


def row(way: str, epsilon: float) -> list[Cell]:
    return returns.cells(DOMAIN, (AGENT,), (way,), (epsilon,), SEEDS)


def both(names: Iterable[str], epsilons: Sequence[float]) -> list[Cell]:
    names = tuple(names)
    found = [cell for epsilon in epsilons for way in names for cell in row(way, epsilon)]
    return list(dict.fromkeys(found))


def home(cell: Cell) -> str:
    if cell.way in SHARED and cell.epsilon in (0.0, *table1.EPSILONS):
        return table1.NAME
    return HOMES.get(cell.way, "figure6_curves")


def column(wanted: Iterable[Cell], measure: str = "return") -> np.ndarray:
    cells = list(wanted)
    if not measure.startswith("return"):
        kept = table3.store()
        return np.array([kept.values(ways.key(c.domain, c.way, c.epsilon, c.seed))[measure] for c in cells])
    files = {file: store_of(file, returns.configuration, returns.WORDS)() for file in set(map(home, cells))}
    return np.array([files[home(cell)].values(cell.key)[measure] for cell in cells])


@dataclass(frozen=True)
class Variants:
    """The rows of an experiment on other plans: those of its cells that have no other home."""

    file: str  # of the experiment
    wanted: Sequence[Cell]  # all its cells

    @property
    def store(self) -> Callable[..., Store]:
        return store_of(self.file, returns.configuration, returns.WORDS)

    def rows(self) -> list[str]:
        return [cell.key for cell in self.wanted if home(cell) == Path(self.file).stem]


def run_row(key: str, results: Store) -> None:
    cell = Cell.of(key)
    returns.fill(results, [cell], ways.FULL)
    close, table = table3.store(), ways.key(cell.domain, cell.way, cell.epsilon, cell.seed)
    if not close.has(table):
        table3.run_row(table, close)
