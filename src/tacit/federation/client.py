"""A person's device on Flower: it opens what is hers, answers one message, and closes it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.compat.common.recorddict_compat import fitres_to_recorddict

from tacit.errors import MechanismError
from tacit.federation.guard import QUERY, DeviceQuery, guard, read_query, refusal, require_setup, write_answer
from tacit.privacy.mechanisms.device_sums import DeviceSum, is_within
from tacit.privacy.vault.devices import Device

State = Mapping[str, npt.NDArray[Any]]
OpenDevice = Callable[[Context, State], Device]

_STATE = "tacit.state"


def client_app(open_device: OpenDevice) -> ClientApp:
    """The app of every device.

    Args:
        open_device: from Flower's context (`node_config` tells whose device it is) and the state that the device left
            after its last answer, her `Device`. Called for each message that asks for an answer; her ledger is closed
            afterwards. It has to open one for everybody: for a person without records, `Device(None, ...)`.

    Guarantee: parts with shared noise leave the device masked, by SecAgg+ with the checks of `guard`, and are refused
    in any other message; other parts are answered in messages of type "query.sum" alone. A device that does not answer
    says no more than the kind of its refusal.
    """
    app = ClientApp()
    app.query(QUERY.partition(".")[2])(_PlainResponder(open_device))
    app.train(mods=[guard, secaggplus_mod])(_MaskedResponder(open_device))
    return app


class _Responder:
    """Opens the device, answers, and keeps its state in the context, which stays on the device."""

    def __init__(self, open_device: OpenDevice) -> None:
        self._open = open_device

    def _answer(self, message: Message, context: Context, shared: bool) -> tuple[DeviceQuery, npt.NDArray[Any]]:
        query = read_query(message.content)
        records = context.state.array_records.get(_STATE, {})
        device = self._open(context, {str(name): np.asarray(array.numpy()) for name, array in records.items()})
        with device.ledger:
            part = device.part(query.part)
            if shared != part.shared:
                raise _message_error(query.part)
            bound = require_setup(context, cast(DeviceSum, part)) if shared else None
            vector = device.answer(query.plan_id, query.part, query.step, query.public, query.size)
            context.state.array_records[_STATE] = ArrayRecord(
                {name: Array(np.asarray(array)) for name, array in device.state().items()}
            )
        if bound is not None and not is_within(vector, bound):
            raise _message_error(query.part)  # noise beyond 12 standard deviations: the sum could not hold it
        return query, vector


class _PlainResponder(_Responder):
    def __call__(self, message: Message, context: Context) -> Message:
        try:
            return Message(write_answer(*self._answer(message, context, shared=False)), reply_to=message)
        except Exception as error:
            return refusal(message, error)


class _MaskedResponder(_Responder):
    """Called by Flower's SecAgg+, which masks what is returned."""

    def __call__(self, message: Message, context: Context) -> Message:
        _, vector = self._answer(message, context, shared=True)
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([vector]), 1, {})
        return Message(fitres_to_recorddict(result, keep_input=False), reply_to=message)


def _message_error(part: str) -> MechanismError:
    what = "the part is not answered in this kind of message"
    expected = "shared noise through secure aggregation, other parts in a query"
    remedy = "run the server of the same plan and version"
    return MechanismError(what, where=f"part {part!r}", expected=expected, remedy=remedy)
