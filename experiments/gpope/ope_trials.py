"""Rows with one fresh data set a trial, and the chart of the methods that have rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.gpope.ope_methods import Domain, Method, Setting, asked, named
from experiments.lib.experiment import Json, Store
from experiments.lib.plots import Curve, Panel

FIRST_SEED = 5_000_000
"""Of data sets, unless an experiment has its own."""
TRIALS, QUICK_TRIALS = 100, 3


def trials_of(quick: bool) -> int:
    """How many data sets a row has."""
    return QUICK_TRIALS if quick else TRIALS


@dataclass(frozen=True)
class Fresh:
    """The rows of one domain, with a trial for every seed, each on data of its own.

    Args:
        domain: where.
        methods: by name.
        first: of a row's seeds.
    """

    domain: Callable[[], Domain]
    methods: Mapping[str, Method]
    first: Callable[[Setting], int] = lambda setting: FIRST_SEED

    def configuration(self, key: str, quick: bool = False) -> Json:
        _, name, setting = named(key)
        return asked(self.domain(), setting, self.methods[name].settings(self.domain()), trials_of(quick))

    def run_row(self, key: str, results: Store, *, quick: bool = False) -> None:
        _, name, setting = named(key)
        domain, method = self.domain(), self.methods[name]
        seeds = range(self.first(setting), self.first(setting) + trials_of(quick))
        rows = [method.trial(domain, domain.collect(setting.units, seed), setting) for seed in seeds]
        values = {column: [row[column] for row in rows] for column in rows[0]}
        dataset = f"simulated {domain.name}, {setting.units} trajectories a trial, seeds {seeds[0]} to {seeds[-1]}"
        results.put(key, dataset=dataset, seed=seeds[0], values=values)


NAMES = {
    "residual": "residual regression",
    "gpope": "GPOPE, best step",
    "dp_lstd": "DP-LSTD, best clip",
    "dp_lstd_centred": "DP-LSTD about the start",
    "dp_lsw": "DP-LSW",
    "dp_lsl": "DP-LSL, best ridge",
    "best_constant": "best constant",
    "zero": "zero",
}
"""How the methods are called in the pictures, in the order of the colours."""


def over_units(
    stores: Sequence[Store], domain: str, epsilon: float, units: Sequence[int], *, column: str, title: str
) -> Panel:
    """The mean of a column over the number of units, for every method of `NAMES` that has rows (add or remove).

    Of a method with a grid it is the best value of the grid for this very column.
    """
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
