"""Earlier methods on the 40-state chain, to be held against `gpope_chain`.

The setting is that of `gpope_chain`, with data sets that are subsets of a pool of 12,000 trajectories: 100
trials (20 of `gpope_poisson`, and from m = 3,000 on, where data sets overlap and the noise decides). Methods: see
`ope_baselines`.

    gpope              full batch, 100 steps, under a grid of step sizes around the public default
    gpope_poisson      Poisson samples of 50, 500 steps, likewise
    gpope_paper        the paper's sampler (one of m, 1,000 steps), with the noise that it takes; only replace-one
    gpope_published    the same with the noise of the paper's formula, and the epsilon that this really costs
    dp_lstd            one noisy release of A and b; `dp_lstd_centred` about a noisy value of the start
    dp_lsw, dp_lsl     smooth sensitivity with the constants of our proof; `_published` with the published ones
    lstd               without privacy
"""

from __future__ import annotations

import functools

from experiments.gpope import gpope_chain, ope_baselines
from experiments.gpope.ope_baselines import NOT_PRIVATE, ON_POLICY, PRIVATE, REPLACE_ONE, RIVALS, Pool, ahead
from experiments.gpope.ope_methods import Setting, named
from experiments.gpope.ope_trials import over_units
from experiments.lib.check import Figure
from experiments.lib.configuration import Json
from experiments.lib.plots import IMAGES, draw
from experiments.lib.queue import command_line
from experiments.lib.store import Store, store_of

POOL, QUICK_POOL, QUICK_TRIALS = 12_000, 1_000, 3


def configuration(key: str, quick: bool = False) -> Json:
    _, name, setting = named(key)
    return ope_baselines.asked(
        gpope_chain.domain(), None, pool_size(quick), name, setting, trials(name, setting.units, quick)
    )


store = store_of(__file__, configuration, "public defaults, and the best of the grids in gpope.ope_baselines")


def rows() -> list[str]:
    jobs = [(name, Setting(m)) for m in gpope_chain.UNITS for name in NOT_PRIVATE]
    jobs += [(name, setting) for setting in settings() for name in methods(setting)]
    return [setting.key("chain", name) for name, setting in jobs]


def pool_size(quick: bool) -> int:
    """How many units the data sets are subsets of."""
    return QUICK_POOL if quick else POOL


@functools.lru_cache(maxsize=1)
def pool(quick: bool) -> Pool:
    """The simulated units."""
    return Pool(gpope_chain.domain(), pool_size(quick))


def trials(name: str, units: int, quick: bool) -> int:
    """How many data sets of this size."""
    if quick:
        return QUICK_TRIALS
    return 100 if units <= 1_000 and name != "gpope_poisson" else 20


def settings() -> list[Setting]:
    """Every promise at every size."""
    return [Setting(m, e, r) for m in gpope_chain.UNITS for e in gpope_chain.EPSILONS for r in gpope_chain.RELATIONS]


def methods(setting: Setting) -> list[str]:
    """The methods that can keep this promise."""
    return [*PRIVATE, *ON_POLICY, *(REPLACE_ONE if setting.relation == "replace_one" else ())]


def figures() -> list[Figure]:
    """That residual return regression has the smaller RMSE everywhere that it is run."""
    results, other, found, asked = store(), gpope_chain.store(), [], gpope_chain.rows()
    for setting in (one for one in settings() if one.key("chain", "residual") in asked):
        own = gpope_chain.mean(other, "residual", setting, "rmse")
        found += ahead(own, results, "chain", setting, [name for name in RIVALS if name in methods(setting)])
    return found


def plot(results: Store) -> None:
    """Write docs/images/gpope_chain.svg: RMSE and MSPBE over m."""
    stores, picture = (results, gpope_chain.store()), []
    for column, title in (("rmse", "RMSE of V"), ("mspbe", "MSPBE")):
        for epsilon in gpope_chain.EPSILONS:
            picture.append(over_units(stores, "chain", epsilon, gpope_chain.UNITS, column=column, title=title))
    draw(picture, "Private values of the chain by method", IMAGES / "gpope_chain.svg")


def run_row(key: str, results: Store, *, quick: bool = False) -> None:
    _, name, setting = named(key)
    ope_baselines.run(pool(quick), name, setting, trials(name, setting.units, quick), results)


if __name__ == "__main__":
    command_line(__file__)
