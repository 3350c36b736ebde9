"""Shards on the disk: each unit in one, every row once and in its order, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.data import Box, Discrete, PublicSpec, unit_keys
from tacit.data.sources import shards
from tacit.data.store import read_spec
from tacit.errors import DataError, FileError, PlanError

SPEC = PublicSpec(
    observation=Box((-9.0,), (9.0,)), action=Discrete(3), reward=Box((-1000.0,), (1000.0,)), source="declared"
)


def table(ids: list[Any], rewards: list[float], **more: list[Any]) -> pa.Table:
    zeros = np.zeros(len(ids))
    columns = {"observation_0": zeros, "next_observation_0": zeros, "action": zeros.astype(int), "reward": rewards}
    return pa.table({"who": ids, **columns, "termination": zeros == 1, **more})


def dealt(folder: Path, *tables: pa.Table, **options: Any) -> shards.Shards:
    (folder / "raw").mkdir(parents=True)
    for number, rows in enumerate(tables):
        pq.write_table(rows, folder / "raw" / f"{number}.parquet")
    shards.write([str(folder / "raw")], folder / "out", **{"unit": "who", "shards": 3, "spec": SPEC, **options})
    described = shards.read_shards(folder / "out")
    assert described is not None
    return described


def rows_of(folder: Path) -> list[list[tuple[Any, float]]]:
    files = sorted(folder.glob("shard-*.parquet"))
    tables = [pq.read_table(file) for file in files]
    return [list(zip(t["who"].to_pylist(), t["reward"].to_pylist(), strict=True)) for t in tables]


def test_a_unit_of_two_files_lies_in_one_shard_and_every_row_is_there_once_in_its_order(tmp_path: Path) -> None:
    ids = [i % 50 for i in range(200)]
    described = dealt(tmp_path, table(ids[:120], list(range(120))), table(ids[120:], list(range(120, 200))))
    parts = rows_of(tmp_path / "out")
    assert (described.count, len(parts)) == (3, 3)
    assert sorted(reward for part in parts for _, reward in part) == list(range(200))
    assert all(part == sorted(part, key=lambda row: row[1]) for part in parts)
    owners = [{who for who, _ in part} for part in parts]
    assert [len(a & b) for a, b in zip(owners, owners[1:] + owners[:1], strict=True)] == [0, 0, 0]
    assert min(map(len, owners)) > 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "private",
        *(f"shard-0000{shard}.parquet" for shard in range(3)),
        "spec.json",
    ]


def test_whole_numbers_and_decimals_of_several_files_keep_their_values_and_order(tmp_path: Path) -> None:
    whole, half = table([1, 2], [1, 2]), table([2, 3], [1.5, 2.5])
    narrow = half.set_column(half.schema.get_field_index("reward"), "reward", pa.array([0.1, 16777217.5], pa.float32()))
    exact = table([16777216, 16777217], [0.1, 16777217.0])
    loose = exact.set_column(0, "who", pa.array([1.0, 5.0], pa.float32()))
    dealt(tmp_path / "a", whole, half, whole, shards=1)
    assert rows_of(tmp_path / "a" / "out") == [[(1, 1.0), (2, 2.0), (2, 1.5), (3, 2.5), (1, 1.0), (2, 2.0)]]
    dealt(tmp_path / "b", narrow, exact, shards=1)
    assert rows_of(tmp_path / "b" / "out")[0][2:] == [(16777216, 0.1), (16777217, 16777217.0)]
    dealt(tmp_path / "c", loose, exact, shards=1)
    assert [who for who, _ in rows_of(tmp_path / "c" / "out")[0]] == [1, 5, 16777216, 16777217]
    far = exact.set_column(0, "who", pa.array([2**63, 2**64 - 1], pa.uint64()))
    dealt(tmp_path / "d", whole, far, shards=1)
    assert [who for who, _ in rows_of(tmp_path / "d" / "out")[0]] == [1, 2, 2**63, 2**64 - 1]
    with pytest.raises(DataError, match="the column 'who' has another type than in the files before"):
        dealt(tmp_path / "e", whole, table(["1", "2"], [1, 2]))


def decimals(ids: list[str], precision: int, scale: int, rewards: list[float]) -> pa.Table:
    """Rows with ids as Oracle and Snowflake write them."""
    rows = table(list(range(len(ids))), rewards)
    return rows.set_column(0, "who", pa.array([Decimal(one) for one in ids], pa.decimal128(precision, scale)))


def test_decimals_are_ids_and_values_in_shards_whatever_their_precision(tmp_path: Path) -> None:
    large = "9" * 38
    kinds = {
        "whole": [decimals(["1", large, "1"], 38, 0, [0, 1, 2])],
        "zeros behind the point": [decimals(["1.00", "2.00", "1.00"], 38, 2, [0, 1, 2])],
        "of two precisions": [decimals(["1"], 10, 0, [0]), decimals(["2", "1"], 12, 2, [1, 2])],
        "beside whole numbers": [table([1], [0]), decimals(["2", "1"], 38, 0, [1, 2])],
        "before whole numbers": [decimals(["1", "2"], 38, 10, [0, 1]), table([1], [2])],
    }
    for name, rows in kinds.items():
        described = dealt(tmp_path / name, *rows, simulated=True, episode=None, shards=8, time="reward")
        data = described.read(0, 1, digest_key=None, store=tmp_path / name / "store")
        assert data.counts() == {"units": 2, "episodes": 2, "transitions": 3}, name
        assert sorted(data.columns["rewards"].tolist()) == [0, 1, 2]
        texts = [str(1), large if name == "whole" else "2"]
        assert data._records.names is not None
        assert sorted(data._records.names.tolist()) == sorted(unit_keys.names(texts).tolist()), name
    priced = table([1, 2], [0, 0]).set_column(4, "reward", pa.array([Decimal("1.25"), Decimal("-2.50")]))
    assert priced.schema.field("reward").type == pa.decimal128(3, 2)
    read = dealt(tmp_path / "priced", priced, shards=1).read(0, 1, digest_key=None, store=tmp_path / "store")
    assert read.columns["rewards"].tolist() == [1.25, -2.5]


def test_decimals_that_no_one_type_holds_and_fractions_as_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"1\.parquet: the column 'who' has another type than in the files before"):
        dealt(tmp_path / "a", decimals(["1"], 38, 0, [0]), decimals(["1"], 38, 2, [1]))
    described = dealt(tmp_path / "b", decimals(["1.50", "2.00"], 18, 2, [0, 1]), shards=1)
    with pytest.raises(DataError, match="row 1: the unit id is neither text, bytes nor a whole number"):
        described.read(0, 1, digest_key=None, store=tmp_path / "store")


def test_names_that_reading_takes_for_one_are_dealt_alike(tmp_path: Path) -> None:
    dealt(tmp_path, table(["ann", " ann", "ann "] * 20, list(range(60))), shards=7)
    assert sorted(map(len, rows_of(tmp_path / "out"))) == [0, 0, 0, 0, 0, 0, 60]


def test_rows_of_any_order_are_sorted_by_time(tmp_path: Path) -> None:
    order = [3, 1, 2, 0]
    raw = table([f"p{i % 4}'\"" for i in range(16)], [float(o) for o in order for _ in range(4)], day=order * 4)
    raw = raw.set_column(raw.schema.get_field_index("day"), "day", pa.array([o for o in order for _ in range(4)]))
    dealt(tmp_path, raw, time="day", shards=2)
    for part in rows_of(tmp_path / "out"):
        assert [reward for _, reward in part] == [0.0, 1.0, 2.0, 3.0] * (len(part) // 4)


def test_ranks_read_all_units_once_with_comparable_digests(tmp_path: Path) -> None:
    described = dealt(tmp_path, table(list(range(40)), list(range(40))), simulated=True, shards=5)
    key, read = b"k" * 32, []
    for rank in range(2):
        read.append(described.read(rank, 2, digest_key=key, store=tmp_path / f"store{rank}"))
    assert sorted(reward for data in read for reward in data.columns["rewards"]) == list(range(40))
    digests = [data._records.digests for data in read]
    assert [len(digest) - 1 for digest in digests] == [len(data.columns["rewards"]) for data in read]
    assert len(np.unique(np.concatenate([digest[1:] for digest in digests]), axis=0)) == 40
    assert (digests[0][0] == digests[1][0]).all()
    whole = described.read(0, 1, digest_key=None, store=tmp_path / "whole")
    assert len(whole.columns["rewards"]) == 40


def test_the_public_part_reads_as_that_of_any_records(tmp_path: Path) -> None:
    dealt(tmp_path, table([1, 2], [0.0, 1.0]), simulated=True)
    assert read_spec(tmp_path / "out") == (SPEC, True, "id")


@pytest.mark.parametrize("name", [None, "", " "])
def test_a_row_without_an_id_is_refused_when_it_is_read(tmp_path: Path, name: str | None) -> None:
    described = dealt(tmp_path, table(["ann", name, "bob"] * 4, list(range(12))), shards=1)
    with pytest.raises(DataError, match="unit id is missing"):
        described.read(0, 1, digest_key=None, store=tmp_path / "store")


@pytest.mark.parametrize(
    ("options", "kind", "what"),
    [
        ({"unit": ":transition"}, DataError, "dealt by the id of the unit"),
        ({"unit": "nobody"}, DataError, "no column 'nobody'"),
        ({"time": "hour"}, DataError, "no column 'hour'"),
        ({"shards": 0}, PlanError, "0 shards"),
        ({"fields": ("rewards=a,b",)}, DataError, "rewards takes 1 name"),
    ],
)
def test_what_cannot_be_dealt_is_refused_and_leaves_nothing(
    tmp_path: Path, options: dict[str, Any], kind: type[Exception], what: str
) -> None:
    with pytest.raises(kind, match=what):
        dealt(tmp_path, table([1, 2], [0.0, 1.0]), **options)
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_damaged_sources_and_more_ranks_than_shards_are_refused_without_a_cell(tmp_path: Path) -> None:
    described = dealt(tmp_path, table([1, 2], [0.0, 1.0]))
    with pytest.raises(PlanError, match="4 ranks and 3 shards"):
        described.read(0, 4, digest_key=None, store=tmp_path / "store")
    raw = (tmp_path / "raw" / "0.parquet").read_bytes()
    (tmp_path / "raw" / "0.parquet").write_bytes(raw[:40] + b"\0" * 100 + raw[140:])
    with pytest.raises(FileError, match="the rows cannot be read") as error:
        shards.write([str(tmp_path / "raw")], tmp_path / "again", unit="who", shards=2, spec=SPEC)
    assert error.value.__context__ is None
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("edit", [{"shards": 0}, {"shards": "two"}, {"fields": 3}, {"unit": None}])
def test_a_damaged_description_is_refused(tmp_path: Path, edit: dict[str, Any]) -> None:
    described = dealt(tmp_path, table([1, 2], [0.0, 1.0]))
    path = described.folder / "spec.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **edit}))
    with pytest.raises(FileError, match=r"spec.json is (missing or )?damaged"):
        shards.read_shards(described.folder)
