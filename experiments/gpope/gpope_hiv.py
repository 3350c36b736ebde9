"""Private values of a treatment of HIV, off-policy, with 31 Fourier features.

Unit: one patient of 200 steps; delta 1e-5. Records: `hiv.behaviour`, with propensities. Evaluated: `hiv.target`.
Features: the Fourier basis of order 5 without products. RMSE is of V within the public range at 100 states that other
simulated patients visit, against Monte Carlo truth; MSPBE is over the pool. The paper divides MSPBE by the evaluated
policy's mean reward, which is the row `hiv/average_reward`. Data sets are subsets of a pool of 4,000 simulated
patients; of another one for residual return regression, whose default has changed. Methods: see
`ope_baselines`; DP-LSW and DP-LSL evaluate only the policy that made the records, and are left out.
"""

from __future__ import annotations

import functools

import numpy as np

from experiments.gpope import ope_baselines
from experiments.gpope.ope_baselines import NOT_PRIVATE, PRIVATE, REPLACE_ONE, RIVALS, SEED, Pool, ahead, mean
from experiments.gpope.ope_methods import HARDLY_ANY_NOISE, Columns, Domain, Setting, Yardstick, named
from experiments.gpope.ope_trials import over_units
from experiments.lib.check import Figure
from experiments.lib.configuration import Json, calls, describe
from experiments.lib.plots import IMAGES, draw
from experiments.lib.queue import command_line
from experiments.lib.store import Store, store_of
from tacit import off_policy_evaluation as ope
from tacit_worlds import hiv

QUICK_POOL, QUICK_TRIALS = 400, 2
POOL, STATES, ROLLOUTS = 4_000, 100, 200
FRESH = 7_200_000
"""The seed of the pool and of the data sets of residual return regression, whose default has changed."""
VISITED = 200
"""Patients whose states V is judged at, and whose rewards are averaged."""
AVERAGE = "hiv/average_reward"
UNITS, EPSILONS = (300, 1_000, 3_000), (1.0, 0.1)
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
    """Fresh patients under the behaviour policy."""
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
    """The treatment, off-policy."""
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


def configuration(key: str, quick: bool = False) -> Json:
    if key == AVERAGE:
        return {"simulator": describe(domain().simulator), "patients": VISITED, "horizon": hiv.HORIZON}
    _, method, setting = named(key)
    count = trials(method, setting.units, quick)
    return ope_baselines.asked(domain(), None, pool_size(quick), method, setting, count)


store = store_of(__file__, configuration, "public defaults, and the best of the grids in gpope.ope_baselines")


def rows() -> list[str]:
    jobs = [(name, Setting(m)) for m in UNITS for name in NOT_PRIVATE]
    jobs += [(name, setting) for setting in settings() for name in methods(setting)]
    jobs.append(("residual", Setting(1_000, HARDLY_ANY_NOISE)))
    return [AVERAGE, *(setting.key("hiv", name) for name, setting in jobs)]


def pool_size(quick: bool) -> int:
    """How many units the data sets are subsets of."""
    return QUICK_POOL if quick else POOL


@functools.lru_cache(maxsize=1)
def pool(seed: int, quick: bool) -> Pool:
    """The simulated units."""
    return Pool(domain(), pool_size(quick), seed=seed)


def settings() -> list[Setting]:
    """Both epsilons at every size; for the paper's sampler, which needs it, replace-one at m = 1,000 too."""
    sizes = [Setting(m, e, "add_or_remove") for m in UNITS for e in EPSILONS]
    return sizes + [Setting(1_000, e, "replace_one") for e in EPSILONS]


def methods(setting: Setting) -> list[str]:
    """The methods that can keep this promise."""
    return [*PRIVATE, *REPLACE_ONE] if setting.relation == "replace_one" else ["residual", *PRIVATE]


def trials(name: str, units: int, quick: bool) -> int:
    """How many data sets: 100 where that is a matter of seconds."""
    if quick:
        return QUICK_TRIALS
    if name == "residual":
        return 20 if units <= 1_000 else 10
    return 100 if units <= 1_000 and not name.startswith("gpope") else 20


def figures() -> list[Figure]:
    """That residual return regression has the smaller RMSE everywhere."""
    results, found = store(), []
    for setting in (one for one in settings() if "residual" in methods(one)):
        own = mean(results, "hiv", "residual", setting)
        found += ahead(own, results, "hiv", setting, [name for name in RIVALS if name in methods(setting)])
    return found


def plot(results: Store) -> None:
    """Write docs/images/gpope_hiv.svg: RMSE over m."""
    picture = []
    for domain_name, kind in (("hiv", "off-policy"),):
        for epsilon in EPSILONS:
            title = f"RMSE of V, {kind}"
            picture.append(over_units((results,), domain_name, epsilon, UNITS, column="rmse", title=title))
    draw(picture, "Private values of HIV treatment by method", IMAGES / "gpope_hiv.svg")


def run_row(key: str, results: Store, *, quick: bool = False) -> None:
    if key == AVERAGE:
        reward = float(hiv.collect(hiv.target_policy(), VISITED, seed=3)["rewards"].mean())
        return results.put(key, dataset=f"{VISITED} simulated patients", seed=3, values={"mean": reward})
    _, method, setting = named(key)
    seed = FRESH if method == "residual" else SEED
    return ope_baselines.run(pool(seed, quick), method, setting, trials(method, setting.units, quick), results)


if __name__ == "__main__":
    command_line(__file__)
