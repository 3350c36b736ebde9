"""Table I of PrivORL at an honest epsilon: agents trained on synthetic transitions, judged in the real task.

    python -m experiments.privorl.table1_transitions "umaze/iql/*"  # a part; cells that matter most come first
    python -m experiments.privorl.table1_transitions --data umaze=maze2d-umaze-dense-v1.hdf5 --public umaze=other.hdf5
                                                                # on your own D4RL files (or Minari ids); runs/own/

Each seed has private rows, networks, noise, agent and starts of its own (the half-cheetah's rows are the same for all).
On umaze and medium three agents of a kind learn from every table of tacit and of real rows, since agents differ more
than tables do. Own files are benchmarks: their rows may be shown. Bounds, walls and evaluation are those of the task
that is named; Minari's mazes have other coordinates and are refused by these bounds.
"""

import argparse
import functools
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from experiments.lib import table_cache
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import ROOT, Store, command_line, store_of
from experiments.lib.statistics import Comparison, Estimate, bootstrap, compare, is_disjoint, ratio
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_agents import AGENTS
from experiments.privorl.parts.synthesis_domains import DOMAINS, Domain, Own
from experiments.privorl.parts.synthesis_returns import WORDS, Cell, cells, column, configuration, fill

NAME = "table1_transitions"
EPSILONS = (10.0, 1.0)
BASELINES = ("mst", "aim", "privsyn", "pate_gan", "pre_pate_gan")
OWN = "raked"
CONTROLS = ("pretraining", "noise_only", "independent", "raking_alone")
GROUPS = {
    "own": ("real", OWN),
    "plain": ("tacit",),
    "baselines": BASELINES,
    "paper": ("pgm_paper",),
    "controls": CONTROLS,
}
SEEDS = {
    "own": (0, 1, 2, 3, 4),
    "plain": (0, 1, 2, 3, 4),
    "baselines": (0, 1, 2),
    "paper": (0, 1, 2),
    "controls": (0, 1, 2),
}


@dataclass(frozen=True)
class Part:
    """Cells that are run together."""

    domain: str  # where
    group: str  # of `GROUPS`
    agents: tuple[str, ...]  # which learn
    epsilons: tuple[float, ...] = EPSILONS  # of what is private
    each: int = 1  # agents of every kind on one table, whose mean is the table's return

    def cells(self) -> list[Cell]:
        names, seeds = GROUPS[self.group], SEEDS[self.group]
        return cells(self.domain, self.agents, names, self.epsilons, seeds, each=self.each)


PARTS = (  # in this order, those that matter most first
    Part("umaze", "own", AGENTS, each=3),
    Part("medium", "own", ("iql", "td3_bc"), each=3),
    Part("umaze", "plain", AGENTS, each=3),
    Part("medium", "plain", ("iql", "td3_bc"), each=3),
    Part("umaze", "baselines", ("iql", "td3_bc")),
    Part("umaze", "baselines", ("edac",), (10.0,)),
    Part("medium", "baselines", ("iql", "td3_bc")),
    Part("large", "own", ("td3_bc",)),
    Part("half_cheetah", "own", ("td3_bc",)),
    Part("umaze", "controls", ("iql",), (1.0,)),
    Part("medium", "controls", ("iql",), (1.0,)),
    Part("large", "baselines", ("td3_bc",), (10.0,)),
    Part("half_cheetah", "baselines", ("td3_bc",), (10.0,)),
    Part("umaze", "paper", ("iql",)),
)
RIVALS = tuple(part for part in PARTS if part.group in ("baselines", "paper"))
PROMISED = ("umaze", "medium")  # where shares of the real return are promised


store = store_of(__file__, configuration, WORDS)


def rows() -> list[str]:
    return list(dict.fromkeys(cell.key for part in PARTS for cell in part.cells()))


def run_row(key: str, results: Store) -> None:
    fill(results, [Cell.of(key)], ways.FULL)


def parts(domain: str) -> list[Part]:
    return [part for part in PARTS if part.domain == domain]


def returns(results: Store, domain: str, agent: str, way: str, epsilon: float) -> np.ndarray:
    """Of all seeds of a row; empty where the row is no part of the experiment."""
    mine = [cell for part in parts(domain) for cell in part.cells()]
    mine = [cell for cell in mine if (cell.agent, cell.way, cell.epsilon) == (agent, way, epsilon)]
    seeds = dict.fromkeys(cell.seed for cell in mine)
    return np.array([column(results, [cell for cell in mine if cell.seed == seed]).mean() for seed in seeds])


def share(results: Store, domain: str, epsilon: float, agents: Sequence[str]) -> Estimate:
    """tacit's return over the real rows': interquartile means of all seeds, and of these agents together."""
    own, real = (
        np.stack([returns(results, domain, agent, way, at) for agent in agents], axis=1)
        for way, at in ((OWN, epsilon), ("real", 0.0))
    )
    return ratio(own, real)


def agents_of(domain: str) -> tuple[str, ...]:
    return next(part.agents for part in parts(domain) if part.group == "own")


def matches(results: Store, part: Part) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """tacit's returns and the other's for every cell of a part of the table."""
    return {
        f"{part.domain}/{agent}/{way}/{epsilon:g}": (
            returns(results, part.domain, agent, OWN, epsilon),
            returns(results, part.domain, agent, way, epsilon),
        )
        for agent in part.agents
        for epsilon in part.epsilons
        for way in GROUPS[part.group]
    }


def compared(results: Store) -> dict[str, Comparison]:
    """tacit's returns against the rivals' in every cell, by tests in both directions with one correction for all."""
    return compare({key: pair for part in RIVALS for key, pair in matches(results, part).items()})


def figures() -> Figures:
    results = store()
    for domain in PROMISED:
        for epsilon, bound in ((10.0, 0.92), (1.0, 0.75)):
            agents = agents_of(domain)
            words = f"{domain}, epsilon {epsilon:g}: tacit's return over that of the real rows"
            yield at_least(f"{words}, all agents", share(results, domain, epsilon, agents).value, bound)
            each = [share(results, domain, epsilon, [agent]).value for agent in agents]
            worst = f"{words}, mean over agents, none above 1"
            yield at_least(worst, float(np.minimum(each, 1.0).mean()), bound)
    # Intervals of three runs are their range, and cover less than they say.
    pairs = [tuple(map(bootstrap, pair)) for part in RIVALS for pair in matches(results, part).values()]
    clear = [own.value - theirs.value for own, theirs in pairs if is_disjoint(own, theirs)]
    words = f"least lead over a baseline in the {len(clear)} cells (of {len(pairs)}) whose intervals are apart"
    below = sum(one.verdict == "below" for one in compared(results).values())
    tested = "cells in which a baseline is above tacit (Welch's tests, all of them together at 5 %)"
    yield at_least(words, min(clear, default=0.0), 0.0)
    yield at_most(tested, below, 0.0)


def run(results: Store, chosen: Sequence[Part], domains: Mapping[str, Domain], scale: ways.Scale) -> None:
    """Fill the cells of these parts, the seeds of a part one after the other."""
    for part in chosen:
        mine = part.cells()
        for seed in dict.fromkeys(cell.seed for cell in mine):
            if not (scale.quick and seed):
                fill(results, [cell for cell in mine if cell.seed == seed], scale, domains)


def on_files(arguments: Sequence[str]) -> None:
    """All cells on the user's rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--agents", nargs="+", default=list(AGENTS), choices=AGENTS)
    parser.add_argument("--data", nargs="+", required=True, metavar="TASK=FILE")
    parser.add_argument("--public", nargs="+", default=[], metavar="TASK=FILE")
    parser.add_argument("--population", nargs="+", default=[], metavar="TASK=N")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    scale, given = ways.QUICK if options.quick else ways.FULL, (options.data, options.public, options.population)
    folder = ROOT / "runs" / "own" / hashlib.sha256(repr(given).encode()).hexdigest()[:8]
    table_cache.KEPT = folder  # tables of other files have the same names
    domains: dict[str, Domain] = {own.name: own for own in owned(*given)}
    for own in domains.values():
        own.public(0)  # which refuses public rows that are among the private ones, before anything is fitted
    chosen = [Part(name, group, tuple(options.agents)) for group in options.groups for name in domains]
    asked = functools.partial(configuration, scale=scale, domains=domains)
    run(Store(folder / f"{NAME}.json", asked, WORDS), chosen, domains, scale)
    print(f"results are in {folder}")


def owned(data: Sequence[str], public: Sequence[str], population: Sequence[str]) -> list[Own]:
    """Tasks with the user's rows, from pairs TASK=FILE and TASK=N."""
    files, others, sizes = (dict(pair.split("=", 1) for pair in pairs) for pairs in (data, public, population))
    return [
        Own(DOMAINS[task], file, others.get(task), int(sizes.get(task, DOMAINS[task].population)))
        for task, file in files.items()
    ]


if __name__ == "__main__":
    if "--data" in sys.argv:
        on_files(sys.argv[1:])
    else:
        command_line(__file__)
