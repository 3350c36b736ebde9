"""Which agent learns most from demonstrations in the kitchen: chosen on public people, judged by the public tasks.

A row is one agent that learned from the public demonstrations as `table1_kitchen` sees them. It is judged by the
tasks that these people do (`kitchen_controller.OTHER`). Private demonstrations and their tasks are never used.
`imitation` is TD3+BC whose weight of the value is next to nothing.
"""

import time
from typing import Any

import numpy as np
import torch

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, markdown, store_of
from experiments.lib.table_cache import Columns
from experiments.privorl.envs import kitchen, kitchen_controller
from experiments.privorl.parts.synthesis_agents import KITCHEN
from experiments.privorl.table1_kitchen import Glance, Glancing
from tacit_worlds.agents.offline import train_tables

SEEDS, EPISODES, WANTED = (1_010,), 5, 50.0  # `WANTED`: what public rows have to teach of the public tasks


def rows() -> list[str]:
    return [f"{agent}/{seed}" for seed in SEEDS for agent in KITCHEN]


def configuration(key: str) -> Json:
    return {
        "rows": Glance().rows,
        "agent": describe(KITCHEN[key.split("/")[0]]),
        "judge": {"tasks": describe(kitchen_controller.OTHER.order), "episodes": EPISODES},
    }


store = store_of(__file__, configuration, "each row's name holds its settings")


def run_row(key: str, results: Store) -> None:
    torch.set_num_threads(1)
    agent, word = key.split("/")
    seed, began = int(word), time.process_time()
    table: Columns = Glance().public(seed)
    policy = train_tables([table], KITCHEN[agent], seeds=[seed])[0]
    spent = round(time.process_time() - began, 1)
    tasks = kitchen_controller.OTHER.order
    found = float(kitchen.evaluate(Glancing(policy), tasks=tasks, episodes=EPISODES, seed=seed)[0])
    values = {"return": round(found, 1), "agent_cpu_s": spent}
    results.put(key, dataset=f"public demonstrations, {len(table['rewards'])} transitions", seed=seed, values=values)


def scores(results: Store) -> dict[str, float]:
    return {agent: float(np.mean([results.values(f"{agent}/{seed}")["return"] for seed in SEEDS])) for agent in KITCHEN}


def chosen(results: Store) -> str:
    found = scores(results)
    return max(found, key=lambda agent: found[agent])


def figures() -> Figures:
    results = store()
    best = chosen(results)
    yield at_least(f"public tasks, {best}: return of public rows", scores(results)[best], WANTED)


def table(results: Store) -> str:
    lines: list[list[Any]] = []
    for agent in KITCHEN:
        found = [f"{agent}/{seed}" for seed in SEEDS]
        lines.append([agent, *(f"{results.values(key)['return']:.1f}" if results.has(key) else "" for key in found)])
    return markdown([f"seed {seed:,}" for seed in SEEDS], lines)


if __name__ == "__main__":
    command_line(__file__)
