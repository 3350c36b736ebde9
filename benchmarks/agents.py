"""Five seeds of an offline agent at once against one after the other: process CPU time on one thread.

Run `python -m benchmarks.agents`. The last line is one JSON object. `iql_over` and `td3_bc_over` are the time of five
seeds that d3rlpy 2.8.0 trains one after the other (`benchmarks.peers.d3rlpy_agents`) over that of `tacit.agents`
training the five at once: same sizes, batches of 128 rows, updates and number of steps, two hidden layers of 64, no
LayerNorm. d3rlpy has no EDAC (its SAC has any number of critics, but no diversity): `edac_over` is against
`benchmarks.peers.single_file_agents`, one `nn.Module` and one Adam a network. `..._over_256` are the same with layers
of 256, without a bar: there the matrix products are most of the work on both sides.

`..._loop` compares with the single file for every agent, with their own settings; `..._own_loop` with tacit's own code
called once a seed: what stacking itself saves. `features_...` are the same with the settings of the experiments in
mazes, whose Fourier features make the first layer the dearest.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from experiments.privorl.parts.synthesis_agents import MAZE

from benchmarks.peers import single_file_agents
from tacit_worlds import maze
from tacit_worlds.agents.edac import EdacConfig
from tacit_worlds.agents.iql import IqlConfig
from tacit_worlds.agents.offline import train
from tacit_worlds.agents.td3_bc import Td3BcConfig

d3rlpy_agents: ModuleType | None
try:
    from benchmarks.peers import d3rlpy_agents
except ImportError as missing:
    print(missing)
    d3rlpy_agents = None

SEEDS = (0, 1, 2, 3, 4)
ROWS, STEPS = 20_000, 128


AGENTS: dict[str, Any] = {
    "iql": IqlConfig(batch=128, width=64),
    "td3_bc": Td3BcConfig(),
    "edac": EdacConfig(),
}
PLAIN = AGENTS | {"iql": replace(AGENTS["iql"], layer_norm=False)}


def ratios(config: Any, peers: dict[str, Callable[[], object]], name: str, columns: Any, repeats: int) -> list[float]:
    """How many times as long as the five at once each of the peers takes."""
    ways = {"stacked": lambda: train(columns, config, seeds=SEEDS), **peers}
    seconds = timing.cpu_seconds(ways, repeats=repeats, warmup=1)
    found = [timing.ratio(seconds, way, "stacked") for way in peers]
    for way, spent in seconds.items():
        each = 1000 * statistics.median(spent) / config.steps / len(SEEDS)
        print(f"{name}, {way}: {each:.2f} ms a step and seed", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    columns = maze.collect(maze.LAYOUTS["ring"], ROWS, seed=900)
    rows = None if d3rlpy_agents is None else d3rlpy_agents.dataset(columns)
    figures: dict[str, float] = {}

    def peers(agent: str, config: Any) -> dict[str, Callable[[], object]]:
        if agent == "edac":
            return {"peer": lambda: [single_file_agents.edac(columns, config, seed) for seed in SEEDS]}
        if d3rlpy_agents is None:
            return {}
        return {"peer": lambda: [d3rlpy_agents.train(rows, config, seed) for seed in SEEDS]}

    def loops(agent: str, config: Any) -> dict[str, Callable[[], object]]:
        return {
            "loop": lambda: [single_file_agents.TRAIN[agent](columns, config, seed) for seed in SEEDS],
            "own_loop": lambda: [train(columns, config, seeds=[seed]) for seed in SEEDS],
        }

    for agent, own in AGENTS.items():
        for width, suffix in ((64, ""), (256, "_256")):
            config = replace(PLAIN[agent], width=width, steps=arguments.steps)
            if ways := peers(agent, config):
                name = f"{agent}, {width}"
                (figures[f"{agent}_over{suffix}"],) = ratios(config, ways, name, columns, arguments.repeats)
        for settings, prefix in ((own, agent), (MAZE[agent], f"features_{agent}")):
            config = replace(settings, steps=arguments.steps)
            ways = loops(agent, config)
            found = ratios(config, ways, prefix, columns, arguments.repeats)
            figures |= {f"{prefix}_{way}": ratio for way, ratio in zip(ways, found, strict=True)}
    timing.report(
        {
            "benchmark": "agents",
            **figures,
            "ratio_loop": min(figures[f"{agent}_loop"] for agent in AGENTS),
            "ratio_own_loop": min(figures[f"{agent}_own_loop"] for agent in AGENTS),
            "at_least": {"iql_over": 8, "td3_bc_over": 10, "edac_over": 6, "ratio_loop": 3},
        },
        packages=("numpy", "torch", *(() if d3rlpy_agents is None else ("d3rlpy",))),
    )


if __name__ == "__main__":
    main()
