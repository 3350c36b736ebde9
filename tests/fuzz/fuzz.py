"""Hostile files and folders for every reader: no crash, hang or memory bomb; nothing read, written or deleted outside.

    pip install 'tacit[fuzz]'                      # atheris, that is libFuzzer with the coverage of Python
    python -m tests.fuzz.fuzz                    # 60 s for each reader (--seconds); resumes: done ones are skipped
    python -m tests.fuzz.fuzz --quick            # 4 s for each; written under runs/quick/
    python -m tests.fuzz.fuzz --only csv ledger  # some of them
    python -m experiments.lib.check fuzz         # recompute the promised figures from the raw rows

libFuzzer keeps the inputs that reach new code of tacit's and changes them further, four times in five by the rules of
their own format (`fuzz_mutations`), else by bytes. A reader has to return a value or to refuse in one
sentence (`tacit.errors`), within a minute, of a machine that may be busy, and 1 GiB; an input has at most 256 KiB.
An input of `fuzz_folders` is a whole folder, with links, pipes, devices, journals and locks.
"Outside" counts inputs at which a planted file beside the folder was touched (inotify: C libraries too), or Python
opened anything that is neither in the folder nor a part of the installation. "Written" and "deleted" count inputs after
which a planted file is another one or gone, or a file of the folder itself that the reader has no business to change.
What was found lies under runs/fuzz/READER/finds, each with what was raised.
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
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from experiments.lib.check import Figure
from experiments.lib.configuration import Json
from experiments.lib.store import RESULTS, ROOT, Store
from tests.fuzz import fuzz_folders, fuzz_records, fuzz_releases, fuzz_worker
from tests.fuzz.fuzz_worker import COUNTS

SECONDS, QUICK = 60.0, 4.0
FEWEST, MOST = 1_000, 4_000
"""Inputs that a reader is given, at least and at most; how many depends on the time that there is."""
ENDS = (0, 70, 71, 77)
"""Exit codes of libFuzzer: done; an input took too long, too much memory, or ended the process by a signal."""
MODULES = (fuzz_records, fuzz_releases, fuzz_folders)
READERS = {reader.name: reader for module in MODULES for reader in module.READERS}


def _module(name: str) -> str:
    return next(module.__name__ for module in MODULES if READERS[name] in module.READERS)


def store(path: Path = RESULTS / "fuzz.json", *, quick: bool = False) -> Store:
    """The result file."""
    return Store(path, functools.partial(configuration, quick=quick), hyperparameters="none")


def configuration(key: str, quick: bool = False) -> Json:
    """What a row was made with."""
    return {
        "reader": key,
        "file": READERS[key].file,
        "inputs": [0 if quick else FEWEST, MOST],
        "counts": list(COUNTS),
        "own mutations": fuzz_worker.OWN,
        "largest input": fuzz_worker.LARGEST,
        "seconds of an input": fuzz_worker.SECONDS,
        "memory of an input": [fuzz_worker.BURST, fuzz_worker.MEMORY],
        "longest message": fuzz_worker.LONGEST,
    }


def rows() -> list[str]:
    """The keys of all rows, in the order in which they are made."""
    return list(READERS)


def fuzz(name: str, seconds: float) -> dict[str, Any]:
    """Attack one reader, for as long; a worker that hangs or dies is followed by the next one."""
    kept = ROOT / "runs" / "fuzz" / re.sub(r"\W+", "_", name)
    shutil.rmtree(kept, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="tacit-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    reached: list[int] = []
    stuck = 0
    end = time.monotonic() + seconds
    for turn in itertools.count(1):
        left = max(1, int(end - time.monotonic()))
        runs = MOST - int(_counts(folder)[0])
        words: tuple[str, ...] = ("-m", "tests.fuzz.fuzz_worker", name, str(folder), _module(name), f"-seed={turn}")
        words += (f"-max_total_time={left}", f"-runs={runs}")
        stderr, code = _work(words, left + 3 * fuzz_worker.SECONDS)
        stuck += code is None
        reached += [int(found) for found in re.findall(r"cov: (\d+)", stderr)]
        if not reached or code not in (None, *ENDS):
            raise RuntimeError(f"the worker ended with code {code} and not at an input: {stderr[-2_000:]}")
        if time.monotonic() > end or code == 0 or turn > 50:
            break
    counts = dict(zip(COUNTS, _counts(folder).tolist(), strict=True))
    shutil.copytree(folder / "finds", kept / "finds")
    shutil.rmtree(folder, ignore_errors=True)
    died = [path.name for path in kept.glob("finds/*") if path.name.startswith(("crash-", "oom-", "leak-"))]
    hangs = [path.name for path in kept.glob("finds/*") if path.name.startswith(("timeout-", "slow-unit-"))]
    return {
        **counts,
        "crashes": counts["crashes"] + len(died),
        "hangs": len(hangs) + stuck,
        "branches of the seeds": reached[0],
        "branches": max(reached),
        "seconds": seconds,
    }


def _work(words: tuple[str, ...], seconds: float) -> tuple[str, int | None]:
    """What a worker said, and its exit code: None where it had to be killed after so long."""
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])))
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(
        [sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, errors="replace"
    ) as worker:
        try:
            said = worker.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            worker.kill()
            return worker.communicate()[1], None
    return said, worker.returncode


def _counts(folder: Path) -> np.ndarray:
    """What the inputs did, by `COUNTS`; zeros before the first."""
    path = folder / "counts"
    return np.fromfile(path, np.int64) if path.exists() else np.zeros(len(COUNTS), np.int64)


def figures() -> list[Figure]:
    """Every promised figure, recomputed from the raw rows."""
    cells = [store().values(name) for name in READERS]
    total = {name: sum(cell[name] for cell in cells) for name in (*COUNTS, "hangs")}
    told = {"crashes": "crashes", "hangs": "hangs", "bombs": "memory bombs", "outside": "reads outside the folder"}
    told |= {"written": "writes outside the folder or beside what is read", "deleted": "deletions"}
    return [
        Figure("readers", len(cells), len(READERS)),
        Figure("inputs tried", total["tried"], 200_000),
        Figure("inputs tried of a reader, at least", min(cell["tried"] for cell in cells), FEWEST),
        Figure("inputs read, at least one of each reader", min(cell["read"] for cell in cells), 1),
        Figure("inputs refused in a sentence", total["refused"], 100_000),
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
