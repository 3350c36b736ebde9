"""A refused cell of rows that are sorted is named by its file and its row there, whatever the order."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from visits import CANARY, REWARD, SPEC, assert_quiet, table

from tacit.data.sources import frames, lake, sorting
from tacit.errors import DataError

pytest.importorskip("duckdb")
OPTIONS: dict[str, Any] = {"unit": "patient", "episode": "visit", "time": "minute", "next": "keep", "reward": REWARD}


def two_csv_files(frame: pd.DataFrame, folder: Path) -> lake.SourceTable:
    frame[:2].to_csv(folder / "a.csv", index=False)
    frame[2:].to_csv(folder / "b.csv.gz", index=False)
    return lake.open_table([str(folder)])


def two_parquet_files(frame: pd.DataFrame, folder: Path) -> lake.SourceTable:
    frame[:2].to_parquet(folder / "a.parquet")
    frame[2:].to_parquet(folder / "b.parquet")
    return lake.open_table([str(folder)])


WAYS: dict[str, tuple[Callable[[pd.DataFrame, Path], lake.SourceTable], str]] = {
    "csv": (two_csv_files, "b.csv.gz, row 3: "),
    "parquet": (two_parquet_files, "b.parquet, row 3: "),
    "frame": (lambda frame, _: frames.open_table(frame), "Trajectories.from_frame, row 5: "),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "cell", "options", "what"),
    [
        ("pulse", None, {"reward": "0"}, "the column 'pulse' has a missing value"),
        ("pulse", float("inf"), {"reward": "0"}, "the column 'pulse' has a value that is infinite"),
        ("pulse", CANARY, {"reward": "0"}, "the column 'pulse' has a cell that is not a number"),
        ("drug", CANARY, {}, "the column 'drug' has a label that the spec does not declare"),
        ("drug", CANARY, {"where": "ward = 'B'"}, "the column 'drug' has a label that the spec does not declare"),
        ("drug", CANARY, {"time": None, "next": None}, "the column 'drug' has a label that the spec does not declare"),
        ("patient", None, {}, "the unit id is missing"),
        ("minute", None, {}, "the time column has a (missing value|cell that is missing)"),
        ("truncation", 2, {}, "truncations is not boolean"),
    ],
)
def test_a_refused_cell_is_named_by_its_file_and_row(
    way: str, name: str, cell: Any, options: dict[str, Any], what: str, tmp_path: Path
) -> None:
    frame, (open_table, place) = table(truncation=0), WAYS[way]
    frame = frame.assign(next_pulse=frame["pulse"], next_ward=frame["ward"])
    if not isinstance(cell, str) or name == "drug":
        frame.loc[4, name] = cell
    else:
        frame[name] = [str(other) if row != 4 else cell for row, other in enumerate(frame[name])]
    wanted = sorting.TableOptions(**OPTIONS | options)
    with pytest.raises(DataError, match=f"^{re.escape(place)}{what}") as caught:
        sorting.read(open_table(frame, tmp_path), wanted, SPEC, simulated=True)
    assert_quiet(caught.value)


def test_rows_that_are_left_out_are_counted(tmp_path: Path) -> None:
    frame = table(drug=["none"] * 4 + ["none", CANARY], visit=[1, 1, 1, 2, 1, 1]).sort_values(
        "patient", ascending=False
    )
    frame.loc[frame["drug"] == CANARY, "minute"] = 2  # before another row, so that it is no last one
    wanted = sorting.TableOptions(**OPTIONS | {"next": "drop"})
    with pytest.raises(DataError, match=r"^a\.csv, row 2: the column 'drug' has a label"):
        sorting.read(two_csv_files(frame, tmp_path), wanted, SPEC, simulated=True)


def test_a_cell_that_an_expression_computes_with_is_named_by_its_row(tmp_path: Path) -> None:
    frame = table()
    frame["pulse"] = [str(cell) if row != 3 else CANARY for row, cell in enumerate(frame["pulse"])]
    with pytest.raises(DataError, match=r"^b\.csv\.gz, row 2: the column 'pulse' has a cell that is not a number"):
        sorting.read(two_csv_files(frame, tmp_path), sorting.TableOptions(**OPTIONS), SPEC, simulated=True)


def test_rows_at_one_time_and_in_two_zones_are_named_by_their_row(tmp_path: Path) -> None:
    frame = table(minute=[0, 5, 5, 20, 3, 4])  # of ann's first visit two at once, the first of which is row 4 of b
    with pytest.raises(DataError, match=r"row \d: two rows of an episode have the same time") as caught:
        sorting.read(two_csv_files(frame, tmp_path), sorting.TableOptions(**OPTIONS), SPEC, simulated=True)
    assert caught.value.where in ("a.csv, row 2", "b.csv.gz, row 4")
    frame = table(minute=["2024-03-01 10:00Z"] * 5 + ["2024-03-01 11:00+01:00"])
    wanted = sorting.TableOptions(**OPTIONS | {"episode": None})
    with pytest.raises(DataError, match=r"^a\.csv, row 2: the time column mixes time zones"):
        sorting.read(two_csv_files(frame[frame["patient"] == "bob"], tmp_path), wanted, SPEC, simulated=True)


def test_an_end_before_the_last_row_is_named_by_its_row(tmp_path: Path) -> None:
    frame = table(truncation=[1, 0, 0, 0, 0, 0]).assign(next_pulse=70.0, next_ward="A")
    wanted = sorting.TableOptions(**OPTIONS | {"next": None})
    with pytest.raises(DataError, match=r"^b\.csv\.gz, row 1: rows that terminate or truncate .*: 1;"):
        sorting.read(two_csv_files(frame, tmp_path), wanted, SPEC, simulated=True)


def test_a_stream_that_is_read_once_has_no_rows_to_name() -> None:
    reader = pa.Table.from_pandas(table(drug=CANARY)).to_reader(max_chunksize=2)
    with pytest.raises(DataError, match=r"^Trajectories.from_frame: the column 'drug' has a label"):
        sorting.read(frames.open_table(reader), sorting.TableOptions(**OPTIONS), SPEC, simulated=True)
