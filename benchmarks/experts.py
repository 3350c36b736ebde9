"""The count of experts that agree with trajectories, against torch and plain loops: process CPU time on one thread.

Run `python -m benchmarks.experts` (minutes, 3 GB). The last line is one JSON object. What is measured is
`above_threshold.stable_lengths`: 25 trajectories of 200 steps, 3,000 networks 8-512-256-64-4 that agree
on every step, a floor of 0.02 and epsilon 0.264 a trajectory, so that prefixes end after some 30 steps.

`gflops` are the products of the states that had to be looked at over the time of the whole count; `share_of_matmul` is
that over `torch.matmul` of 8 x (200, 512) and 8 x (512, 256) in the same run. `speedup_over_loop` is the time of asking
one expert at a time about one state at a time, until the prefix ends, as the paper's algorithm reads (a torch module
each; measured on a few states, all experts, and scaled). `speedup_over_trajectories` is that of asking one expert at a
time about all states of a trajectory (measured on a few experts and scaled). `memory_over_weights` is the peak
memory of a process that makes such experts and counts, interpreter and libraries included, over the bytes of the
stacked weights. `linear_pairs_per_s` are pairs of expert and state for 3,000 linear policies of 8 inputs.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import itertools
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tacit.agents.features import Scaled
from tacit.agents.stacked import StackedPolicies
from tacit.privacy.mechanisms.above_threshold import SLICE, AboveThreshold, stable_lengths
from tacit.privacy.mechanisms.thresholds import PMin
from tacit.privacy.noise.secret import SecretNoise

EXPERTS, TRAJECTORIES, HORIZON, FLOOR = 3_000, 25, 200, 0.02
SIZES = (8, 512, 256, 64, 4)
PRODUCT = (8, 200, 512, 256)  # experts, states, inputs, outputs
STEPS_OF_LOOP, EXPERTS_OF_LOOP = 2, 100
LINEAR_STATES = 5_000
PART = AboveThreshold(
    name="prefixes",
    trajectories=TRAJECTORIES,
    horizon=HORIZON,
    actions=SIZES[-1],
    experts=EXPERTS,
    floor=PMin(FLOOR),
    epsilon=0.264,
    delta=1 / (2 * EXPERTS * TRAJECTORIES),
    source="logs",
)


def experts(sizes: tuple[int, ...], seed: int = 0) -> StackedPolicies:
    """Random networks that prefer action 0 everywhere."""
    generator = np.random.default_rng(seed)
    weights = []
    for n, k in itertools.pairwise(sizes):
        matrix = np.empty((EXPERTS, n, k), np.float32)
        for own in matrix:
            generator.standard_normal(out=own, dtype=np.float32)
            own /= np.float32(math.sqrt(n))
        weights.append((matrix, np.zeros((EXPERTS, k), np.float32)))
    weights[-1][1][:, 0] = 100.0
    inputs = sizes[0]
    return StackedPolicies(Scaled((-1.0,) * inputs, (1.0,) * inputs), sizes, tuple(weights), FLOOR)


def trajectories() -> dict[str, np.ndarray]:
    """Full ones, padded nowhere."""
    shape = (TRAJECTORIES, HORIZON)
    observations = np.random.default_rng(1).uniform(-1, 1, (*shape, SIZES[0])).astype(np.float32)
    return {"observations": observations, "actions": np.zeros(shape, np.int64), "mask": np.ones(shape, bool)}


def counted(stack: StackedPolicies) -> np.ndarray:
    """How many steps of each trajectory pass, with the same noise each time."""
    return stable_lengths(PART, stack, trajectories(), SecretNoise.for_tests(0))


def memory() -> float:
    """Peak bytes of this process over those of the stacked weights."""
    stack = experts(SIZES)
    counted(stack)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(peak.split()[1]) / sum(array.nbytes for pair in stack.weights for array in pair)


def figures(repeats: int) -> dict[str, object]:
    """Speeds of the count, of torch and of loops."""
    import torch

    torch.set_num_threads(1)
    stack, drawn = experts(SIZES), trajectories()
    lengths = counted(stack)
    states = int(np.minimum(HORIZON, (lengths // SLICE + 1) * SLICE).sum())
    asked = int(np.minimum(HORIZON, lengths + 1).sum())
    work = 2e-9 * EXPERTS * sum(n * k for n, k in itertools.pairwise(SIZES))
    a, b = torch.randn(*PRODUCT[:3]), torch.randn(PRODUCT[0], *PRODUCT[2:])
    modules = [_module(stack, k) for k in range(EXPERTS)]
    inputs = torch.from_numpy(stack.features(drawn["observations"]))

    @torch.no_grad()
    def steps() -> list[int]:
        return [
            sum(int(module(inputs[0, t]).argmax()) == drawn["actions"][0, t] for module in modules)
            for t in range(STEPS_OF_LOOP)
        ]

    @torch.no_grad()
    def whole() -> np.ndarray:
        return sum(
            (module(inputs[0]).argmax(-1).numpy() == drawn["actions"][0]) for module in modules[:EXPERTS_OF_LOOP]
        )

    assert steps() == [EXPERTS] * STEPS_OF_LOOP
    assert (whole() == EXPERTS_OF_LOOP).all()
    seconds = timing.cpu_seconds(
        {
            "count": lambda: counted(stack),
            "matmul": lambda: _several(lambda: a @ b, 50),
            "steps": steps,
            "whole": whole,
        },
        repeats=repeats,
        warmup=1,
    )
    product = 50 * 2e-9 * math.prod(PRODUCT)
    rates = {
        "gflops": work * states / statistics.median(seconds["count"]),
        "matmul_gflops": product / statistics.median(seconds["matmul"]),
    }
    print(", ".join(f"{name} {rate:.1f}" for name, rate in rates.items()))
    return {
        **rates,
        "share_of_matmul": work * states / product * timing.ratio(seconds, "matmul", "count"),
        "speedup_over_loop": asked / STEPS_OF_LOOP * timing.ratio(seconds, "steps", "count"),
        "speedup_over_trajectories": TRAJECTORIES * EXPERTS / EXPERTS_OF_LOOP * timing.ratio(seconds, "whole", "count"),
        "count_s": statistics.median(seconds["count"]),
        "mean_prefix": float(lengths.mean()),
        "states": states,
    }


def linear(repeats: int) -> dict[str, object]:
    """`linear_pairs_per_s`."""
    stack = experts((SIZES[0], SIZES[-1]))
    observations = np.random.default_rng(2).uniform(-1, 1, (LINEAR_STATES, SIZES[0]))
    actions = np.zeros(LINEAR_STATES, np.int64)
    seconds = timing.cpu_seconds({"linear": lambda: stack.disagreements(observations, actions)}, repeats=4 * repeats)
    return {"linear_pairs_per_s": EXPERTS * LINEAR_STATES / statistics.median(seconds["linear"])}


def _module(stack: StackedPolicies, k: int) -> object:
    """Expert k as people keep policies: a torch module of its own (on the same memory)."""
    import torch

    layers: list[torch.nn.Module] = []
    for weight, bias in stack.weights:
        layer = torch.nn.Linear(1, 1)
        layer.weight = torch.nn.Parameter(torch.from_numpy(weight[k]).T)
        layer.bias = torch.nn.Parameter(torch.from_numpy(bias[k]))
        layers += [layer, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


def _several(run: Callable[[], object], times: int) -> None:
    for _ in range(times):
        run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="print `memory_over_weights` and nothing else")
    arguments = parser.parse_args()
    if arguments.memory:
        print(memory())
        return
    alone = subprocess.run(
        [sys.executable, "-m", "benchmarks.experts", "--memory"], check=True, capture_output=True, text=True
    )
    timing.report(
        {
            "benchmark": "experts",
            **figures(arguments.repeats),
            **linear(arguments.repeats),
            "memory_over_weights": float(alone.stdout),
            "at_least": {"share_of_matmul": 0.6, "speedup_over_loop": 10},
            "at_most": {"memory_over_weights": 1.3},
        },
    )


if __name__ == "__main__":
    main()
