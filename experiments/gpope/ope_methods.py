"""What the experiments on off-policy evaluation share: domains, settings, and methods by name.

Rows with one fresh data set a trial, and the chart of the methods that have rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from experiments.lib import vaults
from experiments.lib.experiment import Json, Store, describe
from experiments.lib.plots import Curve, Panel
from tacit import off_policy_evaluation as ope
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods.off_policy_evaluation.policies import Target
from tacit.units import Relation, Unit

DELTA = 1e-5
HARDLY_ANY_NOISE = 100.0  # an epsilon that shows what a method errs by itself; no promise
Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Yardstick:
    """What estimates are judged by."""

    observations: np.ndarray  # where V is judged
    truth: np.ndarray  # V there
    # values at `observations` -> mean squared projected Bellman error, or None where it is not known
    mspbe: Callable[[np.ndarray], float] | None = None


@dataclass(frozen=True, eq=False)
class Domain:
    """A simulated domain with known values."""

    name: str  # in the keys of rows
    # spec, problem, features: public
    spec: PublicSpec
    problem: ope.Problem
    features: ope.Features
    policy: Target  # what is evaluated
    collect: Callable[[int, int], Columns]  # (units, seed) -> columns of that many fresh units
    simulator: Mapping[str, Any]  # its settings, for configurations
    judge: Callable[[], Yardstick]  # makes the yardstick, which may take a simulation

    @property
    def on_policy(self) -> bool:
        return isinstance(self.policy, ope.Behaviour)

    @cached_property
    def yardstick(self) -> Yardstick:
        return self.judge()


@dataclass(frozen=True)
class Setting:
    """How much data, and what is promised (epsilon None: nothing)."""

    units: int
    epsilon: float | None = None
    relation: Relation = "add_or_remove"

    def key(self, domain: str, method: str) -> str:
        promise = "" if self.epsilon is None else f"/epsilon={self.epsilon:g}/{self.relation}"
        return f"{domain}/{method}/m={self.units}{promise}"


def named(key: str) -> tuple[str, str, Setting]:
    domain, method, units, *promise = key.split("/")
    m = int(units.removeprefix("m="))
    if not promise:
        return domain, method, Setting(m)
    epsilon, relation = promise
    return domain, method, Setting(m, float(epsilon.removeprefix("epsilon=")), cast(Relation, relation))


def mean(results: Store, domain: str, name: str, setting: Setting, column: str = "rmse") -> float:
    return float(np.mean(results.values(setting.key(domain, name))[column]))


def unit_of(setting: Setting) -> Unit:
    return Unit("trajectory", setting.relation, setting.units)


def asked(place: Domain, setting: Setting, method: Json, trials: int) -> dict[str, Json]:
    """The configuration of a row: the domain, how much data, the method and the guarantee."""
    domain = {
        "name": place.name,
        "spec": place.spec,
        "problem": place.problem,
        "features": place.features,
        "policy": type(place.policy),
        "simulator": place.simulator,
    }
    promise = {"epsilon": setting.epsilon, "delta": DELTA, "unit": unit_of(setting)}
    return {
        "domain": describe(domain),
        "units": setting.units,
        "trials": trials,
        "method": describe(method),
        "guarantee": None if setting.epsilon is None else describe(promise),
    }


Row = dict[str, float]


@dataclass(frozen=True)
class Method:
    """A method of which every trial has its own data set."""

    # the domain, the columns of the trial's own units, the setting -> figures of merit
    trial: Callable[[Domain, Columns, Setting], Row]
    settings: Callable[[Domain], Mapping[str, Any]]  # of the method in a domain, for configurations


def judged(domain: Domain, values: np.ndarray, evaluation: ope.Evaluation | None = None) -> Row:
    """Errors of V [S] at the domain's observations, and the value with its interval where there is one."""
    by = domain.yardstick
    row = {"rmse": float(np.sqrt(np.mean((values - by.truth) ** 2)))}
    if by.mspbe is not None:
        row["mspbe"] = by.mspbe(values)
    if evaluation is not None and evaluation.value is not None and evaluation.interval is not None:
        row |= {"value": evaluation.value, "low": evaluation.interval.low, "high": evaluation.interval.high}
    return {name: float(number) for name, number in row.items()}


def run(plan: Any, domain: Domain, columns: Columns, setting: Setting) -> ope.Evaluation:
    data = Trajectories.from_arrays(**columns, spec=domain.spec, simulated=True)  # type: ignore[arg-type]
    with vaults.vault(data, plan.unit, plan.epsilon, DELTA) as doors:
        return ope.fit(plan, doors, domain.policy).value


def private(make: Callable[[Domain], Any]) -> Method:
    """A method from its plan, which is calibrated once a domain and setting."""

    @lru_cache(maxsize=64)
    def calibrated(domain: Domain, setting: Setting) -> Any:
        return make(domain).calibrate(unit=unit_of(setting), epsilon=setting.epsilon, delta=DELTA)

    def trial(domain: Domain, columns: Columns, setting: Setting) -> Row:
        evaluation = run(calibrated(domain, setting), domain, columns, setting)
        return judged(domain, evaluation.values(domain.yardstick.observations), evaluation)

    return Method(trial, lambda domain: {"plan": make(domain), "records": "all"})


def noise_only(method: Method) -> Method:
    """The same with the records of a single unit: what remains of noise alone."""

    def on_one_unit(domain: Domain, columns: Columns, setting: Setting) -> Row:
        first = columns["unit_ids"] == columns["unit_ids"][0]
        return method.trial(domain, {name: column[first] for name, column in columns.items()}, setting)

    return Method(on_one_unit, lambda domain: {**method.settings(domain), "records": "of one unit"})


def residual(domain: Domain, prior: ope.Smoothness | None = None) -> ope.ResidualRegression:
    return ope.ResidualRegression(
        problem=domain.problem, features=domain.features, on_policy=domain.on_policy, prior=prior
    )


def zero(domain: Domain, columns: Columns, setting: Setting) -> Row:
    return judged(domain, np.zeros(len(domain.yardstick.truth)))


def best_constant(domain: Domain, columns: Columns, setting: Setting) -> Row:
    """The constant of the smallest error: nobody knows it without the truth."""
    truth = domain.yardstick.truth
    return judged(domain, np.full(len(truth), truth.mean()))


PRIVATE: dict[str, Method] = {"residual": private(residual), "residual_noise_only": noise_only(private(residual))}
NOT_PRIVATE: dict[str, Method] = {
    "zero": Method(zero, lambda domain: {"values": "zero"}),
    "best_constant": Method(best_constant, lambda domain: {"values": "best constant"}),
}


FIRST_SEED = 5_000_000  # of data sets, unless an experiment has its own
TRIALS = 100


@dataclass(frozen=True)
class Fresh:
    """The rows of one domain, with a trial for every seed, each on data of its own."""

    domain: Callable[[], Domain]  # where
    methods: Mapping[str, Method]  # by name
    first: Callable[[Setting], int] = lambda setting: FIRST_SEED  # of a row's seeds

    def configuration(self, key: str) -> Json:
        _, name, setting = named(key)
        return asked(self.domain(), setting, self.methods[name].settings(self.domain()), TRIALS)

    def run_row(self, key: str, results: Store) -> None:
        _, name, setting = named(key)
        domain, method = self.domain(), self.methods[name]
        seeds = range(self.first(setting), self.first(setting) + TRIALS)
        rows = [method.trial(domain, domain.collect(setting.units, seed), setting) for seed in seeds]
        values = {column: [row[column] for row in rows] for column in rows[0]}
        dataset = f"simulated {domain.name}, {setting.units} trajectories a trial, seeds {seeds[0]} to {seeds[-1]}"
        results.put(key, dataset=dataset, seed=seeds[0], values=values)


NAMES = {  # how the methods are called in the pictures, in the order of the colours
    "residual": "residual regression",
    "gpope": "GPOPE, best step",
    "dp_lstd": "DP-LSTD, best clip",
    "dp_lstd_centred": "DP-LSTD about the start",
    "dp_lsw": "DP-LSW",
    "dp_lsl": "DP-LSL, best ridge",
    "best_constant": "best constant",
    "zero": "zero",
}


def over_units(
    stores: Sequence[Store], domain: str, epsilon: float, units: Sequence[int], *, column: str, title: str
) -> Panel:
    """The mean of a column by number of units (add or remove); of a method with a grid, the least of the grid."""
    curves = []
    for name, shown in NAMES.items():
        flat = name in ("zero", "best_constant")
        settings = [Setting(m) if flat else Setting(m, epsilon) for m in units]
        holders = [one for one in stores if one.has(settings[0].key(domain, name))]
        if holders:
            cells = [holders[-1].values(setting.key(domain, name)) for setting in settings]
            means = [cell.get(f"{column}_mean", [float(np.mean(cell[column]))]) for cell in cells]
            best = [min(value for value in mean if value is not None) for mean in means]
            curves.append(Curve(shown, units, best, flat=flat))
    return Panel(f"{title}, epsilon {epsilon:g}", "trajectories", curves)
