"""The settings of the offline agents, chosen on public layouts alone: `python -m experiments.tune_agents`.

Three public mazes play the private data, one after the other. A cell trains an agent on a million real rows of each and
on rows of tacit's synthesizer at epsilon 10 (fitted to that maze: `experiments.tune_raking`), stacked, and holds the
normalised returns of the policies after the last step, from all cells and from those far from the goal, and the CPU
seconds a member. The cell "default" is what the experiments use (`experiments.synthesis_agents`), with three seeds; the
others change it in one respect, with one. "trivial" are policies that know nothing of the walls: the best constant
push, and a controller that runs straight at the goal. An agent that does not beat them has learned nothing of its maze.
The evaluation's mazes and seeds are never used. Rows of other synthesizers are not looked at: the settings may suit
tacit's rows better than theirs.

Prints one line a cell and writes `experiments/results/tuning_agents.json`; goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from experiments import tune_synthesis
from experiments.configuration import Json, describe
from experiments.store import RESULTS, ROOT, Store
from experiments.synthesis_agents import MAZE, TRIVIAL
from experiments.tune_raking import LAYOUTS, raked
from tacit.agents import offline
from tacit.envs.rollouts import Policies
from tacit.evaluation.statistics import evaluate

SEEDS, START_SEED, EPSILON, EPISODES = (900, 901, 902), 950, 10.0, 100
CHANGES: dict[str, tuple[dict[str, Any], ...]] = {
    "iql": ({"features": None}, {"inverse_temperature": 3.0}, {"layer_norm": True}),
    "td3_bc": ({"features": None}, {"layer_norm": True}, {"alpha": 8.0}, {"steps": 8_000}),
    "edac": ({"features": None}, {"diversity": 0.0}),
}


def cells(quick: bool) -> Iterator[tuple[str, str, dict[str, Any], Sequence[int]]]:
    """(name, agent, change of its settings, seeds)."""
    for agent in MAZE:
        yield "default", agent, {"steps": 100} if quick else {}, SEEDS[:1] if quick else SEEDS
    for agent, changes in CHANGES.items() if not quick else ():
        for change in changes:
            yield ",".join(f"{key}={value}" for key, value in change.items()), agent, change, SEEDS[:1]


def returns(layout: str, policies: Policies) -> dict[str, list[float]]:
    """Of each policy, from all cells and from far ones."""
    return {
        starts: [
            round(float(value), 1)
            for value in evaluate(LAYOUTS[layout], policies, starts=starts, seed=START_SEED, episodes=EPISODES)
        ]
        for starts in ("all", "far")
    }


def configuration(key: str, *, quick: bool = False) -> Json:
    """Everything that decides a row, but its seeds."""
    kind, name = key.split("/")
    public = {"layouts": describe(LAYOUTS), "population": tune_synthesis.POPULATION, "episodes": EPISODES}
    if kind == "trivial":
        return {"policies": list(TRIVIAL), "layout": name, **public}
    changes = {named: change for named, agent, change, _ in cells(quick) if agent == kind}
    return {"agent": describe(replace(MAZE[kind], **changes[name])), "epsilon": EPSILON, **public}


def run(agent: str, change: dict[str, Any], seeds: Sequence[int], quick: bool) -> dict[str, Any]:
    """Returns on both tables of every maze, seconds, and the settings."""
    config = replace(MAZE[agent], **change)
    names = [(layout, kind) for layout in LAYOUTS for kind in ("real", "synthetic")]
    tables = [
        tune_synthesis.private_rows(layout) if kind == "real" else raked(layout, "plane", EPSILON, quick)[0]
        for layout, kind in names
    ]
    began = time.process_time()
    policies = offline.train_tables(tables, config, seeds=seeds)
    spent = (time.process_time() - began) / len(tables) / len(seeds)
    found = {
        f"{layout}/{kind}": returns(layout, policy) for (layout, kind), policy in zip(names, policies, strict=True)
    }
    return {"returns": found, "cpu_s": round(spent, 1), "config": asdict(config)}


def trivial(layout: str) -> dict[str, dict[str, list[float]]]:
    """Returns of policies that know no walls."""
    return {name: returns(layout, make(LAYOUTS[layout])) for name, make in TRIVIAL.items()}


def main(arguments: list[str]) -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 steps an agent, written to runs/quick/")
    parser.add_argument("--only", nargs="+", choices=MAZE, default=list(MAZE), help="agents")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    folder = ROOT / "runs" / "quick" if options.quick else RESULTS
    asked = functools.partial(configuration, quick=options.quick)
    store = Store(folder / "tuning_agents.json", asked, hyperparameters="each row holds its settings")
    rows = f"simulated mazes {', '.join(LAYOUTS)}, {tune_synthesis.POPULATION} transitions each, and rows made of them"
    for layout in LAYOUTS:
        if not store.has(f"trivial/{layout}"):
            store.put(f"trivial/{layout}", dataset=rows, seed=START_SEED, values=trivial(layout))
    for name, agent, change, seeds in cells(options.quick):
        key = f"{agent}/{name}"
        if agent in options.only and not store.has(key):
            values = run(agent, change, seeds, options.quick)
            store.put(key, dataset=rows, seed=seeds[0], values=values)
            words = "; ".join(f"{where} {found['all']}" for where, found in values["returns"].items())
            print(f"{key}: {words}; {values['cpu_s']} CPU s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
