"""Dataclasses as JSON and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypedDict

import jsonschema
import numpy as np
import pytest

from tacit.errors import PlanError
from tacit.serialization import OPTIONAL, Json, Kinds, from_json, read, schema_of, to_json
from tacit.validation import require_valid


class Shape(Protocol):
    @property
    def area(self) -> float: ...


@dataclass(frozen=True)
class Square:
    side: float
    kind: Literal["square"] = field(default="square", init=False)

    def __post_init__(self) -> None:
        require_valid("side", self.side, self.side > 0, "a number > 0")

    @property
    def area(self) -> float:
        return self.side**2


@dataclass(frozen=True)
class Disc:
    side: float
    kind: Literal["disc"] = field(default="disc", init=False)

    @property
    def area(self) -> float:
        return math.pi * self.side**2


@dataclass(frozen=True)
class Whole(Json):
    shape: Annotated[Shape, Kinds(Square, Disc)]
    count: int
    weights: tuple[float, ...] = ()
    ends: tuple[int, str] = (0, "a")
    limit: float | None = None
    either: Square | Literal["none"] = "none"
    notes: Mapping[str, Any] = field(default_factory=dict)
    matching: str | None = field(default=None, metadata=OPTIONAL)


FULL = Whole(Disc(2.0), 3, (1.0, math.inf), (4, "b"), -math.inf, Square(1.5), {"x": [1, "y"]}, "now")
JSON = {
    "shape": {"side": 2.0, "kind": "disc"},
    "count": 3,
    "weights": [1.0, "inf"],
    "ends": [4, "b"],
    "limit": "-inf",
    "either": {"side": 1.5, "kind": "square"},
    "notes": {"x": [1, "y"]},
    "matching": "now",
}


def test_what_is_written_is_read_again() -> None:
    assert FULL.to_json() == JSON
    assert Whole.from_json(json.loads(json.dumps(JSON))) == FULL
    small = Whole(Square(1.0), 0)
    assert "matching" not in small.to_json()
    assert Whole.from_json(small.to_json()) == small


def test_whole_numbers_are_read_as_floats_where_floats_stand() -> None:
    square = from_json(Square, {"side": 2, "kind": "square"})
    assert (square, type(square.side)) == (Square(2.0), float)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 3.0),
        ("count", True),
        ("count", "3"),
        ("weights", 1.0),
        ("weights", ["1.0"]),
        ("weights", "inf"),
        ("ends", [4]),
        ("ends", [4, "b", 5]),
        ("limit", "large"),
        ("limit", True),
        ("either", "some"),
        ("shape", {"side": 2.0, "kind": "star"}),
        ("shape", {"side": 2.0}),
        ("shape", None),
        ("shape", {"side": 2.0, "kind": "disc", "color": "red"}),
        ("matching", 5),
        ("unknown", 1),
    ],
)
def test_a_field_of_another_type_is_refused_in_one_sentence_without_its_value(name: str, value: object) -> None:
    with pytest.raises(PlanError, match="a field is missing or unknown") as refusal:
        Whole.from_json({**JSON, name: value})
    assert "\n" not in str(refusal.value)
    assert "star" not in str(refusal.value)
    assert "Whole.from_json" in str(refusal.value)


@pytest.mark.parametrize("name", ["shape", "weights", "limit", "notes"])
def test_a_missing_field_is_not_filled_from_the_defaults_of_today(name: str) -> None:
    with pytest.raises(PlanError, match="missing"):
        Whole.from_json({key: value for key, value in JSON.items() if key != name})


def test_a_value_out_of_range_keeps_its_own_sentence() -> None:
    with pytest.raises(PlanError, match="side"):
        Whole.from_json({**JSON, "shape": {"side": -2.0, "kind": "square"}})


def test_arrays_and_numbers_of_numpy_are_plain_and_arrays_are_read() -> None:
    assert to_json({"a": np.arange(3), "b": np.float32(0.5), 3: np.bool_(True)}) == {
        "a": [0, 1, 2],
        "b": 0.5,
        "3": True,
    }
    assert np.array_equal(read(np.ndarray, [1.0, 2.0]), [1.0, 2.0])


class Row(TypedDict):
    """A row as mappings have it."""

    name: str
    epsilon: float


@pytest.mark.parametrize(
    "value", [{"name": "a"}, {"name": "a", "epsilon": 1, "more": 1}, {"name": 1, "epsilon": 1}, []]
)
def test_a_typed_mapping_has_its_fields_and_no_others(value: Any) -> None:
    assert read(Row, {"name": "a", "epsilon": "inf"}) == {"name": "a", "epsilon": math.inf}
    with pytest.raises((TypeError, ValueError, KeyError)):
        read(Row, value)


def test_of_several_classes_the_one_is_read_whose_kind_is_said() -> None:
    for value, kind in (({"side": 1.0, "kind": "disc"}, Disc), ({"side": 1.0, "kind": "square"}, Square)):
        assert type(read(Square | Disc, value)) is kind
    with pytest.raises(PlanError, match="side"):
        read(Disc | Square, {"side": -1.0, "kind": "square"})


def test_the_schema_of_a_class_takes_what_it_writes_and_no_other_field() -> None:
    defs: dict[str, Any] = {}
    whole = schema_of(Whole, defs) | {"$defs": defs}
    written = Whole(shape=Disc(2.0), count=3, limit=math.inf).to_json()
    jsonschema.validate(written, whole)
    for wrong in ({"count": "3"}, {"more": 1}, {"shape": {"side": 1.0, "kind": "ring"}}, {"either": "some"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(written | wrong, whole)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({name: value for name, value in written.items() if name != "count"}, whole)
