"""Sums over people whose records stay on their own devices, on Flower (extra `federated`).

`client_app` is what runs on a person's device, `FlowerDevices` the server's side for a `FederatedVault`, and `simulate`
runs both on one machine. `README.md` in this folder shows a deployment and says who is trusted with what.
"""

import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

try:
    from tacit.federation.client import client_app
    from tacit.federation.server import FlowerDevices
    from tacit.federation.simulation import simulate
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("flwr", "ray"):
        raise
    raise ModuleNotFoundError(
        "tacit.federation needs Flower: pip install 'tacit[federated]'", name=error.name
    ) from error

__all__ = ["FlowerDevices", "client_app", "simulate"]
