"""Private values of mountain car, on- and off-policy, with 36 Fourier features.

Unit: one trajectory; delta 1e-5. Records: the Q-learned policy of `mountain_car`, half of its actions
uniform, with propensities. Evaluated: that policy itself ("on"), or the uniform policy ("off"). RMSE is of V within the
public range [-100, 0] at 200 states drawn uniformly left of the goal, against Monte Carlo truth; MSPBE is over the
pool. Data sets are subsets of a pool of 4,000 simulated trajectories. Methods: see `ope_baselines`; DP-LSW
and DP-LSL have 100 cells, and evaluate only the policy that made the records.
"""

import functools

import numpy as np

from experiments.gpope import mountain_car
from experiments.gpope.ope_baselines import SEED, Pooled
from experiments.gpope.ope_methods import HARDLY_ANY_NOISE, Columns, Domain, Setting, Yardstick, named
from experiments.lib.check import Figures
from experiments.lib.experiment import Store, calls, command_line, store_of
from tacit import off_policy_evaluation as ope
from tacit.envs.rollouts import uniform_policy
from tacit.methods.off_policy_evaluation.baselines import cells

STATES, ROLLOUTS = 200, 200
FRESH = 5_200_000
"""The seed of the pool and of the data sets of residual return regression off-policy, whose default has changed."""
ON, OFF = "mountain_car_on", "mountain_car_off"


@functools.cache
def domain(name: str) -> Domain:
    on_policy = name == ON

    def collect(units: int, seed: int) -> Columns:
        return mountain_car.collect(mountain_car.behaviour(), units, seed=seed)

    def yardstick() -> Yardstick:
        states = mountain_car.MountainCar().starts(STATES, np.random.default_rng(1))
        evaluated = mountain_car.behaviour() if on_policy else uniform_policy(mountain_car.ACTIONS)
        return Yardstick(states, mountain_car.truth(evaluated, states, rollouts=ROLLOUTS, seed=2)[0])

    learned = calls(mountain_car, "learned_q", "learn")
    return Domain(
        name=name,
        spec=mountain_car.spec(),
        problem=ope.Problem(gamma=mountain_car.GAMMA, horizon=mountain_car.HORIZON, return_range=(-100.0, 0.0)),
        features=ope.Fourier(order=5, low=mountain_car.LOW, high=mountain_car.HIGH),
        policy=ope.Behaviour() if on_policy else ope.Uniform(mountain_car.ACTIONS),
        collect=collect,
        simulator={
            "goal": mountain_car.GOAL,
            "behaviour": {"exploration": mountain_car.EXPLORATION, "learned": learned},
            "judged": {"states": STATES, "rollouts": ROLLOUTS},
        },
        judge=yardstick,
    )


def trials(domain: str, method: str, units: int) -> int:
    """How many data sets: 100 where that is a matter of seconds."""
    if method == "residual":
        return (20 if units <= 1_000 else 10) // (1 if domain == ON else 2)
    return 100 if units <= 1_000 and not method.startswith("gpope") else 20


POOLED = Pooled(
    {name: functools.partial(domain, name) for name in (ON, OFF)},
    trials,
    seed=lambda domain, method: FRESH if (domain, method) == (OFF, "residual") else SEED,
    cells=cells(mountain_car.LOW, mountain_car.HIGH, 10),
)
configuration, run_row = POOLED.configuration, POOLED.run_row
store = store_of(__file__, configuration, "public defaults, and the best of the grids in gpope.ope_baselines")


def rows() -> list[str]:
    keys = [*POOLED.rows(), Setting(1_000, HARDLY_ANY_NOISE).key(OFF, "residual")]
    return sorted(keys, key=lambda key: named(key)[2].units != 1_000)


def figures() -> Figures:
    return POOLED.ahead(store())


def plot(results: Store) -> None:
    title = "Private values of mountain car by method"
    POOLED.plot(results, {ON: "on-policy", OFF: "off-policy"}, title, "gpope_mountain_car.svg")


if __name__ == "__main__":
    command_line(__file__)
