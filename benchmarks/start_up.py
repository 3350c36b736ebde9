"""What a newcomer waits for: whole new processes of `tacit`, and the calibration of the demo's plan.

Run `python -m benchmarks.start_up`. Each command is a process of its own, whose CPU seconds count from its start to its
end, bytecode of the package compiled before. A quick demo in a temporary folder makes the certificate, and 2,000
simulated transitions are the records of a dry run that plans for a million. The last line is one JSON object of medians
in seconds; `help_tyro` is `--help` over an import of the library that reads the command line.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_CALIBRATE = """
import dataclasses, time
from tacit.cli.demo_maze import DELTA, FULL, LAYOUT
from tacit.methods.synthesis.table_matching import TableMatching
from tacit.units import Unit
from tacit_worlds.maze import LAYOUTS, spec
matching = TableMatching.plane(spec(LAYOUTS[LAYOUT]), population=FULL.population)
plan, unit = dataclasses.replace(FULL.plan, matching=matching), Unit("transition", "add_or_remove", FULL.population)
start = time.process_time()
plan.calibrate(unit=unit, epsilon=1.0, delta=DELTA)
print(time.process_time() - start)
"""
_DRY = ("--unit", "transition", "--relation", "add_or_remove", "--population", "1000000", "--dry-run")
_PROMISE = ("--epsilon", "1", "--delta", "1e-7", "--budget-epsilon", "1", "--budget-sampled", "1")
_TACIT = ("-m", "tacit")
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        run, data = Path(folder) / "run", Path(folder) / "data"
        python(*_TACIT, "demo", "maze", "--quick", "--out", str(run))
        python(*_TACIT, "data", "maze", "--steps", "2000", "--out", str(data))
        certificate = str(run / "certificate.json")
        commands = {
            "tyro": ("-c", "import tyro"),
            "accountants": ("-c", "import dp_accounting"),
            "help": (*_TACIT, "--help"),
            "show": (*_TACIT, "certificate", "show", certificate),
            "verify": (*_TACIT, "certificate", "verify", certificate),
            "dry_run": (*_TACIT, "synthesize", str(data), "--out", str(run / "dry"), *_PROMISE, *_DRY),
        }
        seconds: dict[str, list[float]] = {name: [] for name in (*commands, "calibration")}
        for _ in range(repeats):
            for name, words in commands.items():
                before = children_seconds()
                python(*words)
                seconds[name].append(children_seconds() - before)
            seconds["calibration"].append(float(python("-c", _CALIBRATE)))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, value in medians.items():
        print(f"{name:14s}{value:8.3f} s")
    timing.report(
        {
            "benchmark": "start_up",
            **medians,
            "help_tyro": timing.ratio(seconds, "help", "tyro"),
            "verify_accountants": timing.ratio(seconds, "verify", "accountants"),
            "at_most": {"show": 0.4, "verify": 1.0, "help": 0.25, "dry_run": 1.2, "calibration": 0.6},
            "repeats": repeats,
        },
        packages=("numpy", "scipy", "dp-accounting", "tyro"),
    )


def python(*words: str) -> str:
    """What a new process of this interpreter prints; it has to succeed."""
    command = [sys.executable, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=_ENVIRONMENT).stdout


def children_seconds() -> float:
    """CPU seconds of all the processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
