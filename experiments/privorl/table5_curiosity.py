"""Table V of PrivORL: curiosity in fine-tuning in place of pre-training, without a hole in the promise.

umaze, IQL, three seeds, epsilon 10. `fine_cur` appends novel generated rows to every step, outside the private sum and
its divisor, so that sigma and epsilon are those of `tacit`; `cur` has the paper's curiosity in pre-training. None of
them is matched to tables.
"""

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import command_line
from experiments.lib.statistics import iqm
from experiments.privorl.parts import synthesis_variants as variants

WAYS, EPSILON = ("tacit", "fine_cur"), 10.0
VARIANTS = variants.Variants(__file__, variants.both(WAYS, (EPSILON,)))
rows, store, run_row, configuration = VARIANTS.rows, VARIANTS.store, variants.run_row, variants.returns.configuration


def figures() -> Figures:
    own, theirs = (iqm(variants.column(variants.row(way, EPSILON), "marginal")) for way in WAYS)
    yield at_least("umaze, epsilon 10: Marginal of the default less that of curious fine-tuning", own - theirs, 0.0)


if __name__ == "__main__":
    command_line(__file__)
