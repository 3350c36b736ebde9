"""What `tacit demo maze` costs: process CPU time of the whole command on one thread, and over plain training.

Run `python -m benchmarks.demo`. The last line is one JSON object. `seconds` is the command from its start to its end,
imports included. `ratio_plain` divides it by a thousand plain training steps, without privacy, of the demo's own
network and expected batch (Adam and a moving average of the weights) in the same run: a machine's speed cancels.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import dataclasses
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from tacit.cli.demo_maze import FULL, LAYOUT, USUAL, DemoSize
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Pretraining
from tacit.methods.synthesis.pretraining import pretrain
from tacit_worlds import maze

STEPS = 50


def plain_seconds(size: DemoSize) -> float:
    """Process CPU seconds of a thousand plain training steps of the demo's network."""
    layout = maze.LAYOUTS[LAYOUT]
    columns = maze.collect(layout, 100_000, seed=1)
    batch = round(size.plan.sampling_rate * size.population)
    plan = dataclasses.replace(size.plan, pretraining=Pretraining(provenance="simulated", steps=STEPS, batch=batch))
    encoder = Encoder.from_bounds(maze.spec(layout))
    start = time.process_time()
    pretrain(plan, encoder, columns, seed=0)
    return (time.process_time() - start) * 1_000 / STEPS


def demo_seconds(words: tuple[str, ...]) -> float:
    """CPU seconds of the command, in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tacit", "demo", "maze", *words, "--out", str(Path(folder) / "run")]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the larger demo")
    full = parser.parse_args().full
    torch.set_num_threads(1)
    plain = plain_seconds(FULL if full else USUAL)
    seconds = demo_seconds(("--full",) if full else ())
    timing.report(
        {
            "benchmark": "demo",
            "seconds": seconds,
            "plain_1000_steps_s": plain,
            "ratio_plain": seconds / plain,
            "at_most": {} if full else {"seconds": 90},
        }
    )


if __name__ == "__main__":
    main()
