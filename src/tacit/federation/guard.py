"""What a device checks of Flower's secure aggregation before it goes along with the server. Flower's own device code
trusts the server with the protocol's constants and with whom it declares to have dropped out. A device here goes along
only with constants under which fewer answers than the floor are never unmasked, and never helps to reveal both secrets
of one device. What crosses the network stands here, too: a query's public values one way, one vector the other way; no
pickles, no private text."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MessageType, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, RECORD_KEY_STATE, Key, Stage
from numpy.lib import format as npy

from tacit.errors import LedgerError, MechanismError, PlanError
from tacit.privacy.mechanisms.base import Public
from tacit.privacy.mechanisms.device_sums import DeviceSum, is_admissible, largest_answer
from tacit.privacy.vault.devices import MOST_PUBLIC, Query

# The masks of secure aggregation, from all 256 bits of their seeds.
#
# Flower's SecAgg+ folds a mask's seed into 32 bits and expands it with the Mersenne Twister: a reader of a masked
# vector can try all seeds, and from 19,937 numbers on the generator's linear recurrence shows parts of the vector
# without any trial. Here the same seeds key AES-256 in counter mode. Both sides use it, for the length of a `with`
# block.


MODULUS = 2**32

_USERS = (
    "flwr.client.mod.secure_aggregation.secaggplus_mod",
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)
_GENERATOR = "pseudo_rand_gen"
_lock = threading.RLock()


def draw_masks(seed: bytes, num_range: int, dimensions_list: Sequence[tuple[int, ...]]) -> list[npt.NDArray[np.int64]]:
    """Arrays of the given shapes, uniform on 0 .. 2^32 - 1 to anyone who does not know the seed."""
    if num_range != MODULUS or len(seed) < 32:
        raise ValueError("masks are made modulo 2**32, from seeds of 256 bits")
    key = hashlib.sha256(b"tacit secure aggregation mask" + seed).digest()
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    sizes = [int(np.prod(shape)) for shape in dimensions_list]
    words = [np.frombuffer(stream.update(bytes(4 * size)), "<u4").astype(np.int64) for size in sizes]
    return [word.reshape(shape) for word, shape in zip(words, dimensions_list, strict=True)]


@contextlib.contextmanager
def strong_masks() -> Iterator[None]:
    """Flower's SecAgg+ in this process draws its masks with `mask`."""
    with _lock:
        modules = [importlib.import_module(name) for name in _USERS]
        if not all(hasattr(module, _GENERATOR) for module in modules):
            raise ImportError("this version of Flower draws its masks elsewhere: install 'tacit[federated]'")
        before = [getattr(module, _GENERATOR) for module in modules]
        try:
            for module in modules:
                setattr(module, _GENERATOR, draw_masks)
            yield
        finally:
            for module, generator in zip(modules, before, strict=True):
                setattr(module, _GENERATOR, generator)


_FLOOR = "tacit.floor"
_PEOPLE = "public_keys_dict:K"  # under which name Flower's device keeps whose keys it was given


def threshold(part: DeviceSum, devices: int) -> int:
    """How many shares t open a mask among so many devices n: more than half, and n^2 / (2 n - floor), at least."""
    # With more than half, a server that tells some devices that one dropped out and others that it did not gets the
    # shares of at most one of its two secrets. Beyond that it can tell each device of other drop-outs: of n devices
    # each gives shares for n - t of them at most (`_unmask` of Flower wants t that stayed), so that masks of n (n - t)
    # / t are opened. As everybody's answer is masked with everybody else (`_require_everybody`), what comes out is the
    # sum of all others: of at least n (2 t - n) / t devices, which is not less than the floor.
    least = -(-(devices**2) // max(1, 2 * devices - part.floor))
    return max(part.floor, devices // 2 + 1, least)


def require_fit(part: DeviceSum, devices: int) -> int:
    """The largest number of one answer, if the sum of so many answers surely fits the modulus."""
    bound = int(largest_answer(part))
    if devices * 2 * bound >= MODULUS:
        raise _guard_error(f"{devices:,} answers of up to {bound:,} steps do not fit 32 bits", "fewer bits in the plan")
    return bound


def require_setup(context: Context, part: DeviceSum) -> int:
    """The largest number of this device's answer, if the round was set up as the part of the plan demands."""
    setup = dict(context.state.config_records[RECORD_KEY_STATE])
    people = setup[_PEOPLE]
    assert isinstance(people, list)
    devices = len(people)
    bound = require_fit(part, devices)
    needed = {
        Key.SAMPLE_NUMBER: devices,
        Key.SHARE_NUMBER: devices,
        Key.CLIPPING_RANGE: float(bound),
        Key.TARGET_RANGE: 2 * bound,
        Key.MOD_RANGE: MODULUS,
        Key.MAX_WEIGHT: 1.0,
    }
    shares_needed = setup[Key.THRESHOLD]
    if devices > part.devices or any(setup[name] != value for name, value in needed.items()):
        raise _guard_error("it was not set up as the plan demands", "the constants that follow from the plan")
    if type(shares_needed) is not int or shares_needed < threshold(part, devices):
        raise _guard_error("fewer devices than the plan's floor could open it", "a threshold of at least the floor")
    context.state.config_records[_FLOOR] = ConfigRecord({"floor": part.floor})
    return bound


def _require_everybody(context: Context, configs: ConfigRecord) -> None:
    """Refuse to answer unless masked with everybody whose keys were given: nobody may have been left out for her."""
    setup, sources = context.state.config_records[RECORD_KEY_STATE], configs[Key.SOURCE_LIST]
    people = setup[_PEOPLE]
    assert isinstance(sources, list)
    assert isinstance(people, list)
    if sorted([*sources, setup["nid"]]) != sorted(people):
        raise _guard_error("the answer would be masked with fewer devices than took part", "the shares of everybody")


def _require_unmask(context: Context, configs: ConfigRecord) -> None:
    """Refuse to give the shares of both secrets of one device, or of a sum of fewer devices than the floor."""
    active, dead = configs[Key.ACTIVE_NODE_ID_LIST], configs[Key.DEAD_NODE_ID_LIST]
    setup = context.state.config_records[RECORD_KEY_STATE]
    people, node_id, floor = setup[_PEOPLE], setup["nid"], context.state.config_records[_FLOOR]["floor"]
    assert isinstance(active, list)
    assert isinstance(dead, list)
    assert isinstance(people, list)
    assert isinstance(floor, int)
    named = [*active, *dead]
    if len(set(named)) != len(named) or not set(named) <= set(people) or node_id not in active or len(active) < floor:
        raise _guard_error("the server asks for shares that would open a single answer", "each device in one list")


def guard(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """Around Flower's SecAgg+ on a device: checks what it does not, and answers a failure without a word of it."""
    try:
        if message.metadata.message_type != MessageType.TRAIN:
            raise _guard_error("secure aggregation answers no other messages", f"type {MessageType.TRAIN!r}")
        configs = message.content.config_records[RECORD_KEY_CONFIGS]
        if configs[Key.STAGE] == Stage.COLLECT_MASKED_VECTORS:
            _require_everybody(context, configs)
        if configs[Key.STAGE] == Stage.UNMASK:
            _require_unmask(context, configs)
        with strong_masks():
            return call_next(message, context)
    except Exception as error:
        return refusal(message, error)


def _guard_error(why: str, expected: str) -> MechanismError:
    remedy: Any = "run the server of the same plan and version"
    what = f"the secure sum is refused: {why}"
    return MechanismError(what, where="secure aggregation", expected=expected, remedy=remedy)


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
