"""What crosses the network: a query's public values one way, one vector the other way. No pickles, no private text."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from numpy.lib import format as npy

from tacit.errors import LedgerError, MechanismError, PlanError
from tacit.privacy.mechanisms.base import Public
from tacit.privacy.mechanisms.device_sums import is_admissible
from tacit.privacy.vault.devices import MOST_PUBLIC, Query

QUERY = "query.sum"
"""Type of the messages that are answered in the clear."""

_QUERY, _PUBLIC, _ANSWER = "tacit.query", "tacit.public", "tacit.answer"
_HEADER = 4096  # more than what `np.save` writes before the numbers


@dataclass(frozen=True, eq=False)
class DeviceQuery:
    """A query as a device reads it."""

    plan_id: str
    part: str
    step: int
    size: int
    public: Public


def write_query(query: Query) -> RecordDict:
    """A query as the content of a message."""
    fields = {"plan": query.plan_id, "part": query.part.name, "step": query.step, "size": query.size}
    arrays = ArrayRecord({name: Array(np.asarray(array)) for name, array in query.public.items()})
    return RecordDict({_QUERY: ConfigRecord(fields), _PUBLIC: arrays})


def read_query(content: RecordDict) -> DeviceQuery:
    """The query in a message's content."""
    try:
        fields, arrays = dict(content.config_records[_QUERY]), dict(content.array_records[_PUBLIC])
        kinds = {"plan": str, "part": str, "step": int, "size": int}
        is_valid = set(fields) == set(kinds) and all(type(fields[name]) is kind for name, kind in kinds.items())
        if not is_valid or not 1 <= fields["size"] <= MOST_PUBLIC // 8:
            raise _query_error()
        if sum(len(array.data) for array in arrays.values()) > MOST_PUBLIC + _HEADER * len(arrays):
            raise _query_error()
        public = {str(name): read_numbers(array.data) for name, array in arrays.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise _query_error() from error
    return DeviceQuery(fields["plan"], fields["part"], fields["step"], fields["size"], public)


def read_numbers(data: bytes) -> npt.NDArray[Any]:
    """An array of numbers in NumPy's own format, whose header claims no more than there is."""
    stream = io.BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("another version of the format")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    rest = stream.read()
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(rest):
        raise ValueError("not an array of numbers")
    return np.frombuffer(rest, dtype).reshape(shape, order="F" if fortran else "C").copy()


def write_answer(query: DeviceQuery, vector: npt.NDArray[Any]) -> RecordDict:
    """A device's answer as the content of a message."""
    echo = ConfigRecord({"plan": query.plan_id, "part": query.part, "step": query.step})
    return RecordDict({_QUERY: echo, _ANSWER: ArrayRecord({"vector": Array(vector)})})


def read_answer(content: RecordDict, query: Query) -> npt.NDArray[Any] | None:
    """The vector [d] in a reply's content, or None if it is not one that an honest device sends."""
    try:
        echo, record = dict(content.config_records[_QUERY]), content.array_records[_ANSWER]
        if echo != {"plan": query.plan_id, "part": query.part.name, "step": query.step} or list(record) != ["vector"]:
            return None
        if len(record["vector"].data) > 8 * query.size + _HEADER:
            return None
        vector = read_numbers(record["vector"].data)
    except (KeyError, TypeError, ValueError):
        return None
    return vector if is_admissible(query.part, query.size, vector) else None


def refusal(message: Message, error: Exception) -> Message:
    """The reply of a device that does not answer: the kind of a refusal of the query, and not a word of anything
    else."""
    # An error in her records is none of these: it looks like any other failure.
    kind = type(error).__name__ if isinstance(error, MechanismError | LedgerError | PlanError) else "it failed"
    return Message(Error(code=0, reason=f"no answer: {kind}"), reply_to=message)


def _query_error() -> MechanismError:
    expected, remedy = "a plan, a part, a step, a size and named arrays", "send it with the same version of tacit"
    return MechanismError("the message is not a query", where="tacit.federation", expected=expected, remedy=remedy)
