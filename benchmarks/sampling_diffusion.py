"""tacit's sampler of synthetic rows against the paper's, on one trained denoiser of maze transitions.

Run `python -m benchmarks.sampling_diffusion`. The paper draws rows with 128 steps of EDM's stochastic second-order
sampler (arXiv:2206.00364, algorithm 2), tacit with 32 steps of the stochastic DPM-Solver++(2M) (arXiv:2211.01095).
`nfe_ratio` is the ratio of their network evaluations a row, counted; it may only be claimed as long as the Marginal
of tacit's rows is not more than 0.005 below that of the paper's. The denoiser learns the public maze "ring", without
noise; its rows are simulated, so the comparison may look at them.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse

import numpy as np
import torch
from torch import Tensor, nn

from tacit.evaluation.fidelity import fidelity
from tacit.methods.synthesis.diffusion import Denoiser, sample
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Pretraining, Sampler, TransitionsPlan
from tacit.methods.synthesis.pretraining import pretrain
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

ROWS, SAMPLES = 200_000, 30_000
SAMPLERS = {"tacit": Sampler(), "paper": Sampler.paper()}


def drawn(model: Denoiser, sampler: Sampler, count: int) -> tuple[dict[str, np.ndarray], float]:
    """`count` rows, and on how many rows the network was evaluated for each."""
    rows = 0

    def count_rows(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal rows
        rows += len(inputs[0])

    hook = model.network.register_forward_pre_hook(count_rows)
    columns = sample(model, count, sampler, torch.Generator().manual_seed(1))
    hook.remove()
    return {name: column.numpy() for name, column in columns.items()}, rows / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="rounds of timing 1,000 rows")
    arguments = parser.parse_args()
    layout = LAYOUTS["ring"]
    real = maze.collect(layout, ROWS, seed=1)
    columns = {name: real[name] for name in ("observations", "actions", "rewards", "next_observations", "terminations")}
    plan = TransitionsPlan(pretraining=Pretraining(provenance="the simulated rows themselves", steps=1_000))
    start = pretrain(plan, Encoder.from_bounds(maze.spec(layout)), columns, seed=0)
    model = start.model(plan)
    evaluations, close = {}, {}
    for name, sampler in SAMPLERS.items():
        table, evaluations[name] = drawn(model, sampler, SAMPLES)
        close[name] = fidelity(columns, table)
        print(f"{name}: {evaluations[name]:.0f} evaluations a row, Marginal {close[name].marginal:.4f}", flush=True)
    variants = {name: (lambda sampler=sampler: drawn(model, sampler, 1_000)) for name, sampler in SAMPLERS.items()}
    seconds = timing.cpu_seconds(variants, repeats=arguments.repeats, warmup=1)
    timing.report(
        {
            "benchmark": "sampling_diffusion",
            "nfe_ratio": evaluations["paper"] / evaluations["tacit"],
            "time_ratio": timing.ratio(seconds, "paper", "tacit"),
            "marginal_loss": close["paper"].marginal - close["tacit"].marginal,
            "marginal": close["tacit"].marginal,
            "correlation": close["tacit"].correlation,
            "at_least": {"nfe_ratio": 6},
            "at_most": {"marginal_loss": 0.005},
        }
    )


if __name__ == "__main__":
    main()
