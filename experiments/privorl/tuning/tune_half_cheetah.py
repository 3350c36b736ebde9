"""Which learner's rows teach an agent as much as D4RL's medium-replay: chosen on robots of other masses and gravity.

A row is one agent (TD3+BC) that learned from the 200,000 rows of one learner (PPO) on one of two other robots, and is
judged on that robot, on D4RL's scale, where medium-replay teaches TD3+BC 44.6 (arXiv:2106.06860). HalfCheetah-v5
itself, its rows and its seeds are never used. What is chosen is frozen in `table1_half_cheetah` by a hash.
"""

import functools
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from experiments.lib.table_cache import Columns, rows_of
from experiments.privorl.envs import half_cheetah
from experiments.privorl.envs.half_cheetah import Robot
from experiments.privorl.parts.synthesis_agents import LOCOMOTION
from tacit_worlds.agents.offline import train_tables
from tacit_worlds.locomotion import HORIZON

POPULATION, EPISODES, WANTED = 200_000, 10, 40.0  # `WANTED`: what real rows have to teach
ROBOTS_SEED, SEED, START_SEED = 2_000, 2_010, 2_020


@dataclass(frozen=True)
class Collector:
    """A learner, and which of its rows are kept."""

    episodes: int  # that it plays
    since: float = 0.0  # share of its life, at the beginning, of which nothing is kept

    def rows(self, robot: Robot, population: int, seed: int) -> Columns:
        lived = half_cheetah.lived(robot, population, episodes=self.episodes, seed=seed, since=self.since)
        return rows_of(lived)


COLLECTORS: Mapping[str, Collector] = {
    "former": Collector(640),
    "long": Collector(1_920),
    "late": Collector(1_920, since=0.25),
}
AGENTS = ("td3_bc_long", "td3_bc")
ROBOTS = ("first", "second")


def rows() -> list[str]:
    return [f"{robot}/{name}/{agent}" for robot, name, agent in itertools.product(ROBOTS, COLLECTORS, AGENTS)]


@functools.cache
def robots() -> Mapping[str, Robot]:
    return dict(zip(ROBOTS, half_cheetah.other_robots(len(ROBOTS), seed=ROBOTS_SEED), strict=True))


def configuration(key: str) -> Json:
    robot, name, agent = key.split("/")
    return {
        "robot": describe(robots()[robot]),
        "collector": describe(COLLECTORS[name]),
        "population": POPULATION,
        "agent": describe(LOCOMOTION[agent]),
        "judge": {"episodes": EPISODES, "seed": START_SEED},
    }


store = store_of(__file__, configuration, "each row's name holds its settings")


@functools.lru_cache(maxsize=1)
def collected(robot: str, collector: Collector, population: int) -> tuple[Columns, float]:
    """Rows, which the agents of a collector share, and their CPU seconds."""
    began = time.process_time()
    made = collector.rows(robots()[robot], population, SEED)
    return made, round(time.process_time() - began, 1)


def run_row(key: str, results: Store) -> None:
    torch.set_num_threads(1)
    robot, name, agent = key.split("/")
    table, spent = collected(robot, COLLECTORS[name], POPULATION)
    played = half_cheetah.normalised(table["rewards"].reshape(-1, HORIZON).sum(axis=1))
    began = time.process_time()
    policy = train_tables([table], LOCOMOTION[agent], seeds=[SEED])[0]
    values = {
        "return": round(float(half_cheetah.evaluate(policy, seed=START_SEED, robot=robots()[robot])[0]), 1),
        "rows_mean": round(float(played.mean()), 1),
        "rows_last": round(float(played[-20:].mean()), 1),
        "collect_cpu_s": spent,
        "agent_cpu_s": round(time.process_time() - began, 1),
    }
    results.put(key, dataset=f"replay on another robot ({robot}), {POPULATION} transitions", seed=SEED, values=values)


def scores(results: Store) -> dict[tuple[str, str], float]:
    return {
        (name, agent): float(np.mean([results.values(f"{robot}/{name}/{agent}")["return"] for robot in ROBOTS]))
        for name, agent in itertools.product(COLLECTORS, AGENTS)
    }


def chosen(results: Store) -> tuple[str, str]:
    found = scores(results)
    return max(found, key=lambda pair: found[pair])


def figures() -> Figures:
    results = store()
    best = chosen(results)
    yield at_least(f"other robots, {' with '.join(best)}: return of real rows", scores(results)[best], WANTED)


if __name__ == "__main__":
    command_line(__file__)
