"""The server's side of a federation: everybody is asked once, and what an honest device would not send is left out."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Message
from flwr.serverapp import Grid

from tacit.data.spec import PublicSpec
from tacit.errors import DataError, DoorError
from tacit.federation.messages import QUERY, read_answer, write_query
from tacit.federation.secure import secure_sum
from tacit.privacy.mechanisms.device_sums import WHO_ANSWERS, zeros
from tacit.privacy.vault.devices import Answer, Query

ASSUMPTIONS = (
    "one device is one person; every device runs tacit's client app and keeps her ledger",
    "where the server adds the noise, it sees every device's answer and is trusted with it",
    "where devices share the noise, the server follows the protocol of secure aggregation and runs no devices of its "
    "own; at least the part's floor of the devices whose answers are summed are honest and keep their shares secret",
    WHO_ANSWERS,
)


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
        | a device is lost before anybody is asked for an answer | a secure round begins anew without it |
        | fewer than the floor are left | the vault aborts the step; it stays charged |
    """

    def __init__(
        self, grid: Grid, spec: PublicSpec, *, devices: int, simulated: bool = False, timeout: float = 60.0
    ) -> None:
        self._grid, self._spec, self._simulated = grid, spec, simulated
        self._most, self._timeout = devices, timeout

    @property
    def spec(self) -> PublicSpec:
        """Public bounds of everybody's rows."""
        return self._spec

    @property
    def simulated(self) -> bool:
        """Whether no person is behind the records."""
        return self._simulated

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Who is trusted with what."""
        return ASSUMPTIONS

    def enter(self, population: int) -> object:
        """Nothing to be kept: every device has a ledger of its own.

        Raises:
            DataError: there may be more devices than people in the population.
        """
        if self._most > population:
            raise DataError(
                f"there may be {self._most:,} devices",
                where="FederatedVault",
                expected=f"at most the declared population, {population:,}",
                remedy="give FlowerDevices that number, or declare a larger population in a new ledger",
            )
        return None

    def wait(self, count: int, seconds: float = 60.0) -> int:
        """Wait until so many devices are connected, and return how many there are.

        Raises:
            DoorError: there are fewer after `seconds`.
        """
        end = time.monotonic() + seconds
        while len(nodes := self._nodes()) < count:
            if time.monotonic() >= end:
                raise DoorError(
                    f"{len(nodes)} devices are connected",
                    where="FlowerDevices.wait",
                    expected=f"{count} within {seconds:g} s",
                    remedy="start their SuperNodes, or check the address and the certificates",
                )
            time.sleep(0.1)
        return len(nodes)

    def sums(self, query: Query) -> Answer:
        """The sum of everybody's answers that are as an honest device sends them, in the order of the nodes."""
        part, nodes = query.part, self._nodes()
        if part.shared:
            return secure_sum(self._grid, nodes, query, self._timeout)
        accepted = self._answers(query, nodes)
        total = zeros(part, query.size)
        for node in sorted(accepted):
            total += accepted[node]
        return Answer(total, len(accepted))

    def _answers(self, query: Query, nodes: list[int]) -> dict[int, npt.NDArray[Any]]:
        """The first right answer of each node."""
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
        if len(nodes) > self._most:
            raise DoorError(
                f"{len(nodes)} devices are connected",
                where="FlowerDevices",
                expected=f"at most {self._most:,}, one for each person of the declared population",
                remedy="declare a population that covers everybody, or connect nobody twice",
            )
        return nodes
