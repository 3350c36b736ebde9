"""How every benchmark here measures: process CPU time on one thread, variants interleaved, ratios repeat by repeat.

Import this before torch: it limits the numerical libraries to one thread.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"


def cpu_seconds(
    variants: Mapping[str, Callable[[], object]], *, repeats: int, warmup: int = 2, calls: int = 1
) -> dict[str, list[float]]:
    """Process CPU seconds per call of each variant: `repeats` rounds, each of `calls` calls of every variant."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    gc.disable()
    for round_ in range(-warmup, repeats):
        for name, run in variants.items():
            start = time.process_time()
            for _ in range(calls):
                run()
            if round_ >= 0:
                seconds[name].append((time.process_time() - start) / calls)
        gc.collect()
    gc.enable()
    return seconds


def ratio(seconds: Mapping[str, list[float]], numerator: str, denominator: str) -> float:
    """Median over the rounds of one variant's time over another's in the same round."""
    return statistics.median(a / b for a, b in zip(seconds[numerator], seconds[denominator], strict=True))


def report(figures: Mapping[str, object], *, packages: tuple[str, ...] = ("numpy", "torch")) -> None:
    """Print the figures as one JSON object on one line, with what a reader needs to measure them again."""
    rounded = {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in figures.items()}
    circumstances = {
        "command": " ".join(["python -m", getattr(sys.modules["__main__"].__spec__, "name", "?"), *sys.argv[1:]]),
        "commit": _commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": {name: importlib.metadata.version(name) for name in ("tacit", *packages)},
    }
    print(json.dumps({**rounded, **circumstances}), flush=True)


def _commit() -> str:
    """The commit measured, marked where the package or the benchmarks differ from it; "unknown" outside a checkout."""

    def git(*arguments: str) -> str:
        root = Path(__file__).resolve().parent
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".", "../src")
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
