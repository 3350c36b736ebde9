"""Import of a shuffled Parquet file: sorted by unit and time, next states built, checked, clipped and stored.

    python -m benchmarks.ingest                  # 10 million rows
    python -m benchmarks.ingest --rows 200000    # a small try

`peak_GiB` is `ru_maxrss` of a process that imports, with Python and its libraries. `import_to_query_ratio` is its CPU
time over that of a process in which DuckDB alone reads the file, builds the same next states with `lead`, sorts, and
hands the rows over as Arrow batches that are dropped; both have one thread and the same memory before they spill.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import timing
from tacit.data import Column, PublicSpec
from tacit.data.sources import lake, sorting
from tacit.data.sources.engine import MEMORY
from tacit.data.spec import space_of

ROWS = 10_000_000
PER_PATIENT = 50
BARS = {"peak_GiB": 1.5, "import_to_query_ratio": 4.0}
NUMBERS = ("pulse", "pressure", "temperature", "saturation")
DRUGS = ("none", "beta blocker", "nitrate")
SPEC = PublicSpec(
    observation=space_of(*(Column(name, low=-10, high=10) for name in NUMBERS)),
    action=space_of(Column("drug", "category", labels=DRUGS)),
    reward=space_of(Column("comfort", low=-10, high=10)),
    source="declared",
    terminals=False,
)
WANTED = sorting.TableOptions(unit="patient", time="minute", next="keep")


def written(path: Path, rows: int) -> int:
    """Write shuffled rows of patients, 50 of each, in which no minute of a patient occurs twice."""
    generator = np.random.default_rng(0)
    order = generator.permutation(rows)
    with pq.ParquetWriter(path, _batch(generator, order[:1]).schema) as file:
        for start in range(0, rows, 1 << 18):
            file.write_batch(_batch(generator, order[start : start + (1 << 18)]))
    return rows


def _batch(generator: np.random.Generator, places: np.ndarray) -> pa.RecordBatch:
    numbers = {name: generator.normal(size=len(places)) for name in (*NUMBERS, "comfort")}
    drugs = pa.array(DRUGS).take(pa.array(generator.integers(0, len(DRUGS), len(places))))
    return pa.record_batch({"patient": places // PER_PATIENT, "minute": places % PER_PATIENT, **numbers, "drug": drugs})


def imported(path: Path, folder: Path) -> int:
    """Import the file; returns the number of rows."""
    records = sorting.read(lake.open_table([str(path)]), WANTED, SPEC, store=folder / "stays")
    return len(records.order)


def queried(path: Path, folder: Path) -> int:
    """Let DuckDB alone read, build next states and sort; returns the number of rows."""
    import duckdb

    following = ", ".join(f"lead({name}) OVER (PARTITION BY patient ORDER BY minute)" for name in NUMBERS)
    with duckdb.connect(":memory:") as engine:
        for setting in (f"memory_limit = '{MEMORY}'", "threads = 1", f"temp_directory = '{folder / 'spill'}'"):
            engine.execute(f"SET {setting}")
        rows = engine.sql(f"SELECT *, {following} FROM read_parquet('{path}') ORDER BY patient, minute")
        return sum(batch.num_rows for batch in rows.to_arrow_reader(65_536))


def main() -> None:
    """Measure each variant in a process of its own; the last line printed is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", choices=("written", "queried", "imported"), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.only:
            given = options.rows if options.only == "written" else Path(name)
            rows = {"written": written, "queried": queried, "imported": imported}[options.only](options.file, given)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(json.dumps({"rows": rows, "seconds": time.process_time(), "GiB": peak}))
            return
        path = Path(name) / "shuffled.parquet"
        rows, alone = str(options.rows), [sys.executable, "-m", "benchmarks.ingest", "--file", str(path), "--only"]
        subprocess.run([*alone, "written", "--rows", rows], check=True, capture_output=True)
        found = {}
        for variant in ("queried", "imported"):
            done = subprocess.run([*alone, variant], check=True, capture_output=True, text=True)
            found[variant] = json.loads(done.stdout)
            assert found[variant]["rows"] == options.rows
    timing.report(
        {
            "benchmark": "ingest",
            "rows": options.rows,
            "peak_GiB": found["imported"]["GiB"],
            "query_peak_GiB": found["queried"]["GiB"],
            "import_CPU_s": found["imported"]["seconds"],
            "query_CPU_s": found["queried"]["seconds"],
            "import_to_query_ratio": found["imported"]["seconds"] / found["queried"]["seconds"],
            "at_most": BARS,
        },
        packages=("numpy", "pyarrow", "duckdb"),
    )


if __name__ == "__main__":
    main()
