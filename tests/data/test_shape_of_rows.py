"""Rows as exports have them, one a visit: what they hold, and that they are read back as the pairs they were."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tacit.data import Column, PublicSpec, Trajectories, outputs
from tacit.data.spec import space_of
from tacit.study import synthesis_report

SPEC = PublicSpec(
    space_of(Column("sex", "category", labels=("m", "w"), static=True), Column("pulse", low=0, high=200, step=1)),
    space_of(Column("drug", "category", labels=("none", "nitrate"))),
    space_of(Column("relief", low=0, high=1)),
    "declared",
)
PULSES = [[60, 61, 62], [70, 71], [80, 81, 82], [90, 90]]
"""Of four episodes, the last visit of which has no step; the second terminates, the fourth ends in a copy."""


def episodes() -> Trajectories:
    rows: list[tuple[Any, ...]] = []
    for number, pulses in enumerate(PULSES):
        for step, (pulse, following) in enumerate(itertools.pairwise(pulses)):
            last = step == len(pulses) - 2
            rows.append((number, number // 2, pulse, following, step % 2, last and number == 1, last and number != 1))
    number, sex, pulse, following, drug, terminated, truncated = map(np.array, zip(*rows, strict=True))
    return Trajectories.from_arrays(
        observations=np.stack([sex, pulse], axis=1),
        next_observations=np.stack([sex, following], axis=1),
        actions=drug,
        rewards=drug / 2,
        terminations=terminated,
        truncations=truncated,
        unit_ids=number // 2,
        episode_ids=number,
        spec=SPEC,
        simulated=True,
        copied_ends=True,
    )


def test_a_row_a_visit_has_the_last_visit_too() -> None:
    table = outputs.to_arrow(episodes(), shape="visits")
    names = ["episode", "step", "unit", "sex", "pulse", "drug", "relief", "termination", "truncation"]
    assert table.column_names == names
    assert table["episode"].to_pylist() == [0, 0, 0, 1, 2, 2, 2, 3]
    assert table["step"].to_pylist() == [0, 1, 2, 0, 0, 1, 2, 0]
    assert table["unit"].to_pylist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert table["sex"].to_pylist() == ["m", "m", "m", "m", "w", "w", "w", "w"]
    assert table["pulse"].to_pylist() == [60, 61, 62, 70, 80, 81, 82, 90]
    assert table["drug"].to_pylist() == ["none", "nitrate", None, "none", "none", "nitrate", None, "none"]
    assert table["relief"].to_pylist() == [0, 0.5, None, 0, 0, 0.5, None, 0]
    assert table["termination"].to_pylist() == [False, False, False, True, False, False, False, False]
    assert table["truncation"].to_pylist() == [False, False, True, False, False, False, True, True]
    assert episodes().to_pandas(shape="visits")["pulse"].tolist() == table["pulse"].to_pylist()


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_visits_are_read_back_as_the_pairs_that_they_were(form: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    from tacit.data.sources import lake, sorting

    data, file = episodes(), tmp_path / f"rows.{form}"
    (data.to_parquet if form == "parquet" else data.to_csv)(file, shape="visits")
    options = sorting.TableOptions(unit="unit", episode="episode", time="step", next="drop")
    records = sorting.read(lake.open_table([str(file)]), options, SPEC, simulated=True)
    kept = [0, 1, 2, 3, 4]  # the copy is left out
    for name, column in records.columns.items():
        expected = np.asarray(data.columns[name])[kept]
        if name == "next_observations":  # no visit follows one that terminates
            expected[2] = data.columns["observations"][2]
        np.testing.assert_array_equal(column, expected, err_msg=name)
    assert records.episodes.tolist() == [0, 2, 3, 5]


def test_groups_of_rows_and_rows_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, file = episodes(), tmp_path / "rows.parquet"
    monkeypatch.setattr(outputs, "GROUP", 2)
    data.to_parquet(file, shape="visits")
    whole = outputs.to_arrow(data, shape="visits")
    assert pq.read_table(file).to_pylist() == whole.to_pylist()
    columns = {name: np.asarray(column) for name, column in data.columns.items()}
    alone = Trajectories.from_arrays(**columns, unit_ids=":transition", spec=SPEC, simulated=True)  # type: ignore[arg-type]
    assert outputs.to_arrow(alone, shape="visits")["pulse"].to_pylist() == [60, 61, 70, 80, 81, 90]


def test_a_shape_belongs_to_tables() -> None:
    from tacit.errors import PlanError

    with pytest.raises(
        PlanError, match=r"sample: --shape has no meaning here; expected --format parquet or csv, not npz"
    ):
        synthesis_report.require_format("npz", "visits", 10, "rows", "sample")
