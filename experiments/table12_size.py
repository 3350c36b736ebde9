"""Table XII of PrivORL: returns by the number of synthetic transitions.

    python -m experiments.table12_size              # resumable
    python -m experiments.table12_size --quick      # one small seed; under runs/quick/
    python -m experiments.check table12_size
    python -m experiments.synthesis_pages table12_size

umaze, IQL, three seeds, epsilon 10: so many rows of the tables of `table1_transitions` and of the real ones, drawn at
random. Sampling costs no privacy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import torch

from experiments import synthesis_fits as fits
from experiments import synthesis_returns as returns
from experiments import synthesis_ways as ways
from experiments.check import Figure
from experiments.store import Store
from experiments.synthesis_cache import Columns
from experiments.synthesis_domains import DOMAINS
from tacit.measure.statistics import iqm

NAME, DOMAIN, AGENT = "table12_size", "umaze", "iql"
SIZES, SEEDS = (1_000, 3_000, 10_000, 30_000, 100_000), (0, 1, 2)
WAYS = {"raked": 10.0, "real": 0.0}


def store(*, quick: bool = False) -> Store:
    """The result file."""
    return returns.store(NAME, quick=quick)


def key(way: str, seed: int, rows: int) -> str:
    """Of a cell."""
    return f"{DOMAIN}/{AGENT}/{way}/{WAYS[way]:g}/{seed}/{rows}"


def column(results: Store, way: str, rows: int) -> np.ndarray:
    """Returns over seeds.

    Raises:
        LookupError: a cell is missing or stale.
    """
    return np.array([results.fresh(key(way, seed, rows))["return"] for seed in SEEDS])


def figures() -> list[Figure]:
    """Recomputed from the raw rows."""
    most, fewest = (iqm(column(store(), "raked", rows)) for rows in (SIZES[-1], SIZES[0]))
    return [Figure(f"umaze, epsilon 10: return of {SIZES[-1]:,} rows less that of {SIZES[0]:,}", most - fewest, 0.0)]


def part(table: Columns, rows: int, seed: int) -> Columns:
    """So many rows of a table, at random, without repetition."""
    chosen = np.random.default_rng(seed).choice(len(table["rewards"]), rows, replace=False)
    return {name: values[chosen] for name, values in table.items()}


def main(arguments: Sequence[str]) -> None:
    """Run what is missing or stale: all sizes of one way and seed in one stack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(arguments).quick
    torch.set_num_threads(1)
    scale, results, here = fits.QUICK if quick else fits.FULL, store(quick=quick), DOMAINS[DOMAIN]
    for seed in SEEDS[:1] if quick else SEEDS:
        for way, epsilon in WAYS.items():
            missing = [rows for rows in SIZES if rows <= scale.rows and not results.has(key(way, seed, rows))]
            if missing:
                table, _ = ways.table(here, way, epsilon, seed, scale)
                parts = [part(table, rows, seed) for rows in missing]
                for rows, policy in zip(missing, returns.train(DOMAIN, AGENT, parts, seed, scale), strict=True):
                    values = {name: float(one[0]) for name, one in here.returns(policy, seed).items()}
                    dataset = f"{here.words(seed)}; {rows} rows of table {way}"
                    results.put(key(way, seed, rows), dataset=dataset, seed=seed, values=values)
                    print(f"{key(way, seed, rows)}: return {values['return']:.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
