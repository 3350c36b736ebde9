"""A federation on one machine: Flower's simulation of devices in Ray's processes. No network is used."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation
from flwr.supercore.logger import FLOWER_LOGGER

from tacit.data.spec import PublicSpec
from tacit.federation.client import OpenDevice, client_app
from tacit.federation.server import FlowerDevices

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
