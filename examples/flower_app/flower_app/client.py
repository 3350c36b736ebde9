"""What runs on a person's device, once for each question of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from flwr.app import Context

from flower_app import agreement
from tacit.data import Trajectories
from tacit.federation import client_app
from tacit.privacy.vault.devices import Device


def open_device(context: Context, state: Mapping[str, npt.NDArray[Any]]) -> Device:
    """Her days, if she has any, her ledger, and what she agreed to."""
    own, method = agreement.folder(context), str(context.run_config["method"])
    own.mkdir(parents=True, exist_ok=True)
    days = Trajectories.open(own / "days") if (own / "days").exists() else None
    return Device(days, agreement.ledger(own), agreement.plan(method), agreement.works(method), state=state)


app = client_app(open_device)
