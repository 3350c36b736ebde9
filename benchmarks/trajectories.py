"""tacit's sampler of whole trajectories against the paper's, on one network: 1,000 trajectories of 500 steps in a maze.

Run `python -m benchmarks.trajectories`. PrivORL-j draws each fragment by 200 ancestral steps, each with one evaluation
of the network; tacit by 32 steps of the stochastic DPM-Solver++(2M) (arXiv:2211.01095). `evaluations` are counted: on
how many fragments the network was evaluated a trajectory. Seconds are CPU time for the whole of 1,000 trajectories;
those of the paper's sampler are measured on a twentieth of them, and multiplied. What fragments cost does not depend on
the weights, so the network has random ones, and no trajectory ends before step 500.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import dataclasses
import time

import torch
from torch import Tensor, nn

from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Sampler
from tacit.methods.synthesis.trajectories.models import fragment_model
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.methods.synthesis.trajectories.stitching import stitch
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

TRAJECTORIES, STEPS, ANCESTRAL, PART = 1_000, 500, 200, 20


def drawn(plan: TrajectoriesPlan, sampler: Sampler, count: int) -> tuple[float, float]:
    """Evaluations of the network a trajectory, and CPU seconds a trajectory."""
    torch.manual_seed(0)
    spec, evaluations = maze.spec(LAYOUTS["ring"]), 0
    model = fragment_model(plan, Encoder.from_bounds(spec))
    with torch.no_grad():
        model.network.endings.scores.bias[0] = 1e6  # go on

    def count_fragments(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal evaluations
        evaluations += len(inputs[1])

    model.network.register_forward_pre_hook(count_fragments)
    first = torch.from_numpy(maze.collect(LAYOUTS["ring"], count, seed=1)["observations"])
    started = time.process_time()
    found = stitch(model, first, sampler, torch.Generator().manual_seed(2))
    seconds = time.process_time() - started
    assert found.episodes[-1] == count * STEPS
    return evaluations / count, seconds / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=TRAJECTORIES)
    count = parser.parse_args().trajectories
    torch.set_num_threads(1)
    plan = TrajectoriesPlan(longest=STEPS)
    ancestral = dataclasses.replace(plan.sampler, method="dpm_solver", steps=ANCESTRAL)
    own, seconds = drawn(plan, plan.sampler, count)
    _, own_part = drawn(plan, plan.sampler, max(1, count // PART))
    paper, paper_part = drawn(plan, ancestral, max(1, count // PART))
    ratio = paper_part / own_part
    timing.report(
        {
            "benchmark": "trajectories",
            "evaluations": own,
            "paper_evaluations": paper,
            "evaluation_ratio": paper / own,
            "seconds_a_thousand": 1_000 * seconds,
            "paper_seconds_a_thousand": 1_000 * seconds * ratio,
            "time_ratio": ratio,
            "at_least": {"evaluation_ratio": 6, "time_ratio": 4},
        }
    )


if __name__ == "__main__":
    main()
