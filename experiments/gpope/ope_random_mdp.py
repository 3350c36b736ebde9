"""Off-policy values of a random process: MSPBE and RMSE of V by residual return regression, 100 trials each.

The 20-state process of `random_mdp` with its own behaviour and target policies; 1,000
trajectories, each a unit; delta 1e-5; public range of values [0, 20]. Every trial has its own data set, ledger and
noise. The method's defaults were chosen on other processes. Where noise is large MSPBE can be worse than that of the
value 0 although RMSE is better than the best constant's.
"""

import functools

import numpy as np

from experiments.gpope import random_mdp
from experiments.gpope.ope_methods import (
    HARDLY_ANY_NOISE,
    NOT_PRIVATE,
    PRIVATE,
    Columns,
    Domain,
    Fresh,
    Setting,
    Yardstick,
    mean,
)
from experiments.lib.check import Figures, at_most
from experiments.lib.experiment import command_line, store_of
from tacit import off_policy_evaluation as ope
from tacit.units import Relation

PROCESS = 61  # the seed of the process itself
FRESH = 5_200_000  # the first seed of data sets; those of the former default begin at 5,000,000
UNITS, EPSILONS = 1_000, (1.0, 0.1)
RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")


def rows() -> list[str]:
    promised = [Setting(UNITS, epsilon, relation) for epsilon in EPSILONS for relation in RELATIONS]
    jobs = [(name, Setting(UNITS)) for name in NOT_PRIVATE] + [(n, s) for s in promised for n in PRIVATE]
    jobs.append(("residual", Setting(UNITS, HARDLY_ANY_NOISE)))
    return [setting.key("random_mdp", name) for name, setting in jobs]


@functools.cache
def domain() -> Domain:
    mdp = random_mdp.random_mdp(PROCESS)

    def collect(units: int, seed: int) -> Columns:
        return random_mdp.collect(mdp, random_mdp.tabular(mdp.behaviour), units, seed=seed)

    def yardstick() -> Yardstick:
        values = random_mdp.values(mdp, mdp.target)
        return Yardstick(np.arange(random_mdp.STATES), values, lambda theta: random_mdp.mspbe(mdp, theta))

    return Domain(
        name="random_mdp",
        spec=random_mdp.spec(),
        problem=ope.Problem(gamma=random_mdp.GAMMA, horizon=random_mdp.HORIZON, return_range=(0.0, 20.0)),
        features=ope.OneHot(random_mdp.STATES),
        policy=ope.Tabular(mdp.target),
        collect=collect,
        simulator={
            "process": PROCESS,
            "states": random_mdp.STATES,
            "reach": random_mdp.REACH,
            "behaviour": "of the process",
            "judged": "all states, exactly",
        },
        judge=yardstick,
    )


ROWS = Fresh(domain, PRIVATE | NOT_PRIVATE, lambda setting: FRESH)
configuration, run_row = ROWS.configuration, ROWS.run_row
store = store_of(__file__, configuration, "the method's defaults, chosen on other seeds and other processes")


def figures() -> Figures:
    value = mean(store(), "random_mdp", "residual", Setting(UNITS, 1.0))
    yield at_most("random process, off-policy, m=1000, epsilon 1: rmse", value, 0.4)


if __name__ == "__main__":
    command_line(__file__)
