"""The server's side of a secure sum: Flower's SecAgg+ in four exchanges, whole numbers in, their exact sum out.

The quantiser of Flower is the identity here: its range is that of the answers, one step of it one step of the grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.common import FitIns, FitRes, Parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.server import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import WorkflowState
from flwr.serverapp import Grid

from tacit.federation.guard import require_fit, threshold
from tacit.federation.masks import MODULUS, strong_masks
from tacit.federation.messages import read_numbers, write_query
from tacit.privacy.mechanisms.device_sums import DeviceSum, zeros
from tacit.privacy.vault.devices import Answer, Query

ATTEMPTS = 3
"""How often a round begins anew because devices were lost before any of them was asked for an answer."""


def secure_sum(grid: Grid, nodes: list[int], query: Query, timeout: float) -> Answer:
    """The sum of the answers of those who stayed to the end of one round.

    Args:
        grid: Flower's way to the devices.
        nodes: whom to ask.
        query: a step of a part with shared noise.
        timeout: of each of the four exchanges, in seconds.

    Returns:
        The exact sum [d] int64 and how many answers are in it; 0 where the round was aborted.
    """
    part = cast(DeviceSum, query.part)
    for _ in range(ATTEMPTS):
        if len(nodes) < max(2, threshold(part, len(nodes))):
            break
        done, nodes = _attempt(grid, nodes, part, query, timeout)
        if done is not None:
            return done
    return Answer(zeros(part, query.size), 0)


def _attempt(
    grid: Grid, nodes: list[int], part: DeviceSum, query: Query, timeout: float
) -> tuple[Answer | None, list[int]]:
    """One round, or None and who was left when it lost devices before any was asked for an answer."""
    most, opened = require_fit(part, len(nodes)), threshold(part, len(nodes))
    workflow = SecAggPlusWorkflow(
        1.0,
        opened if opened < len(nodes) else 1.0,
        max_weight=1.0,
        clipping_range=float(most),
        quantization_range=2 * most,
        modulus_range=MODULUS,
        timeout=timeout,
    )
    mean, state = _Mean(nodes), WorkflowState()
    context = _context(mean)
    exchanges, checked = _Checked(grid, query.size), [workflow.collect_masked_vectors_stage, workflow.unmask_stage]
    with strong_masks():
        for stage in (workflow.setup_stage, workflow.share_keys_stage):
            kept = stage(exchanges, context, state)
            if not kept or len(state.active_node_ids) < len(nodes):
                return None, sorted(state.active_node_ids)
        state.nid_to_fitins = {node: write_query(query) for node in nodes}
        if not all(stage(exchanges, context, state) for stage in checked) or mean.value is None:
            return Answer(zeros(part, query.size), 0), []
    total = mean.value * mean.answered
    whole = np.rint(total)
    if whole.shape != (query.size,) or np.abs(total - whole).max(initial=0) > 1e-3:
        return Answer(zeros(part, query.size), 0), []
    return Answer(whole.astype(np.int64), mean.answered), []


class _Mean:
    """What Flower calls a strategy and its clients: whom to ask, and what came of it."""

    def __init__(self, nodes: list[int]) -> None:
        self._nodes = nodes
        self.value: npt.NDArray[np.float64] | None = None
        self.answered = 0

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: object) -> list[Any]:
        return [(_Node(node), FitIns(parameters, {})) for node in self._nodes]

    def aggregate_fit(self, server_round: int, results: list[tuple[_Node, FitRes]], failures: object) -> Any:
        if results:
            (self.value,) = parameters_to_ndarrays(results[0][1].parameters)
            self.answered = len(results)
        return None, {}

    def num_available(self) -> int:
        return len(self._nodes)


class _Node:
    def __init__(self, node_id: int) -> None:
        self.node_id = node_id


class _Checked:
    """A grid that passes on one reply a device, and masked vectors of the right form alone."""

    def __init__(self, grid: Grid, size: int) -> None:
        self._grid, self._shapes = grid, [(1,), (size,)]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        sent = list(messages)
        waiting = {message.metadata.dst_node_id for message in sent}
        passed = []
        for reply in self._grid.send_and_receive(sent, timeout=timeout):
            node = reply.metadata.src_node_id
            if node in waiting and not reply.has_error() and self._right(reply):
                waiting.remove(node)
                passed.append(reply)
        return passed

    def _right(self, reply: Message) -> bool:
        try:
            configs = reply.content.config_records[RECORD_KEY_CONFIGS]
            if Key.MASKED_PARAMETERS not in configs:
                return True
            arrays = [read_numbers(data) for data in configs[Key.MASKED_PARAMETERS]]
        except (KeyError, TypeError, ValueError):
            return False
        whole = all(array.dtype == np.int64 for array in arrays)
        return whole and [array.shape for array in arrays] == self._shapes


def _context(mean: _Mean) -> Any:
    """A context of a single round, as Flower's workflow reads it."""
    content = RecordDict({MAIN_CONFIGS_RECORD: ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})})
    content.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    blank = Context(run_id=0, node_id=0, node_config={}, state=content, run_config={})
    return LegacyContext(blank, strategy=mean, client_manager=mean)
