from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import device_cases as cases
import numpy as np
import numpy.typing as npt
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from tacit.errors import MechanismError
from tacit.federation.guard import (
    DeviceQuery,
    read_answer,
    read_numbers,
    read_query,
    write_answer,
    write_query,
)
from tacit.privacy.mechanisms.device_sums import DeviceSum, is_admissible, largest_answer
from tacit.privacy.vault.devices import Query

SERVER, LAPLACE = cases.PARTS["server"], cases.PARTS["laplace"]
OWN = replace(cases.PARTS["device"], noise_multiplier=2.0)


def query(part: Any = SERVER, step: int = 2) -> Query:
    return Query("plan", part, step, cases.Remembering(), {"weights": np.arange(3.0), "n": np.array(4)}, 3)


def asked(step: int = 2, part: str = "sum", plan: str = "plan") -> DeviceQuery:
    return DeviceQuery(plan, part, step, 3, {})


def test_a_query_arrives_as_it_was_sent() -> None:
    read = read_query(write_query(query()))
    assert (read.plan_id, read.part, read.step, read.size) == ("plan", "sum", 2, 3)
    assert read.public.keys() == {"weights", "n"}
    np.testing.assert_array_equal(read.public["weights"], np.arange(3.0))
    assert read.public["n"] == 4


def _without(content: RecordDict, name: str) -> RecordDict:
    del content[name]
    return content


def _with(content: RecordDict, **values: Any) -> RecordDict:
    content.config_records["tacit.query"].update(values)
    return content


def _array(content: RecordDict, data: bytes) -> RecordDict:
    content.array_records["tacit.public"]["weights"] = Array(
        dtype="float64", shape=(3,), stype="numpy.ndarray", data=data
    )
    return content


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: _without(content, "tacit.query"),
        lambda content: _without(content, "tacit.public"),
        lambda content: _with(content, step=1.0),
        lambda content: _with(content, step=True),
        lambda content: _with(content, plan=b"plan"),
        lambda content: _with(content, more=1),
        lambda content: _array(content, b""),
        lambda content: _array(content, b"\x80\x04K\x01."),  # a pickle
    ],
)
def test_a_malformed_query_is_refused(spoil: Any) -> None:
    with pytest.raises(MechanismError, match="not a query"):
        read_query(spoil(write_query(query())))


def _saved(array: npt.NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


@pytest.mark.parametrize(
    "array", [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array(True), np.zeros(0)]
)
def test_arrays_of_numbers_are_read(array: npt.NDArray[Any]) -> None:
    read = read_numbers(_saved(array))
    assert (read.shape, read.dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(read, array)


GIANT = _saved(np.zeros(3)).replace(b"(3,)", b"(3000000000000,)").replace(b"            \n", b"\n")
OTHER = [
    b"",
    b"\x93NUMPY",
    GIANT,
    _saved(np.zeros(3))[:-1],
    _saved(np.zeros(3)) + b"0",
    _saved(np.array([{}], dtype=object)),
    _saved(np.array(["text"])),
    _saved(np.array([1j])),
]


@pytest.mark.parametrize("data", OTHER)
def test_anything_else_is_no_array(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_numbers(data)


def test_public_arrays_beyond_the_limit_are_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.federation.guard.MOST_PUBLIC", 10)
    monkeypatch.setattr("tacit.federation.guard._HEADER", 10)
    with pytest.raises(MechanismError, match="not a query"):
        read_query(write_query(query()))


def test_an_answer_arrives_as_it_was_sent() -> None:
    vector = np.array([0.5, -0.25, 0.125])
    np.testing.assert_array_equal(read_answer(write_answer(asked(), vector), query()), vector)


@pytest.mark.parametrize(
    ("part", "vector"),
    [
        (SERVER, np.array([0.5, np.nan, 0.0])),
        (SERVER, np.array([0.5, np.inf, 0.0])),
        (SERVER, np.array([0.9, 0.9, 0.0])),  # of norm 1.27, above the clip
        (SERVER, np.array([0.5, 0.0])),
        (SERVER, np.zeros((1, 3))),
        (SERVER, np.zeros(3, np.float32)),
        (SERVER, np.zeros(3, np.int64)),
        (SERVER, np.zeros(4000)),
        (LAPLACE, np.array([0, 2**20 + 1, 0])),
        (LAPLACE, np.array([0, -(2**63), 0])),
        (LAPLACE, np.zeros(3)),
        (OWN, np.array([0.0, 26.0, 0.0])),
    ],
)
def test_an_answer_that_no_honest_device_sends_is_none(part: Any, vector: Any) -> None:
    assert read_answer(write_answer(asked(), vector), query(part)) is None


@pytest.mark.parametrize(("part", "vector"), [(LAPLACE, np.full(3, -(2**20))), (OWN, np.array([0.0, 24.9, -24.9]))])
def test_an_answer_at_the_end_of_its_range_is_read(part: Any, vector: Any) -> None:
    np.testing.assert_array_equal(read_answer(write_answer(asked(), vector), query(part)), vector)


@pytest.mark.parametrize("other", [asked(step=1), asked(part="other"), asked(plan="another")])
def test_an_answer_to_another_query_is_none(other: DeviceQuery) -> None:
    assert read_answer(write_answer(other, np.zeros(3)), query()) is None


@pytest.mark.parametrize("left_out", ["tacit.query", "tacit.answer"])
def test_a_reply_without_an_answer_is_none(left_out: str) -> None:
    assert read_answer(_without(write_answer(asked(), np.zeros(3)), left_out), query()) is None


def test_a_reply_with_more_than_an_answer_is_none() -> None:
    content = write_answer(asked(), np.zeros(3))
    content.array_records["tacit.answer"] = ArrayRecord({"vector": Array(np.zeros(3)), "more": Array(np.zeros(3))})
    assert read_answer(content, query()) is None
    content.config_records["tacit.query"] = ConfigRecord({})
    assert read_answer(content, query()) is None


def test_shared_noise_is_within_the_clip_and_twelve_standard_deviations() -> None:
    part = replace(cases.PARTS["shared"], noise_multiplier=2.0)
    assert isinstance(part, DeviceSum)
    assert largest_answer(part) == 2**16 + int(np.ceil(12 * np.sqrt(part.variance)))
    assert is_admissible(part, 1, np.array([int(largest_answer(part))]))
    assert not is_admissible(part, 1, np.array([int(largest_answer(part)) + 1]))
