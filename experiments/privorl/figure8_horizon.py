"""Figure 8 of PrivORL: what the length of the fragments does to trajectories and to the agents that learn from them.

umaze, 10,000 people, epsilon 10, tacit-j with fragments of 8 (its own choice), 16, 32 and 64 rows, three seeds: all
measures of `table13_trajscore`, and the return of IQL. Those of its own choice are the cells of tables 2 and 13.
"""

from collections.abc import Sequence

import numpy as np

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, grouped, store_of
from experiments.privorl import table2_trajectories as table2
from experiments.privorl import table13_trajscore as closeness
from experiments.privorl.parts import trajectory_ways as ways
from experiments.privorl.parts.synthesis_ways import FULL, Scale
from experiments.privorl.parts.trajectory_domains import DOMAINS
from experiments.privorl.table2_trajectories import OWN, SEEDS, WORDS

DOMAIN, AGENT, EPSILON = "umaze", "iql", 10.0
HORIZONS = {8: OWN, 16: "tacit_j_16", 32: "tacit_j_32", 64: "tacit_j_64"}  # rows of a fragment -> way


def rows() -> list[str]:
    others = [way for way in HORIZONS.values() if way != OWN]
    return [ways.key(DOMAIN, way, EPSILON, seed) for seed in SEEDS for way in others]


def configuration(key: str, *, scale: Scale = FULL) -> dict[str, Json]:
    return closeness.configuration(key, scale=scale) | DOMAINS[DOMAIN].judge(AGENT, scale)


store = store_of(__file__, configuration, WORDS)


def together(keys: Sequence[str]) -> list[list[str]]:
    return grouped(keys, lambda key: key.rpartition("/")[2])


def run_rows(keys: Sequence[str], results: Store) -> None:
    here, seed, some = DOMAINS[DOMAIN], int(keys[0].split("/")[3]), [key.split("/")[1] for key in keys]
    made = [ways.table(here, way, EPSILON, seed).columns for way in some]
    for key, way, value in zip(keys, some, here.judged(AGENT, made, seed, FULL), strict=True):
        values = closeness.measured(here, way, EPSILON, seed, FULL) | {"return": value}
        dataset = f"simulated {DOMAIN}, {here.population} people, seed {seed}; table {way}"
        results.put(key, dataset=dataset, seed=seed, values=values)


def column(results: Store, horizon: int, name: str) -> np.ndarray:
    way = HORIZONS[horizon]
    if way == OWN and name == "return":
        return table2.returns(table2.store(), DOMAIN, AGENT, OWN, EPSILON)
    if way == OWN:
        return closeness.column(closeness.store(), DOMAIN, OWN, EPSILON, name)
    keys = [ways.key(DOMAIN, way, EPSILON, seed) for seed in SEEDS]
    return np.array([results.values(key)[name] for key in keys])


def figures() -> Figures:
    results = store()
    means = {horizon: column(results, horizon, "f1").mean() for horizon in HORIZONS}
    own = next(horizon for horizon, way in HORIZONS.items() if way == OWN)
    words = f"umaze, epsilon 10: TrajScore F1 with fragments of {own} rows less that with the worst horizon"
    yield at_least(words, means[own] - min(means.values()), 0.0)


if __name__ == "__main__":
    command_line(__file__)
