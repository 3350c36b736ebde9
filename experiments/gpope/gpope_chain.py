"""Private values of the 40-state chain: MSPBE and RMSE of V, 100 trials each.

On-policy, tabular (39 states that are not absorbing), as in the paper (arXiv:1902.00174, figure 1): MSPBE is that of
the population, in closed form, and RMSE is over the states' exact values. Every trial has its own data set, ledger and
noise; seeds are used nowhere else. Public range of values: [0, 1], as there is one reward of 1 at the end.
"""

import functools

import numpy as np

from experiments.gpope import ope_methods
from experiments.gpope.ope_methods import (
    FIRST_SEED,
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
from tacit.envs.rollouts import uniform_policy
from tacit.units import Relation
from tacit_worlds import chain

UNITS, EPSILONS = (100, 300, 1_000, 3_000, 10_000), (1.0, 0.1)
RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")
LESS_NOISE = 6_200_000
"""First seed of the rows under `replace_one`, which were made again when a replaced unit's price fell."""


@functools.cache
def domain() -> Domain:
    def collect(units: int, seed: int) -> Columns:
        return chain.collect(uniform_policy(chain.ACTIONS), units, seed=seed)

    return Domain(
        name="chain",
        spec=chain.spec(),
        problem=ope.Problem(gamma=chain.GAMMA, horizon=chain.HORIZON, return_range=(0.0, 1.0)),
        features=ope.OneHot(chain.STATES - 1),
        policy=ope.Behaviour(),
        collect=collect,
        simulator={"states": chain.STATES, "behaviour": "uniform", "judged": "all states, exactly"},
        judge=lambda: Yardstick(np.arange(chain.STATES - 1), chain.values(), chain.mspbe),
    )


SMOOTH = ope_methods.private(lambda here: ope_methods.residual(here, ope.Smoothness(13.0)))
METHODS = PRIVATE | {"residual_smooth": SMOOTH}
FRESH = Fresh(
    domain, METHODS | NOT_PRIVATE, lambda setting: LESS_NOISE if setting.relation == "replace_one" else FIRST_SEED
)
configuration, run_row = FRESH.configuration, FRESH.run_row
store = store_of(__file__, configuration, "the methods' defaults, chosen on other seeds and other domains")


def rows() -> list[str]:
    promised = [*(Setting(1_000, e, r) for e in EPSILONS for r in RELATIONS), Setting(10_000, 0.1)]
    smallest = [Setting(min(UNITS), e, r) for e in EPSILONS for r in RELATIONS]
    jobs = [(name, Setting(m)) for m in UNITS for name in NOT_PRIVATE]
    jobs += [(name, setting) for setting in [*promised, *smallest] for name in METHODS]
    jobs += [("residual", Setting(m, e)) for m in UNITS for e in EPSILONS]
    jobs += [("residual", Setting(m, e, "replace_one")) for m in UNITS if m <= 1_000 for e in EPSILONS]
    return [setting.key("chain", name) for name, setting in dict.fromkeys(jobs)]


PROMISED = (  # at most so much MSPBE and RMSE
    (Setting(1_000, 1.0), 2e-5, 0.035),
    (Setting(1_000, 1.0, "replace_one"), 6e-5, 0.06),
    (Setting(1_000, 0.1), 1.5e-3, 0.13),
    (Setting(10_000, 0.1), 1.5e-5, 0.03),
)


def figures() -> Figures:
    for setting, *bounds in PROMISED:
        for column, bound in zip(("mspbe", "rmse"), bounds, strict=True):
            yield at_most(
                f"chain m={setting.units}, epsilon {setting.epsilon:g}, {setting.relation}: {column}",
                mean(store(), "chain", "residual", setting, column),
                bound,
            )


if __name__ == "__main__":
    command_line(__file__)
