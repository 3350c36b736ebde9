"""What a SuperLink and its SuperNodes run: two sums with shared noise, each when the folder says so."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import device_cases as cases
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from tests.federation.loop_grid import Opener

from tacit.errors import MechanismError
from tacit.federation import FlowerDevices, client_app
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import Device
from tacit.privacy.vault.federated_vault import FederatedVault

DEVICES, FLOOR = 3, 2
PART = replace(cases.PARTS["shared"], devices=DEVICES, floor=FLOOR)
PLAN = plans.account(cases.OnePlan(part=PART, noise_multiplier=0.0), unit=cases.UNIT, delta=cases.DELTA)


def open_device(context: Context, state: Any) -> Device:
    return Opener(Path(str(context.run_config["folder"])), PLAN)(context, state)


client = client_app(open_device)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    folder = Path(str(context.run_config["folder"]))
    devices = FlowerDevices(grid, cases.SPEC, devices=DEVICES, simulated=True, timeout=30.0)
    devices.wait(DEVICES)
    vault = FederatedVault(devices, cases.ledger(folder, "server"))
    run = vault.reserve(PLAN)
    (folder / "ready").touch()
    for step in range(2):
        while not (folder / f"go{step}").exists():
            time.sleep(0.05)
        start = time.perf_counter()
        try:
            result = {"mean": vault.noisy_sum(run, "sum", cases.Remembering(), cases.PUBLIC)[0].tolist()}
        except MechanismError as error:
            result = {"error": str(error)}
        written = folder / f"result{step}.part"
        written.write_text(json.dumps({**result, "seconds": time.perf_counter() - start}), encoding="utf-8")
        written.rename(folder / f"result{step}.json")
