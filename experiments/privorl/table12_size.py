"""Table XII of PrivORL: returns by the number of synthetic transitions.

umaze, IQL, three seeds, epsilon 10: so many rows of the tables of `table1_transitions` and of the real ones, drawn at
random. Sampling costs no privacy.
"""

from collections.abc import Sequence

import numpy as np

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, grouped, store_of
from experiments.lib.statistics import iqm
from experiments.lib.table_cache import Columns
from experiments.privorl.parts import synthesis_returns as returns
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_domains import DOMAINS

DOMAIN, AGENT = "umaze", "iql"
SIZES, SEEDS = (1_000, 3_000, 10_000, 30_000, 100_000), (0, 1, 2)
WAYS = {"raked": 10.0, "real": 0.0}


def configuration(key: str) -> dict[str, Json]:
    cell, _, count = key.rpartition("/")
    return {**returns.configuration(cell), "rows": int(count)}


store = store_of(__file__, configuration, returns.WORDS)


def rows() -> list[str]:
    return [key(way, seed, count) for seed in SEEDS for way in WAYS for count in SIZES]


def together(keys: Sequence[str]) -> list[list[str]]:
    return grouped(keys, lambda key: key.rpartition("/")[0])


def run_rows(keys: Sequence[str], results: Store) -> None:
    _, _, way, _, word, _ = keys[0].split("/")
    here, seed, sizes = DOMAINS[DOMAIN], int(word), [int(key.rpartition("/")[2]) for key in keys]
    table, _ = ways.table(here, way, WAYS[way], seed)
    parts = [part(table, count, seed) for count in sizes]
    for key, count, policy in zip(keys, sizes, returns.train(DOMAIN, AGENT, parts, seed, ways.FULL), strict=True):
        values = {name: float(one[0]) for name, one in here.returns(policy, seed).items()}
        dataset = f"{here.words(seed)}; {count} rows of table {way}"
        results.put(key, dataset=dataset, seed=seed, values=values)


def key(way: str, seed: int, rows: int) -> str:
    return f"{DOMAIN}/{AGENT}/{way}/{WAYS[way]:g}/{seed}/{rows}"


def column(results: Store, way: str, rows: int) -> np.ndarray:
    return np.array([results.values(key(way, seed, rows))["return"] for seed in SEEDS])


def figures() -> Figures:
    most, fewest = (iqm(column(store(), "raked", rows)) for rows in (SIZES[-1], SIZES[0]))
    yield at_least(f"umaze, epsilon 10: return of {SIZES[-1]:,} rows less that of {SIZES[0]:,}", most - fewest, 0.0)


def part(table: Columns, rows: int, seed: int) -> Columns:
    """So many rows of a table, at random, without repetition."""
    chosen = np.random.default_rng(seed).choice(len(table["rewards"]), rows, replace=False)
    return {name: values[chosen] for name, values in table.items()}


if __name__ == "__main__":
    command_line(__file__)
