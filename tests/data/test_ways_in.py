"""Who is one unit, through every way in: one table of odd ids, one verdict each.

Each line says how many units its ids are, or that they are refused: as none ("none") or as twins ("twins").
"""

from __future__ import annotations

import csv
import datetime
import decimal
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import minari
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from minari.data_collector import EpisodeBuffer

from tacit.data import Box, Discrete, PublicSpec, Trajectories
from tacit.data.mobility import Rules, from_cells, from_points
from tacit.data.mobility.grids import RegularGrid
from tacit.data.sources import databases, lake, shards, sorting
from tacit.data.sources.dictionaries import from_obp, from_scope_rl
from tacit.data.sources.sorting import TableOptions
from tacit.data.texts import Texts
from tacit.errors import DataError, TacitError

# fmt: off
TABLE: dict[str, tuple[list[Any], int | str]] = {
    # what a person would call one id
    "white space at the ends":        (["Zqx", " Zqx\u2028", "Zqx\t", "\x0bZqx\x0c", "\x85Zqx", "\u3000Zqx\xa0"], 1),
    "an id that comes again":         (["Zqx", "Zqy", "Zqx "], 2),
    # what are different ids
    "leading zeros and points":       (["1", "01", "1.0"], 3),
    "one space or none":              (["Zq x", "Zqx"], 2),
    "letters of another script":      (["Zqa", "Zq\u0430"], 2),
    # twins
    "case":                           (["Zqx", "ZQX"], "twins"),
    "sharp s":                        (["Zqstra\u00dfe", "ZQSTRASSE"], "twins"),
    "composed and decomposed":        (["Zqcaf\u00e9", "Zqcafe\u0301"], "twins"),
    "full width":                     (["Zq12", "Zq\uff11\uff12"], "twins"),
    "zero width space":               (["Zqx", "Zq\u200bx"], "twins"),
    "soft hyphen":                    (["Zqx", "Zq\u00adx"], "twins"),
    "byte order mark":                (["Zqx", "\ufeffZqx"], "twins"),
    "two spaces":                     (["Zq x", "Zq  x"], "twins"),
    "a tab within":                   (["Zq x", "Zq\tx"], "twins"),
    "twins far apart":                (["Zqx", "a", "b", "c", "zqx"], "twins"),
    # nothing
    "empty":                          (["Zqx", ""], "none"),
    "white space alone":              (["Zqx", " \t\u2028"], "none"),
    "NA":                             (["Zqx", "NA"], "none"),
    "null":                           (["Zqx", " null "], "none"),
    "None":                           (["Zqx", "None"], "none"),
    "NULL":                           (["Zqx", "NULL"], "none"),
    "NAN":                            (["Zqx", "NAN"], "none"),
    "words with more":                (["Nan Zq", "none1", "Nana", "Nuller"], 4),
}
TYPED: dict[str, tuple[list[Any], int | str]] = {
    "whole numbers":                  ([1, 2, 1], 2),
    "64 bits without a sign":         ([2**63, 2**63 + 1, 2**64 - 1], 3),
    "decimals":                       ([decimal.Decimal("1"), decimal.Decimal("2"), decimal.Decimal(10) ** 30], 3),
    "decimals with zeros":            ([decimal.Decimal("1.00"), decimal.Decimal("2.00")], 2),
    "decimals with a fraction":       ([decimal.Decimal("1.50"), decimal.Decimal("2.00")], "none"),
    "floats that are whole":          ([1.0, 2.0, 1.0], 2),
    "floats with a fraction":         ([1.0, 1.5], "none"),
    "floats that skip whole numbers": ([2.0**53, 2.0**53 + 2], "none"),
    "not a number":                   ([1.0, float("nan")], "none"),
    "a missing text":                 (["Zqx", None], "none"),
    "bytes":                          ([b"\xff\x00", b"\xfe\x00", b"\xff", b"\xff\x00"], 3),
    "bytes that are one if replaced": ([b"\x80", b"\x81", b"\x82"], 3),
    "truth values":                   ([True, False], "none"),
    "days":                           ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], "none"),
}
MIXED: dict[str, list[Any]] = {
    "a number and its text":          [1, "1"],
    "a text and a number":            ["Zqx", 1, 2],
    "bytes and their text":           [b"Zqx", "Zqx"],
    "a text and its bytes":           ["Zqx", b"Zqx"],
    "a fraction":                     [1, 1.5],
    "a missing number":               [1, None],
}
# fmt: on
SPEC = PublicSpec(Box((0.0,), (9.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", terminals=True)
GRID = RegularGrid.of_metres((39.9, 116.3, 39.92, 116.32), 1000)
Way = Callable[[Sequence[Any], Path], int]


def columns(count: int) -> dict[str, np.ndarray]:
    """Rows of `count` episodes of one step."""
    ones = np.ones(count)
    return {"observation_0": ones, "next_observation_0": ones, "action": ones.astype(int), "reward": ones * 0.5}


def table(ids: Sequence[Any]) -> pa.Table:
    """Rows with typed ids."""
    if any(isinstance(one, decimal.Decimal) for one in ids):
        kind = pa.decimal128(38, max(0, -min(one.as_tuple().exponent for one in ids)))
    else:
        kind = pa.uint64() if all(type(one) is int for one in ids) and max(ids) >= 2**63 else None
    made = {name: pa.array(column) for name, column in columns(len(ids)).items()}
    return pa.table({"who": pa.array(ids, kind, from_pandas=False), **made, "termination": [True] * len(ids)})


def units(data: Trajectories) -> int:
    """How many there are, each with a name of its own."""
    names = data._records.names
    assert names is not None
    assert len(np.unique(names, axis=0)) == len(names) == data.counts()["units"]
    return len(names)


def rows(ids: Any) -> dict[str, Any]:
    """Arguments of `from_arrays`."""
    some = columns(len(ids))
    fields = {"observations": some["observation_0"], "next_observations": some["next_observation_0"]}
    fields |= {"actions": some["action"], "rewards": some["reward"], "terminations": np.ones(len(ids), bool)}
    return {**fields, "unit_ids": ids, "spec": SPEC, "simulated": True}


def written(ids: Sequence[Any], path: Path) -> Path:
    """A CSV file of all columns, and of texts and positions."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        some = columns(len(ids))
        writer.writerow(["who", *some, "termination", "text", "time", "lat", "lon"])
        for i, one in enumerate(ids):
            more = [True, "words", f"2020-03-{i + 2:02}T00:00:00+08:00", 39.91, 116.31]
            writer.writerow([one, *(column[i] for column in some.values()), *more])
    return path


def of_csv(ids: Sequence[Any], folder: Path) -> int:
    return units(Trajectories.from_csv(written(ids, folder / "a.csv"), unit="who", spec=SPEC, simulated=True))


def of_sorted_csv(ids: Sequence[Any], folder: Path) -> int:
    found = lake.open_table([str(written(ids, folder / "a.csv"))])
    return of_table(found, time="time")


def of_table(found: lake.SourceTable, **wanted: Any) -> int:
    wanted = {"unit": "who", "reward": "reward + 0 * count(*) OVER (PARTITION BY who)", **wanted}
    return units(Trajectories(sorting.read(found, TableOptions(**wanted), SPEC, simulated=True), SPEC, simulated=True))


def of_texts(ids: Sequence[Any], folder: Path) -> int:
    return len({key for key, _ in Texts(written(ids, folder / "a.csv"), "who", "text").rows()})


def of_position_files(ids: Sequence[Any], folder: Path) -> int:
    days = from_points(written(ids, folder / "a.csv"), GRID, Rules("Asia/Shanghai", carry=48, observed=1), user="who")
    return units(days.trajectories(simulated=True))


def of_positions(ids: Sequence[Any], folder: Path) -> int:
    times = [f"2020-03-{i + 2:02}T00:00:00+08:00" for i in range(len(ids))]
    frame = pd.DataFrame({"user": pd.Series(ids, dtype=object), "time": times, "lat": 39.91, "lon": 116.31})
    return units(from_points(frame, GRID, Rules("Asia/Shanghai", carry=48, observed=1)).trajectories(simulated=True))


def of_days(ids: Sequence[Any], folder: Path) -> int:
    days = {"days": np.zeros((len(ids), 48), int), "user": list(ids)}
    return units(from_cells(days, GRID, places=None).trajectories(simulated=True))


def of_sqlite(ids: Sequence[Any], folder: Path) -> int:
    written(ids, folder / "a.csv")
    with sqlite3.connect(folder / "a.sqlite") as base:
        pd.read_csv(folder / "a.csv").drop(columns="who").assign(who=list(ids)).to_sql("rows", base, index=False)
    return of_table(databases.open_table("SELECT * FROM rows", f"sqlite:{folder / 'a.sqlite'}"))


def of_duckdb(ids: Sequence[Any], folder: Path) -> int:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "a.duckdb")) as base:
        base.register("given", table(ids))
        base.execute("CREATE TABLE rows AS SELECT * FROM given")
    return of_table(databases.open_table("SELECT * FROM rows", f"duckdb:{folder / 'a.duckdb'}"))


def of_parquet(ids: Sequence[Any], folder: Path) -> int:
    pq.write_table(table(ids), folder / "a.parquet")
    return units(Trajectories.from_parquet(folder / "a.parquet", unit="who", spec=SPEC, simulated=True))


def of_sorted_parquet(ids: Sequence[Any], folder: Path) -> int:
    pq.write_table(table(ids).append_column("hour", [list(range(len(ids)))]), folder / "a.parquet")
    return of_table(lake.open_table([str(folder / "a.parquet")]), time="hour")


def of_shards(ids: Sequence[Any], folder: Path) -> int:
    """In two shards, together: who is dealt to two of them counts twice."""
    pq.write_table(table(ids), folder / "a.parquet")
    shards.write([str(folder / "a.parquet")], folder / "s", unit="who", shards=2, spec=SPEC, simulated=True)
    digests = []
    for number in range(2):
        part = pq.read_table(folder / "s" / f"shard-{number:05}.parquet")
        if len(part):
            path = folder / f"{number}.parquet"
            pq.write_table(part, path)
            read = Trajectories.from_parquet(path, unit="who", spec=SPEC, simulated=True, digest_key=b"k" * 16)
            digests.append(read._records.digests[1:])
    found = np.concatenate(digests)
    if len(np.unique(found, axis=0)) < len(found):
        raise DataError("differ by case", where="two shards", expected="", remedy="")
    return len(found)


def of_arrow(ids: Sequence[Any], folder: Path) -> int:
    return units(Trajectories.from_frame(table(ids), unit="who", spec=SPEC, simulated=True))


def of_pandas(ids: Sequence[Any], folder: Path) -> int:
    frame = table(["a"] * len(ids)).to_pandas().assign(who=pd.Series(ids, dtype=object))
    return units(Trajectories.from_frame(frame, unit="who", spec=SPEC, simulated=True))


def of_lists(ids: Sequence[Any], folder: Path) -> int:
    return units(Trajectories.from_arrays(**rows(list(ids))))


def of_arrays(ids: Sequence[Any], folder: Path) -> int:
    return units(Trajectories.from_arrays(**rows(np.array(ids, dtype=object))))


def of_blocks(ids: Sequence[Any], folder: Path) -> int:
    """A row at a time: twins and units that come again are seen across chunks."""
    blocks = [{**rows([one]), "unit_ids": [one]} for one in ids]
    for block in blocks:
        del block["spec"], block["simulated"]
    return units(Trajectories.from_blocks(blocks, spec=SPEC, simulated=True))


def of_obp(ids: Sequence[Any], folder: Path) -> int:
    some = rows(ids)
    feedback = {"context": some["observations"][:, None], "action": some["actions"], "reward": some["rewards"]}
    return units(from_obp(feedback, unit_ids=list(ids), spec=SPEC, simulated=True))


def of_scope_rl(ids: Sequence[Any], folder: Path) -> int:
    some, done = rows(ids), np.ones(len(ids))
    logged = {"state": some["observations"][:, None], "action": some["actions"], "reward": some["rewards"]}
    return units(
        from_scope_rl({**logged, "done": done, "terminal": 0 * done}, unit_ids=list(ids), spec=SPEC, simulated=True)
    )


def of_minari(ids: Sequence[Any], folder: Path) -> int:
    buffers = [
        EpisodeBuffer(
            observations=np.ones((2, 1), np.float32),
            actions=np.zeros(1, np.int64),
            rewards=[0.5],
            terminations=[True],
            truncations=[False],
        )
        for _ in ids
    ]
    import gymnasium

    made = minari.create_dataset_from_buffers(
        "odd/ids-v0",
        buffers,
        observation_space=gymnasium.spaces.Box(0, 9, (1,), np.float32),
        action_space=gymnasium.spaces.Discrete(2),
    )
    made.storage.update_episode_metadata([{"who": one} for one in ids])
    return units(Trajectories.from_minari(made, unit="who", spec=SPEC, simulated=True))


def of_d4rl(ids: Sequence[Any], folder: Path) -> int:
    some = rows(ids)
    with h5py.File(folder / "a.hdf5", "w") as file:
        for name in ("observations", "next_observations", "actions", "rewards"):
            file[name] = np.append(some[name], some[name][-1])
        file["terminals"], file["timeouts"] = np.ones(len(ids) + 1, bool), np.zeros(len(ids) + 1, bool)
        file["who"] = [*ids, ids[-1]]
    return units(Trajectories.from_d4rl(folder / "a.hdf5", unit="who", spec=SPEC, simulated=True))


TEXTS: tuple[Way, ...] = (of_csv, of_sorted_csv, of_texts, of_position_files, of_sqlite, of_minari, of_d4rl)
TYPES: tuple[Way, ...] = (of_duckdb, of_parquet, of_sorted_parquet, of_shards, of_arrow, of_lists, of_arrays)
TYPES += (of_blocks, of_obp, of_scope_rl, of_positions, of_days)
CELLS: tuple[Way, ...] = (of_lists, of_arrays, of_blocks, of_obp, of_scope_rl, of_positions, of_days, of_pandas)


def verdict(way: Way, ids: Sequence[Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> int | str:
    """How many units there are, or why not; no refusal shows an id."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder / "minari"))
    try:
        return way(ids, folder)
    except TacitError as error:
        told = str(error)
    assert "zq" not in told.casefold()
    return "twins" if "differ by case" in told else "none"


@pytest.mark.filterwarnings("ignore:.* None:UserWarning")
@pytest.mark.parametrize("way", [*TEXTS, *TYPES], ids=lambda way: way.__name__)
@pytest.mark.parametrize("case", TABLE)
def test_texts(case: str, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, expected = TABLE[case]
    assert verdict(way, ids, tmp_path, monkeypatch) == expected


@pytest.mark.parametrize("way", TYPES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("case", TYPED)
def test_other_kinds(case: str, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, expected = TYPED[case]
    assert verdict(way, ids, tmp_path, monkeypatch) == expected


@pytest.mark.parametrize("way", CELLS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("case", MIXED)
def test_cells_of_one_column_are_of_one_kind(
    case: str, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict(way, MIXED[case], tmp_path, monkeypatch) == "none"
