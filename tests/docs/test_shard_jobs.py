"""The jobs of docs/scale.md that write shards with other engines: they are read as those of `tacit data shard`."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tacit.data import Box, Discrete, PublicSpec
from tacit.data.sources import shards

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
COMMON, RAY, SPARK = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
SPEC = PublicSpec(Box((-9.0,), (9.0,)), Discrete(2), Box((-9.0,), (999.0,)), "declared")
DAYS = [tuple(float(4 * patient + day) for day in range(4)) for patient in range(120)]


def raw(folder: Path) -> pd.DataFrame:
    """Four days of each of 120 patients, in any order, in two files; rewards number the days."""
    names = np.repeat([f"p{i}" for i in range(120)], 4)
    days = np.tile(np.arange(4), 120)
    rows = pd.DataFrame({"patient": names, "day": days, "observation_0": 0.5, "next_observation_0": 0.5, "action": 1})
    rows = rows.assign(reward=np.arange(480.0), termination=days == 3).sample(frac=1.0, random_state=0)
    (folder / "raw").mkdir()
    rows[:300].to_parquet(folder / "raw" / "0.parquet", index=False)
    rows[300:].to_parquet(folder / "raw" / "1.parquet", index=False)
    return rows


def dealt_by_tacit(folder: Path) -> None:
    out = folder / "expected"
    shards.write([str(folder / "raw")], out, unit="patient", shards=16, spec=SPEC, time="day", simulated=True)
    (folder / "shards").mkdir()
    (folder / "shards" / "spec.json").write_text((out / "spec.json").read_text())


def read(folder: Path, store: Path) -> list[tuple[float, ...]]:
    """The rewards of each patient in their order; four ranks read all shards, and no two of them the same patient."""
    described = shards.read_shards(folder)
    assert described is not None
    found, digests = [], []
    for rank in range(4):
        data = described.read(rank, 4, digest_key=b"k" * 32, store=store / str(rank))
        found += [tuple(data.columns["rewards"][i:j].tolist()) for i, j in pairwise(data.episodes)]
        digests.append(data._records.digests[1:])
    assert len(np.unique(np.concatenate(digests), axis=0)) == len(np.concatenate(digests)) == 120
    return sorted(found)


def test_the_hash_of_the_jobs_deals_as_tacit_does(tmp_path: Path) -> None:
    """Every patient in one shard, every row once and in its order of time."""
    rows = raw(tmp_path)
    dealt_by_tacit(tmp_path)
    job: dict[str, Any] = {}
    exec(COMMON.replace("/data/shards", str(tmp_path / "shards")), job)  # noqa: S102 - our own page
    shard = pd.concat([job["shards_of"](rows["patient"][:300]), job["shards_of"](rows["patient"][300:])])
    rows = rows.assign(shard=shard.values)
    assert sum(int(job["written"](group.copy())["rows"].iloc[0]) for _, group in rows.groupby("shard")) == 480
    assert len(list((tmp_path / "shards").glob("shard-000??.parquet"))) == 16
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert read(tmp_path / "shards", tmp_path / "a") == DAYS
    assert read(tmp_path / "expected", tmp_path / "b") == DAYS
    assert job["shards_of"]([" p1", "p1", "p1 "]).nunique() == 1


@pytest.mark.slow
def test_ray_data_runs_the_job(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    raw(tmp_path)
    dealt_by_tacit(tmp_path)
    script = COMMON.replace("/data/shards", str(tmp_path / "shards")) + RAY
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert "480 rows" in done.stdout, done.stderr
    (tmp_path / "a").mkdir()
    assert read(tmp_path / "shards", tmp_path / "a") == DAYS


def test_the_spark_job_is_python() -> None:
    compile(SPARK, "docs/scale.md", "exec")
    assert "pandas_udf(shards_of, " in SPARK
    assert "applyInPandas(written, " in SPARK
