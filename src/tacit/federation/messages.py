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

from tacit.errors import DoorError, LedgerError, PlanError
from tacit.privacy.mechanisms.base import calibrated
from tacit.privacy.mechanisms.callbacks import Public
from tacit.privacy.mechanisms.device_sums import GRID_BITS, DeviceSum, FederatedSum, LaplaceSum, zeros
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault.devices import MOST_PUBLIC, Query

QUERY = "query.sum"
"""Type of the messages that are answered in the clear."""

_QUERY, _PUBLIC, _ANSWER = "tacit.query", "tacit.public", "tacit.answer"
_HEADER = 4096  # more than what `np.save` writes before the numbers


@dataclass(frozen=True, eq=False)
class Asked:
    """A query as a device reads it."""

    plan_id: str
    part: str
    step: int
    size: int
    public: Public


def write_query(query: Query) -> RecordDict:
    """A query as the content of a message."""
    asked = {"plan": query.plan_id, "part": query.part.name, "step": query.step, "size": query.size}
    arrays = ArrayRecord({name: Array(np.asarray(array)) for name, array in query.public.items()})
    return RecordDict({_QUERY: ConfigRecord(asked), _PUBLIC: arrays})


def read_query(content: RecordDict) -> Asked:
    """The query in a message's content.

    Raises:
        DoorError: something of it is missing, of another type or too large.
    """
    try:
        asked, arrays = dict(content.config_records[_QUERY]), dict(content.array_records[_PUBLIC])
        kinds = {"plan": str, "part": str, "step": int, "size": int}
        plain = set(asked) == set(kinds) and all(type(asked[name]) is kind for name, kind in kinds.items())
        if not plain or not 1 <= asked["size"] <= MOST_PUBLIC // 8:
            raise _malformed()
        if sum(len(array.data) for array in arrays.values()) > MOST_PUBLIC + _HEADER * len(arrays):
            raise _malformed()
        public = {str(name): read_numbers(array.data) for name, array in arrays.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed() from error
    return Asked(asked["plan"], asked["part"], asked["step"], asked["size"], public)


def read_numbers(data: bytes) -> npt.NDArray[Any]:
    """An array of numbers in NumPy's own format, whose header claims no more than there is.

    Raises:
        ValueError: it is anything else.
    """
    stream = io.BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("another version of the format")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    rest = stream.read()
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(rest):
        raise ValueError("not an array of numbers")
    return np.frombuffer(rest, dtype).reshape(shape, order="F" if fortran else "C").copy()


def write_answer(asked: Asked, vector: npt.NDArray[Any]) -> RecordDict:
    """A device's answer as the content of a message."""
    echo = ConfigRecord({"plan": asked.plan_id, "part": asked.part, "step": asked.step})
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
    return vector if within(query.part, query.size, vector) else None


def within(part: FederatedSum, size: int, vector: Any) -> bool:
    """Whether a vector has the shape, the type and the range of what `device_parts.answers` gives for the part."""
    whole = zeros(part, size).dtype
    if not isinstance(vector, np.ndarray) or vector.shape != (size,) or vector.dtype != whole:
        return False
    if not np.isfinite(vector).all():
        return False
    if isinstance(part, LaplaceSum):
        return between(vector, 2**GRID_BITS)
    if isinstance(part, PoissonSum):
        return bool(np.linalg.norm(vector) <= part.clip * (1 + 1e-9))
    return between(vector, largest(part))


def between(vector: npt.NDArray[Any], most: float) -> bool:
    """Whether every number is from -most to most (the least whole number has no absolute value)."""
    return bool(((vector >= -most) & (vector <= most)).all())


def largest(part: DeviceSum) -> float:
    """Largest absolute number in an honest device's answer: its clip and 12 standard deviations of its noise.

    In steps of the grid, a whole number, for shared noise.
    """
    if part.noise == "shared":
        return float(2**part.bits + np.ceil(12 * (part.share or 0.0)))
    sigma: float = calibrated(part.noise_multiplier, part.name)
    return float(part.clip * (1 + 12 * sigma) * (1 + 2.0**-10))


def refusal(message: Message, error: Exception) -> Message:
    """The reply of a device that does not answer: the kind of a refusal of the query, and not a word of anything else.

    An error in her records is none of these: it is told from no other failure.
    """
    kind = type(error).__name__ if isinstance(error, DoorError | LedgerError | PlanError) else "it failed"
    return Message(Error(code=0, reason=f"no answer: {kind}"), reply_to=message)


def _malformed() -> DoorError:
    return DoorError(
        "the message is not a query",
        where="tacit.federation",
        expected="a plan, a part, a step, a size and named arrays",
        remedy="send it with the same version of tacit",
    )
