"""What runs beside the SuperLink: it asks all devices, and writes the simulator with its certificate."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flower_app import agreement
from tacit import hub
from tacit.data.mobility.days import spec_of
from tacit.federation import FlowerDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit_worlds.city import GRID

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run of one plan."""
    folder, method = Path(str(context.run_config["folder"])), str(context.run_config["method"])
    devices = FlowerDevices(
        grid, spec_of(GRID), devices=agreement.PEOPLE, simulated=agreement.SIMULATED, timeout=3_600.0
    )
    devices.wait(agreement.PEOPLE)
    with agreement.ledger(folder) as ledger:
        vault = FederatedVault(devices, ledger)
        release = agreement.METHODS[method].fit(agreement.plan(method), vault, grid=GRID)
        hub.save(release, folder / "simulator")
    print(release.certificate.sentence)
