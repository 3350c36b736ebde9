"""Earlier methods on the 40-state chain, to be held against `gpope_chain`.

Data sets are subsets of a pool of 12,000 trajectories: 100 trials (20 of `gpope_poisson`, and from m = 3,000 on, where
data sets overlap and the noise decides). `gpope_paper` is the paper's sampler (one of m, 1,000 steps) with the noise
that it takes, `gpope_published` with the noise of the paper's formula, and the epsilon that this really costs; of
smooth sensitivity `_published` has the published constants. Methods: see `ope_baselines`.
"""

from experiments.gpope import gpope_chain
from experiments.gpope.gpope_chain import EPSILONS, RELATIONS, UNITS
from experiments.gpope.ope_baselines import Pooled
from experiments.gpope.ope_methods import Setting, over_units
from experiments.lib.check import Figures
from experiments.lib.experiment import Store, command_line, store_of
from experiments.lib.plots import IMAGES, draw

POOLED = Pooled(
    {"chain": gpope_chain.domain},
    trials=lambda domain, method, units: 100 if units <= 1_000 and method != "gpope_poisson" else 20,
    pool=12_000,
    settings=tuple(Setting(m, e, r) for m in UNITS for e in EPSILONS for r in RELATIONS),
    own=False,
)
rows, configuration, run_row = POOLED.rows, POOLED.configuration, POOLED.run_row
store = store_of(__file__, configuration, "public defaults, and the best of the grids in gpope.ope_baselines")


def figures() -> Figures:
    return POOLED.ahead(store(), gpope_chain.store())


def plot(results: Store) -> None:
    stores, picture = (results, gpope_chain.store()), []
    for column, title in (("rmse", "RMSE of V"), ("mspbe", "MSPBE")):
        for epsilon in EPSILONS:
            picture.append(over_units(stores, "chain", epsilon, UNITS, column=column, title=title))
    draw(picture, "Private values of the chain by method", IMAGES / "gpope_chain.svg")


if __name__ == "__main__":
    command_line(__file__)
