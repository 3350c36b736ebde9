"""Files, folders, globs and Hive partitions as one table, and files that do not agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from visits import CANARY, assert_quiet, table

from tacit.data.sources import lake
from tacit.errors import DataError, FileError


def as_csv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False)


def as_parquet(frame: pd.DataFrame, path: Path) -> None:
    frame.to_parquet(path, index=False)


def as_arrow(frame: pd.DataFrame, path: Path) -> None:
    feather.write_feather(frame, str(path))


def as_stream(frame: pd.DataFrame, path: Path) -> None:
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_stream(str(path), whole.schema) as writer:
        writer.write_table(whole)


WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".csv": as_csv,
    ".csv.gz": as_csv,
    ".csv.zip": as_csv,
    ".parquet": as_parquet,
    ".arrow": as_arrow,
    ".ipc": as_stream,
}


def cells(found: lake.SourceTable, *names: str) -> dict[str, list[Any]]:
    batches = list(found.batches(names))
    return {name: [cell for batch in batches for cell in batch.column(name).to_pylist()] for name in names}


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_folder_a_glob_and_a_list_are_one_table(suffix: str, tmp_path: Path) -> None:
    frame = table()
    (tmp_path / "later").mkdir()
    paths = [tmp_path / f"a{suffix}", tmp_path / "later" / f"b{suffix}"]
    WRITERS[suffix](frame[:2], paths[0])
    WRITERS[suffix](frame[2:], paths[1])
    (tmp_path / "_SUCCESS").touch()
    WRITERS[suffix](frame, tmp_path / f".hidden{suffix}")
    for sources in ([str(tmp_path)], [str(tmp_path / "**" / f"[ab]{suffix}")], [str(path) for path in paths]):
        found = lake.open_table(sources)
        assert found.typed == (not suffix.startswith(".csv"))
        assert list(found.kinds) == list(frame.columns)
        assert cells(found, "patient", "drug") == {name: frame[name].tolist() for name in ("patient", "drug")}
        assert cells(found, "pulse")["pulse"] == [float(p) if found.typed else str(p) for p in frame["pulse"]]


def test_partitions_are_columns_of_text_unless_the_file_has_them(tmp_path: Path) -> None:
    for ward, part in table().groupby("ward"):
        folder = tmp_path / "lake" / f"ward={ward}" / "site=St.%20Mary"
        folder.mkdir(parents=True)
        as_parquet(part.drop(columns=["ward"]), folder / "part-0.parquet")
    for source in (tmp_path / "lake", tmp_path / "lake" / "ward=*"):
        found = lake.open_table([str(source)])
        assert cells(found, "ward", "site") == {"ward": ["A", "A", "A", "B", "B", "B"], "site": ["St. Mary"] * 6}
    nobody = tmp_path / "lake" / "ward=__HIVE_DEFAULT_PARTITION__" / "site=x"
    nobody.mkdir(parents=True)
    as_parquet(table().drop(columns=["ward"])[:1], nobody / "part-0.parquet")
    assert None in cells(lake.open_table([str(tmp_path / "lake")]), "ward")["ward"]
    (tmp_path / "own" / "ward=wrong").mkdir(parents=True)
    as_csv(table()[:1], tmp_path / "own" / "ward=wrong" / "a.csv")
    assert cells(lake.open_table([str(tmp_path / "own")]), "ward") == {"ward": ["A"]}


def test_widths_may_differ_and_a_column_may_be_empty_in_one_file(tmp_path: Path) -> None:
    narrow = pa.table({"patient": pa.array(["a"]).dictionary_encode(), "n": pa.array([1], pa.int8()), "x": pa.nulls(1)})
    wide = pa.table(
        {"patient": pa.array(["b"], pa.large_string()), "n": pa.array([2], pa.int64()), "x": pa.array([0.5])}
    )
    for name, each in (("a", narrow), ("b", wide)):
        parquet.write_table(each, tmp_path / f"{name}.parquet")
    found = lake.open_table([str(tmp_path)])
    assert cells(found, "patient", "n", "x") == {"patient": ["a", "b"], "n": [1, 2], "x": [None, 0.5]}


def test_whole_numbers_in_one_file_and_decimals_in_another_are_read_as_they_are(tmp_path: Path) -> None:
    for name, minutes in (("a", pa.array([1, 2])), ("b", pa.array([0.5])), ("c", pa.array([3], pa.int8()))):
        parquet.write_table(pa.table({"minute": minutes}), tmp_path / f"{name}.parquet")
    assert cells(lake.open_table([str(tmp_path)]), "minute") == {"minute": [1.0, 2.0, 0.5, 3.0]}


@pytest.mark.parametrize(
    ("second", "what"),
    [
        ({"minute": ["x"] * 6}, "b.parquet: the column 'minute' has another type than in the files before"),
        (
            {"moment": pd.Series(pd.Timestamp("2024-03-01", tz="Europe/Paris"), index=range(6))},
            "b.parquet: the column 'moment' has another type than in the files before",
        ),
        (None, "b.parquet: there is no column 'drug', which the files before have"),
    ],
)
def test_files_that_disagree_are_refused(second: dict[str, Any] | None, what: str, tmp_path: Path) -> None:
    as_parquet(table(), tmp_path / "a.parquet")
    other = table().drop(columns=["drug"]) if second is None else table(**second)
    as_parquet(other, tmp_path / "b.parquet")
    with pytest.raises(DataError, match=what):
        lake.open_table([str(tmp_path)])


def test_a_link_out_of_the_folder_is_refused_and_one_by_name_is_read(tmp_path: Path) -> None:
    as_csv(table(), tmp_path / "a.csv")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "b.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(FileError, match="a link leads out of the folder"):
        lake.open_table([str(tmp_path / "lake")])
    assert len(cells(lake.open_table([str(tmp_path / "lake" / "b.csv")]), "drug")["drug"]) == 6


def test_what_is_no_table_is_refused_without_a_word_of_it(tmp_path: Path) -> None:
    as_csv(table(), tmp_path / "a.csv")
    as_parquet(table(), tmp_path / "a.parquet")
    with pytest.raises(FileError, match="the files are of several kinds"):
        lake.open_table([str(tmp_path)])
    (tmp_path / "empty").mkdir()
    for source in (str(tmp_path / "empty"), str(tmp_path / "*.pq")):
        with pytest.raises(FileError, match="no file is there"):
            lake.open_table([source])
    with pytest.raises(FileError, match="a file is there twice"):
        lake.open_table([str(tmp_path / "a.csv"), str(tmp_path / "*.csv")])
    for suffix in (".parquet", ".arrow"):
        broken = tmp_path / f"broken{suffix}"
        broken.write_text(CANARY * 100)
        with pytest.raises(FileError, match="damaged or of another kind") as caught:
            lake.open_table([str(broken)])
        assert_quiet(caught.value)
    half = tmp_path / "half.parquet"
    half.write_bytes((tmp_path / "a.parquet").read_bytes()[:-100])
    with pytest.raises(FileError, match="damaged"):
        lake.open_table([str(half)])
    with pytest.raises(FileError, match="there is no such file"):
        lake.open_table([str(tmp_path / "missing.csv")])


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz", ".txt"])
def test_tabs_part_the_cells_of_files_that_are_called_so(suffix: str, tmp_path: Path) -> None:
    table().to_csv(tmp_path / f"a{suffix}", sep="\t", index=False)
    found = lake.open_table([str(tmp_path / f"a{suffix}")])
    assert cells(found, "drug") == {"drug": table()["drug"].tolist()}
    table().to_csv(tmp_path / f"a{suffix}", sep=";", index=False)
    with pytest.raises(DataError, match='give --separator ";"'):
        lake.open_table([str(tmp_path / f"a{suffix}")])


def test_a_note_in_a_folder_of_tables_is_none_of_them(tmp_path: Path) -> None:
    as_csv(table(), tmp_path / "a.csv")
    (tmp_path / "README.txt").write_text("What these are.\n")
    assert lake.open_table([str(tmp_path)]).name == "a.csv"


def test_two_names_that_differ_by_white_space_are_one_in_every_kind_of_file(tmp_path: Path) -> None:
    for suffix, write in WRITERS.items():
        write(table().rename(columns={"ward": "drug "}), tmp_path / f"a{suffix}")
        with pytest.raises(DataError, match="two columns have one name"):
            lake.read_header(tmp_path / f"a{suffix}")
