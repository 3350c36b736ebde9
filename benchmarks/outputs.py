"""Synthetic rows as a Parquet file, against pyarrow writing the same columns.

Run `python -m benchmarks.outputs`. A row has three numbers, a whole number, a category and a number that may be
missing, their next values, two actions, reward and flags. `parquet_over_pyarrow`: CPU time of `to_parquet` over that of
pyarrow, with pyarrow's defaults, for a table that is ready in memory. `size_over_pyarrow`: the bytes of the two files.
`csv_over_parquet`: `to_csv` over `to_parquet`.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import tempfile
from pathlib import Path

import numpy as np
from pyarrow import parquet

from tacit.data import Box, Column, PublicSpec, Trajectories
from tacit.data.spec import space_of

LABELS = tuple(f"ward {i}" for i in range(8))
SPEC = PublicSpec(
    space_of(
        *(Column(name, low=0, high=1) for name in ("pulse", "pressure", "saturation")),
        Column("visits", "integer", 0, 100),
        Column("ward", "category", labels=LABELS),
        Column("lactate", low=0, high=1, missing="flag"),
    ),
    space_of(Column("dose", low=0, high=1), Column("fluid", low=0, high=1)),
    Box((0.0,), (1.0,)),
    "declared",
)


def drawn(rows: int) -> Trajectories:
    """Independent rows, as synthesizers draw them."""
    rng = np.random.default_rng(0)

    def states() -> np.ndarray:
        missing = rng.random(rows) < 0.1
        counts = [rng.integers(0, 101, rows), rng.integers(0, len(LABELS), rows)]
        return np.column_stack([rng.random((rows, 3)), *counts, np.where(missing, 0, rng.random(rows)), missing])

    return Trajectories.from_arrays(
        observations=states(),
        actions=rng.random((rows, 2)),
        rewards=rng.random(rows),
        next_observations=states(),
        terminations=rng.random(rows) < 0.01,
        unit_ids=":transition",
        spec=SPEC,
        simulated=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    data = drawn(options.rows)
    table = data.to_arrow()
    with tempfile.TemporaryDirectory() as name:
        files = {writer: Path(name, writer) for writer in ("to_parquet", "pyarrow", "to_csv")}

        def write(writer: str) -> None:
            for path in (files[writer], Path(name, f"{writer}.json")):
                path.unlink(missing_ok=True)
            if writer == "pyarrow":
                parquet.write_table(table, files[writer])
            else:
                getattr(data, writer)(files[writer])

        variants = {writer: lambda writer=writer: write(writer) for writer in files}
        seconds = timing.cpu_seconds(variants, repeats=options.repeats, warmup=1)
        sizes = {writer: path.stat().st_size for writer, path in files.items()}
    timing.report(
        {
            "rows": options.rows,
            "parquet_over_pyarrow": timing.ratio(seconds, "to_parquet", "pyarrow"),
            "size_over_pyarrow": sizes["to_parquet"] / sizes["pyarrow"],
            "csv_over_parquet": timing.ratio(seconds, "to_csv", "to_parquet"),
            "seconds": min(seconds["to_parquet"]),
            "at_most": {"parquet_over_pyarrow": 3.0, "size_over_pyarrow": 1.1},
        },
        packages=("numpy", "pyarrow"),
    )


if __name__ == "__main__":
    main()
