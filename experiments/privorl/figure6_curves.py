"""Figure 6 of PrivORL: returns and closeness by curiosity rate, and by epsilon.

umaze, IQL, three seeds. Rates at epsilon 10: 0 (the default), 0.3 (the paper's) and 0.5 of every public batch are novel
generated rows, without matching. Epsilons, with matching and without: 1, 3, 10 and none (no noise, not private).
"""

import itertools

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import command_line
from experiments.lib.statistics import iqm
from experiments.privorl.parts import synthesis_variants as variants

RATES = {0.0: "tacit", 0.3: "cur", 0.5: "cur_50"}
EPSILONS, CURVES = (1.0, 3.0, 10.0), ("raked", "tacit")
VARIANTS = variants.Variants(__file__, [*variants.both(CURVES, EPSILONS), *variants.both(RATES.values(), (10.0,))])
rows, store, run_row, configuration = VARIANTS.rows, VARIANTS.store, variants.run_row, variants.returns.configuration


def figures() -> Figures:
    for way in CURVES:
        marginals, returns = (
            [iqm(variants.column(variants.row(way, epsilon), measure)) for epsilon in EPSILONS]
            for measure in ("marginal", "return")
        )
        steps = [after - before for before, after in itertools.pairwise(marginals)]
        yield at_least(f"umaze, {way}: least gain of Marginal from one epsilon to the next", min(steps), -0.003)
        yield at_least(f"umaze, {way}: return at epsilon 10 over that at 1", returns[-1] / returns[0], 0.9)


if __name__ == "__main__":
    command_line(__file__)
