"""What users wait for: whole commands, each a process of its own, in CPU seconds.

Run `python -m benchmarks.commands`. The records are simulated: 50,000 patients of a clinic, 25,000 people who walk a
chain of 40 states (a million rows), 1,000 experts of cart-pole, 1,600 people who are met in it, and a diffusion model
of maze transitions that was trained for 60 steps. The last line is one JSON object of medians in seconds.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.start_up import children_seconds, python

_BUDGET = ("--budget-epsilon", "4", "--budget-sampled", "0", "--budget-delta", "1e-5", "--relation", "add_or_remove")
_CLINIC = """--unit patient --population 50000 --epsilon 1 --delta 1e-6 --gamma 1 --horizon 24 --episodes-per-unit 4
    --range -9 5 --advice 0.05 --environment clinic --memory 0:0.7 1:mean 2:mean 3:0.7 --columns 0 1 2 3
    --value-columns 0 3"""
_CHAIN = """--unit person --population 25000 --epsilon 1 --delta 1e-6 --gamma 0.99 --horizon 160 --range 0 1
    --policy uniform"""
_MAZE = """--method privorl --unit transition --relation add_or_remove --population 1000000 --epsilon 10 --delta 1e-7
    --budget-epsilon 10 --budget-sampled 1 --steps 60"""
_EXPERTS = "--world cart_pole --experts 1000 --episodes 5 --kind mixed --epsilon 1 --delta 1e-4"


def tacit(*words: str) -> float:
    """CPU seconds of a command."""
    before = children_seconds()
    python("-m", "tacit", *words)
    return children_seconds() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clinic, chain, maze, model = (str(folder / one) for one in ("clinic", "chain", "maze", "model"))
        tacit("data", "clinic", "--patients", "50000", "--out", clinic)
        tacit("data", "chain", "--people", "25000", "--out", chain)
        tacit("data", "maze", "--out", maze)
        tacit("synthesize", maze, "--out", model, *_MAZE.split())
        seconds: dict[str, list[float]] = {}
        for k in range(repeats):
            ledger = ("--ledger", str(folder / f"{k}.ledger"))
            commands = {
                "improve": ("improve", clinic, *_CLINIC.split(), *_BUDGET, *ledger),
                "evaluate": ("evaluate", chain, *_CHAIN.split(), *_BUDGET, "--ledger", str(folder / f"{k}.chain")),
                "learn": ("learn", *_EXPERTS.split()),
                "train": ("train", "CartPole-v1"),
                "sample": ("sample", "--model", f"{model}/model", "--count", "100000"),
            }
            for verb, words in commands.items():
                suffix = ".parquet" if verb == "sample" else ""
                seconds.setdefault(verb, []).append(tacit(*words, "--out", str(folder / f"{verb}{k}{suffix}")))
    medians = {verb: statistics.median(values) for verb, values in seconds.items()}
    for verb, value in medians.items():
        print(f"{verb:14s}{value:8.2f} s")
    at_most = {"improve": 7.0, "evaluate": 3.2, "learn": 5.0, "train": 20.0, "sample": 20.0}
    timing.report({"benchmark": "commands", **medians, "at_most": at_most, "repeats": repeats})


if __name__ == "__main__":
    main()
