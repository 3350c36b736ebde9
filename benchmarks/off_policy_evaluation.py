"""GPOPE's study of step sizes against plain NumPy loops: the chain, m = N = 1,000, 39 features.

Run `python -m benchmarks.off_policy_evaluation`. The last line is one JSON object, process CPU time on one thread:
`speedup_over_loop` is the time of 100 trials x 12 step sizes as loops over trials, step sizes and iterations, as the
paper's box writes them (A, b and C of the drawn trajectory in every iteration), over that of `gpope_step_sizes.tune`,
which includes making the statistics. `speedup_over_precomputed` is the same for loops that have the statistics
beforehand. The loops are measured on a few of the 1,200 runs and scaled. `cost_12_over_1` is what 12 step sizes cost
over one. `hiv_speedup` and the HIV errors are those of `benchmarks.ope_hiv`.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics

import numpy as np
from experiments.gpope_step_sizes import tune

from benchmarks import ope_hiv
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import uniform_policy
from tacit.methods.off_policy_evaluation.features import OneHot
from tacit.methods.off_policy_evaluation.gpope import Gpope
from tacit.methods.off_policy_evaluation.policies import Behaviour
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.units import Unit
from tacit_worlds import chain

UNITS, STEPS, TRIALS, MEASURED = 1_000, 1_000, 100, 3
STEP_SIZES = tuple(np.geomspace(0.01, 10, 12).tolist())
CLIP, SIGMA, n = 0.01, 1.29, chain.STATES - 1
Episode = tuple[np.ndarray, np.ndarray, np.ndarray]


def episodes(columns: dict[str, np.ndarray]) -> list[Episode]:
    """(phi, phi', r) of each trajectory: features [tau, n] of its states and of their successors, 0 after the end."""
    table = np.eye(chain.STATES)[:, :n]
    ends = np.flatnonzero(columns["terminations"] | columns["truncations"]) + 1
    states, after, rewards = (
        np.split(columns[name], ends[:-1]) for name in ("observations", "next_observations", "rewards")
    )
    return [(table[s], table[a], r.astype(np.float64)) for s, a, r in zip(states, after, rewards, strict=True)]


def statistics_of(episode: Episode) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The paper's (2.2)."""
    phi, after, rewards = episode
    tau = len(rewards)
    return phi.T @ (phi - chain.GAMMA * after) / tau, phi.T @ rewards / tau, phi.T @ phi / tau


def box(data: list[Episode], beta: float, generator: np.random.Generator) -> np.ndarray:
    """The paper's algorithm 1, line by line."""
    theta, w = np.zeros(n), np.zeros(n)
    for _ in range(STEPS):
        A, b, C = statistics_of(data[generator.integers(len(data))])
        gradient = np.concatenate([-A.T @ w, A @ theta + C @ w - b])
        gradient = gradient / max(1.0, float(np.linalg.norm(gradient)) / CLIP)
        gradient = gradient + CLIP * SIGMA * generator.normal(size=2 * n)
        theta, w = theta - beta * gradient[:n], w - beta * gradient[n:]
    return theta


def precomputed(
    data: list[tuple[np.ndarray, np.ndarray, np.ndarray]], beta: float, generator: np.random.Generator
) -> np.ndarray:
    """The same with A, b and C of every trajectory at hand."""
    theta, w = np.zeros(n), np.zeros(n)
    for _ in range(STEPS):
        A, b, C = data[generator.integers(len(data))]
        gradient = np.concatenate([-A.T @ w, A @ theta + C @ w - b])
        gradient = gradient / max(1.0, float(np.linalg.norm(gradient)) / CLIP)
        gradient = gradient + CLIP * SIGMA * generator.normal(size=2 * n)
        theta, w = theta - beta * gradient[:n], w - beta * gradient[n:]
    return theta


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    columns = chain.collect(uniform_policy(chain.ACTIONS), UNITS, seed=0)
    data = Trajectories.from_arrays(**columns, spec=chain.spec(), simulated=True)
    plan = Gpope(
        problem=Problem(gamma=chain.GAMMA, horizon=chain.HORIZON, return_range=(0.0, 1.0)),
        features=OneHot(n),
        mode="paper",
        steps=STEPS,
        clip_norm=CLIP,
        noise_multiplier=SIGMA,
    ).account(unit=Unit("trajectory", "replace_one", UNITS), delta=0.1 / UNITS)
    listed = episodes(columns)
    ready = [statistics_of(episode) for episode in listed]
    generator = np.random.default_rng(0)
    picked = STEP_SIZES[:: len(STEP_SIZES) // MEASURED][:MEASURED]

    seconds = timing.cpu_seconds(
        {
            "twelve": lambda: tune(data, plan, Behaviour(), STEP_SIZES, trials=TRIALS, seed=0),
            "one": lambda: tune(data, plan, Behaviour(), STEP_SIZES[:1], trials=TRIALS, seed=0),
            "box": lambda: [box(listed, beta, generator) for beta in picked],
            "precomputed": lambda: [precomputed(ready, beta, generator) for beta in picked],
        },
        repeats=arguments.repeats,
        warmup=1,
    )
    scale = TRIALS * len(STEP_SIZES) / MEASURED
    for name, label, factor in (
        ("twelve", "100 trials x 12 step sizes", 1.0),
        ("one", "100 trials x 1 step size", 1.0),
        ("box", "loops as the paper's box, scaled", scale),
        ("precomputed", "loops over statistics, scaled", scale),
    ):
        print(f"{label:34s}{factor * statistics.median(seconds[name]):10.3f} s")
    timing.report(
        {
            "benchmark": "off_policy_evaluation",
            "speedup_over_loop": scale * timing.ratio(seconds, "box", "twelve"),
            "speedup_over_precomputed": scale * timing.ratio(seconds, "precomputed", "twelve"),
            "cost_12_over_1": timing.ratio(seconds, "twelve", "one"),
            "loop_runs_measured": MEASURED,
            "loop_runs_scaled_to": TRIALS * len(STEP_SIZES),
            **ope_hiv.figures(),
            "at_least": {"speedup_over_loop": 30, "hiv_speedup": 20},
            "at_most": {"cost_12_over_1": 2, "hiv_error": ope_hiv.ACCURACY, "hiv_error_scipy": ope_hiv.ACCURACY},
        },
        packages=("numpy", "scipy"),
    )


if __name__ == "__main__":
    main()
