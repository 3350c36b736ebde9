"""The one-shot method over devices: same code, same certificate, another engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.beyond.loop_grid import LoopGrid

from tacit.data.mobility.days import Days
from tacit.errors import MechanismError
from tacit.federation import FlowerDevices, client_app
from tacit.methods import mobility
from tacit.methods.mobility import pategail
from tacit.methods.mobility.pategail.plan import CRITICS as NAME
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.devices import Device
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.units import Unit
from tacit_worlds.city import city

PEOPLE = 6
UNIT = Unit("person", "add_or_remove", PEOPLE)
DAYS = city(PEOPLE, days=4, seed=1, preset="geolife").days
PLAN = mobility.OneShotPlan(noise="shared", floor=5, days=4, matching=mobility.Matching(rounds=1))
PLAN = PLAN.calibrate(unit=UNIT, epsilon=20.0, delta=1e-3)


LEARNING = pategail.PateGailPlan(
    people=PEOPLE, rounds=2, kind="table", days=40, rows_per_unit=4 * 47, noise="shared", floor=5
)
LEARNING = LEARNING.calibrate(unit=UNIT, epsilon=20.0, delta=1e-3)


@dataclass(frozen=True)
class Disk:
    folder: Path
    plan: Any = PLAN
    works: Any = mobility.build_contributions

    def ledger(self, name: str) -> Ledger:
        return Ledger(self.folder / name, UNIT, epsilon=20.0, delta=1e-3, composition=SUM)

    def __call__(self, context: Any, state: Any) -> Device:
        person = int(context.node_config["partition-id"])
        cells = DAYS.cells[DAYS.person == person]
        days = Days(cells, np.zeros(len(cells), np.int64), DAYS.grid).trajectories(simulated=True)
        return Device(days, self.ledger(f"person{person}"), self.plan, self.works(self.plan, DAYS.grid), state=state)


def federation(folder: Path, disk: Disk | None = None) -> tuple[LoopGrid, FederatedVault]:
    grid = LoopGrid(client_app(disk or Disk(folder)), PEOPLE)
    spec = DAYS.trajectories(simulated=True).spec
    devices = FlowerDevices(grid, spec, devices=PEOPLE, simulated=True)
    return grid, FederatedVault(devices, Disk(folder).ledger("server"))


def test_a_simulator_comes_out_with_a_certificate_that_says_whom_it_trusts(tmp_path: Path) -> None:
    grid, vault = federation(tmp_path)
    release = mobility.fit(PLAN, vault, grid=DAYS.grid)
    days = release.value.generate(50, seed=0)
    assert days.cells.shape == (50, 48)
    text = " ".join(release.certificate.lines("assumptions"))
    assert "at least the part's floor of the devices" in text
    assert not any(reply.has_error() for reply in grid.received)
    for person in range(PEOPLE):
        with Disk(tmp_path).ledger(f"person{person}") as ledger:
            assert [plan.claimed for plan in ledger.plans()] == [3]


def test_below_the_floor_nothing_comes_out(tmp_path: Path) -> None:
    grid, vault = federation(tmp_path)
    grid.dead = {100, 101}
    with pytest.raises(MechanismError, match="floor of 5"):
        mobility.fit(replace(PLAN), vault, grid=DAYS.grid)


def test_critics_learn_on_their_devices_from_round_to_round(tmp_path: Path) -> None:
    grid, vault = federation(tmp_path, Disk(tmp_path, LEARNING, pategail.build_contributions))
    seen: list[dict[str, np.ndarray]] = []
    grid.before = lambda batch: seen.append(kept(grid))
    release = pategail.fit(LEARNING, vault, grid=DAYS.grid)
    assert release.value.generate(10, seed=0).cells.shape == (10, 48)
    assert not any(reply.has_error() for reply in grid.received)
    critics = [{n: a for n, a in state.items() if n.startswith(f"{NAME}/")} for state in [*seen, kept(grid)]]
    first, last = next(state for state in critics if state), critics[-1]
    assert first.keys() == last.keys()
    assert any((first[name] != last[name]).any() for name in first)


def kept(grid: LoopGrid) -> dict[str, np.ndarray]:
    """What one device keeps."""
    record = grid.contexts[100].state.array_records.get("tacit.state", {})
    return {name: array.numpy() for name, array in record.items()}
