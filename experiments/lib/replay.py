"""Run a few full-size rows again and compare: `python -m experiments.lib.replay --sample 3 [NAME...]`.

For releases, not for every change: a row costs what it cost when it was made. Where seeds decide everything the values
agree to the digit, on another machine to 1e-6. Otherwise (noise is secret) a value has to be one that the stored code
could have given:

- where three rows or more differ in nothing but their seed, a number lies within their prediction interval by
  Student's t, of the numbers or of their logarithms;
- where a row holds its trials inside, as a list, both lists pass as samples of one distribution (Kolmogorov and
  Smirnov). Numbers that sum such trials up are named and not judged.

A row whose code is the same raises a false alarm with a probability of about `ALARM`. Costs (seconds, memory) are not
compared. Kept tables are made again, too.
"""

import argparse
import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from experiments.lib import table_cache
from experiments.lib.check import EXPERIMENTS
from experiments.lib.queue import make
from experiments.lib.store import Store, experiment

COSTS = ("cpu_s", "seconds", "peak_mib", "agent_cpu_s", "fit", "pretrain", "sample", "processes")
"""Names of values that measure the machine."""
ROUNDING = 1e-9  # relative difference of two numbers that are the same: what the order of a sum may change
MACHINE = 1e-6  # what another machine may change, as for golden runs: long compositions add its roundings up
ALARM = 0.01  # probability of a false alarm for one row, shared by all its values
ROWS, TRIALS = 3, 8  # fewest rows, or else numbers in a list, that a spread is known from


def main(arguments: list[str]) -> int:
    """Replay and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(EXPERIMENTS))
    parser.add_argument("--sample", type=int, default=3, help="rows of each experiment")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of rows")
    options = parser.parse_args(arguments)
    good = True
    for name in options.names:
        module = experiment(name)
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
        tables, table_cache.KEPT = table_cache.KEPT, Path(folder) / "tables"
        try:
            again = module.store(Path(folder) / "again.json")
            make(module, [key], again)
        finally:
            table_cache.KEPT = tables
        return compare(results.values(key), again.values(key), replicates(results, key))


def replicates(results: Store, key: str) -> list[Mapping[str, Any]]:
    """Values of the rows with the configuration of this one."""
    configuration = results.rows[key]["configuration"]
    alike = [row for row in results.rows.values() if row["configuration"] == configuration is not None]
    return [row["values"] for row in alike]


def compare(stored: Any, again: Any, others: Sequence[Any]) -> str:
    """`the same` to the digit or in distribution, or which value differs.

    Args:
        stored, again: values of the row, and of its replay.
        others: values of all rows with its configuration, the stored one among them.
    """
    before, now = dict(leaves(stored)), dict(leaves(again))
    if before.keys() != now.keys():
        return f"other values are reported: {sorted(before.keys() ^ now.keys())[:3]}"
    if all(_equal(before[path], now[path], ROUNDING) for path in now):
        return "the same to the digit"
    different = [path for path in now if not _equal(before[path], now[path], MACHINE)]
    if not different:
        return f"the same to {MACHINE:g}"
    spread = [dict(leaves(one)) for one in others]
    level, unknown = ALARM / len(different), []
    for path in different:
        was, value = before[path], now[path]
        numbers = [one[path] for one in spread if isinstance(one.get(path), int | float | list)]
        if isinstance(value, str) or value is None:
            return f"{path} is {value} and was {was}"
        if len(numbers) >= ROWS:
            for name, summary in SUMMARIES.items() if isinstance(value, list) else (("", float),):
                one, many = summary(value), [summary(number) for number in numbers]
                if not within(one, many, level / len(SUMMARIES)):
                    where = f"{path}.{name}" if name else path
                    return f"{where} is {one:.6g} and was {summary(was):.6g}, outside the spread of {len(many)} rows"
        elif not isinstance(value, list) or min(len(was), len(value)) < TRIALS:
            unknown.append(path)
        elif (chance := float(stats.ks_2samp(was, value).pvalue)) < level:
            return f"{path} and the stored {len(was)} trials are of one distribution with a chance of {chance:.1e} only"
    if len(unknown) == len(different):
        path = unknown[0]
        return f"{path} is {now[path]} and was {before[path]}; {len(spread)} rows are too few to know its spread"
    known = f"{len(spread)} rows" if len(spread) >= ROWS else "by its trials"
    return f"the same in distribution ({known}{'; not judged: ' if unknown else ''}{', '.join(unknown)})"


SUMMARIES: Mapping[str, Callable[[Any], float]] = {  # what is compared of lists of numbers, one a row
    "mean": lambda numbers: float(np.mean(numbers)),
    "low": lambda numbers: float(min(numbers)),
    "high": lambda numbers: float(max(numbers)),
}


def within(value: float, numbers: Sequence[float], level: float) -> bool:
    """Whether a number is one that these could have been drawn with, at a level of significance.

    On a logarithmic scale where that is wider and all are positive: many figures (errors, chances) are skewed.
    """
    scales: list[tuple[float, Any]] = [(value, np.asarray(numbers, float))]
    if value > 0 and min(numbers) > 0:
        scales.append((math.log(value), np.log(numbers)))
    bound = float(stats.t.ppf(1 - level / 2, len(numbers) - 1)) * math.sqrt(1 + 1 / len(numbers))
    return any(abs(one - many.mean()) <= bound * many.std(ddof=1) + ROUNDING * abs(many.mean()) for one, many in scales)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and word of a row, and every list of numbers, by its path, costs aside."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            if name not in COSTS:
                yield from leaves(one, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and not (value and all(isinstance(one, int | float) for one in value)):
        for index, one in enumerate(value):
            yield from leaves(one, f"{path}[{index}]")
    else:
        yield path, value


def _equal(one: Any, other: Any, apart: float) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_equal(a, b, apart) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=apart) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
