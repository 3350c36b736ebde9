"""What tables I and II in the mazes cost, one cell of each kind measured, before the others are run.

    python -m experiments.privorl.parts.mazes_plan              # measure what is missing, then print the plan of cells
    python -m experiments.privorl.parts.mazes_plan --only step  # measure steps alone
    python -m experiments.privorl.parts.mazes_plan --only       # measure nothing

A row is the CPU time of one thread: of a step of an agent at a width (`step`), or of a table (`table1`, `table2`: that
of umaze at epsilon 10 and the first data set, which is kept and not made twice). Hours are cells times these; a table
is taken to cost as much in every maze and at either epsilon. All cells together exceed `BUDGET`, the hours of all
experiments that are made again: so EDAC learns in umaze alone, and large at epsilon 10 comes last, where it is cut.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from experiments.lib.configuration import Json, describe
from experiments.lib.store import Store
from experiments.lib.table_cache import rows_of
from experiments.lib.tables import markdown
from experiments.privorl import table1_mazes, table2_mazes
from experiments.privorl.parts import synthesis_ways, trajectory_ways
from experiments.privorl.parts.synthesis_agents import LONG, MAZE
from experiments.privorl.parts.synthesis_domains import DOMAINS
from experiments.privorl.parts.synthesis_returns import folder
from experiments.privorl.parts.trajectory_domains import WITH_LARGE
from tacit_worlds import maze
from tacit_worlds.agents.offline import train_tables
from tacit_worlds.maze_layouts import LAYOUTS

NAME, BUDGET = "mazes_plan", 36.0
SIZES = ((64, 128), (128, 256), (256, 256))
"""Widths and batches of a step."""
STEPS, ROWS, FIRST, EPSILON = 60, 20_000, table1_mazes.SEEDS[0], 10.0
TABLES = {"table1": table1_mazes, "table2": table2_mazes}


def rows() -> list[str]:
    """All keys, in the order in which they are run."""
    steps = [f"step/{agent}/{width}/{batch}" for agent in LONG for width, batch in SIZES]
    return [*steps, *(f"{table}/{way}" for table, module in TABLES.items() for way in module.WAYS if way != "real")]


def configuration(key: str) -> dict[str, Json]:
    """Whose step or which table."""
    kind, name, *sizes = key.split("/")
    if kind == "step":
        width, batch = map(int, sizes)
        return {"agent": describe(replace(MAZE[name], width=width, batch=batch)), "steps": STEPS, "rows": ROWS}
    if kind == "table1":
        return synthesis_ways.configuration(DOMAINS["umaze"], name, EPSILON)
    return trajectory_ways.configuration(WITH_LARGE["umaze"], name, EPSILON)


def store(path: Path | None = None) -> Store:
    """The result file."""
    return Store(path or folder(quick=False) / f"{NAME}.json", configuration, "none: nothing is chosen here")


def run_row(key: str, results: Store) -> None:
    """Measure one kind."""
    kind, name, *sizes = key.split("/")
    if kind == "step":
        values: dict[str, Any] = {"ms": round(step(replace(MAZE[name], width=int(sizes[0]), batch=int(sizes[1]))), 2)}
    elif kind == "table1":
        notes = synthesis_ways.table(DOMAINS["umaze"], name, EPSILON, FIRST)[1]
        values = stages(notes)
    else:
        values = stages(trajectory_ways.table(WITH_LARGE["umaze"], name, EPSILON, FIRST).notes)
    results.put(key, dataset="simulated ring" if kind == "step" else "simulated umaze", seed=FIRST, values=values)
    print(f"{key}: {values}", flush=True)


def step(config: Any) -> float:
    """CPU milliseconds of one step: of three times `STEPS` less those of `STEPS`, after as many to warm up."""
    table = rows_of(maze.collect(LAYOUTS["ring"], ROWS, seed=FIRST))
    spent = []
    for steps in (STEPS, STEPS, 3 * STEPS):
        began = time.process_time()
        train_tables([table], replace(config, steps=steps), seeds=[FIRST])
        spent.append(time.process_time() - began)
    return 1e3 * (spent[2] - spent[1]) / (2 * STEPS)


def stages(notes: Mapping[str, Any]) -> dict[str, float]:
    """CPU seconds of public pre-training, fitting and sampling."""
    return {stage: notes[stage]["cpu_s"] for stage in ("pretrain", "fit", "sample") if stage in notes}


def each(results: Store) -> Iterator[tuple[str, str, str, int, float | None]]:
    """Table, maze, what is run, how many, and CPU seconds of one; None where it was not measured."""
    for table, module in TABLES.items():
        cells = module.cells()
        for (domain, agent), count in Counter((cell.domain, cell.agent) for cell in cells).items():
            config = MAZE[agent]
            key = f"step/{agent}/{config.width}/{config.batch}"
            known = results.rows.get(key)
            yield table, domain, agent, count, None if known is None else config.steps * known["values"]["ms"] / 1e3
        made = dict.fromkeys((cell.domain, cell.way, cell.epsilon, cell.seed) for cell in cells if cell.way != "real")
        for (domain, way), count in Counter((domain, way) for domain, way, *_ in made).items():
            known = results.rows.get(f"{table}/{way}")
            yield table, domain, way, count, None if known is None else sum(known["values"].values())


def plan(results: Store) -> str:
    """Hours of every kind of cell, and their sum beside the budget."""
    lines, total = [], 0.0
    for table, domain, what, count, seconds in each(results):
        hours = None if seconds is None else count * seconds / 3_600
        total += hours or 0.0
        shown = ("not measured", "") if seconds is None else (f"{seconds:.0f}", f"{hours:.2f}")
        lines.append([f"{table}, {domain}, {what}", str(count), *shown])
    lines.append(["all that is measured", "", "", f"{total:.1f} of {BUDGET:g}"])
    return markdown(("cells", "CPU s each", "CPU hours"), lines)


def main(arguments: list[str]) -> None:
    """Measure what is missing and print the plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = ("step", *TABLES)
    parser.add_argument("--only", nargs="*", choices=kinds, default=kinds, help="kinds of rows")
    only = parser.parse_args(arguments).only
    torch.set_num_threads(1)
    results = store()
    for key in rows():
        if key.split("/")[0] in only and not results.has(key):
            run_row(key, results)
    print(plan(results))


if __name__ == "__main__":
    main(sys.argv[1:])
