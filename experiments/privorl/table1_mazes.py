"""Table I in the mazes with agents whose ceiling is high: every row alike, both epsilons, rows never seen before.

The agents' settings were chosen on real rows of public mazes (`tune_agents`): they suit no method's rows. Three data
sets for every row alike (five exceeded the hours), each with private rows, networks, noise, one agent of a kind and
starts of its own. Policies that learn nothing stand in `table1_trivial`, from the same starts.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from experiments.lib.check import Figure, Figures, at_least
from experiments.lib.experiment import Store, command_line, grouped, store_of
from experiments.lib.statistics import iqm
from experiments.privorl import table1_trivial
from experiments.privorl.parts import synthesis_returns as returns
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_agents import LONG
from experiments.privorl.parts.synthesis_returns import Cell

DOMAINS, SEEDS, EPSILONS = ("umaze", "medium", "large"), (10, 11, 12), (10.0, 1.0)
WAYS = ("real", "raked", "mst", "aim_3", "privsyn", "pate_gan", "raked_of", "noise_only")
OWN, RIVALS = "raked", ("mst", "aim_3", "privsyn", "pate_gan")
PUBLIC = {
    ("umaze", "iql_long"): 42.11,
    ("umaze", "td3_bc_long"): 29.41,
    ("umaze", "edac_long"): 95.26,
    ("medium", "iql_long"): 34.85,
    ("medium", "td3_bc_long"): 59.45,
    ("large", "iql_long"): 61.72,
    ("large", "td3_bc_long"): 97.10,
}
"""What others have with an agent in D4RL's maze of this name, after a million steps of width 256 on D4RL's own rows
with sparse rewards: the last scores of CORL (arXiv:2210.07105, its repository)."""


configuration = returns.configuration
store = store_of(__file__, configuration, returns.WORDS)


def agents_of(domain: str) -> tuple[str, ...]:
    """EDAC costs as much as the two others: it learns in the smallest maze alone."""
    return LONG if domain == "umaze" else LONG[:2]


def cells(domains: Sequence[str] = DOMAINS) -> list[Cell]:
    return [
        cell
        for seed in SEEDS
        for domain in domains
        for cell in returns.cells(domain, agents_of(domain), WAYS, EPSILONS, [seed])
    ]


def last(domain: str, epsilon: float) -> bool:
    """What is cut first if the hours do not suffice: large at epsilon 10."""
    return (domain, epsilon) == ("large", 10.0)


def rows() -> list[str]:
    return [cell.key for cell in sorted(cells(), key=lambda cell: last(cell.domain, cell.epsilon))]


def together(keys: Sequence[str]) -> list[list[str]]:
    def stack(key: str) -> tuple[str, str, int, bool]:
        cell = Cell.of(key)
        return cell.domain, cell.agent, cell.seed, last(cell.domain, cell.epsilon)

    return grouped(keys, stack)


def run_rows(keys: Sequence[str], results: Store) -> None:
    returns.fill(results, [Cell.of(key) for key in keys], ways.FULL)


def column(results: Store, domain: str, agent: str, way: str, epsilon: float) -> np.ndarray:
    return returns.column(results, returns.cells(domain, (agent,), (way,), (epsilon,), SEEDS))


def matches(results: Store) -> dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
    """By rival and "MAZE/AGENT/EPSILON" tacit's returns and the rival's, where all rows of both are there."""
    found = {}
    for way, domain, epsilon in itertools.product(RIVALS, DOMAINS, EPSILONS):
        for agent in agents_of(domain):
            mine, theirs = (returns.cells(domain, (agent,), (one,), (epsilon,), SEEDS) for one in (OWN, way))
            if all(results.has(cell.key) for cell in (*mine, *theirs)):
                pair = returns.column(results, mine), returns.column(results, theirs)
                found[way, f"{domain}/{agent}/{epsilon:g}"] = pair
    return found


def figures() -> list[Figure]:
    """Whether real rows reach their ceiling, without which no row says anything."""
    return ceilings("rows", SEEDS, lambda domain, agent: column(store(), domain, agent, "real", 0.0))


def ceilings(kind: str, seeds: Sequence[int], real: Callable[[str, str], np.ndarray]) -> Figures:
    """For every maze and agent what real data return, and the straight run or the public figure, whichever is less."""
    for domain in DOMAINS:
        straight = iqm(table1_trivial.returns(table1_trivial.store(), domain, "straight", seeds))
        for agent in agents_of(domain):
            words = f"{domain}, {agent}: return of real {kind}; the straight run has {straight:.1f}, others have"
            bound = round(min(straight, PUBLIC[domain, agent]), 2)
            yield at_least(f"{words} {PUBLIC[domain, agent]:.1f}", iqm(real(domain, agent)), bound)


if __name__ == "__main__":
    command_line(__file__)
