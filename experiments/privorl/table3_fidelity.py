"""Table III of PrivORL, and what it leaves out: how close every synthetic table is to the real one.

A cell is one table of `synthesis_ways`: Marginal and Correlation as the paper has them (against all real rows; for
`real`, one half against the other), errors against the simulator, and the accuracy of a classifier that is to tell
synthetic rows from real ones.
"""

from collections.abc import Mapping

import numpy as np

from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, store_of
from experiments.lib.statistics import iqm
from experiments.lib.table_cache import Columns, defaults
from experiments.lib.two_samples import MIN_ROWS, two_sample_test
from experiments.privorl import table1_transitions as table1
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_domains import DOMAINS, Domain
from experiments.privorl.parts.synthesis_mazes import Maze
from experiments.privorl.parts.synthesis_returns import WORDS
from tacit.errors import DataError
from tacit.evaluation.fidelity import ceiling, fidelity

MAZES = tuple(dict.fromkeys(part.domain for part in table1.PARTS if isinstance(DOMAINS[part.domain], Maze)))
Table = tuple[str, str, float, int]
STRANGER = 1_000_000  # where the seeds of data sets begin that nothing learns from


def configuration(key: str) -> dict[str, Json]:
    domain, way, epsilon, _ = key.split("/")
    return {
        **ways.configuration(DOMAINS[domain], way, float(epsilon)),
        "measures": {"classifier": defaults(two_sample_test), "fewest": MIN_ROWS, "rows": ways.ROWS},
    }


store = store_of(__file__, configuration, WORDS)


def rows() -> list[str]:
    return [ways.key(*table) for table in tables()]


def run_row(key: str, results: Store) -> None:
    domain, way, epsilon, word = key.split("/")
    here, seed = DOMAINS[domain], int(word)
    results.put(key, dataset=here.words(seed), seed=seed, values=measured(here, way, float(epsilon), seed, ways.FULL))


def tables() -> list[Table]:
    found = [(cell.domain, cell.way, cell.epsilon, cell.seed) for part in table1.PARTS for cell in part.cells()]
    return list(dict.fromkeys(found))


def measured(here: Domain, way: str, epsilon: float, seed: int, scale: ways.Scale) -> dict[str, float]:
    """Closeness to all real rows, a classifier's accuracy and errors against the simulator."""
    table, _ = ways.table(here, way, epsilon, seed, scale)
    real = here.private(seed)
    close = ceiling(table, seed=seed) if way == "real" else fidelity(real, table)
    other = here.private(STRANGER + seed) if way == "real" else table  # for real rows, those of another data set
    groups = repeated(other)
    few = groups.max() < MIN_ROWS  # so few different rows are told apart by their repetition
    told = 1.0 if few else two_sample_test(real, other, synthetic_groups=groups, seed=seed).accuracy.value
    some = {name: column[: scale.rows] for name, column in table.items()}
    return {"marginal": close.marginal, "correlation": close.correlation, "told_apart": told, **_errors(here, some)}


def _errors(here: Domain, table: Columns) -> dict[str, float]:
    """Against the simulator, which knows nothing of what follows on a place inside a wall."""
    try:
        return here.errors(table)
    except DataError:  # not one row is in free space: so it may be after a few steps of training
        return {"in_wall": 1.0}


def repeated(table: Mapping[str, np.ndarray]) -> np.ndarray:
    """[T] of each row, the same number for rows that are alike, as weighting makes them."""
    flat = np.concatenate([np.asarray(values).reshape(len(values), -1) for values in table.values()], axis=1)
    return np.asarray(np.unique(flat, axis=0, return_inverse=True)[1])


def column(results: Store, domain: str, way: str, epsilon: float, name: str) -> np.ndarray:
    seeds = [seed for *one, seed in tables() if one == [domain, way, epsilon]]
    return np.array([results.values(ways.key(domain, way, epsilon, seed))[name] for seed in seeds])


def figures() -> Figures:
    results, agents = store(), table1.store()
    for domain in table1.PROMISED:
        own, theirs = (
            {
                name: column(results, domain, way, 10.0, name).mean()
                for name in ("marginal", "correlation", "next_position")
            }
            for way in (table1.OWN, "aim")
        )
        for name, bound in (("marginal", 0.975), ("correlation", 0.99)):
            yield at_least(f"{domain}, epsilon 10: {name}", own[name], bound)
            yield at_least(f"{domain}, epsilon 10: {name} less AIM's", own[name] - theirs[name], -0.02)
        words = f"{domain}, epsilon 10: error of the next position over AIM's"
        yield at_most(words, own["next_position"] / theirs["next_position"], 1.0)
        for part in (part for part in table1.parts(domain) if part.group == "baselines"):
            for agent in part.agents:
                mine, aim = (iqm(table1.returns(agents, domain, agent, way, 10.0)) for way in (table1.OWN, "aim"))
                yield at_least(f"{domain}, epsilon 10, {agent}: return less AIM's", mine - aim, 0.0)


if __name__ == "__main__":
    command_line(__file__)
