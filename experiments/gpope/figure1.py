"""A cell of GPOPE's figures of errors with an estimator of your own.

    python -m experiments.gpope.figure1 --domain chain --estimator mine:fit --epsilon 1

`fit(task)` returns V [S], the value of the evaluated policy at each of `task.states`. Judged are its root mean square
error against the truth and, on the chain, its Bellman error (MSPBE); smaller is better. A seed is a fresh data set
of simulated trajectories. Domains: the 40-state chain and mountain car on-policy (Figures 1 to 3), HIV treatment
off-policy (Figure 4). The paper has pictures alone, no numbers.
"""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.gpope import gpope_chain, gpope_chain_baselines, gpope_hiv, gpope_mountain_car, ope_methods
from experiments.gpope.ope_methods import DELTA, Columns, Domain, Setting, judged, unit_of
from experiments.gpope.ope_pages import METHODS, NOT_PRIVATE
from experiments.lib import cell, vaults
from tacit.data.trajectories import Trajectories
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

DOMAINS: dict[str, tuple[Any, tuple[Any, ...]]] = {  # how each is made, and whose rows are about it
    "chain": (gpope_chain.domain, (gpope_chain, gpope_chain_baselines)),
    "mountain_car_on": (lambda: gpope_mountain_car.domain(gpope_mountain_car.ON), (gpope_mountain_car,)),
    "mountain_car_off": (lambda: gpope_mountain_car.domain(gpope_mountain_car.OFF), (gpope_mountain_car,)),
    "hiv": (gpope_hiv.domain, (gpope_hiv,)),
}


@dataclass(frozen=True)
class Task:
    """What an estimator gets."""

    # public: `spec`, `problem` (gamma, horizon, the range of returns), `features`, and `policy`, which is evaluated
    # (`ope.Behaviour()`: the one that made the records)
    domain: Domain
    setting: Setting  # how many trajectories, what to promise, and the neighbouring relation
    seed: int  # of the data set
    delta: float = DELTA

    @cached_property
    def rows(self) -> Columns:
        return self.domain.collect(self.setting.units, self.seed)

    @property
    def states(self) -> np.ndarray:
        """Where values are judged: [S] states by number, or [S, d]."""
        return self.domain.yardstick.observations

    @property
    def epsilon(self) -> float:
        """What it is to promise."""
        return self.setting.epsilon

    @property
    def unit(self) -> Unit:
        return unit_of(self.setting)

    def vault(self, plan: Any) -> AbstractContextManager[Vault]:
        """The private rows in a vault that can pay for this calibrated plan: what it promises is then accounted."""
        data = Trajectories.from_arrays(**self.rows, spec=self.domain.spec, simulated=True)  # type: ignore[arg-type]
        return vaults.vault(data, plan.unit, plan.epsilon, DELTA)


def judge(task: Task, made: Any) -> cell.Values:
    """Errors of the values."""
    values = np.asarray(made, np.float64)
    if values.shape != (len(task.states),) or not np.isfinite(values).all():
        raise cell.refuse(f"an array {values.shape}", f"a finite value for each of the {len(task.states)} task.states")
    return judged(task.domain, values)


def others(name: str, setting: Setting, measures: Sequence[str]) -> list[cell.Line]:
    """Every method that has rows in this cell; of one with a grid the best of it, which nobody could know."""
    found: dict[str, cell.Line] = {}
    for module in DOMAINS[name][1]:
        results = module.store()
        for method, words in METHODS.items():
            key = (Setting(setting.units) if method in NOT_PRIVATE else setting).key(name, method)
            if words not in found and results.has(key):
                values = results.values(key)
                means = {one: f"{float(np.mean(values[one])):.3g}" for one in measures if one in values}
                trials = len(values["rmse"])
                found[words] = cell.Line(words, means, f"mean of {trials} data sets, `{results.path.stem}`")
    return [*found.values(), cell.Line("the paper", {}, cell.SILENT)]


def main(arguments: Sequence[str]) -> dict[str, list[float]]:
    options = cell.parser(__doc__, "estimator")
    options.add_argument("--domain", choices=DOMAINS, default="chain")
    options.add_argument("--trajectories", type=int, default=1_000)
    options.add_argument("--relation", choices=gpope_chain.RELATIONS, default="add_or_remove")
    chosen = options.parse_args(arguments)
    setting = Setting(100 if chosen.quick else chosen.trajectories, chosen.epsilon, chosen.relation)
    domain = DOMAINS[chosen.domain][0]()
    measures = ("rmse", "mspbe") if chosen.domain == "chain" else ("rmse",)
    return cell.run(
        cell.Cell(
            title=f"GPOPE, {chosen.domain}: {setting.units:,} trajectories, epsilon {chosen.epsilon:g}, "
            f"delta {DELTA:g}, one trajectory ({chosen.relation})",
            measures=measures,
            task=lambda seed: Task(domain, setting, seed),
            judge=judge,
            seeds=range(ope_methods.FIRST_SEED, ope_methods.FIRST_SEED + ope_methods.TRIALS),
            others=others(chosen.domain, setting, measures),
            minutes=0.1 if chosen.domain == "chain" else None,
            digits=6,
        ),
        chosen,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
