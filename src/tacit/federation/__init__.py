"""Sums over people whose records stay on their own devices, on Flower (extra `federated`). `client_app` is what runs on
a person's device, `FlowerDevices` the server's side for a `FederatedVault`, and `simulate` runs both on one machine.
`README.md` in this folder shows a deployment and says who is trusted with what."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.federation.client import client_app
    from tacit.federation.server import FlowerDevices, simulate

__all__ = ["FlowerDevices", "client_app", "simulate"]

_MODULES = {"FlowerDevices": "server", "client_app": "client", "simulate": "server"}

for _name, _value in (
    ("FLWR_TELEMETRY_ENABLED", "0"),
    ("FLWR_DISABLE_UPDATE_CHECK", "1"),
    ("RAY_USAGE_STATS_ENABLED", "0"),
):
    os.environ.setdefault(_name, _value)


def __getattr__(name: str) -> Any:
    """Loads each side when it is used: a device starts again for every message, and needs the client's alone."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("flwr", "ray"):
            raise
        raise ModuleNotFoundError(
            "tacit.federation needs Flower: pip install 'tacit[federated]'", name=error.name
        ) from error
