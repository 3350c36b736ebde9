"""Ablations of PrivORL-n in medium (its Figure 4 and Tables V and VII), with the agent and data sets of Table I.

`tacit` is pre-trained without curiosity (NonCur); `cur` has the paper's curiosity, where novel generated rows take
places of real ones, `cur_append` that of the authors' code, where they join the batches. Real rows and tacit's with
matching are those of `table1_mazes`.
"""

import numpy as np

from experiments.lib.experiment import Store, command_line, store_of
from experiments.privorl import table1_mazes
from experiments.privorl.parts import synthesis_returns as returns

DOMAIN, AGENT = "medium", "iql_long"
SEEDS, EPSILONS = table1_mazes.SEEDS, table1_mazes.EPSILONS
WAYS = ("tacit", "non_pre", "cur", "cur_append", "fine_cur", "non_priv")
BORROWED = ("real", "raked")
SHOWN = (*BORROWED, *WAYS)


configuration, together, run_rows = returns.configuration, table1_mazes.together, table1_mazes.run_rows
store = store_of(__file__, configuration, returns.WORDS)


def rows() -> list[str]:
    return [cell.key for seed in SEEDS for cell in returns.cells(DOMAIN, (AGENT,), WAYS, EPSILONS, [seed])]


def column(results: Store, way: str, epsilon: float) -> np.ndarray:
    if way in BORROWED:
        return table1_mazes.column(table1_mazes.store(), DOMAIN, AGENT, way, epsilon)
    return returns.column(results, returns.cells(DOMAIN, (AGENT,), (way,), (epsilon,), SEEDS))


if __name__ == "__main__":
    command_line(__file__)
