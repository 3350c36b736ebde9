"""The server's side of a federation: everybody is asked once, and what an honest device would not send is left out."""

from __future__ import annotations

import contextlib
import gc
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

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
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation
from flwr.supercore.logger import FLOWER_LOGGER

from tacit.data.spec import PublicSpec
from tacit.errors import DataError, MechanismError
from tacit.federation.client import OpenDevice, client_app
from tacit.federation.guard import (
    MODULUS,
    QUERY,
    read_answer,
    read_numbers,
    require_fit,
    strong_masks,
    threshold,
    write_query,
)
from tacit.privacy.mechanisms.device_sums import DeviceSum, zeros
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault.devices import Answer, Query

# The server's side of a secure sum: Flower's SecAgg+ in four exchanges, whole numbers in, their exact sum out.
#
# The quantiser of Flower is the identity here: its range is that of the answers, one step of it one step of the grid.


ATTEMPTS = 3
"""How often a round begins again because devices were lost before any of them was asked for an answer."""


def secure_sum(grid: Grid, nodes: list[int], query: Query, timeout: float) -> Answer:
    """The sum of the answers of those who stayed to the end of one round."""
    # timeout: of each of the four exchanges, in seconds; returns: The exact sum [d] int64 and how many answers are in
    # it; 0 where the round was aborted
    part = cast(DeviceSum, query.part)
    for _ in range(ATTEMPTS):
        if len(nodes) < max(2, threshold(part, len(nodes))):
            break
        answer, nodes = _attempt_round(grid, nodes, part, query, timeout)
        if answer is not None:
            return answer
    return Answer(zeros(part, query.size), 0)


def _attempt_round(
    grid: Grid, nodes: list[int], part: DeviceSum, query: Query, timeout: float
) -> tuple[Answer | None, list[int]]:
    """One round, or None and who was left when it lost devices before any was asked for an answer."""
    bound, shares_needed = require_fit(part, len(nodes)), threshold(part, len(nodes))
    workflow = SecAggPlusWorkflow(
        1.0,
        shares_needed if shares_needed < len(nodes) else 1.0,
        max_weight=1.0,
        clipping_range=float(bound),
        quantization_range=2 * bound,
        modulus_range=MODULUS,
        timeout=timeout,
    )
    mean, state = _RoundStrategy(nodes), WorkflowState()
    context = _context(mean)
    exchanges, checked = _CheckedGrid(grid, query.size), [workflow.collect_masked_vectors_stage, workflow.unmask_stage]
    with strong_masks():
        for stage in (workflow.setup_stage, workflow.share_keys_stage):
            completed = stage(exchanges, context, state)
            if not completed or len(state.active_node_ids) < len(nodes):
                return None, sorted(state.active_node_ids)
        state.nid_to_fitins = {node: write_query(query) for node in nodes}
        if not all(stage(exchanges, context, state) for stage in checked) or mean.value is None:
            return Answer(zeros(part, query.size), 0), []
    total = mean.value * mean.answered
    rounded = np.rint(total)
    if rounded.shape != (query.size,) or np.abs(total - rounded).max(initial=0) > 1e-3:
        return Answer(zeros(part, query.size), 0), []
    return Answer(rounded.astype(np.int64), mean.answered), []


class _RoundStrategy:
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


class _CheckedGrid:
    """A grid that passes on one reply a device, and masked vectors of the right form alone."""

    def __init__(self, grid: Grid, size: int) -> None:
        self._grid, self._shapes = grid, [(1,), (size,)]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        sent = list(messages)
        waiting = {message.metadata.dst_node_id for message in sent}
        passed = []
        for reply in self._grid.send_and_receive(sent, timeout=timeout):
            node = reply.metadata.src_node_id
            if node in waiting and not reply.has_error() and self._is_valid(reply):
                waiting.remove(node)
                passed.append(reply)
        return passed

    def _is_valid(self, reply: Message) -> bool:
        try:
            configs = reply.content.config_records[RECORD_KEY_CONFIGS]
            if Key.MASKED_PARAMETERS not in configs:
                return True
            arrays = [read_numbers(data) for data in configs[Key.MASKED_PARAMETERS]]
        except (KeyError, TypeError, ValueError):
            return False
        whole = all(array.dtype == np.int64 for array in arrays)
        return whole and [array.shape for array in arrays] == self._shapes


def _context(mean: _RoundStrategy) -> Any:
    content = RecordDict({MAIN_CONFIGS_RECORD: ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})})
    content.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    blank = Context(run_id=0, node_id=0, node_config={}, state=content, run_config={})
    return LegacyContext(blank, strategy=mean, client_manager=mean)


class FlowerDevices:
    """The devices behind a Flower grid, as a `FederatedVault` asks them.

    Args:
        grid: of the `ServerApp`.
        spec: public bounds of everybody's rows.
        devices: N, how many devices there may be at most: the declared population.
        simulated: whether no person is behind any device's records.
        timeout: how many seconds to wait for answers (for secure aggregation: in each of its four exchanges).

    Edge cases:
        | case | what happens |
        |---|---|
        | a device fails, refuses, is late | it has not answered |
        | a device answers twice | the first answer counts |
        | an answer for another step, of another form, not finite, out of range | it has not answered |
        | a device is lost before anybody is asked for an answer | a secure round begins again without it |
        | fewer than the floor are left | the vault aborts the step; it stays charged |
    """

    def __init__(
        self, grid: Grid, spec: PublicSpec, *, devices: int, simulated: bool = False, timeout: float = 60.0
    ) -> None:
        self._grid, self._spec, self._simulated = grid, spec, simulated
        self._max_devices, self._timeout = devices, timeout

    @property
    def spec(self) -> PublicSpec:
        """Public bounds of everybody's rows."""
        return self._spec

    @property
    def simulated(self) -> bool:
        """Whether no person is behind the records."""
        return self._simulated

    @property
    def assumptions(self) -> tuple[Clause, ...]:
        """Who is trusted with what."""
        return tuple(map(clause, ("devices_people", "server_noise", "secure_sums", "who_answers")))

    def enter(self, population: int) -> object:
        """Nothing to be kept: every device has a ledger of its own. Raises DataError of more devices than people in the
        population."""
        if self._max_devices > population:
            what = f"there may be {self._max_devices:,} devices"
            expected = f"at most the declared population, {population:,}"
            remedy = "give FlowerDevices that number, or declare a larger population in a new ledger"
            raise DataError(what, where="FederatedVault", expected=expected, remedy=remedy)
        return None

    def wait(self, count: int, seconds: float = 60.0) -> int:
        """Wait until so many devices are connected, and return how many there are. Raises MechanismError of fewer after
        `seconds`."""
        end = time.monotonic() + seconds
        while len(nodes := self._nodes()) < count:
            if time.monotonic() >= end:
                what, expected = f"{len(nodes)} devices are connected", f"{count} within {seconds:g} s"
                remedy = "start their SuperNodes, or check the address and the certificates"
                raise MechanismError(what, where="FlowerDevices.wait", expected=expected, remedy=remedy)
            time.sleep(0.1)
        return len(nodes)

    def ask(self, query: Query) -> Answer:
        """The sum of everybody's answers that are as an honest device sends them, in the order of the nodes."""
        part, nodes = query.part, self._nodes()
        if part.shared:
            return secure_sum(self._grid, nodes, query, self._timeout)
        accepted = self._collect_answers(query, nodes)
        total = zeros(part, query.size)
        for node in sorted(accepted):
            total += accepted[node]
        return Answer(total, len(accepted))

    def _collect_answers(self, query: Query, nodes: list[int]) -> dict[int, npt.NDArray[Any]]:
        group = f"{query.part.name} {query.step}"
        asked = [Message(write_query(query), node, QUERY, group_id=group, ttl=self._timeout) for node in nodes]
        waiting, accepted = set(nodes), {}
        for reply in self._grid.send_and_receive(asked, timeout=self._timeout):
            node = reply.metadata.src_node_id
            if node in waiting:
                waiting.remove(node)
                vector = None if reply.has_error() else read_answer(reply.content, query)
                if vector is not None:
                    accepted[node] = np.asarray(vector)
        return accepted

    def _nodes(self) -> list[int]:
        nodes = sorted(set(self._grid.get_node_ids()))
        if len(nodes) > self._max_devices:
            what = f"{len(nodes)} devices are connected"
            expected = f"at most {self._max_devices:,}, one for each person of the declared population"
            remedy = "declare a population that covers everybody, or connect nobody twice"
            raise MechanismError(what, where="FlowerDevices", expected=expected, remedy=remedy)
        return nodes


Value = TypeVar("Value")


def simulate(
    main: Callable[[FlowerDevices], Value],
    open_device: OpenDevice,
    *,
    devices: int,
    spec: PublicSpec,
    simulated: bool = False,
    timeout: float = 60.0,
    processes: int = 1,
) -> Value:
    """Run `main` as a Flower server with simulated devices, and return what it returns.

    Args:
        main: gets the devices, for instance to open a `FederatedVault` over them and fit a method.
        open_device: as for `client_app`; `context.node_config["partition-id"]` runs from 0 to devices - 1. It is
            sent to Ray's processes, so it has to be picklable, and what it refers to as well.
        devices: how many.
        spec: public bounds of everybody's rows.
        simulated: whether no person is behind the records; the devices run here, the records may be real.
        timeout: for answers, in seconds.
        processes: how many of Ray's processes answer.

    Raises:
        Whatever `main` raises.
    """
    results: list[Value] = []
    server = ServerApp()

    def run(grid: Grid, context: Context) -> None:
        results.append(main(FlowerDevices(grid, spec, devices=devices, simulated=simulated, timeout=timeout)))

    server.main()(run)
    config: dict[str, Any] = {
        "init_args": {"num_cpus": processes, "include_dashboard": False, "log_to_driver": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    with _quiet_logs():
        run_simulation(server, client_app(open_device), devices, backend_config=config)
    return results[0]


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Flower logs errors alone, and Ray leaves the processes that it has stopped without a warning."""
    level = FLOWER_LOGGER.level
    FLOWER_LOGGER.setLevel("ERROR")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "subprocess .* is still running", ResourceWarning)
        try:
            yield
            gc.collect()
        finally:
            FLOWER_LOGGER.setLevel(level)
