"""Figure 8 of PrivORL: what the length of the fragments does to trajectories and to the agents that learn from them.

    python -m experiments.figure8_horizon             # resumable
    python -m experiments.figure8_horizon --quick     # one small seed; under runs/quick/
    python -m experiments.check figure8_horizon
    python -m experiments.synthesis_pages figure8_horizon

umaze, 10,000 people, epsilon 10, tacit-j with fragments of 8 (its own choice), 16, 32 and 64 rows, three seeds: all
measures of `table13_trajscore`, and the return of IQL. Those of its own choice are the cells of tables 2 and 13.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import torch

from experiments import synthesis_fits as fits
from experiments import table2_trajectories as table2
from experiments import table13_trajscore as closeness
from experiments import trajectory_ways as ways
from experiments.check import Figure
from experiments.store import Store
from experiments.synthesis_returns import folder
from experiments.table2_trajectories import OWN, SEEDS, WORDS
from experiments.trajectory_domains import DOMAINS

NAME, DOMAIN, AGENT, EPSILON = "figure8_horizon", "umaze", "iql", 10.0
HORIZONS = {8: OWN, 16: "tacit_j_16", 32: "tacit_j_32", 64: "tacit_j_64"}
"""Rows of a fragment -> way."""


def sources(key: str) -> tuple[str, ...]:
    """Globs of the code that a cell depends on."""
    return (*closeness.sources(key), *DOMAINS[DOMAIN].judges(AGENT))


def store(*, quick: bool = False) -> Store:
    """The result file."""
    return Store(folder(quick=quick) / f"{NAME}.json", sources, hyperparameters=WORDS)


def column(results: Store, horizon: int, name: str) -> np.ndarray:
    """One measure over seeds.

    Raises:
        LookupError: a cell is missing or stale.
    """
    way = HORIZONS[horizon]
    if way == OWN and name == "return":
        return table2.returns(table2.store(), DOMAIN, AGENT, OWN, EPSILON)
    if way == OWN:
        return closeness.column(closeness.store(), DOMAIN, OWN, EPSILON, name)
    keys = [ways.key(DOMAIN, way, EPSILON, seed) for seed in SEEDS]
    return np.array([results.fresh(key)[name] for key in keys])


def figures() -> list[Figure]:
    """Recomputed from the raw rows."""
    results = store()
    means = {horizon: column(results, horizon, "f1").mean() for horizon in HORIZONS}
    own = next(horizon for horizon, way in HORIZONS.items() if way == OWN)
    words = f"umaze, epsilon 10: TrajScore F1 with fragments of {own} rows less that with the worst horizon"
    return [Figure(words, means[own] - min(means.values()), 0.0)]


def main(arguments: Sequence[str]) -> None:
    """Run what is missing or stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(arguments).quick
    torch.set_num_threads(1)
    scale, results, here = fits.QUICK if quick else fits.FULL, store(quick=quick), DOMAINS[DOMAIN]
    for seed in SEEDS[:1] if quick else SEEDS:
        others = [way for way in HORIZONS.values() if way != OWN]
        missing = [way for way in others if not results.has(ways.key(DOMAIN, way, EPSILON, seed))]
        made = [ways.table(here, way, EPSILON, seed, scale).columns for way in missing]
        judged = here.judged(AGENT, made, seed, scale) if missing else []
        for way, value in zip(missing, judged, strict=True):
            values = closeness.measured(here, way, EPSILON, seed, scale) | {"return": value}
            key, dataset = ways.key(DOMAIN, way, EPSILON, seed), f"simulated {DOMAIN}, {here.population} people"
            results.put(key, dataset=f"{dataset}, seed {seed}; table {way}", seed=seed, values=values)
            print(f"{key}: F1 {values['f1']:.3f}, return {value:.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
