"""Private values of a treatment of HIV, off-policy, with 31 Fourier features.

Unit: one patient of 200 steps; delta 1e-5. Records: `hiv.behaviour`, with propensities. Evaluated: `hiv.target`.
Features: the Fourier basis of order 5 without products. RMSE is of V within the public range at 100 states that other
simulated patients visit, against Monte Carlo truth; MSPBE is over the pool. The paper divides MSPBE by the evaluated
policy's mean reward, which is the row `hiv/average_reward`. Data sets are subsets of a pool of 4,000 simulated
patients; of another one for residual return regression, whose default has changed. Methods: see
`ope_baselines`; DP-LSW and DP-LSL evaluate only the policy that made the records, and are left out.
"""

import functools

import numpy as np

from experiments.gpope.ope_baselines import SEED, Pooled
from experiments.gpope.ope_methods import HARDLY_ANY_NOISE, Columns, Domain, Setting, Yardstick
from experiments.lib.check import Figures
from experiments.lib.experiment import Json, Store, calls, command_line, describe, store_of
from tacit import off_policy_evaluation as ope
from tacit_worlds import hiv

STATES, ROLLOUTS = 100, 200
FRESH = 7_200_000  # the seed of the pool and of the data sets of residual return regression, whose default has changed
VISITED = 200  # patients whose states V is judged at, and whose rewards are averaged
AVERAGE = "hiv/average_reward"
RANGE = (0.0, 150.0)
"""Public: of the rewards' bounds [-1, 5] a treated patient earns about 1 a step, and 3 in the best of years."""


def target(observations: np.ndarray) -> np.ndarray:
    """Probabilities of the evaluated policy, [N, A]."""
    if len(observations) > 1:
        return hiv.target_policy()(observations)
    state = observations.tobytes()
    if state not in KNOWN:
        KNOWN[state] = hiv.target_policy()(observations)
    return KNOWN[state]


KNOWN: dict[bytes, np.ndarray] = {}
"""What the target says of each state of `collect`, up to rounding: vaults ask for one at a time, and take minutes."""


def collect(units: int, seed: int) -> Columns:
    columns = hiv.collect(hiv.behaviour_policy(), units, seed=seed)
    said = np.asarray(hiv.target_policy()(columns["observations"]), np.float64)
    KNOWN.update((row.tobytes(), said[i : i + 1]) for i, row in enumerate(columns["observations"]))
    return columns


def yardstick() -> Yardstick:
    """Monte Carlo values at states that other patients visit."""
    visited = collect(VISITED, 1)["observations"]
    observations = visited[np.random.default_rng(1).choice(len(visited), STATES, replace=False)]
    truth, _ = hiv.monte_carlo_values(
        hiv.target_policy(), 10.0 ** observations.astype(np.float64), rollouts=ROLLOUTS, seed=2
    )
    return Yardstick(observations, truth)


@functools.cache
def domain() -> Domain:
    return Domain(
        name="hiv",
        spec=hiv.spec(),
        problem=ope.Problem(gamma=hiv.GAMMA, horizon=hiv.HORIZON, return_range=RANGE),
        features=ope.Fourier(order=5, low=hiv.FEATURE_LOW, high=hiv.FEATURE_HIGH, coupled=False),
        policy=ope.Callable("experiments.gpope.gpope_hiv:target", hiv.ACTIONS),
        collect=collect,
        simulator={
            "dynamics": hiv.Hiv(),
            "drugs": hiv.DRUGS,
            "start": {"state": hiv.STEADY_STATE, "spread": hiv.SPREAD},
            "substep": hiv.SUBSTEP,
            "learned": calls(hiv, "learned_q", "uniform_policy", "collect", "fit", "epsilon_greedy"),
            "target": {"greedy": hiv.GREEDY_SHARE},
            "judged": {"patients": VISITED, "states": STATES, "rollouts": ROLLOUTS},
        },
        judge=yardstick,
    )


def trials(domain: str, method: str, units: int) -> int:
    """How many data sets: 100 where that is a matter of seconds."""
    if method == "residual":
        return 20 if units <= 1_000 else 10
    return 100 if units <= 1_000 and not method.startswith("gpope") else 20


POOLED = Pooled({"hiv": domain}, trials, seed=lambda domain, method: FRESH if method == "residual" else SEED)


def configuration(key: str) -> Json:
    if key == AVERAGE:
        return {"simulator": describe(domain().simulator), "patients": VISITED, "horizon": hiv.HORIZON}
    return POOLED.configuration(key)


store = store_of(__file__, configuration, "public defaults, and the best of the grids in gpope.ope_baselines")


def rows() -> list[str]:
    return [AVERAGE, *POOLED.rows(), Setting(1_000, HARDLY_ANY_NOISE).key("hiv", "residual")]


def figures() -> Figures:
    return POOLED.ahead(store())


def plot(results: Store) -> None:
    POOLED.plot(results, {"hiv": "off-policy"}, "Private values of HIV treatment by method", "gpope_hiv.svg")


def run_row(key: str, results: Store) -> None:
    if key != AVERAGE:
        return POOLED.run_row(key, results)
    reward = float(hiv.collect(hiv.target_policy(), VISITED, seed=3)["rewards"].mean())
    return results.put(key, dataset=f"{VISITED} simulated patients", seed=3, values={"mean": reward})


if __name__ == "__main__":
    command_line(__file__)
