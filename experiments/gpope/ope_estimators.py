"""Error and coverage of every private estimator of a policy's value, against known values.

| domain | records | evaluated | units a data set |
|---|---|---|---|
| chain | 160 steps at most, two actions without effect | the policy that made the records | 1,000 |
| random_mdp | 40 steps, 20 states, 3 actions | a policy that goes further right | 1,000 |
| mountain_car | 300 steps at most, an epsilon-soft Q-learned policy | the records' own, and the uniform one | 1,000 |
| hiv | 200 steps of five days, a softmax policy | the records' own, and a greedier one | 500 |

Simulation would dominate, so every data set is drawn with replacement from one pool of simulated units (20,000; 4,000
for hiv). On-policy the truth is therefore the pool's own mean, exactly; off-policy it is exact (random_mdp) or the mean
of as many fresh episodes of the evaluated policy. Values are discounted returns over the horizon, as the intervals are.
Every data set has a vault and a ledger of its own; all methods run through the doors of the same vault, at epsilon 1
and 0.1 and delta 1e-5 (add-or-remove).

A row holds the raw numbers of one method, domain and promise: 500 data sets for every kind of interval; 10 for the
regressions on mountain_car and hiv, whose interval is that of the scores too and which are slow there (their coverage
is no figure). `floor` is the method on records of a single unit, at epsilon 1: noise alone. `ceiling` is the method at
epsilon 100: almost no noise, the same clips. Nominal coverage is 95 %. Residual return regression is here on-policy;
off-policy see `ope_random_mdp`, whose rows hold its values and intervals too.

Hyper-parameters are the defaults, which were chosen on random_mdp, and looked at on mountain_car and hiv, with other
seeds of the records.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from experiments.gpope import mountain_car, random_mdp
from experiments.gpope.ope_random_mdp import PROCESS
from experiments.lib.check import Figure
from experiments.lib.configuration import Json, calls, describe
from experiments.lib.queue import command_line, grouped
from experiments.lib.store import Store, store_of
from tacit import off_policy_evaluation as ope
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import chain, hiv

DELTA, LEVEL = 1e-5, 0.95
PROMISES = {"epsilon=1": 1.0, "epsilon=0.1": 0.1}
EPSILONS = {**PROMISES, "ceiling": 100.0, "floor": 1.0}
DATA_SETS, FEW, CONTROLS, QUICK = 500, 10, 10, 2
POOL, FEW_PATIENTS = 20_000, 4_000
Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Domain:
    """A simulated domain.

    Args:
        spec, problem, features: public.
        units: of one data set.
        size: of the pool that data sets are drawn from, in units.
        collect: the number of units -> columns of so many under the behaviour policy, in order of units.
        target: the evaluated policy where it is another one, and what gives its value, which may simulate; or None.
        simulator: its settings, for configurations.
        slow: whether the regressions run on few data sets.
    """

    spec: PublicSpec
    problem: ope.Problem
    features: ope.Features
    units: int
    size: int
    collect: Callable[[int], Columns]
    target: tuple[ope.DiscretePolicy, Callable[[], float]] | None = None
    simulator: Mapping[str, Any] = field(default_factory=dict)
    slow: bool = False

    @functools.cached_property
    def pool(self) -> Columns:
        """The pool, simulated once."""
        return self.collect(self.size)

    @functools.cached_property
    def value(self) -> float:
        """The evaluated policy's, or the pool's own."""
        return mean_return(self.pool, self.problem.gamma) if self.target is None else self.target[1]()

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        """Where the pool's units begin, and its end."""
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


@dataclass(frozen=True)
class Linear:
    """A simulator's policy as one that can be evaluated: public, and fixed without the records."""

    name: str

    @property
    def actions(self) -> int:
        """Four treatments."""
        return hiv.ACTIONS

    def probabilities(self, observations: np.ndarray) -> np.ndarray:
        """Of the HIV target."""
        return np.asarray(hiv.target_policy()(observations), np.float64)


def mean_return(columns: Columns, gamma: float) -> float:
    """The mean discounted return of episodes, one a unit."""
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
def make_chain() -> Domain:
    """On-policy, a public range of [0, 1]."""

    def collect(units: int) -> Columns:
        return chain.collect(lambda states: np.full((len(states), 2), 0.5), units, seed=0)

    problem = ope.Problem(gamma=chain.GAMMA, horizon=chain.HORIZON, return_range=(0.0, 1.0))
    simulator = {"states": chain.STATES, "behaviour": "uniform"}
    return Domain(chain.spec(), problem, ope.OneHot(chain.STATES - 1), 1_000, POOL, collect, simulator=simulator)


@functools.cache
def make_random_mdp() -> Domain:
    """Off-policy; nothing terminates."""
    mdp = random_mdp.random_mdp(PROCESS)
    problem = ope.Problem(gamma=random_mdp.GAMMA, horizon=random_mdp.HORIZON)

    def collect(units: int) -> Columns:
        return random_mdp.collect(mdp, random_mdp.tabular(mdp.behaviour), units, seed=0)

    def value() -> float:
        return within_horizon(mdp, problem.gamma, problem.horizon)

    simulator = {"process": PROCESS, "states": random_mdp.STATES, "reach": random_mdp.REACH}
    features, target = ope.OneHot(random_mdp.STATES), ope.Tabular(mdp.target)
    return Domain(random_mdp.spec(), problem, features, 1_000, POOL, collect, (target, value), simulator)


@functools.cache
def make_mountain_car() -> Domain:
    """On- and off-policy; negative rewards."""
    problem = ope.Problem(gamma=mountain_car.GAMMA, horizon=mountain_car.HORIZON)
    uniform = ope.Uniform(mountain_car.ACTIONS)

    def collect(units: int) -> Columns:
        return mountain_car.collect(mountain_car.behaviour(), units, seed=0)

    def value() -> float:
        return mean_return(mountain_car.collect(uniform.probabilities, POOL, seed=1), problem.gamma)

    learned = calls(mountain_car, "learned_q", "learn")
    behaviour = {"exploration": mountain_car.EXPLORATION, "learned": learned}
    simulator = {"goal": mountain_car.GOAL, "behaviour": behaviour}
    features = ope.Fourier(5, mountain_car.LOW, mountain_car.HIGH)
    spec = mountain_car.spec()
    return Domain(spec, problem, features, 1_000, POOL, collect, (uniform, value), simulator, slow=True)


@functools.cache
def make_hiv() -> Domain:
    """On- and off-policy; rewards of both signs and heavy-tailed returns."""
    problem = ope.Problem(gamma=hiv.GAMMA, horizon=hiv.HORIZON)

    def collect(units: int) -> Columns:
        return hiv.collect(hiv.behaviour_policy(), units, seed=0)

    def value() -> float:
        return mean_return(hiv.collect(hiv.target_policy(), FEW_PATIENTS, seed=1), problem.gamma)

    simulator = {
        "dynamics": hiv.Hiv(),
        "drugs": hiv.DRUGS,
        "start": {"state": hiv.STEADY_STATE, "spread": hiv.SPREAD},
        "substep": hiv.SUBSTEP,
        "learned": calls(hiv, "learned_q", "uniform_policy", "collect", "fit", "epsilon_greedy"),
        "target": {"greedy": hiv.GREEDY_SHARE},
    }
    features, target = ope.Fourier(5, hiv.FEATURE_LOW, hiv.FEATURE_HIGH, coupled=False), Linear("target")
    return Domain(hiv.spec(), problem, features, 500, FEW_PATIENTS, collect, (target, value), simulator, slow=True)


DOMAINS: dict[str, Callable[[], Domain]] = {
    "chain": make_chain,
    "random_mdp": make_random_mdp,
    "mountain_car": make_mountain_car,
    "hiv": make_hiv,
}
REGRESSIONS = ("fitted_q", "doubly_robust")


def methods(domain: Domain) -> dict[str, Any]:
    """Name -> plan, not calibrated."""
    asked, features = domain.problem, domain.features
    plans: dict[str, Any] = {
        "mean_return": ope.ImportanceSampling(problem=asked),
        "mean_return_lower": ope.ImportanceSampling(problem=asked, sides="lower"),
    }
    if domain.target is None:
        return plans | {
            "residual_on_policy": ope.ResidualRegression(problem=asked, features=features, on_policy=True),
        }
    if not domain.slow:
        plans = {}
    return plans | {
        "pdis_lower": ope.ImportanceSampling(problem=asked, weighting="pdis", sides="lower"),
        "wpdis": ope.ImportanceSampling(problem=asked),
        "fitted_q": ope.FittedQ(problem=asked, features=features),
        "doubly_robust": ope.DoublyRobust(problem=asked, features=features),
    }


def data_sets(domain: Domain, method: str, promise: str, quick: bool) -> int:
    """How many data sets the row has."""
    if quick:
        return QUICK
    if promise not in PROMISES:
        return CONTROLS
    return FEW if domain.slow and method in REGRESSIONS else DATA_SETS


def configuration(key: str, quick: bool = False) -> Json:
    name, method, promise = key.split("/")
    domain = DOMAINS[name]()
    place = {
        "name": name,
        "spec": domain.spec,
        "problem": domain.problem,
        "features": domain.features,
        "simulator": domain.simulator,
    }
    policy = ope.Behaviour() if truth_is_own(method) or domain.target is None else domain.target[0]
    return {
        "domain": describe(place),
        "units": domain.units,
        "pool": domain.size,
        "data_sets": data_sets(domain, method, promise, quick),
        "policy": type(policy).__name__,
        "plan": describe(methods(domain)[method]),
        "records": "of one unit" if promise == "floor" else "all",
        "guarantee": describe({"epsilon": EPSILONS[promise], "delta": DELTA, "unit": unit_of(domain)}),
    }


store = store_of(__file__, configuration, "the library's defaults; see the module's text")


def rows(names: Sequence[str] = ()) -> list[str]:
    chosen = {name: methods(DOMAINS[name]()) for name in names or DOMAINS}
    return [f"{name}/{method}/{promise}" for name, plans in chosen.items() for method in plans for promise in EPSILONS]


def unit_of(domain: Domain) -> Unit:
    """One trajectory."""
    return Unit("trajectory", "add_or_remove", domain.units)


@functools.lru_cache(maxsize=256)
def calibrated(plan: Any, unit: Unit, epsilon: float) -> Any:
    """The plan for this promise, calibrated once."""
    return plan.calibrate(unit=unit, epsilon=epsilon, delta=DELTA)


def together(keys: Sequence[str]) -> list[list[str]]:
    """Rows of a domain, on the same data sets."""
    return grouped(keys, lambda key: key.split("/")[0])


def run_rows(keys: Sequence[str], results: Store) -> None:
    """Rows that are made together, at full size."""
    run(keys[0].split("/")[0], keys, results)


def run_row(key: str, results: Store) -> None:
    run(key.split("/")[0], [key], results)


def run(name: str, keys: Sequence[str], results: Store, *, quick: bool = False) -> None:
    """Make these rows of a domain, all on the same data sets."""
    began, domain = time.process_time(), DOMAINS[name]()
    unit, plans = unit_of(domain), methods(domain)
    pairs = [(method, promise) for _, method, promise in (key.split("/") for key in keys)]
    todo = {pair: data_sets(domain, *pair, quick) for pair in pairs}
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
                data = Trajectories.from_arrays(**columns, spec=domain.spec, simulated=True)  # type: ignore[arg-type]
                plan = calibrated(plans[method], unit, EPSILONS[promise])
                target = ope.Behaviour() if truth_is_own(method) or domain.target is None else domain.target[0]
                with (
                    tempfile.TemporaryDirectory() as folder,
                    Ledger(Path(folder) / "ope.ledger", unit, epsilon=1e4, delta=50 * DELTA, composition=SUM) as ledger,
                ):
                    found = ope.fit(plan, Vault(data, ledger), target).value
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
    print(f"{name}: {time.process_time() - began:.0f} CPU s", flush=True)


def truth_is_own(method: str) -> bool:
    """Whether the records' own policy is evaluated."""
    return method.startswith("mean_return") or method == "residual_on_policy"


def covered(values: Mapping[str, Any]) -> tuple[int, int]:
    """In how many of how many data sets the interval held the truth."""
    low, high, truth = np.array(values["low"]), np.array(values["high"]), float(values["truth"])
    return int(((low <= truth) & (truth <= high)).sum()), len(low)


def rmse(values: Mapping[str, Any]) -> float:
    """Root mean squared error of the value."""
    return float(np.sqrt(np.mean((np.array(values["value"]) - values["truth"]) ** 2)))


def figures() -> list[Figure]:
    results, out = store(), []
    for name in DOMAINS:
        keys = [key for key in results.rows if key.startswith(f"{name}/")]
        if not keys:
            raise LookupError(f"{results.path.name}: the rows of {name} are missing")
        for key in keys:
            values = results.values(key)
            held, count = covered(values)
            if key.split("/")[2] in PROMISES and count >= DATA_SETS:
                upper = 1.0 if held == count else float(beta.ppf(0.995, held + 1, count - held))
                out.append(Figure(f"{key}: coverage {held / count:.3f}, upper end of its 99 % interval", upper, LEVEL))
    for key in (
        "chain/mean_return",
        "random_mdp/wpdis",
        "random_mdp/fitted_q",
        "hiv/mean_return",
    ):
        private, alone = (rmse(results.values(f"{key}/{promise}")) for promise in ("epsilon=1", "floor"))
        out.append(Figure(f"{key}: RMSE at epsilon 1 over that of noise alone", private / alone, 0.5, at_least=False))
    return out


def table(results: Store) -> str:
    """Markdown: RMSE, coverage and median interval of every row."""
    lines = [
        "| row | truth | RMSE | coverage | median interval | RMSE of the ceiling | of the floor |",
        "|---" * 7 + "|",
    ]
    for name in DOMAINS:
        for key in sorted(key for key in results.rows if key.startswith(f"{name}/") and key.split("/")[2] in PROMISES):
            values, (held, count) = results.values(key), covered(results.values(key))
            low, high = (np.median(values[end]) for end in ("low", "high"))
            others = [rmse(results.values(f"{key.rsplit('/', 1)[0]}/{other}")) for other in ("ceiling", "floor")]
            cells = (
                key,
                f"{values['truth']:.4g}",
                f"{rmse(values):.3g}",
                f"{held / count:.3f} of {count}",
                f"{low:.4g} to {high:.4g}",
                *(f"{other:.3g}" for other in others),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    command_line(__file__)
