"""Run a few full-size rows again and compare: `python -m experiments.replay --sample 3 [NAME...]`.

For releases, not for every change: a row costs what it cost when it was made. Where seeds decide everything the values
agree to the digit. Otherwise (noise is secret) each number has to lie within the stored spread of the rows that differ
from it in nothing but their seed. Costs (seconds, memory) are not compared. Kept tables are made again, too.
"""

from __future__ import annotations

import argparse
import importlib
import math
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import synthesis_cache
from experiments.check import EXPERIMENTS
from experiments.store import Store

COSTS = ("cpu_s", "seconds", "peak_mib", "agent_cpu_s", "fit", "pretrain", "sample", "processes")
"""Names of values that measure the machine."""
ROUNDING = 1e-9
"""Relative difference of two numbers that are the same: what the order of a sum may change."""
DEVIATIONS = 4.0
"""How far a replayed number may lie from the mean of the stored ones, in their standard deviations."""


def main(arguments: list[str]) -> int:
    """Replay and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(EXPERIMENTS))
    parser.add_argument("--sample", type=int, default=3, help="rows of each experiment")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of rows")
    options = parser.parse_args(arguments)
    good = True
    for name in options.names:
        module = importlib.import_module(f"experiments.{name}")
        results: Store = module.store()
        keys = [key for key in module.rows() if results.has(key)]
        for key in random.Random(options.seed).sample(keys, min(options.sample, len(keys))):
            words = replay(module, results, key)
            print(f"{name} {key}: {words}", flush=True)
            good &= words.startswith("the same")
    return 0 if good else 1


def replay(module: Any, results: Store, key: str) -> str:
    """Run one row into an empty file, and say how its values compare."""
    with tempfile.TemporaryDirectory() as folder:
        tables, synthesis_cache.KEPT = synthesis_cache.KEPT, Path(folder) / "tables"
        try:
            again = module.store(Path(folder) / "again.json")
            module.run_row(key, again)
        finally:
            synthesis_cache.KEPT = tables
        return compare(results.values(key), again.values(key), replicates(results, key))


def replicates(results: Store, key: str) -> list[Mapping[str, Any]]:
    """Values of the rows with the configuration of this one."""
    configuration = results.rows[key]["configuration"]
    alike = [row for row in results.rows.values() if row["configuration"] == configuration is not None]
    return [row["values"] for row in alike]


def compare(stored: Any, again: Any, others: Sequence[Any]) -> str:
    """`the same` to the digit or in distribution, or which value differs."""
    before, now = dict(leaves(stored)), dict(leaves(again))
    if before.keys() != now.keys():
        return f"other values are reported: {sorted(before.keys() ^ now.keys())[:3]}"
    if all(_equal(before[path], now[path]) for path in before):
        return "the same to the digit"
    spread = [dict(leaves(one)) for one in others]
    for path, value in now.items():
        if _equal(before[path], value):
            continue
        numbers = [one[path] for one in spread if isinstance(one.get(path), int | float)]
        if isinstance(value, str) or len(numbers) < 3:
            return f"{path} is {value} and was {before[path]}; {len(numbers)} rows are too few to know its spread"
        if not within(value, numbers):
            return f"{path} is {value:.6g} and was {before[path]:.6g}, outside the spread of {len(numbers)} rows"
    return f"the same in distribution ({len(spread)} rows)"


def within(value: float, numbers: Sequence[float]) -> bool:
    """Whether a number is one that these could have been drawn with."""
    mean, deviation = float(np.mean(numbers)), float(np.std(numbers, ddof=1))
    return abs(value - mean) <= DEVIATIONS * deviation * math.sqrt(1 + 1 / len(numbers)) + 1e-9 * abs(mean)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and word of a row, by its path, costs aside; a list of numbers counts as its mean and its ends."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            if name not in COSTS:
                yield from leaves(one, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value and all(isinstance(one, int | float) for one in value):
        yield from ((f"{path}.{name}", float(f(value))) for name, f in (("mean", np.mean), ("low", min), ("high", max)))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, f"{path}[{index}]")
    else:
        yield path, value


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=ROUNDING) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
