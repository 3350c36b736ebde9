"""Table VII of PrivORL: what the promise costs, at equally many steps.

umaze, IQL, three seeds. `non_priv` is the default plan (`tacit`, without matching) without noise and a bound that
is ever met (through the same doors, which make the ledger void); `real` the agents on the real rows.
"""

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import command_line
from experiments.lib.statistics import iqm
from experiments.privorl.parts import synthesis_variants as variants
from experiments.privorl.table1_transitions import OWN

WAYS, EPSILONS = ("real", "non_priv", "tacit", "raked"), (10.0, 1.0)
VARIANTS = variants.Variants(__file__, variants.both(WAYS, EPSILONS))
rows, store, run_row, configuration = VARIANTS.rows, VARIANTS.store, variants.run_row, variants.returns.configuration


def figures() -> Figures:
    """The paper loses 0.03 of Marginal and 7 of return; tacit is with matching."""
    for measure, bound in (("marginal", -0.03), ("return", -7.0)):
        own, free = (
            iqm(variants.column(variants.row(way, epsilon), measure))
            for way, epsilon in ((OWN, 10.0), ("non_priv", 0.0))
        )
        yield at_least(f"umaze, epsilon 10: {measure} less that without privacy", own - free, bound)


if __name__ == "__main__":
    command_line(__file__)
