"""Rows with one fresh data set a trial."""

from __future__ import annotations

import time

import numpy as np

from experiments.ope_methods import Domain, Method, Setting
from experiments.store import Store

FIRST_SEED = 5_000_000
"""Of data sets, unless an experiment has its own."""
TRIALS, QUICK_TRIALS = 100, 3


def trials_of(quick: bool) -> int:
    """How many data sets a row has."""
    return QUICK_TRIALS if quick else TRIALS


def run(
    domain: Domain,
    name: str,
    method: Method,
    setting: Setting,
    results: Store,
    *,
    first: int = FIRST_SEED,
    quick: bool = False,
) -> None:
    """One row with a trial for every seed, each on data of its own."""
    key, began = setting.key(domain.name, name), time.process_time()
    seeds = range(first, first + trials_of(quick))
    rows = [method.trial(domain, domain.collect(setting.units, seed), setting) for seed in seeds]
    values = {column: [row[column] for row in rows] for column in rows[0]}
    dataset = f"simulated {domain.name}, {setting.units} trajectories a trial, seeds {seeds[0]} to {seeds[-1]}"
    results.put(key, dataset=dataset, seed=seeds[0], values=values)
    means = " ".join(f"{column}={np.mean(values[column]):.3g}" for column in ("mspbe", "rmse"))
    print(f"{key}: {means} ({time.process_time() - began:.0f} CPU s)", flush=True)
