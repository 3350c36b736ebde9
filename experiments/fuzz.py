"""Hostile files for every reader: no crash, no hang, no memory bomb, nothing read outside the folder.

    pip install 'tacit[fuzz]'                      # atheris, that is libFuzzer with the coverage of Python
    python -m experiments.fuzz                     # 60 s for each reader (--seconds); resumes: done ones are skipped
    python -m experiments.fuzz --quick             # 4 s for each; written under runs/quick/
    python -m experiments.fuzz --only csv ledger   # some of them
    python -m experiments.check fuzz               # recompute the promised figures from the raw rows

libFuzzer keeps the inputs that reach new code of tacit's and changes them further, four times in five by the rules of
their own format (`experiments.fuzz_mutations`), else by bytes. A reader has to return a value or to refuse in one
sentence (`tacit.errors`), within a minute, of a machine that may be busy, and 2 GiB; an input has at most 256 KiB.
"Outside" counts inputs at which a planted file beside the folder was touched (inotify: C libraries too), or Python
opened anything that is neither in the folder nor a part of the installation. What was found lies under
runs/fuzz/READER/finds, each with what was raised.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments import fuzz_records, fuzz_releases, fuzz_worker
from experiments.check import Figure
from experiments.configuration import Json
from experiments.fuzz_worker import COUNTS
from experiments.store import RESULTS, ROOT, Store

SECONDS, QUICK = 60.0, 4.0
FEWEST = 200
"""Inputs that a reader is given, at least; how many more depends on the time that there is."""
READERS = {reader.name: reader for module in (fuzz_records, fuzz_releases) for reader in module.READERS}


def _module(name: str) -> str:
    return "experiments.fuzz_records" if READERS[name] in fuzz_records.READERS else "experiments.fuzz_releases"


def store(path: Path = RESULTS / "fuzz.json", *, quick: bool = False) -> Store:
    """The result file."""
    return Store(path, functools.partial(configuration, quick=quick), hyperparameters="none")


def configuration(key: str, quick: bool = False) -> Json:
    """What a row was made with."""
    return {
        "reader": key,
        "file": READERS[key].file,
        "inputs at least": 0 if quick else FEWEST,
        "own mutations": fuzz_worker.OWN,
        "largest input": fuzz_worker.LARGEST,
        "seconds of an input": fuzz_worker.SECONDS,
        "memory of an input": fuzz_worker.MEMORY,
        "longest message": fuzz_worker.LONGEST,
    }


def rows() -> list[str]:
    """The keys of all rows, in the order in which they are made."""
    return list(READERS)


def fuzz(name: str, seconds: float) -> dict[str, Any]:
    """Attack one reader, for as long; a worker that hangs or dies is followed by the next one."""
    folder = ROOT / "runs" / "fuzz" / re.sub(r"\W+", "_", name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])))
    reached: list[int] = []
    end = time.monotonic() + seconds
    for turn in itertools.count(1):
        left = max(1, int(end - time.monotonic()))
        words = (
            "-m",
            "experiments.fuzz_worker",
            name,
            str(folder),
            _module(name),
            f"-seed={turn}",
        )
        done = subprocess.run(
            [sys.executable, *words, f"-max_total_time={left}"],
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            errors="replace",
        )
        reached += [int(found) for found in re.findall(r"cov: (\d+)", done.stderr)]
        if not reached:
            raise RuntimeError(done.stderr[-2_000:])
        if time.monotonic() > end or done.returncode == 0 or turn > 50:
            break
    counts = dict(zip(COUNTS, np.fromfile(folder / "counts", np.int64).tolist(), strict=True))
    died = [path.name for path in folder.glob("finds/*") if path.name.startswith(("crash-", "oom-", "leak-"))]
    hangs = [path.name for path in folder.glob("finds/*") if path.name.startswith(("timeout-", "slow-unit-"))]
    return {
        **counts,
        "crashes": counts["crashes"] + len(died),
        "hangs": len(hangs),
        "branches of the seeds": reached[0],
        "branches": max(reached),
        "seconds": seconds,
    }


def figures() -> list[Figure]:
    """Every promised figure, recomputed from the raw rows."""
    cells = [store().values(name) for name in READERS]
    total = {name: sum(cell[name] for cell in cells) for name in (*COUNTS, "hangs")}
    told = {"crashes": "crashes", "hangs": "hangs", "bombs": "memory bombs", "outside": "reads outside the folder"}
    return [
        Figure("readers", len(cells), len(READERS)),
        Figure("inputs tried", total["tried"], 20_000),
        Figure("inputs tried of a reader, at least", min(cell["tried"] for cell in cells), FEWEST),
        Figure("inputs read, at least one of each reader", min(cell["read"] for cell in cells), 1),
        Figure("inputs refused in a sentence", total["refused"], 10_000),
        *(Figure(words, total[name], 0, False) for name, words in told.items()),
    ]


def run_row(key: str, results: Store, seconds: float = SECONDS, fewest: int = FEWEST) -> None:
    """Make one row.

    Raises:
        RuntimeError: there was no time for the fewest inputs.
    """
    values = fuzz(key, seconds)
    if values["tried"] < fewest:
        raise RuntimeError(f"{key}: {values['tried']} inputs in {seconds:g} s are fewer than {fewest}; give --seconds")
    results.put(key, dataset="none: files changed at random", seed=1, values=values)
    print(key, " ".join(f"{name}={value:g}" for name, value in values.items()), flush=True)


def main(arguments: list[str]) -> None:
    """Attack the readers whose results are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--only", nargs="*", choices=READERS, default=list(READERS), metavar="READER")
    options = parser.parse_args(arguments)
    importlib.import_module("atheris")  # which the workers need: without it nothing begins
    results = store(ROOT / "runs" / "quick" / "fuzz.json", quick=True) if options.quick else store()
    effort = (QUICK, 0) if options.quick else (options.seconds, FEWEST)
    for name in options.only:
        if not results.has(name):
            run_row(name, results, *effort)


if __name__ == "__main__":
    main(sys.argv[1:])
