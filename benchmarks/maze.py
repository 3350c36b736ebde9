"""Maze2D in closed form over 1,024 agents against gymnasium-robotics' PointMaze, one environment.

Run `python -m benchmarks.maze`. Both step with random actions in the medium maze; the figure is environment steps per
CPU second, over the same number of rounds. PointMaze runs without its wrappers, which favours it.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics
import warnings

import gymnasium
import gymnasium_robotics
import numpy as np

from tacit_worlds.maze import LAYOUTS, MazeVector, random_start

AGENTS, VECTOR_STEPS, SINGLE_STEPS = 1_024, 50, 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    vector = MazeVector(LAYOUTS["medium"], random_start(LAYOUTS["medium"], AGENTS, rng))
    actions = rng.uniform(-1, 1, (VECTOR_STEPS, AGENTS, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium.register_envs(gymnasium_robotics)
        point = gymnasium.make("PointMaze_MediumDense-v3", continuing_task=True).unwrapped
        point.reset(seed=0)

    def tacit() -> None:
        for action in actions:
            vector.step(action)

    def pointmaze() -> None:
        for action in actions[0, :SINGLE_STEPS]:
            point.step(action)

    seconds = timing.cpu_seconds({"tacit": tacit, "pointmaze": pointmaze}, repeats=arguments.repeats)
    ours = VECTOR_STEPS * AGENTS / statistics.median(seconds["tacit"])
    theirs = SINGLE_STEPS / statistics.median(seconds["pointmaze"])
    print(f"tacit, {AGENTS} agents   {ours:12,.0f} steps/s")
    print(f"PointMaze, one        {theirs:12,.0f} steps/s")
    scale = VECTOR_STEPS * AGENTS / SINGLE_STEPS
    timing.report(
        {
            "benchmark": "maze",
            "steps_per_s": ours,
            "ratio_pointmaze": scale * timing.ratio(seconds, "pointmaze", "tacit"),
            "at_least": {"ratio_pointmaze": 50},
        },
        packages=("numpy", "gymnasium-robotics", "mujoco"),
    )


if __name__ == "__main__":
    main()
