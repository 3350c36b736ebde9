"""Which of tacit's figures are above, below or not apart from each rival's: `python -m experiments.lib.comparisons`.

    python -m experiments.lib.comparisons table1_transitions  # one experiment

Every cell of an experiment is one test: Welch's, in both directions, with Holm's correction for all cells of the
experiment together (`experiments.lib.statistics.compare`), at 5 %. "All agents" tests the mean over the agents that
learn from the same tables, since these share the data of a run. `pages` puts the counts into docs/results/.
"""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from experiments.dppg import dppg_frontier, dppg_tables
from experiments.experts import experts_table, experts_tables
from experiments.lib.statistics import Comparison, compare
from experiments.lib.tables import markdown
from experiments.pategail import mobility_frontier, mobility_tables
from experiments.privorl import table1_half_cheetah, table1_mazes
from experiments.privorl import table1_transitions as table1
from experiments.privorl import table2_trajectories as table2
from experiments.privorl.parts.synthesis_cells import SHORT
from tacit_worlds.populations import Kind

Key = tuple[str, str]  # the rival, and where it is met
Pairs = dict[Key, tuple[np.ndarray, np.ndarray]]
POOLED = "all agents"


@dataclass(frozen=True)
class Family:
    """The comparisons of one experiment."""

    own: str  # what is compared with rivals
    measure: str  # of which a larger value is better; errors are compared with their sign changed
    pairs: Callable[[], Pairs]  # tacit's values and the rival's, of all runs

    def compared(self) -> dict[Key, Comparison]:
        """All tests with one correction; LookupError where a row is missing or has another configuration."""
        return compare(self.pairs())


def pooled(pairs: Pairs) -> Pairs:
    """Beside every cell "PLACE, AGENT[, ...]" that several agents have, one of their mean in each run."""
    groups: dict[Key, list[tuple[np.ndarray, np.ndarray]]] = {}
    for (rival, cell), pair in pairs.items():
        place, _, *rest = cell.split(", ")
        groups.setdefault((rival, ", ".join([place, POOLED, *rest])), []).append(pair)
    many = {key: group for key, group in groups.items() if len(group) > 1}
    return pairs | {
        key: (np.stack([own for own, _ in group], 1), np.stack([theirs for _, theirs in group], 1))
        for key, group in many.items()
    }


def transitions() -> Pairs:
    """Table I: tacit against the baselines."""
    results, found = table1.store(), {}
    for part in table1.RIVALS:
        for key, pair in table1.matches(results, part).items():
            domain, agent, way, epsilon = key.split("/")
            found[way, f"{domain.replace('_', '-')}, {SHORT[agent]}, epsilon {epsilon}"] = pair
    return pooled(found)


def mazes() -> Pairs:
    """Table I in the mazes with agents of long training: tacit against the baselines."""
    found = {}
    for (way, key), pair in table1_mazes.matches(table1_mazes.store()).items():
        domain, agent, epsilon = key.split("/")
        found[way, f"{domain}, {SHORT[agent.removesuffix('_long')]}, epsilon {epsilon}"] = pair
    return pooled(found)


def half_cheetah() -> Pairs:
    """Table I on half-cheetah: tacit against the baselines, and against policies that learn nothing."""
    results, found = table1_half_cheetah.store(), {}
    for epsilon in table1_half_cheetah.EPSILONS:
        own = table1_half_cheetah.column(results, "raked", epsilon)
        for way in (*table1_half_cheetah.RIVALS, *table1_half_cheetah.TRIVIAL):
            found[way, f"epsilon {epsilon:g}"] = own, table1_half_cheetah.column(results, way, epsilon)
    return found


def trajectories() -> Pairs:
    """Table II: transitions with matching against models of trajectories."""
    results, found = table2.store(), {}
    for domain, here in table2.DOMAINS.items():
        for way, epsilon in table2.tables(domain):
            for agent in here.agents if way in (*table2.RIVALS, "raking_alone") else ():
                own, theirs = (
                    table2.returns(results, domain, agent, one, epsilon) for one in (table2.TRANSITIONS, way)
                )
                found[way, f"{domain.replace('_', '-')}, {SHORT[agent]}, epsilon {epsilon:g}"] = own, theirs
    return pooled(found)


def experts() -> Pairs:
    """Clone votes against the other ways to learn from experts, with privacy and without."""
    results, found = experts_table.store(), {}
    for world, title in experts_tables.TITLES.items():
        for kind in get_args(Kind):
            for epsilon in experts_table.EPSILONS:
                own = np.array(experts_table.returns(results, world, kind, "votes", epsilon))
                for method in ("return_weighted", *experts_table.RIVALS, "cql"):
                    theirs = experts_table.returns(results, world, kind, method, epsilon)
                    if theirs:
                        found[method, f"{title}, {kind}, epsilon {epsilon:g}"] = own, np.array(theirs)
    return found


def policies() -> Pairs:
    """The recipe with a local critic and correlated noise against the other arms."""
    results, found = dppg_frontier.store(), {}
    for task, title in dppg_tables.TITLES.items():
        for epsilon in dppg_frontier.EPSILONS:
            cells = {arm: dppg_tables.frontier_cell(task, arm[0], epsilon, arm[1]) for arm in dppg_tables.ARMS}
            present = {arm: cell for arm, cell in cells.items() if cell in dppg_frontier.grid()}
            returns = {arm: np.array(results.values(cell.key)["last_stochastic"]) for arm, cell in present.items()}
            own = returns.pop(("local", "toeplitz"), None)
            if own is not None:
                found |= {
                    (dppg_tables.ARMS[arm], f"{title}, epsilon {epsilon:g}"): (own, one) for arm, one in returns.items()
                }
    return found


def movement(measures: Sequence[str] = ("SEQ",)) -> Pairs:
    """One-shot imitation against the other simulators, by the mean of measures of the order of a day."""
    results, found = mobility_frontier.store(), {}
    for people in mobility_frontier.PEOPLE:
        for epsilon in mobility_frontier.EPSILONS:
            own = mobility_tables.averaged(results, people, "one_shot", epsilon, measures)
            for row, words in mobility_tables.WORDS.items():
                theirs = mobility_tables.averaged(results, people, row, epsilon, measures)
                if row != "one_shot" and len(own) and len(theirs) > 1:
                    where = "no noise" if np.isinf(epsilon) else f"epsilon {epsilon:g}"
                    found[words, f"{people:,} people, {where}"] = -own, -theirs
    return found


FAMILIES: Mapping[str, Family] = {
    "table1_mazes": Family("tacit", "return", mazes),
    "table1_half_cheetah": Family("tacit", "return", half_cheetah),
    "table1_transitions": Family("tacit", "return", transitions),
    "table2_trajectories": Family("transitions with matching", "return", trajectories),
    "experts_table": Family("clone votes", "return", experts),
    "dppg_frontier": Family("a local critic with correlated noise", "return", policies),
    "mobility_frontier": Family("one-shot imitation", "SEQ, less is better", movement),
    "mobility_unreleased": Family(
        "one-shot imitation",
        "mean of the four measures of SEQ that its sums do not release, less is better",
        functools.partial(movement, mobility_frontier.UNRELEASED),
    ),
}


def table(name: str, words: Mapping[str, str]) -> str:
    """A line a rival, by its words: in how many cells tacit is below, not apart and above, and where it is below."""
    family = FAMILIES[name]
    found = family.compared()
    lines = []
    for rival in dict.fromkeys(rival for rival, _ in found):
        mine = {cell: one.verdict for (other, cell), one in found.items() if other == rival}
        counts = [sum(verdict == one for verdict in mine.values()) for one in ("below", "not apart", "above")]
        where = "; ".join(cell for cell, verdict in mine.items() if verdict == "below")
        lines.append([words.get(rival, rival), *map(str, counts), where])
    head = ("below", "not apart", "above", "below in")
    title = f"{family.own} against each rival, {family.measure}: {len(found)} tests, 5 % for all together"
    return f"{title[0].upper()}{title[1:]}\n\n{markdown(head, lines)}"


def main(names: Sequence[str]) -> None:
    """Print all tests, those with the smallest p-values first."""
    for name in names or FAMILIES:
        print(f"## {name}\n")
        found = FAMILIES[name].compared()
        for (rival, cell), one in sorted(found.items(), key=lambda item: item[1].p):
            gap = f"{one.difference:.4g} [{one.low:.4g}, {one.high:.4g}]"
            print(f"{one.verdict:9} {rival}, {cell}: {gap}, p {one.p:.2g}")
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
