"""Rows beyond one process: dealt to shards, read by two ranks, and one noisy sum and one noisy histogram over them.

    python -m benchmarks.shards                              # 10 million rows
    python -m benchmarks.shards --rows 100000000             # what docs/scale.md reports
    python -m benchmarks.shards --rows 200000 --shards 4     # a small try

A unit owns ten rows, which lie one after another in a file of a million rows. `GiB` is the largest memory of a process
that is its own, read every 20 ms (Linux); `with_files_GiB` is `ru_maxrss`, which counts mapped pages of files too, that
the system takes back when it needs room. Those of ranks are sums over the ranks. All times are process CPU seconds; the
reading is that of the slowest rank. `digests_s` compares the units of all shards, `sum_s` is one step with a sample of
one unit in a hundred, `histogram_s` one release of all one-way and two-way tables over everybody.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

from benchmarks.distributed import free_port
from benchmarks.scale import SPEC, OnePart, Projected, blocks
from tacit.data.sources import shards
from tacit.methods.synthesis import TableMatching
from tacit.methods.synthesis.table_matching import release_histograms
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault.sharded_vault import Ranks, ShardedVault, serve
from tacit.units import Unit

ROWS, SHARDS, RANKS, ROWS_PER_UNIT, ROWS_PER_FILE = 10_000_000, 16, 2, 10, 1_000_000
RATE, NUMBERS = 0.01, 16
BARS = {"dealing_GiB": 4.0, "ranks_GiB": 4.0}


def written(folder: Path, rows: int) -> None:
    """Files of invented rows."""
    folder.mkdir()
    schema = next(blocks(1)).schema
    for number, first in enumerate(range(0, rows, ROWS_PER_FILE)):
        with parquet.ParquetWriter(folder / f"{number:05}.parquet", schema) as file:
            for block in blocks(min(ROWS_PER_FILE, rows - first)):
                person = (first + block["person"].to_numpy()) // ROWS_PER_UNIT
                file.write_table(block.set_column(block.schema.get_field_index("person"), "person", [person]))


def dealt(folder: Path, count: int) -> None:
    """The files' rows in shards."""
    shards.write([str(folder / "raw")], folder / "shards", unit="person", shards=count, spec=SPEC, simulated=True)


def rank(folder: Path, units: int) -> dict[str, float]:
    """What one rank does; CPU seconds of each part on rank 0."""
    seconds: dict[str, float] = {}

    def timed(name: str, run: Callable[[], Any]) -> Any:
        begun = time.process_time()
        value = run()
        seconds[f"{name}_s"] = time.process_time() - begun
        return value

    ranks, whole = Ranks(), shards.read_shards(folder / "shards")
    assert whole is not None
    key, store = ranks.share_key(), folder / f"rank-{ranks.rank}"
    data = timed("reading", lambda: whole.read(ranks.rank, ranks.count, digest_key=key, store=store))
    if ranks.rank:
        serve(data, ranks)
        ranks.close()
        return seconds
    unit, matching = Unit("person", "add_or_remove", units), TableMatching.of(SPEC, steps=1)
    sums = PoissonSum(name="sums", steps=1, sampling_rate=RATE, clip_norm=1.0, noise_multiplier=1.0)
    projected = Projected(tuple(map(tuple, np.random.default_rng(1).normal(size=(2, NUMBERS)).tolist())))
    plans = [OnePart(part=part).account(unit=unit, delta=0.1 / units) for part in (sums, matching.part(1.0))]
    with (
        Ledger(folder / "one.ledger", unit, epsilon=3e6, delta=0.5 / units, composition=SUM) as ledger,
        ShardedVault(data, ledger, ranks=ranks) as vault,
    ):
        first = timed("digests", lambda: vault.reserve(plans[0]))
        timed("sum", lambda: vault.noisy_sum(first, "sums", projected))
        second = vault.reserve(plans[1])
        timed("histogram", lambda: next(release_histograms(vault, second, plans[1].part.name, matching.tables)))
    ranks.close()
    return seconds


def own_memory(stop: threading.Event, largest: list[int]) -> None:
    """Bytes that belong to this process alone, the largest so far."""
    while not stop.wait(0.02):
        with open("/proc/self/status", encoding="ascii") as status:
            found = next(line for line in status if line.startswith("RssAnon"))
        largest[0] = max(largest[0], 1024 * int(found.split()[1]))


def alone(words: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A part in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.shards", *words]
    return subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> dict[str, float]:
    """What it printed."""
    out, _ = process.communicate()
    assert process.returncode == 0
    found: dict[str, float] = json.loads(out)
    return found


def main() -> None:
    """Each part in processes of its own; the last line printed is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--only", choices=("written", "dealt", "rank"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows, count = options.rows, options.shards
    if options.only:
        parts = {
            "written": lambda: written(options.folder / "raw", rows),
            "dealt": lambda: dealt(options.folder, count),
            "rank": lambda: rank(options.folder, rows // ROWS_PER_UNIT),
        }
        stop, largest = threading.Event(), [0]
        watch = threading.Thread(target=own_memory, args=(stop, largest))
        watch.start()
        found = parts[options.only]() or {"s": time.process_time()}
        stop.set()
        watch.join()
        with_files = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({**found, "GiB": largest[0] / 2**30, "with_files_GiB": with_files}))
        return
    with tempfile.TemporaryDirectory() as name:
        words = ["--folder", name, "--rows", str(rows), "--shards", str(count), "--only"]
        answer(alone([*words, "written"]))
        dealing = answer(alone([*words, "dealt"]))
        address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS)}
        started = [alone([*words, "rank"], {**address, "RANK": str(place)}) for place in range(RANKS)]
        lead, *others = map(answer, started)
    timing.report(
        {
            "benchmark": "shards",
            "rows": rows,
            "shards": count,
            "dealing_s": dealing["s"],
            "dealing_GiB": dealing["GiB"],
            **{part: seconds for part, seconds in lead.items() if part.endswith("_s")},
            "reading_s": max(each["reading_s"] for each in (lead, *others)),
            "ranks_GiB": sum(each["GiB"] for each in (lead, *others)),
            "ranks_with_files_GiB": sum(each["with_files_GiB"] for each in (lead, *others)),
            "at_most": BARS,
        },
        packages=("numpy", "torch", "pyarrow", "duckdb"),
    )


if __name__ == "__main__":
    main()
