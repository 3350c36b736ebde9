"""Error and coverage of every private estimator of a policy's value, against known values.

Every data set is drawn with replacement from one pool of simulated units, for simulation would dominate. On-policy the
truth is therefore the pool's own mean, exactly; off-policy it is exact (random_mdp) or the mean of as many fresh
episodes of the evaluated policy. Values are discounted returns over the horizon. Every data set has a vault and a
ledger of its own, at epsilon 1 and 0.1 and delta 1e-5 (add-or-remove).

A row holds the raw numbers of one method, domain and promise; the regressions on mountain_car and hiv have few data
sets, and their coverage is no figure. `floor` is the method on records of a single unit: noise alone. `ceiling` is the
method at epsilon 100. Off-policy residual return regression is in `ope_random_mdp`. Hyper-parameters are the defaults,
which were chosen on random_mdp, and looked at on mountain_car and hiv, with other seeds of the records.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from experiments.gpope import gpope_chain, gpope_hiv, gpope_mountain_car, mountain_car, ope_random_mdp, random_mdp
from experiments.gpope.ope_methods import Columns, Domain
from experiments.lib import vaults
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, grouped, store_of
from tacit import off_policy_evaluation as ope
from tacit.data.trajectories import Trajectories
from tacit.methods.off_policy_evaluation.policies import Target
from tacit.units import Unit
from tacit_worlds import hiv

DELTA, LEVEL = 1e-5, 0.95
PROMISES = {"epsilon=1": 1.0, "epsilon=0.1": 0.1}
EPSILONS = {**PROMISES, "ceiling": 100.0, "floor": 1.0}
DATA_SETS, FEW, CONTROLS = 500, 10, 10
POOL, FEW_PATIENTS = 20_000, 4_000


@dataclass(frozen=True, eq=False)
class Records:
    """A pool of simulated units of a domain, from which data sets are drawn."""

    domain: Domain  # under the behaviour policy
    units: int  # of one data set
    # the value of another evaluated policy than the records' own, which may simulate; or None
    truth: Callable[[], float] | None = None
    size: int = POOL  # of the pool, in units
    slow: bool = False  # whether the regressions run on few data sets
    range: bool = False  # whether the public range of returns is known
    without: tuple[str, ...] = ("judged",)  # settings of the domain's simulator that decide nothing here

    @property
    def problem(self) -> ope.Problem:
        """The domain's, with no more than is public here."""
        given = self.domain.problem
        return given if self.range else ope.Problem(gamma=given.gamma, horizon=given.horizon)

    @property
    def simulator(self) -> Mapping[str, Any]:
        """Its settings; how values of states are judged is none of them."""
        return {name: one for name, one in self.domain.simulator.items() if name not in self.without}

    @functools.cached_property
    def pool(self) -> Columns:
        return self.domain.collect(self.size, 0)

    @functools.cached_property
    def value(self) -> float:
        """The evaluated policy's, or the pool's own."""
        return mean_return(self.pool, self.problem.gamma) if self.truth is None else self.truth()

    def target(self, method: str) -> Target:
        return ope.Behaviour() if truth_is_own(method) or self.truth is None else self.domain.policy

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        ids = self.pool["unit_ids"]
        return np.append(np.flatnonzero(np.append(True, ids[1:] != ids[:-1])), len(ids))

    def drawn(self, chosen: np.ndarray) -> Columns:
        """The columns of these units of the pool, each a unit of its own."""
        offsets = self.offsets
        lengths = np.diff(offsets)[chosen]
        first = np.repeat(offsets[chosen] - np.append(0, np.cumsum(lengths)[:-1]), lengths)
        rows = first + np.arange(lengths.sum())
        ids = np.repeat(np.arange(len(chosen)), lengths)
        own = {name: column[rows] for name, column in self.pool.items() if not name.endswith("_ids")}
        return {**own, "unit_ids": ids, "episode_ids": ids}


def mean_return(columns: Columns, gamma: float) -> float:
    ids = columns["unit_ids"]
    start = np.append(True, ids[1:] != ids[:-1])
    step = np.arange(len(ids)) - np.maximum.accumulate(np.where(start, np.arange(len(ids)), 0))
    return float((gamma**step * columns["rewards"]).sum() / start.sum())


def within_horizon(mdp: random_mdp.RandomMdp, gamma: float, horizon: int) -> float:
    """The target's exact mean return over the horizon from a uniform start."""
    value = np.zeros(random_mdp.STATES)
    for _ in range(horizon):
        value = (mdp.target * (mdp.rewards + gamma * mdp.transitions @ value)).sum(axis=1)
    return float(value.mean())


@functools.cache
def records(name: str) -> Records:
    match name:
        case "chain":
            return Records(gpope_chain.domain(), 1_000, range=True)
        case "random_mdp":
            mdp = random_mdp.random_mdp(ope_random_mdp.PROCESS)
            exact = functools.partial(within_horizon, mdp, random_mdp.GAMMA, random_mdp.HORIZON)
            return Records(ope_random_mdp.domain(), 1_000, exact, without=("judged", "behaviour"))
        case "mountain_car":
            uniform = ope.Uniform(mountain_car.ACTIONS).probabilities
            played = functools.partial(mountain_car.collect, uniform, POOL, seed=1)
            domain = gpope_mountain_car.domain(gpope_mountain_car.OFF)
            return Records(domain, 1_000, lambda: mean_return(played(), mountain_car.GAMMA), slow=True)
    treated = functools.partial(hiv.collect, units=FEW_PATIENTS, seed=1)
    return Records(
        gpope_hiv.domain(), 500, lambda: mean_return(treated(hiv.target_policy()), hiv.GAMMA), FEW_PATIENTS, slow=True
    )


DOMAINS = ("chain", "random_mdp", "mountain_car", "hiv")
REGRESSIONS = ("fitted_q", "doubly_robust")


def methods(domain: Records) -> dict[str, Any]:
    """Name -> plan, not calibrated."""
    asked, features = domain.problem, domain.domain.features
    plans: dict[str, Any] = {
        "mean_return": ope.ImportanceSampling(problem=asked),
        "mean_return_lower": ope.ImportanceSampling(problem=asked, sides="lower"),
    }
    if domain.truth is None:
        return plans | {"residual_on_policy": ope.ResidualRegression(problem=asked, features=features, on_policy=True)}
    if not domain.slow:
        plans = {}
    return plans | {
        "pdis_lower": ope.ImportanceSampling(problem=asked, weighting="pdis", sides="lower"),
        "wpdis": ope.ImportanceSampling(problem=asked),
        "fitted_q": ope.FittedQ(problem=asked, features=features),
        "doubly_robust": ope.DoublyRobust(problem=asked, features=features),
    }


def data_sets(domain: Records, method: str, promise: str) -> int:
    if promise not in PROMISES:
        return CONTROLS
    return FEW if domain.slow and method in REGRESSIONS else DATA_SETS


def configuration(key: str) -> Json:
    name, method, promise = key.split("/")
    domain = records(name)
    place = {
        "name": name,
        "spec": domain.domain.spec,
        "problem": domain.problem,
        "features": domain.domain.features,
        "simulator": domain.simulator,
    }
    return {
        "domain": describe(place),
        "units": domain.units,
        "pool": domain.size,
        "data_sets": data_sets(domain, method, promise),
        "policy": type(domain.target(method)).__name__,
        "plan": describe(methods(domain)[method]),
        "records": "of one unit" if promise == "floor" else "all",
        "guarantee": describe({"epsilon": EPSILONS[promise], "delta": DELTA, "unit": unit_of(domain)}),
    }


store = store_of(__file__, configuration, "the library's defaults; see the module's text")


def rows(names: Sequence[str] = ()) -> list[str]:
    chosen = {name: methods(records(name)) for name in names or DOMAINS}
    return [f"{name}/{method}/{promise}" for name, plans in chosen.items() for method in plans for promise in EPSILONS]


def unit_of(domain: Records) -> Unit:
    return Unit("trajectory", "add_or_remove", domain.units)


@functools.lru_cache(maxsize=256)
def calibrated(plan: Any, unit: Unit, epsilon: float) -> Any:
    return plan.calibrate(unit=unit, epsilon=epsilon, delta=DELTA)


def together(keys: Sequence[str]) -> list[list[str]]:
    return grouped(keys, lambda key: key.split("/")[0])


def run_rows(keys: Sequence[str], results: Store) -> None:
    name = keys[0].split("/")[0]
    domain = records(name)
    unit, plans = unit_of(domain), methods(domain)
    pairs = [(method, promise) for _, method, promise in (key.split("/") for key in keys)]
    todo = {pair: data_sets(domain, *pair) for pair in pairs}
    rows: dict[tuple[str, str], list[list[float]]] = {pair: [] for pair in todo}
    pool, on_policy = domain.size, mean_return(domain.pool, domain.problem.gamma)
    for i in range(max(todo.values(), default=0)):
        chosen = np.random.default_rng([7, i]).integers(pool, size=domain.units)
        for floor in (False, True):
            wanted = [pair for pair, count in todo.items() if i < count and (pair[1] == "floor") == floor]
            if not wanted:
                continue
            columns = domain.drawn(chosen[:1] if floor else chosen)
            for method, promise in wanted:  # each with a ledger of its own: one answer does not lead to the next
                data = Trajectories.from_arrays(**columns, spec=domain.domain.spec, simulated=True)  # type: ignore[arg-type]
                plan = calibrated(plans[method], unit, EPSILONS[promise])
                with vaults.vault(data, unit, 1e4, 50 * DELTA) as doors:
                    found = ope.fit(plan, doors, domain.target(method)).value
                row = [found.value, found.interval.low, found.interval.high]  # type: ignore[union-attr]
                rows[method, promise].append([float(f"{number:.6g}") for number in row])
    for (method, promise), numbers in rows.items():
        truth = on_policy if truth_is_own(method) else domain.value
        columns_of = dict(zip(("value", "low", "high"), np.array(numbers).T.tolist(), strict=True))
        results.put(
            f"{name}/{method}/{promise}",
            dataset=f"simulated {name}, {domain.units} of {pool} units drawn with replacement a data set",
            seed=7,
            values={"truth": truth, **columns_of},
        )


def truth_is_own(method: str) -> bool:
    return method.startswith("mean_return") or method == "residual_on_policy"


def covered(values: Mapping[str, Any]) -> tuple[int, int]:
    low, high, truth = np.array(values["low"]), np.array(values["high"]), float(values["truth"])
    return int(((low <= truth) & (truth <= high)).sum()), len(low)


def rmse(values: Mapping[str, Any]) -> float:
    return float(np.sqrt(np.mean((np.array(values["value"]) - values["truth"]) ** 2)))


def figures() -> Figures:
    results = store()
    for name in DOMAINS:
        keys = [key for key in results.rows if key.startswith(f"{name}/")]
        if not keys:
            raise LookupError(f"{results.path.name}: the rows of {name} are missing")
        for key in keys:
            values = results.values(key)
            held, count = covered(values)
            if key.split("/")[2] in PROMISES and count >= DATA_SETS:
                upper = 1.0 if held == count else float(beta.ppf(0.995, held + 1, count - held))
                yield at_least(f"{key}: coverage {held / count:.3f}, upper end of its 99 % interval", upper, LEVEL)
    for key in ("chain/mean_return", "random_mdp/wpdis", "random_mdp/fitted_q", "hiv/mean_return"):
        private, alone = (rmse(results.values(f"{key}/{promise}")) for promise in ("epsilon=1", "floor"))
        yield at_most(f"{key}: RMSE at epsilon 1 over that of noise alone", private / alone, 0.5)


if __name__ == "__main__":
    command_line(__file__)
