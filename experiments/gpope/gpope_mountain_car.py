"""Private values of mountain car, on- and off-policy, with 36 Fourier features.

Unit: one trajectory; delta 1e-5. Records: the Q-learned policy of `mountain_car`, half of its actions
uniform, with propensities. Evaluated: that policy itself ("on"), or the uniform policy ("off"). RMSE is of V within the
public range [-100, 0] at 200 states drawn uniformly left of the goal, against Monte Carlo truth; MSPBE is over the
pool. Data sets are subsets of a pool of 4,000 simulated trajectories. Methods: see `ope_baselines`; DP-LSW
and DP-LSL have 100 cells, and evaluate only the policy that made the records.
"""

from __future__ import annotations

import functools

import numpy as np

from experiments.gpope import mountain_car, ope_baselines
from experiments.gpope.ope_baselines import (
    NOT_PRIVATE,
    ON_POLICY,
    PRIVATE,
    REPLACE_ONE,
    RIVALS,
    SEED,
    Pool,
    ahead,
    mean,
)
from experiments.gpope.ope_methods import HARDLY_ANY_NOISE, Columns, Domain, Setting, Yardstick, named
from experiments.gpope.ope_trials import over_units
from experiments.lib.check import Figure
from experiments.lib.configuration import Json, calls
from experiments.lib.plots import IMAGES, draw
from experiments.lib.queue import command_line
from experiments.lib.store import Store, store_of
from tacit import off_policy_evaluation as ope
from tacit.envs.rollouts import uniform_policy
from tacit.methods.off_policy_evaluation.baselines import cells

QUICK_POOL, QUICK_TRIALS = 400, 2
POOL, STATES, ROLLOUTS = 4_000, 200, 200
FRESH = 5_200_000
"""The seed of the pool and of the data sets of residual return regression off-policy, whose default has changed."""
UNITS, EPSILONS = (300, 1_000, 3_000), (1.0, 0.1)
CELLS = cells(mountain_car.LOW, mountain_car.HIGH, 10)
ON, OFF = "mountain_car_on", "mountain_car_off"


def collect(units: int, seed: int) -> Columns:
    """Fresh trajectories of the behaviour policy."""
    return mountain_car.collect(mountain_car.behaviour(), units, seed=seed)


@functools.cache
def domain(name: str) -> Domain:
    """Mountain car, on- or off-policy."""
    on_policy = name == ON

    def yardstick() -> Yardstick:
        states = mountain_car.MountainCar().starts(STATES, np.random.default_rng(1))
        evaluated = mountain_car.behaviour() if on_policy else uniform_policy(mountain_car.ACTIONS)
        truth, _ = mountain_car.truth(evaluated, states, rollouts=ROLLOUTS, seed=2)
        return Yardstick(states, truth)

    return Domain(
        name=name,
        spec=mountain_car.spec(),
        problem=ope.Problem(gamma=mountain_car.GAMMA, horizon=mountain_car.HORIZON, return_range=(-100.0, 0.0)),
        features=ope.Fourier(order=5, low=mountain_car.LOW, high=mountain_car.HIGH),
        policy=ope.Behaviour() if on_policy else ope.Uniform(mountain_car.ACTIONS),
        collect=collect,
        simulator={
            "goal": mountain_car.GOAL,
            "behaviour": {
                "exploration": mountain_car.EXPLORATION,
                "learned": calls(mountain_car, "learned_q", "learn"),
            },
            "judged": {"states": STATES, "rollouts": ROLLOUTS},
        },
        judge=yardstick,
    )


def configuration(key: str, quick: bool = False) -> Json:
    name, method, setting = named(key)
    count = trials(name, method, setting.units, quick)
    return ope_baselines.asked(domain(name), CELLS, pool_size(quick), method, setting, count)


store = store_of(__file__, configuration, "public defaults, and the best of the grids in gpope.ope_baselines")


def rows() -> list[str]:
    keys = []
    for name in (ON, OFF):
        keys += [Setting(m).key(name, method) for m in UNITS for method in NOT_PRIVATE]
        keys += [setting.key(name, method) for setting in settings() for method in methods(setting, name)]
    keys.append(Setting(1_000, HARDLY_ANY_NOISE).key(OFF, "residual"))
    return sorted(keys, key=lambda key: named(key)[2].units != 1_000)


def pool_size(quick: bool) -> int:
    """How many units the data sets are subsets of."""
    return QUICK_POOL if quick else POOL


@functools.lru_cache(maxsize=1)
def pool(name: str, seed: int, quick: bool) -> Pool:
    """The simulated units."""
    return Pool(domain(name), pool_size(quick), seed=seed, cells=CELLS)


def settings() -> list[Setting]:
    """Both epsilons at every size; for the paper's sampler, which needs it, replace-one at m = 1,000 too."""
    sizes = [Setting(m, e, "add_or_remove") for m in UNITS for e in EPSILONS]
    return sizes + [Setting(1_000, e, "replace_one") for e in EPSILONS]


def methods(setting: Setting, name: str) -> list[str]:
    """The methods that can keep this promise."""
    paper = REPLACE_ONE if setting.relation == "replace_one" else ()
    own = ["residual"] if name == ON or setting.relation == "add_or_remove" else []
    return [*own, *PRIVATE, *(ON_POLICY if name == ON else ()), *paper]


def trials(domain: str, name: str, units: int, quick: bool) -> int:
    """How many data sets: 100 where that is a matter of seconds."""
    if quick:
        return QUICK_TRIALS
    if name == "residual":
        return (20 if units <= 1_000 else 10) // (1 if domain == ON else 2)
    return 100 if units <= 1_000 and not name.startswith("gpope") else 20


def figures() -> list[Figure]:
    """That residual return regression has the smaller RMSE everywhere."""
    results, found = store(), []
    for name in (ON, OFF):
        for setting in (one for one in settings() if "residual" in methods(one, name)):
            own = mean(results, name, "residual", setting)
            found += ahead(own, results, name, setting, [n for n in RIVALS if n in methods(setting, name)])
    return found


def plot(results: Store) -> None:
    """Write docs/images/gpope_mountain_car.svg: RMSE over m."""
    picture = []
    for domain_name, kind in ((ON, "on-policy"), (OFF, "off-policy")):
        for epsilon in EPSILONS:
            title = f"RMSE of V, {kind}"
            picture.append(over_units((results,), domain_name, epsilon, UNITS, column="rmse", title=title))
    draw(picture, "Private values of mountain car by method", IMAGES / "gpope_mountain_car.svg")


def run_row(key: str, results: Store, *, quick: bool = False) -> None:
    name, method, setting = named(key)
    seed = FRESH if (name, method) == (OFF, "residual") else SEED
    ope_baselines.run(pool(name, seed, quick), method, setting, trials(name, method, setting.units, quick), results)


if __name__ == "__main__":
    command_line(__file__)
