"""A cell of PrivORL's Table I with a synthesizer of your own.

    python -m experiments.privorl.table1 --maze umaze --synthesizer mine:fit --epsilon 1

`fit(task)` returns synthetic rows: observations [n, 4], actions [n, 2], rewards [n], next_observations [n, 4] and
terminations [n], with any n. An agent learns from them and is judged in the maze: 0 is D4RL's random policy, 100 its
controller. The private rows are a million simulated transitions, a new data set for each seed; ours has the same ones.
The paper's figures are of D4RL's own rows and with agents of its own: compare the order, not the numbers.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.lib import cell
from experiments.lib.table_cache import FIELDS, Columns
from experiments.privorl import table1_mazes
from experiments.privorl.parts import synthesis_returns as returns
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_domains import unit
from experiments.privorl.parts.synthesis_mazes import Maze
from experiments.privorl.parts.synthesis_pages import WORDS
from tacit.data.spec import PublicSpec
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

PAPER: Mapping[tuple[str, str], Mapping[str, tuple[str, str]]] = {
    ("umaze", "edac"): {"PrivORL-n": ("63.2", "69.1"), "PGM": ("17.2", "32.8"), "real rows": ("70.8", "70.8")},
    ("umaze", "iql"): {"PrivORL-n": ("60.1", "70.3"), "PGM": ("30.1", "41.6"), "real rows": ("71.0", "71.0")},
    ("umaze", "td3_bc"): {"PrivORL-n": ("30.6", "60.3"), "PGM": ("-12.4", "-8.5"), "real rows": ("73.6", "73.6")},
    ("medium", "iql"): {"PrivORL-n": ("73.5", "90.7"), "PGM": ("35.5", "46.8"), "real rows": ("93.1", "93.1")},
    ("medium", "td3_bc"): {"PrivORL-n": ("33.8", "50.4"), "PGM": ("4.3", "7.7"), "real rows": ("53.3", "53.3")},
    ("large", "iql"): {"PrivORL-n": ("50.3", "81.0"), "PGM": ("16.7", "21.9"), "real rows": ("85.9", "85.9")},
    ("large", "td3_bc"): {"PrivORL-n": ("61.3", "75.3"), "PGM": ("1.6", "4.0"), "real rows": ("96.8", "96.8")},
}
"""The paper's Table I by maze and agent: returns at epsilon 1 and at epsilon 10."""

ALONE = 4.0
"""CPU time of an agent that learns alone, with its rows, over that of one in a stack, as rows have it: so in umaze."""


@dataclass(frozen=True)
class Task:
    """What a synthesizer gets."""

    here: Maze  # the maze
    epsilon: float  # what it is to promise, for one transition added or removed
    seed: int  # of the data set

    @cached_property
    def rows(self) -> Columns:
        return self.here.private(self.seed)

    @cached_property
    def public(self) -> Columns:
        """Public rows of other mazes, to pre-train on."""
        return self.here.public(self.seed)

    @property
    def spec(self) -> PublicSpec:
        """Public bounds of a row."""
        return self.here.spec

    @property
    def delta(self) -> float:
        """A tenth of one over the number of rows, which is public."""
        return self.here.delta

    @property
    def unit(self) -> Unit:
        return unit(self.here)

    def vault(self, plan: Any) -> AbstractContextManager[Vault]:
        """The private rows in a vault that can pay for this calibrated plan: what it promises is then accounted."""
        return ways.vault(self.here, plan, self.rows)


def judge(task: Task, made: Any, agent: str, scale: ways.Scale) -> cell.Values:
    """The return of an agent that learned from the rows."""
    shapes = {name: column.shape[1:] for name, column in task.rows.items()}
    try:
        table = {name: np.asarray(made[name], task.rows[name].dtype) for name in FIELDS}
    except (TypeError, KeyError, ValueError, IndexError) as error:
        raise cell.refuse(f"no table ({error!r})", f"a mapping with the columns {', '.join(FIELDS)}") from None
    sizes = {len(column) for column in table.values()}
    if len(sizes) != 1 or {name: column.shape[1:] for name, column in table.items()} != shapes or not sizes - {0}:
        expected = ", ".join(f"{name} {['n', *shape]}" for name, shape in shapes.items())
        raise cell.refuse(", ".join(f"{name} {column.shape}" for name, column in table.items()), expected)
    if not all(np.isfinite(column).all() for column in table.values()):
        raise cell.refuse("numbers that are not finite", "finite numbers within the bounds of task.spec")
    (policy,) = returns.train(task.here.name, agent, [table], task.seed, scale)
    return {"return": float(task.here.returns(policy, task.seed)["return"][0])}


def others(maze: str, agent: str, epsilon: float) -> list[cell.Line]:
    found, results = [], table1_mazes.store()
    for way in table1_mazes.WAYS:
        with suppress(LookupError):
            column = table1_mazes.column(results, maze, agent, way, ways.at(way, epsilon))
            seeds = ", ".join(map(str, table1_mazes.SEEDS))
            found.append(cell.Line(WORDS[way], {"return": list(column)}, f"seeds {seeds}, `table1_mazes`"))
    place = {1.0: 0, 10.0: 1}.get(epsilon)
    for name, pair in PAPER.get((maze, agent.removesuffix("_long")), {}).items():
        if place is not None:
            found.append(cell.Line(f"{name}, as printed", {"return": pair[place]}, "the paper, D4RL's rows"))
    return found


def main(arguments: Sequence[str]) -> dict[str, list[float]]:
    options = cell.parser(__doc__, "synthesizer")
    options.add_argument("--maze", choices=table1_mazes.DOMAINS, default="umaze")
    options.add_argument("--agent", choices=("iql", "td3_bc", "edac"), default="td3_bc")
    chosen = options.parse_args(arguments)
    agent, scale = f"{chosen.agent}_long", ways.QUICK if chosen.quick else ways.FULL
    here = Maze(chosen.maze, 5_000, 5_000) if chosen.quick else Maze(chosen.maze)
    if agent not in table1_mazes.agents_of(chosen.maze):
        raise SystemExit(f"--agent {chosen.agent}: it costs too much in {chosen.maze}; choose iql or td3_bc")
    known = table1_mazes.store().rows.items()
    spent = [row["values"]["agent_cpu_s"] for key, row in known if key.startswith(f"{chosen.maze}/{agent}/")]
    return cell.run(
        cell.Cell(
            title=f"PrivORL, Table I: {chosen.maze}, {chosen.agent}, epsilon {chosen.epsilon:g}, "
            f"delta {here.delta:g}, one transition",
            measures=("return",),
            task=lambda seed: Task(here, chosen.epsilon, seed),
            judge=lambda task, made: judge(task, made, agent, scale),
            seeds=table1_mazes.SEEDS,
            others=others(chosen.maze, agent, chosen.epsilon),
            minutes=ALONE * float(np.mean(spent)) / 60 if spent else None,
        ),
        chosen,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
