"""Devices of a Flower grid without a network, and what they sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import device_cases as cases
import numpy as np
import numpy.typing as npt
from flwr.app import Context, Message

from tacit.privacy.vault.devices import Device


class Opener:
    """Opens the device of person `partition-id`, with her ledger in a folder."""

    def __init__(self, folder: Path, plan: Any, works: Any = None, count: int = cases.PEOPLE) -> None:
        self.folder, self.plan, self.works, self.count = folder, plan, works or {"sum": cases.Remembering()}, count

    def __call__(self, context: Context, state: dict[str, npt.NDArray[Any]]) -> Device:
        person = int(context.node_config["partition-id"])
        records = cases.people(1, first=person)
        return Device(records, cases.ledger(self.folder, f"person{person}"), self.plan, self.works, state=state)


def masked(messages: list[Message]) -> list[list[npt.NDArray[np.int64]]]:
    """The masked vectors among messages."""
    from flwr.common import bytes_to_ndarray

    found = []
    for message in messages:
        configs = message.content.config_records.get("secaggplus_configs", {}) if message.has_content() else {}
        if "masked_params" in configs:
            found.append([bytes_to_ndarray(data) for data in configs["masked_params"]])
    return found
