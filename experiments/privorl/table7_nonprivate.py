"""Table VII of PrivORL: what the promise costs, at equally many steps.

umaze, IQL, three seeds. `non_priv` is the default plan (`tacit`, without matching) without noise and a bound that
is ever met (through the same doors, which make the ledger void); `real` the agents on the real rows.
"""

from __future__ import annotations

from experiments.lib.experiment import Figure, command_line, store_of
from experiments.privorl.parts import synthesis_variants as variants
from experiments.privorl.parts.synthesis_returns import WORDS, Cell, configuration
from experiments.privorl.parts.synthesis_variants import run_row
from experiments.privorl.table1_transitions import OWN
from tacit.evaluation.statistics import iqm

__all__ = ["configuration", "figures", "rows", "run_row", "store"]

WAYS, EPSILONS = ("real", "non_priv", "tacit", "raked"), (10.0, 1.0)


store = store_of(__file__, configuration, WORDS)


def rows() -> list[str]:
    """Keys of the cells that are kept here."""
    return variants.keys("table7_nonprivate", wanted())


def wanted() -> list[Cell]:
    return variants.both(WAYS, EPSILONS)


def figures() -> list[Figure]:
    """The paper loses 0.03 of Marginal and 7 of return; tacit is with matching."""
    found = []
    for measure, bound in (("marginal", -0.03), ("return", -7.0)):
        own, free = (
            iqm(variants.column(variants.row(way, epsilon), measure))
            for way, epsilon in ((OWN, 10.0), ("non_priv", 0.0))
        )
        found.append(Figure(f"umaze, epsilon 10: {measure} less that without privacy", own - free, bound))
    return found


if __name__ == "__main__":
    command_line(__file__)
