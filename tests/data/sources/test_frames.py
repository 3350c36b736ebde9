"""Data frames of any library: the same records as from files, and the same refusals."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from visits import CANARY, REWARD, SORTED, SPEC, assert_quiet, rows, table

from tacit.data import Column, PublicSpec, Trajectories
from tacit.data.spec import space_of
from tacit.errors import DataError

duckdb = pytest.importorskip("duckdb")

STEPS: dict[str, Any] = {"unit": "patient", "episode": "visit", "time": "moment", "next": "keep", "reward": REWARD}


def relation(frame: pd.DataFrame) -> Any:
    return duckdb.connect(":memory:").from_df(frame)


def polars(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("polars").from_pandas(frame)


def lazy(frame: pd.DataFrame) -> Any:
    """Without Arrow's interface, known to narwhals alone."""
    return pytest.importorskip("narwhals").from_native(relation(frame)).lazy()


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "categories": lambda frame: frame.astype({"drug": "category", "ward": "category"}),
    "nullable": lambda frame: frame.convert_dtypes(),
    "arrow": lambda frame: pa.Table.from_pandas(frame),
    "batches": lambda frame: pa.Table.from_pandas(frame).to_reader(max_chunksize=2),
    "duckdb": relation,
    "polars": polars,
    "lazy": lazy,
}


@pytest.mark.parametrize(
    "cells",
    [
        [b"A", "A", b"B", "B", "B", "B"],
        [1, "1", 2, 2, 2, 2],
        [datetime.date(2024, 1, 1)] * 5 + [datetime.datetime(2024, 1, 1, 5)],
    ],
)
def test_a_column_of_objects_of_two_kinds_is_refused(cells: list[Any]) -> None:
    frame = table().assign(patient=pd.Series(cells, dtype=object))
    with pytest.raises(DataError, match="no table, or holds cells that Arrow has no type for") as caught:
        Trajectories.from_frame(frame, spec=SPEC, simulated=True, **STEPS)
    assert caught.value.__cause__ is None


def test_missing_cells_are_no_kind_of_their_own() -> None:
    days = [datetime.date(2024, 1, 1), pd.NaT, None] * 2
    frame = table().assign(day=pd.Series(days, dtype=object), note=pd.Series(["a", None, float("nan")] * 2))
    assert rows(Trajectories.from_frame(frame, spec=SPEC, simulated=True, **STEPS)) == SORTED


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_gives_the_same_records(kind: str) -> None:
    data = Trajectories.from_frame(FRAMES[kind](table()), spec=SPEC, simulated=True, **STEPS)
    assert rows(data) == SORTED
    assert not data._records.queried


def test_the_records_are_stored_and_the_unit_named(tmp_path: Path) -> None:
    data = Trajectories.from_frame(table(), spec=SPEC, store=tmp_path / "visits", **STEPS)
    assert data._records.unit == "patient"
    assert rows(Trajectories.open(tmp_path / "visits")) == SORTED
    assert [path.name for path in tmp_path.iterdir()] == ["visits"]


def test_zones_of_a_typed_time_are_read_in_utc() -> None:
    frame = table()
    frame["moment"] = frame["moment"].dt.tz_localize("Europe/Paris")
    spec = PublicSpec(SPEC.observation, SPEC.action, SPEC.reward, "declared", terminals=False)
    data = Trajectories.from_frame(
        frame, spec=spec, simulated=True, **STEPS | {"reward": "-hour(moment) / 24", "where": "patient = 'ann'"}
    )
    assert data.columns["rewards"].tolist() == pytest.approx([-23 / 24] * 4)


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (object(), "this is no table"),
        (table(note=[1, CANARY, 2.5, None, b"x", {}]), "this is no table, or holds cells that Arrow has no type for"),
        (pd.concat([table(), table()[["drug"]]], axis=1), "this is no table|two columns have one name"),
        (
            table(drug=["none"] * 3 + [CANARY] * 3),
            "frame, row 5: the column 'drug' has a label that the spec does not declare",
        ),
    ],
)
def test_a_bad_frame_is_refused_in_a_sentence(frame: Any, what: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        Trajectories.from_frame(frame, spec=SPEC, **STEPS)
    assert_quiet(caught.value)


def without_nan(frame: pd.DataFrame) -> pa.Table:
    """As Arrow, where a missing number is null, not NaN."""
    return pa.Table.from_pandas(frame, preserve_index=False)


def with_nan(frame: pd.DataFrame) -> pa.Table:
    kept = without_nan(frame)
    return kept.set_column(kept.schema.get_field_index("pulse"), "pulse", pa.array(frame["pulse"], from_pandas=False))


def nested(frame: pd.DataFrame) -> pa.Table:
    kept = with_nan(frame)
    part = pa.StructArray.from_arrays([kept.column("pulse").combine_chunks()], ["pulse"])
    return kept.append_column("vitals", part)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (without_nan, "pulse"),
        (with_nan, "pulse"),
        (with_nan, "cast(cast(pulse AS VARCHAR) AS DOUBLE)"),
        (with_nan, "try_cast(word AS DOUBLE)"),
        (nested, "vitals.pulse"),
    ],
)
def test_nan_is_missing_and_not_the_largest_number(make: Callable[[pd.DataFrame], pa.Table], name: str) -> None:
    """SQL sorts NaN above all numbers: it would pass every --where and be the largest of every window."""
    frame = pd.DataFrame({"patient": 1, "hour": [1, 2, 3], "pulse": [80.0, math.nan, 70.0]})
    frame = frame.assign(drug=["none", "low", "none"], word=["80", "NaN", "70"])
    columns = space_of(Column("pulse", low=30, high=220, missing="flag"))
    spec = PublicSpec(columns, SPEC.action, SPEC.reward, "declared", terminals=False)

    def rewards(reward: str, **more: Any) -> list[float]:
        how: dict[str, Any] = {"unit": "patient", "time": "hour", "next": "keep", "spec": spec, "simulated": True}
        made: list[float] = (
            Trajectories.from_frame(make(frame), reward=reward, **how, **more).columns["rewards"].tolist()
        )
        return made

    assert rewards(f"CASE WHEN {name} > 75 THEN -1 ELSE 0 END") == [-1, 0, 0]
    assert rewards("0", where=f"{name} >= 75") == [0]
    assert rewards(f"-(max({name}) OVER (PARTITION BY patient)) / 160") == [-0.5, -0.5, -0.5]


@pytest.mark.parametrize("index", [pa.uint8(), pa.uint32()])
def test_categories_whose_words_are_views_are_read(index: pa.DataType) -> None:
    """So does Polars write its categorical columns and enums, and read tacit's own rows.parquet."""
    whole = pa.Table.from_pandas(table(), preserve_index=False)
    for name in ("patient", "drug"):
        cells = whole.column(name).combine_chunks().dictionary_encode()
        words, places = cells.dictionary.cast(pa.string_view()), cells.indices.cast(index)
        column = pa.DictionaryArray.from_arrays(places, words)
        whole = whole.set_column(whole.schema.get_field_index(name), name, column)
    assert rows(Trajectories.from_frame(whole, spec=SPEC, simulated=True, **STEPS)) == SORTED


def test_names_that_differ_by_white_space_are_one() -> None:
    with pytest.raises(DataError, match=r"Trajectories\.from_frame: two columns have one name"):
        Trajectories.from_frame(table().assign(**{"drug ": "none"}), spec=SPEC, **STEPS)
