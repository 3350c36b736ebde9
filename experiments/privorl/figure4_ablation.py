"""Figure 4 of PrivORL: what public pre-training, and curiosity in it, are worth.

umaze, IQL, three seeds, at both epsilons. `raked` is tacit's method and `tacit` the same without matching, with
which all others are to be compared: its pre-training is without curiosity (the paper's NonCur), `cur` adds the paper's
(rate 0.3), and `non_pre` starts from random weights (the paper's NonPre).
"""

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import command_line
from experiments.lib.statistics import iqm
from experiments.privorl.parts import synthesis_variants as variants

WAYS, EPSILONS = ("raked", "tacit", "non_pre", "cur"), (10.0, 1.0)
VARIANTS = variants.Variants(__file__, variants.both(WAYS, EPSILONS))
rows, store, run_row, configuration = VARIANTS.rows, VARIANTS.store, variants.run_row, variants.returns.configuration


def figures() -> Figures:
    for epsilon in EPSILONS:
        for measure, bound in (("return", 0.9), ("marginal", 0.995)):
            own, bare = (iqm(variants.column(variants.row(way, epsilon), measure)) for way in ("tacit", "non_pre"))
            words = f"umaze, epsilon {epsilon:g}: {measure} over that without pre-training"
            yield at_least(words, own / bare, bound)
        whole, own = (iqm(variants.column(variants.row(way, epsilon), "marginal")) for way in ("raked", "tacit"))
        yield at_least(f"umaze, epsilon {epsilon:g}: what matching adds to Marginal", whole - own, 0.0)


if __name__ == "__main__":
    command_line(__file__)
