"""Figure 9 of PrivORL: learning curves of agents on the real rows and on synthetic ones.

medium, TD3+BC, three seeds: the return after every tenth of the training. Curves are looked at, no policy is picked.
"""

from collections.abc import Sequence

import numpy as np

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, grouped, store_of
from experiments.lib.statistics import iqm
from experiments.privorl.parts import synthesis_returns as returns
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_domains import DOMAINS
from tacit_worlds.agents.offline import OfflinePolicies, Watch

DOMAIN, AGENT, LOOKS = "medium", "td3_bc", 10
SEEDS, TABLES = (0, 1, 2), (("real", 0.0), ("raked", 10.0), ("raked", 1.0))


def configuration(key: str) -> dict[str, Json]:
    return {**returns.configuration(key), "looks": LOOKS}


store = store_of(__file__, configuration, returns.WORDS)


def rows() -> list[str]:
    return [cell.key for seed in SEEDS for one in TABLES for cell in row(*one) if cell.seed == seed]


def together(keys: Sequence[str]) -> list[list[str]]:
    return grouped(keys, lambda key: returns.Cell.of(key).seed)


def run_rows(keys: Sequence[str], results: Store) -> None:
    cells = [returns.Cell.of(key) for key in keys]
    here, seed = DOMAINS[DOMAIN], cells[0].seed
    seen: list[list[float]] = [[] for _ in cells]

    def look(step: int, policies: list[OfflinePolicies]) -> None:
        for found, policy in zip(seen, policies, strict=True):
            found.append(float(here.returns(policy, seed)["return"][0]))

    tables = [ways.table(here, cell.way, cell.epsilon, seed)[0] for cell in cells]
    steps = returns.config(DOMAIN, AGENT, ways.FULL).steps
    returns.train(DOMAIN, AGENT, tables, seed, ways.FULL, watch=Watch(every=steps // LOOKS, call=look))
    for cell, found in zip(cells, seen, strict=True):
        dataset = f"{here.words(seed)}; table {cell.way}"
        results.put(cell.key, dataset=dataset, seed=seed, values={"steps": steps, "returns": found})


def row(way: str, epsilon: float) -> list[returns.Cell]:
    return returns.cells(DOMAIN, (AGENT,), (way,), (epsilon,), SEEDS)


def curves(results: Store, way: str, epsilon: float) -> np.ndarray:
    """Returns [seeds, looks]."""
    return np.array([results.values(cell.key)["returns"] for cell in row(way, epsilon)])


def figures() -> Figures:
    later = {one: curves(store(), *one)[:, LOOKS // 2 :].mean(axis=1) for one in TABLES}
    real = iqm(later[TABLES[0]])
    for one, v in later.items():
        if one != TABLES[0]:
            yield at_least(
                f"medium, epsilon {one[1]:g}: mean return of the second half, over the real rows'", iqm(v) / real, 0.6
            )


if __name__ == "__main__":
    command_line(__file__)
