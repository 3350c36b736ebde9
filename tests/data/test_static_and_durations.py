"""Columns that never change in a unit, and the time between steps: declared, checked, computed and given back."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tacit.data import Box, Column, PublicSpec, Trajectories, spec_files
from tacit.data.spec import space_of
from tacit.errors import DataError
from tacit.methods.synthesis import Encoder
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.trajectories.fragments import FragmentEncoder

SEX = Column("sex", "category", labels=("m", "w", "d"), static=True, missing="flag")
AGE = Column("age", "integer", low=0, high=120, static=True)
PULSE = Column("pulse", low=30, high=220, step=5)
GAP = Column("gap", "duration", low=0, high=400, step=20, time_unit="days")
DRUG = space_of(Column("drug", "category", labels=("none", "nitrate")))
REWARD = space_of(Column("reward", low=0, high=1))


def spec(*columns: Column) -> PublicSpec:
    return PublicSpec(space_of(*columns), DRUG, REWARD, "declared", terminals=False)


def visits(**changes: Any) -> pd.DataFrame:
    start, days = datetime(2024, 3, 30, 12), [0, 1.5, 10, 0, 3]
    table = {
        "patient": ["A", "A", "A", "B", "B"],
        "day": [start + timedelta(days=day) for day in days],
        "sex": ["m", "m", "m", None, None],
        "age": [44, 44, 44, 71, 71],
        "pulse": [80.0, 82, 81, 60, 64],
        "drug": ["none", "nitrate", "none", "none", "nitrate"],
        "reward": [0.0, 1, 0, 1, 0],
    }
    return pd.DataFrame(table | changes)


def read(frame: pd.DataFrame, *columns: Column, **options: Any) -> Trajectories:
    pytest.importorskip("duckdb")
    chosen = {"unit": "patient", "time": "day", "next": "keep"} | options
    return Trajectories.from_frame(frame, spec=spec(*columns), simulated=True, **chosen)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ({"name": "sex", "low": 0, "high": 1, "static": True, "step": 1}, "static is not true or false"),
        ({"name": "gap", "kind": "duration", "low": 0, "high": 1, "static": True}, "static is not true or false"),
        ({"name": "gap", "low": 0, "high": 1, "static": "yes"}, "static is not true or false"),
        ({"name": "gap", "low": 0, "high": 1, "time_unit": "days"}, "time_unit has no meaning"),
        ({"name": "gap", "kind": "duration", "low": 0, "high": 1, "time_unit": "weeks"}, "time_unit has no meaning"),
    ],
)
def test_a_column_that_cannot_be_is_refused(column: dict[str, Any], what: str) -> None:
    with pytest.raises(DataError, match=what):
        Column(**column)


def test_a_spec_has_something_that_changes_and_no_static_actions() -> None:
    with pytest.raises(DataError, match="every column of the observation is static"):
        spec(SEX, AGE)
    with pytest.raises(DataError, match="the column 'age' of the action is static or a duration"):
        PublicSpec(space_of(PULSE), space_of(AGE), REWARD, "declared")


def test_a_spec_with_both_kinds_goes_to_a_file_and_back(tmp_path: Path) -> None:
    written = spec(SEX, AGE, PULSE, GAP)
    assert PublicSpec.from_json(written.to_json()) == written
    assert isinstance(written.observation, Box)
    assert written.observation.static == (True, True, True, False, False)
    assert written.observation.whole == (True, True, True, False, False)
    assert written.difference == (1, 1, 1, 5, 20)
    file = tmp_path / "bounds.toml"
    file.write_text(
        'source = "declared"\nterminals = false\n[observation]\nkind = "columns"\ncolumns = [\n'
        '{name = "age", kind = "integer", low = 0, high = 120, static = true},\n'
        '{name = "gap", kind = "duration", low = 0, high = 400, step = 20, time_unit = "days"}]\n'
        '[action]\nkind = "columns"\ncolumns = [{name = "drug", kind = "category", labels = ["none", "nitrate"]}]\n'
        '[reward]\nkind = "columns"\ncolumns = [{name = "reward", low = 0, high = 1}]\n'
    )
    assert spec_files.read(file) == spec(AGE, GAP)


@pytest.mark.parametrize(
    ("changes", "named", "row"),
    [
        ({"sex": ["m", "m", "w", None, None]}, "sex", 3),
        ({"sex": ["m", "m", "m", None, "w"]}, "sex", 5),
        ({"sex": ["m", None, "m", None, None]}, "sex", 2),
        ({"age": [44, 45, 44, 71, 71]}, "age", 2),
    ],
)
def test_a_static_column_that_changes_is_refused_by_its_row(changes: dict[str, Any], named: str, row: int) -> None:
    data = spec(SEX, AGE, PULSE)
    frame = visits(**changes)
    cells = {name: frame[name].to_numpy() for name in ("sex", "age", "pulse")}
    with pytest.raises(DataError, match=rf"Trajectories, row {row}: the static column '{named}\w*' changes in a unit"):
        Trajectories.from_arrays(
            observations=cells,
            next_observations=cells,
            actions=np.zeros(5),
            rewards=np.zeros(5),
            terminations=np.zeros(5, bool),
            unit_ids=frame["patient"].to_numpy(),
            spec=data,
        )
    with pytest.raises(DataError, match=f"the static column '{named}\\w*' changes in a unit"):
        read(frame, SEX, AGE, PULSE)


def test_a_static_column_is_the_same_in_every_chunk_and_in_the_next_row() -> None:
    rows, bounds = 3 * 2**16, spec(AGE, PULSE)  # more than a chunk
    ages = np.repeat([30.0, 50.0], [rows - 1, 1])
    numbers = np.stack([ages, np.full(rows, 80.0)], axis=1)
    columns: dict[str, Any] = {"actions": np.zeros(rows, int), "rewards": np.zeros(rows), "observations": numbers}
    columns |= {"terminations": np.zeros(rows, bool), "spec": bounds, "unit_ids": np.zeros(rows, int)}
    with pytest.raises(DataError, match=re.escape(f"row {rows}: the static column 'age' changes in a unit")):
        Trajectories.from_arrays(**columns, next_observations=numbers)
    numbers[-1, 0] = 30
    following = numbers.copy()
    following[7, 0] = 31
    with pytest.raises(DataError, match="row 8: the static column 'age' changes in a unit"):
        Trajectories.from_arrays(**columns, next_observations=following)


def test_the_time_between_rows_is_computed_in_days() -> None:
    shuffled = visits().sample(frac=1, random_state=0)
    data = read(shuffled, AGE, PULSE, GAP)
    assert data.columns["observations"][:, 2].tolist() == [0, 1.5, 8.5, 0, 3]
    assert data.columns["next_observations"][:, 2].tolist() == [1.5, 8.5, 8.5, 3, 3]
    texts = visits(day=[str(day) for day in visits()["day"]])
    assert read(texts, PULSE, GAP).columns["observations"][:, 1].tolist() == [0, 1.5, 8.5, 0, 3]
    nanoseconds = visits(day=visits()["day"].astype("datetime64[ns]"))
    assert read(nanoseconds, PULSE, GAP).columns["observations"][:, 1].tolist() == [0, 1.5, 8.5, 0, 3]


def test_the_time_between_rows_begins_again_with_every_episode() -> None:
    frame = visits(stay=[1, 2, 2, 1, 1])
    data = read(frame, PULSE, GAP, episode="stay")
    assert data.columns["observations"][:, 1].tolist() == [0, 0, 8.5, 0, 3]
    ended = spec(PULSE, GAP).to_json() | {"terminals": True}
    frame = visits(termination=[0, 1, 0, 0, 0])
    whole = Trajectories.from_frame(
        frame, spec=PublicSpec.from_json(ended), unit="patient", time="day", next="keep", simulated=True
    )
    assert whole.columns["observations"][:, 1].tolist() == [0, 1.5, 0, 0, 3]


def test_the_time_between_rows_of_numbers_is_their_difference() -> None:
    steps = Column("gap", "duration", low=0, high=10)
    frame = visits(day=[1, 2, 7, 3, 5.5])
    assert read(frame, PULSE, steps).columns["observations"][:, 1].tolist() == [0, 1, 5, 0, 2.5]
    with pytest.raises(DataError, match="times are numbers, and the duration 'gap' has days"):
        read(frame, PULSE, GAP)
    with pytest.raises(DataError, match="times are dates, and the duration 'gap' has no time_unit"):
        read(visits(), PULSE, steps)


def test_a_column_of_the_table_is_no_computed_duration() -> None:
    frame = visits(gap=[9, 9, 9, 9, 9], next_gap=[9, 9, 9, 9, 9])
    assert read(frame, PULSE, GAP).columns["observations"][:, 1].tolist() == [9] * 5
    with pytest.raises(DataError, match="no column 'gap' for observations"):
        read(visits().assign(next_pulse=0.0, next_gap=0.0), PULSE, GAP, next=None)


def test_synthetic_rows_never_change_what_is_static() -> None:
    bounds, rng = spec(SEX, AGE, PULSE, GAP), np.random.default_rng(0)
    cut = Discretisation(bounds, 8)
    assert [(axis.column, axis.index) for axis in cut.axes][-2:] == [("differences", 3), ("differences", 4)]
    assert len(cut.axes) == 5 + 1 + 1 + 2
    codes = np.stack([rng.integers(0, bins, 1_000) for bins in cut.shape], axis=1).astype(np.int32)
    rows = cut.decode(codes, rng)
    assert (rows["observations"][:, :3] == rows["next_observations"][:, :3]).all()
    assert (rows["observations"][:, 3:] != rows["next_observations"][:, 3:]).any()
    encoder = Encoder.from_bounds(bounds)
    made = encoder.decode(torch.from_numpy(rng.normal(size=(1_000, encoder.size)).astype(np.float32)))
    assert (made["observations"][:, :3] == made["next_observations"][:, :3]).all()
    assert (made["observations"][:, 3:] != made["next_observations"][:, 3:]).any()


def test_a_synthetic_trajectory_never_changes_what_is_static() -> None:
    dose = Column("dose", low=0, high=3, static=True)  # no whole number, so that rounding would show
    codec = FragmentEncoder(Encoder.from_bounds(spec(dose, SEX, PULSE)), 4, 30)
    generator = torch.Generator().manual_seed(0)
    first = torch.stack([3 * torch.rand(50, generator=generator), torch.ones(50), torch.zeros(50)], dim=1)
    first = torch.cat([first, 30 + 190 * torch.rand(50, 1, generator=generator)], dim=1)
    rows, after = codec.decode(first, torch.randn(50, 4, codec.step_size, generator=generator))
    for values in (rows["observations"], rows["next_observations"], after[:, None]):
        assert torch.equal(values[..., :3], first[:, None, :3].expand_as(values[..., :3]))
    assert not torch.equal(after[:, 3], first[:, 3])
