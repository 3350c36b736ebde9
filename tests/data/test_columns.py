"""Named, typed columns: cells to numbers and back, in specs, arrays and files."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data import Box, Column, Discrete, Fields, PublicSpec, Trajectories
from tacit.data.columns import BadCell, encode_cells, split_columns
from tacit.data.spec import space_of
from tacit.errors import DataError

AGE = Column("age", "integer", 18, 95, step=2)
PULSE = Column("pulse", low=30, high=200, missing="flag", step=10)
COUNTRY = Column("country", "category", labels=("NA", "DE", "None"), missing="fill:DE")
DRUG = Column("drug", "category", labels=("placebo", "drug"))
REWARD = Column("score", low=-1, high=1)


def spec(**changes: Any) -> PublicSpec:
    given: dict[str, Any] = {
        "observation": space_of(AGE, PULSE, COUNTRY),
        "action": space_of(DRUG),
        "reward": space_of(REWARD),
        "source": "declared",
    }
    return PublicSpec(**given | changes)


def test_the_space_of_columns_is_their_bounds_and_labels() -> None:
    box = space_of(AGE, PULSE, COUNTRY)
    assert isinstance(box, Box)
    assert (box.low, box.high) == ((18, 30, 0, 0), (95, 200, 1, 2))
    assert box.categories == (0, 0, 2, 3)
    assert box.whole == (True, False, True, True)
    assert (box.size, box.width) == (4, 7)
    assert space_of(DRUG) == Discrete(2, (DRUG,))
    assert isinstance(space_of(Column("drug", "category", labels=("a", "b"), missing="flag")), Box)
    assert Box((0.0,), (1.0,)).width == 1


def test_cells_come_back_as_they_were() -> None:
    cells = {"age": [18, "40", 95.0], "pulse": [60.5, None, math.nan], "country": ["NA", "None", "DE"]}
    numbers = encode_cells((AGE, PULSE, COUNTRY), cells)
    assert numbers.tolist() == [[18, 60.5, 0, 0], [40, 30, 1, 2], [95, 30, 1, 1]]
    (age, ages, never), (_, _, missing), (country, codes, _) = split_columns((AGE, PULSE, COUNTRY), numbers)
    assert age.nearest_codes(ages).tolist() == [18, 40, 95]
    assert never is None
    assert missing is not None
    assert missing.tolist() == [False, True, True]
    assert [country.labels[code] for code in country.nearest_codes(codes)] == ["NA", "None", "DE"]


@pytest.mark.parametrize(
    ("column", "cells", "row", "what"),
    [
        (AGE, [20, 20.5], 1, "whole"),
        (AGE, [20, "x"], 1, "not a number"),
        (AGE, [None, 20], 0, "missing"),
        (AGE, np.array([20.0, math.inf]), 1, "whole"),
        (DRUG, ["drug", "other"], 1, "label"),
        (DRUG, ["drug", ""], 1, "missing"),
        (DRUG, ["drug", "NULL"], 1, "missing"),
        (AGE, [20, "NAN"], 1, "missing"),
        (DRUG, ["drug", ["drug"]], 1, "no single value"),
        (PULSE, [50, "inf"], 1, "infinite"),
    ],
)
def test_a_cell_that_is_none_of_the_column_is_refused_with_its_row(
    column: Column, cells: Any, row: int, what: str
) -> None:
    with pytest.raises(BadCell, match=what) as raised:
        encode_cells((column,), {column.name: np.array(cells, dtype=object) if isinstance(cells, list) else cells})
    assert raised.value.row == row


def test_missing_cells_take_the_public_value() -> None:
    assert encode_cells((COUNTRY,), {"country": [None, "", "NA"]})[:, 0].tolist() == [1, 1, 0]
    filled = Column("dose", low=0, high=5, missing="fill:2.5")
    assert encode_cells((filled,), {"dose": np.array([math.nan, 1.0])})[:, 0].tolist() == [2.5, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "a,b", "low": 0, "high": 1},
        {"name": "a", "kind": "text", "low": 0, "high": 1},
        {"name": "a", "low": 0},
        {"name": "a", "low": 1, "high": 1},
        {"name": "a", "low": 0, "high": math.inf},
        {"name": "a", "kind": "integer", "low": 0.5, "high": 2},
        {"name": "a", "kind": "integer", "low": 0, "high": 2.0**25},
        {"name": "a", "kind": "category", "labels": ("x",)},
        {"name": "a", "kind": "category", "labels": ("x", "x")},
        {"name": "a", "kind": "category", "labels": ("x", " y")},
        {"name": "a", "kind": "category", "labels": ("x", "y"), "low": 0},
        {"name": "a", "low": 0, "high": 1, "labels": ("x", "y")},
        {"name": "a", "low": 0, "high": 1, "missing": "drop"},
        {"name": "a", "low": 0, "high": 1, "missing": "fill:2"},
        {"name": "a", "low": 0, "high": 1, "missing": "fill:x"},
        {"name": "a", "low": 0, "high": 1, "step": 0},
    ],
)
def test_a_column_that_contradicts_itself_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        Column(**fields)


def test_a_spec_of_columns_is_read_back_and_takes_its_steps() -> None:
    own = spec()
    assert own.difference == (2, 10, 1, 1)
    text = json.dumps(own.to_json())
    assert PublicSpec.from_json(json.loads(text)) == own
    assert '"labels": ["placebo", "drug"]' in text
    assert own.names("next_observations") == ("next_age", "next_pulse", "next_pulse_missing", "next_country")
    assert own.names("rewards") == ("score",)
    assert PublicSpec.from_json(own.to_json() | {"difference": [1, 1, 1, 1]}).difference == (1, 1, 1, 1)


def test_a_spec_without_columns_keeps_its_names_and_its_json() -> None:
    plain = PublicSpec(Box((0.0, 0.0), (1.0, 1.0)), Discrete(2), Box((0.0,), (1.0,)), "declared")
    assert plain.names("observations") == ("observation_0", "observation_1")
    assert plain.names("actions") == ("action",)
    assert plain.names("rewards") == ("reward",)
    assert plain.to_json()["observation"] == {"kind": "box", "low": [0.0, 0.0], "high": [1.0, 1.0]}


@pytest.mark.parametrize("name", ["drug", "next_age", "pulse_missing", "termination", "next_pulse_missing"])
def test_a_name_that_stands_twice_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="stands twice, or is taken"):
        spec(reward=space_of(Column(name, low=0, high=1)))


def test_a_space_with_other_columns_is_refused() -> None:
    with pytest.raises(DataError, match="other bounds"):
        Box((0.0,), (1.0,), (AGE,))
    with pytest.raises(DataError, match="other bounds"):
        Discrete(3, (DRUG,))


def test_arrays_may_be_cells_by_column() -> None:
    cells = {"age": [20, 21], "pulse": [60, None], "country": ["DE", ""]}
    data = Trajectories.from_arrays(
        observations=cells,
        actions={"drug": ["drug", "placebo"]},
        rewards={"score": [0, 3]},
        next_observations=cells,
        terminations=[False, True],
        unit_ids=["a", "a"],
        spec=spec(),
        simulated=True,
    )
    assert data.columns["observations"].tolist() == [[20, 60, 0, 1], [21, 30, 1, 1]]
    assert data.columns["actions"].tolist() == [1, 0]
    assert data.columns["rewards"].tolist() == [0, 1]  # clipped to the bounds
    with pytest.raises(DataError, match="a label that the spec") as raised:
        Trajectories.from_arrays(
            observations=cells,
            actions={"drug": ["drug", "secret"]},
            rewards=[0, 0],
            next_observations=cells,
            terminations=[False, True],
            unit_ids=["a", "a"],
            spec=spec(),
        )
    assert "secret" not in str(raised.value)
    assert "row 2" in str(raised.value)


ROWS = """who,age,pulse,country,drug,score,next_age,next_pulse,next_country,termination
p1,40,60,NA,drug,0.5,41,,DE,0
p1,41,,DE,placebo,0.25,42,70,None,1
p2,20,80,,drug,0,20,80,NA,1
"""


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_of_named_columns_are_read_by_their_names(tmp_path: Path, form: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    read = Trajectories.from_csv
    if form == "parquet":
        import pyarrow.csv
        import pyarrow.parquet

        table = pyarrow.csv.read_csv(
            path, convert_options=pyarrow.csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
        )
        path, read = tmp_path / "rows.parquet", Trajectories.from_parquet
        pyarrow.parquet.write_table(table, path)
    data = read(path, unit="who", spec=spec(), simulated=True)
    assert data.columns["observations"].tolist() == [[40, 60, 0, 0], [41, 30, 1, 1], [20, 80, 0, 1]]
    assert data.columns["next_observations"].tolist() == [[41, 30, 1, 1], [42, 70, 0, 2], [20, 80, 0, 0]]
    assert data.columns["actions"].tolist() == [1, 0, 1]
    assert data.spec == spec()
    data.save(tmp_path / "saved")
    assert Trajectories.open(tmp_path / "saved").spec == spec()


def test_decimals_are_numbers_and_labels_of_whole_numbers() -> None:
    grade = Column("grade", "category", labels=("1", "2"))
    cells = {"age": [Decimal("18.00"), Decimal(40)], "grade": [Decimal("2.00"), Decimal(1)]}
    assert encode_cells((AGE, grade), cells).tolist() == [[18, 1], [40, 0]]
    with pytest.raises(BadCell, match="a label that the spec does not declare"):
        encode_cells((grade,), {"grade": [Decimal("1.5")]})


def test_other_names_of_a_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS.replace("score", "effect").replace("drug,", "medicine,", 1))
    fields = Fields.from_pairs(spec(), ["rewards=effect", "actions=medicine"])
    data = Trajectories.from_csv(path, unit="who", spec=spec(), fields=fields, simulated=True)
    assert data.columns["rewards"].tolist() == [0.5, 0.25, 0]
    with pytest.raises(DataError, match="takes 3 name"):
        Fields.from_pairs(spec(), ["observations=age,pulse"])


def test_codes_that_are_not_whole_are_refused_with_their_row() -> None:
    with pytest.raises(DataError, match="not whole") as raised:
        Trajectories.from_arrays(
            observations=np.array([[20, 60, 0, 1], [20, 60, 0, 1.5]]),
            actions=[0, 1],
            rewards=[0, 0],
            next_observations=np.array([[20, 60, 0, 1], [20, 60, 0, 1]]),
            terminations=[False, True],
            unit_ids=["a", "a"],
            spec=spec(),
            simulated=True,
        )
    assert "row 2" in str(raised.value)
