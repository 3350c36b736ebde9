"""Table XI of PrivORL: what every synthesizer costs, in time and memory.

Every method on umaze's million rows at epsilon 10, three seeds: CPU seconds of one thread of public pre-training, of
fitting behind the doors and of sampling 100,000 rows, and the MiB that the process's memory rose by at most in each
(the private rows themselves, 44 MiB, were there before; the most over seeds, as a process that has made a table holds
memory for the next). Whatever else ran on the machine is in the seconds too.
"""

import numpy as np

from experiments.lib.check import Figures, at_most
from experiments.lib.experiment import Json, Store, command_line, store_of
from experiments.privorl import table1_transitions as table1
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_domains import DOMAINS
from experiments.privorl.parts.synthesis_returns import WORDS

DOMAIN, EPSILON, SEEDS = "umaze", 10.0, (0, 1, 2)
METHODS = (table1.OWN, "tacit", *table1.BASELINES)
STAGES = ("pretrain", "fit", "sample")


def configuration(key: str) -> dict[str, Json]:
    domain, way, epsilon, _ = key.split("/")
    return ways.configuration(DOMAINS[domain], way, float(epsilon))


store = store_of(__file__, configuration, WORDS)


def rows() -> list[str]:
    return [ways.key(DOMAIN, way, EPSILON, seed) for seed in SEEDS for way in METHODS]


def run_row(key: str, results: Store) -> None:
    domain, way, epsilon, seed = key.split("/")
    _, notes = ways.table(DOMAINS[domain], way, float(epsilon), int(seed))
    values = {stage: notes[stage] for stage in STAGES if stage in notes}
    results.put(key, dataset=DOMAINS[domain].words(int(seed)), seed=int(seed), values=values)


def column(results: Store, way: str, stage: str, measure: str) -> np.ndarray:
    """CPU seconds (`cpu_s`) of a stage over seeds, or the most MiB (`peak_mib`); zeros where there is no such stage."""
    cells = [results.values(ways.key(DOMAIN, way, EPSILON, seed)) for seed in SEEDS]
    found = np.array([cell.get(stage, {}).get(measure, 0.0) for cell in cells])
    return found.max(keepdims=True) if measure == "peak_mib" else found


def figures() -> Figures:
    results = store()
    for way in METHODS:
        spent = sum(column(results, way, stage, "cpu_s") for stage in STAGES)
        yield at_most(f"{way}: CPU minutes a synthesizer", float(np.mean(spent)) / 60, 10.0)
    peak = max(column(results, table1.OWN, stage, "peak_mib").max() for stage in STAGES)
    yield at_most("tacit: GiB beside the private rows", peak / 1024, 2.0)


if __name__ == "__main__":
    command_line(__file__)
