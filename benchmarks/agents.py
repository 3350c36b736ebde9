"""Five seeds of an offline agent at once against one after the other: process CPU time on one thread.

Run `python -m benchmarks.agents`. The last line is one JSON object. `ratio_loop` is the time of five seeds trained one
after the other by a single-file implementation (`benchmarks.peers.single_file_agents`: one `nn.Module` and one Adam a
network) over that of `tacit.agents` training the five at once, with the same sizes, updates and number of steps: the
smallest of the three agents, with batches of 128 rows and networks 64 wide. `ratio_own_loop` compares with tacit's own
code called once a seed: what stacking itself saves. `features_...` are the same with the settings of the experiments in
mazes, whose Fourier features make the first layer the dearest: there arithmetic is most of the work on both sides.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics
from dataclasses import replace
from typing import Any

from experiments.synthesis_agents import MAZE

from benchmarks.peers import single_file_agents
from tacit.agents.edac import EdacConfig
from tacit.agents.iql import IqlConfig
from tacit.agents.offline import train
from tacit.agents.td3_bc import Td3BcConfig
from tacit.envs import maze

SEEDS = (0, 1, 2, 3, 4)
ROWS, STEPS = 20_000, 128


AGENTS: dict[str, Any] = {
    "iql": IqlConfig(batch=128, width=64),
    "td3_bc": Td3BcConfig(),
    "edac": EdacConfig(),
}


def compare(agent: str, defaults: Any, name: str, repeats: int) -> dict[str, float]:
    """Milliseconds a step and seed of the three ways, and the two ratios."""
    config = replace(defaults, steps=STEPS)
    columns = maze.collect(maze.LAYOUTS["ring"], ROWS, seed=900)
    peer = single_file_agents.TRAIN[agent]
    seconds = timing.cpu_seconds(
        {
            "stacked": lambda: train(columns, config, seeds=SEEDS),
            "own_loop": lambda: [train(columns, config, seeds=[seed]) for seed in SEEDS],
            "loop": lambda: [peer(columns, config, seed) for seed in SEEDS],
        },
        repeats=repeats,
        warmup=1,
    )
    milliseconds = {
        f"{name}_{way}_ms": 1000 * statistics.median(spent) / STEPS / len(SEEDS) for way, spent in seconds.items()
    }
    ratios = {
        f"{name}_ratio_loop": timing.ratio(seconds, "loop", "stacked"),
        f"{name}_ratio_own_loop": timing.ratio(seconds, "own_loop", "stacked"),
    }
    print(f"{name}: " + ", ".join(f"{key} {value:.2f}" for key, value in (milliseconds | ratios).items()), flush=True)
    return milliseconds | ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    figures = {}
    for agent, config in AGENTS.items():
        figures |= compare(agent, config, agent, repeats)
        figures |= compare(agent, MAZE[agent], f"features_{agent}", repeats)
    timing.report(
        {
            "benchmark": "agents",
            **figures,
            **{ratio: min(figures[f"{name}_{ratio}"] for name in AGENTS) for ratio in ("ratio_loop", "ratio_own_loop")},
            "at_least": {"ratio_loop": 3},
        }
    )


if __name__ == "__main__":
    main()
