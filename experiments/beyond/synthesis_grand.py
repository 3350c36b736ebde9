"""Synthetic rows in the mazes before a judge that sees: means of many agents, on five data sets that nobody has seen.

Eight TD3+BC agents learn from a table, and one policy acts with the mean action of all of them at four checkpoints,
since one agent's return has a spread of 7 to 53 on the same rows. Four make `grand_a`, the others `grand_b`. IQL gains
nothing from a mean: its agents are single ones. A seed is that of private rows, of public mazes (sixteen others, many
rows of two, for every way alike) and of noise. Cells come seed by seed, so that a cut is the same for all ways. Then
six tables teach a second group of agents (a last number in a key): the spread of the figure. Such a row counts only
beside the very table that the first group had. Umaze is late: real rows stay below a straight run there.
"""

import hashlib
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import ttest_1samp

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import BLANK, Json, Store, command_line, describe, grouped, markdown, store_of
from experiments.lib.table_cache import Columns, Notes
from experiments.lib.tables import spread as with_interval
from experiments.privorl import table3_fidelity
from experiments.privorl.parts import synthesis_returns as returns
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_agents import TRIVIAL
from experiments.privorl.parts.synthesis_mazes import Pooled
from experiments.privorl.parts.synthesis_returns import Cell
from experiments.privorl.parts.synthesis_ways import Scale
from tacit.evaluation.structure import structure
from tacit_worlds.agents.offline import OfflinePolicies, Watch, train_tables
from tacit_worlds.maze_evaluation import evaluate
from tacit_worlds.maze_layouts import MazeLayout

AGENTS, CHECKPOINTS, EPISODES = {"grand": 8, "iql_long": 4}, (10_000, 12_000, 14_000, 16_000), 150
"""How many agents of a kind a table teaches (those of `grand` are `td3_bc_long`), and the starts that they share."""
KINDS = {"grand": "td3_bc_long", "iql_long": "iql_long"}


@dataclass(frozen=True, eq=False)
class MeanPolicies:
    """One policy for each group of policies: it acts with the mean of their actions."""

    groups: Sequence[OfflinePolicies]

    @property
    def members(self) -> int:
        return len(self.groups)

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        states = np.asarray(observations)
        return np.stack([group.act(own).mean(axis=0) for group, own in zip(self.groups, states, strict=True)])


def pooled(checkpoints: Sequence[OfflinePolicies], agents: slice) -> OfflinePolicies:
    names = checkpoints[0].arrays
    return OfflinePolicies({name: np.concatenate([one.arrays[name][agents] for one in checkpoints]) for name in names})


def checkpoints_of(steps: int) -> tuple[int, ...]:
    """`CHECKPOINTS`, or as large shares of another number of steps."""
    return tuple(steps * one // CHECKPOINTS[-1] for one in CHECKPOINTS)


def judge(
    kind: str, layout: MazeLayout, tables: Sequence[Columns], config: Any, *, seed: int, starts: int, scale: Scale
) -> list[dict[str, Any]]:
    """What each table teaches, all agents in one stack.

    Args:
        kind: of `AGENTS`.
        layout: of the maze.
        tables: of rows.
        config: of the agents.
        seed: of the first agent; the others follow.
        starts: seed of the starts.
        scale: how much is computed.
    """
    count, episodes = (4, 4) if scale.quick else (AGENTS[kind], EPISODES)
    wanted = checkpoints_of(config.steps)
    kept: list[list[OfflinePolicies]] = []

    def look(done: int, policies: list[OfflinePolicies]) -> None:
        if done in wanted:
            kept.append(policies)

    watch = Watch(int(np.gcd.reduce(wanted)), look) if kind == "grand" else None
    last = train_tables(tables, config, seeds=list(range(seed, seed + count)), watch=watch)
    found = []
    for index, policies in enumerate(last):
        single = evaluate(layout, policies, starts="all", seed=starts, episodes=episodes)
        values: dict[str, Any] = {"single": float(single.mean()), "singles": np.round(single, 2).tolist()}
        if kind == "grand":
            own, half = [policies[index] for policies in kept], count // 2
            groups = [pooled(own, agents) for agents in (slice(count), slice(half), slice(half, count))]
            together = evaluate(layout, MeanPolicies(groups), starts="all", seed=starts, episodes=episodes)
            values |= dict(zip(("grand", "grand_a", "grand_b"), together.tolist(), strict=True))
        found.append(values)
    return found


def settings(scale: Scale) -> dict[str, Any]:
    return {"agents": AGENTS, "checkpoints": CHECKPOINTS, "starts": "all", "episodes": EPISODES, "quick": scale.quick}


def spread(first: npt.ArrayLike, again: npt.ArrayLike) -> float:
    """Pooled standard deviation of one group's figure, from pairs of groups on the same tables, [T] each."""
    difference = np.subtract(first, again, dtype=np.float64)
    return float(np.sqrt(np.mean(difference**2) / 2.0))


NAME, SEEDS, EPSILONS = "synthesis_grand", (21, 22, 23, 24, 25), (10.0, 1.0)
DOMAINS = {name: Pooled(name) for name in ("large", "medium", "umaze")}
WAYS = ("real", "structured", "raked", "aim_3", "privsyn", "mst", "noise_only")
AGAIN = tuple(  # second groups of six tables, for the spread: of the first seed, and of the last one
    Cell(domain, "grand", way, epsilon, seed, 1)
    for domain, seed in (("large", SEEDS[0]), ("medium", SEEDS[-1]))
    for way, epsilon in (("real", 0.0), ("aim_3", 10.0), ("privsyn", 10.0))
)
NOISELESS = tuple(  # what noise costs: the tables of epsilon 10 without any
    Cell(domain, "grand", "structured", math.inf, seed) for seed in SEEDS[:2] for domain in ("large", "medium")
)


def configuration(key: str, *, scale: ways.Scale = ways.FULL) -> dict[str, Json]:
    domain, kind, *_ = key.split("/")
    here = DOMAINS[domain]
    if kind in TRIVIAL:
        made = TRIVIAL[kind](here.layout)
        return {"maze": describe(here.layout), "policy": describe(made), "judge": {"episodes": EPISODES}}
    cell = Cell.of(key)
    return {
        **ways.configuration(here, cell.way, cell.epsilon, scale),
        "agent": describe(returns.config(domain, KINDS[kind], scale)),
        "judge": settings(scale),
    }


store = store_of(__file__, configuration, returns.WORDS)


def cells() -> list[Cell]:
    most, last = ("large", "medium"), ("umaze",)

    def of(kind: str, domains: Sequence[str]) -> list[Cell]:
        return [
            cell
            for seed in SEEDS
            for domain in domains
            for epsilon in EPSILONS
            for cell in returns.cells(domain, (kind,), WAYS, (epsilon,), (seed,))
            if cell.epsilon or epsilon == EPSILONS[0]
        ]

    return [*of("grand", most), *AGAIN, *of("iql_long", most), *of("grand", last), *NOISELESS]


def rows() -> list[str]:
    untaught = [f"{domain}/{policy}/{seed}" for domain in DOMAINS for policy in TRIVIAL for seed in SEEDS]
    return [*untaught, *(cell.key for cell in cells())]


def together(keys: Sequence[str]) -> list[list[str]]:
    """Agents of a kind, maze, seed and epsilon learn in one stack, those of real rows with the first epsilon's."""

    def stack(key: str) -> tuple[object, ...]:
        domain, kind, *_ = key.split("/")
        if kind in TRIVIAL:
            return domain, kind
        cell = Cell.of(key)
        return domain, kind, cell.seed, cell.epsilon or EPSILONS[0], cell.again

    return grouped(keys, stack)


def run_rows(keys: Sequence[str], results: Store, *, scale: ways.Scale = ways.FULL) -> None:
    domain, kind, *_ = keys[0].split("/")
    here = DOMAINS[domain]
    if kind in TRIVIAL:
        for key in keys:
            seed = int(key.split("/")[-1])
            found = evaluate(here.layout, TRIVIAL[kind](here.layout), starts="all", seed=seed, episodes=EPISODES)
            dataset = f"starts in {domain}, seed {seed}"
            results.put(key, dataset=dataset, seed=seed, values={"return": round(float(found.max()), 2)})
        return
    wanted = [Cell.of(key) for key in keys]
    tables = [ways.table(here, cell.way, cell.epsilon, cell.seed, scale) for cell in wanted]
    began, (seed, again) = time.process_time(), (wanted[0].seed, wanted[0].again)
    config = returns.config(domain, KINDS[kind], scale)
    own = [table for table, _ in tables]
    found = judge(kind, here.layout, own, config, seed=100 * seed + 50 * again, starts=seed, scale=scale)
    spent = (time.process_time() - began) / len(wanted)
    for cell, (table, notes), values in zip(wanted, tables, found, strict=True):
        began = time.process_time()
        closeness = measured(here, cell, table, scale) if kind == "grand" and not again else {}
        costs = {"agents": spent, "measures": time.process_time() - began, "table": cost(notes)}
        values |= {name: notes[name] for name in ("epsilon", "noise_multiplier") if name in notes}
        values |= closeness | {"rows": digest(table)}
        values |= {"cpu_s": {name: round(seconds, 1) for name, seconds in costs.items()}}
        results.put(cell.key, dataset=f"{here.words(seed)}; table {cell.way}", seed=seed, values=values)


def measured(here: Pooled, cell: Cell, table: Columns, scale: ways.Scale) -> dict[str, float]:
    """Closeness, errors against the simulator and structure; of real rows, against another data set."""
    real = here.private(cell.seed)
    other = here.private(table3_fidelity.STRANGER + cell.seed) if cell.way == "real" else table
    return {
        **table3_fidelity.measured(here, cell.way, cell.epsilon, cell.seed, scale),
        **asdict(structure(real, other, spec=here.spec)),
    }


def digest(table: Mapping[str, np.ndarray]) -> str:
    """Of the rows of a table: noise is secret, so a table that is made again is another one."""
    found = hashlib.sha256()
    for name in sorted(table):
        found.update(np.ascontiguousarray(table[name]).tobytes())
    return found.hexdigest()[:16]


def cost(notes: Notes) -> float:
    return float(sum(notes[stage]["cpu_s"] for stage in ("pretrain", "fit", "sample") if stage in notes))


def column(results: Store, domain: str, kind: str, way: str, epsilon: float, name: str) -> np.ndarray:
    return returns.column(results, [Cell(domain, kind, way, ways.at(way, epsilon), seed) for seed in SEEDS], name)


def spreads(results: Store) -> np.ndarray:
    """[T, 2] of the six tables what the first group's mean policy returns, and the second's.

    Raises:
        LookupError: a row is missing, or two rows are not of one table.
    """
    pairs = []
    for cell in AGAIN:
        first, again = (results.values(replace(cell, again=one).key) for one in (0, 1))
        if first["rows"] != again["rows"]:
            raise LookupError(f"{NAME}: the two groups of {cell.domain}/{cell.way} learned from different tables")
        pairs.append((first["grand"], again["grand"]))
    return np.array(pairs)


def figures() -> Figures:
    results = store()
    for domain in ("large", "medium"):
        straight = np.mean([results.values(f"{domain}/straight/{seed}")["return"] for seed in SEEDS])
        real = column(results, domain, "grand", "real", 0.0, "grand").mean()
        yield at_least(f"{domain}: grand return of real rows less the straight run's", real - straight, 0.0)


RIVALS = ("aim_3", "privsyn", "raked")


def comparisons(results: Store) -> str:
    """Of each rival: mazes and epsilons in which structured tables are ahead by mean, and one paired test.

    A pair is a data set: the mean difference over both mazes and epsilons, so that pairs are independent. p is of
    Student's test in both directions, with Holm's correction for the rivals that have rows.
    """
    found: dict[str, list[Any]] = {}
    tests: dict[str, float] = {}
    for rival in RIVALS:
        differences = {
            (domain, epsilon, seed): results.values(own)["grand"] - results.values(other)["grand"]
            for domain, epsilon, seed in itertools.product(("large", "medium"), EPSILONS, SEEDS)
            if results.has(own := Cell(domain, "grand", "structured", epsilon, seed).key)
            and results.has(other := Cell(domain, "grand", rival, epsilon, seed).key)
        }
        cells = {key[:2] for key in differences}
        whole = [seed for seed in SEEDS if sum(key[2] == seed for key in differences) == 4]
        if not whole:
            continue
        ahead = sum(np.mean([value for key, value in differences.items() if key[:2] == cell]) > 0 for cell in cells)
        means = [np.mean([value for key, value in differences.items() if key[2] == seed]) for seed in whole]
        if len(means) > 1:
            tests[rival] = float(ttest_1samp(means, 0.0).pvalue)
        found[rival] = [f"{ahead} of {len(cells)}", str(len(whole)), f"{np.mean(means):.1f}"]
    worst, lines = 0.0, []
    for place, rival in enumerate(sorted(tests, key=lambda name: tests[name])):
        worst = max(worst, min(1.0, (len(tests) - place) * tests[rival]))
        found[rival].append(f"{worst:.4f}")
    for rival, cells_of in found.items():
        lines.append([rival, *cells_of, *[BLANK] * (4 - len(cells_of))])
    return markdown(("ahead by mean in", "data sets", "mean difference", "p"), lines)


RETURNS = ("grand", "share", "single")
SHOWN = (*RETURNS, "in_wall", "action_follows", "action_explained", "next_explained", "told_apart")


def _cell(values: Sequence[float], name: str) -> str:
    if name in RETURNS and len(values) > 1:
        return with_interval(values, 2 if name == "share" else 1)
    return f"{np.mean(values):.3g}" if values else BLANK


def table(results: Store) -> str:
    """Means over the seeds that there are, with half of their intervals; a share is that of the real rows' return."""
    blocks = []
    silent = [(cell.domain, cell.epsilon) for cell in NOISELESS if results.has(cell.key)]
    for domain, epsilon in dict.fromkeys([*itertools.product(DOMAINS, EPSILONS), *silent]):
        lines = []
        for way in WAYS:
            keys = [Cell(domain, "grand", way, ways.at(way, epsilon), seed).key for seed in SEEDS]
            there = {key.split("/")[-1]: results.values(key) for key in keys if results.has(key)}
            real = {seed: Cell(domain, "grand", "real", 0.0, int(seed)).key for seed in there}
            shares = [
                there[seed]["grand"] / results.values(key)["grand"] for seed, key in real.items() if results.has(key)
            ]
            values = {name: [one[name] for one in there.values() if name in one] for name in SHOWN} | {"share": shares}
            if there:
                lines.append([way, *(_cell(values[name], name) for name in SHOWN), str(len(there))])
        if not lines:
            continue
        promise = f"epsilon {epsilon:g}" if math.isfinite(epsilon) else "no noise and no promise"
        blocks.append(f"{domain}, {promise}\n\n{markdown((*SHOWN, 'seeds'), lines)}")
    try:
        words = f"{spread(*spreads(results).T):.1f}"
    except LookupError as missing:
        words = f"not known: {missing.args[0]}"
    known = f"Standard deviation of a grand return on the same rows: {words}"
    return "\n\n".join([*blocks, known, "Structured tables less each rival, grand", comparisons(results)])


if __name__ == "__main__":
    command_line(__file__)
