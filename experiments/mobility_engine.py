"""One algorithm, three engines: devices in one process, on Flower, and on Flower with secure aggregation.

    python -m experiments.mobility_engine            # about twenty minutes: secure sums over 83 devices take most of it
    python -m experiments.mobility_engine --quick    # 4 devices, one seed; written under runs/quick/
    python -m experiments.check mobility_engine      # recompute the promised figures from the raw rows

What is summed is what the one-shot method asks of people (`methods/imitation/moves.py`, 419 numbers), without noise, so
that the engines can be compared: each device of Flower's simulation is built anew for every message, in one other
process, from the files on her disk. People are invented (`envs/city.py`); a seed is of a city.

- `clear`: seconds of a round, and the largest distance of its mean from that of `StackedDevices`;
- `secure`: the same for whole numbers summed by SecAgg+ (`federation/secure.py`), whose devices all work one after
  another here; `start` is the time until Ray answers at all, with the first round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from experiments.check import Figure
from experiments.store import RESULTS, ROOT, Store
from tacit.data.days import Days
from tacit.data.grids import RegularGrid
from tacit.envs.city import city
from tacit.federation import FlowerDevices, simulate
from tacit.methods.imitation.moves import CLIP, MOVES_PART, Moves, Vector, Weights
from tacit.methods.imitation.policy import Layout
from tacit.privacy import plan as plans
from tacit.privacy.device import Device
from tacit.privacy.device_parts import DeviceSum, FederatedSum
from tacit.privacy.devices import Devices
from tacit.privacy.federated_vault import FederatedVault
from tacit.privacy.ledger import Ledger
from tacit.privacy.parts import PoissonSum
from tacit.privacy.stacked_devices import StackedDevices
from tacit.units import Unit

Engine = Literal["clear", "secure"]

PEOPLE, SEEDS, DAYS = (20, 83), range(5), 20
ROUNDS: dict[Engine, int] = {"clear": 6, "secure": 2}
FLOOR = 0.75
"""Share of the devices that a secure sum needs."""
DELTA = 1e-5
WORK = Moves(Vector(Layout(times=4, counts=(1, 3, 6), stays=(1, 2, 4)), Weights()))
SOURCES = (
    "src/tacit/federation/*.py",
    "src/tacit/privacy/device*.py",
    "src/tacit/privacy/*_devices.py",
    "src/tacit/privacy/federated_vault.py",
    "src/tacit/methods/imitation/moves.py",
    "src/tacit/envs/city.py",
    "experiments/mobility_engine.py",
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Some sums of everybody's moves, without noise."""

    method: ClassVar[str] = "engine"
    source: ClassVar[str] = "experiments/mobility_engine.py"
    people: int
    rounds: int
    engine: Engine
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = None

    def parts(self) -> tuple[FederatedSum, ...]:
        """One sum a round."""
        common: dict[str, Any] = {"name": MOVES_PART, "steps": self.rounds, "clip": CLIP, "rows_per_unit": 47 * DAYS}
        common["noise_multiplier"] = self.noise_multiplier
        if self.engine == "clear":
            return (PoissonSum(rate=1.0, rows="first", **common),)
        floor = int(np.ceil(FLOOR * self.people))
        return (DeviceSum(devices=self.people, noise="shared", floor=floor, bits=20, **common),)


@dataclass(frozen=True)
class Disk:
    """Everybody's own folder: her days and her ledger."""

    folder: Path
    plan: Plan

    def write(self, days: Days) -> None:
        """Give everybody her days."""
        for person in range(self.plan.people):
            np.save(self.folder / f"days{person}.npy", days.cells[days.person == person])

    def ledger(self, name: str) -> Ledger:
        """One person's, or the server's."""
        return Ledger(self.folder / name, self.plan.unit, epsilon=1e9, delta=2 * DELTA)

    def __call__(self, context: Any, state: Any) -> Device:
        """Her device."""
        person = int(context.node_config["partition-id"])
        cells = np.load(self.folder / f"days{person}.npy")
        days = Days(cells, np.zeros(len(cells), np.int64), _grid())
        records, ledger = days.trajectories(simulated=True), self.ledger(f"ledger{person}")
        return Device(records, ledger, self.plan, {MOVES_PART: WORK}, state=state)


def _grid() -> RegularGrid:
    grid = city(1, days=1, preset="geolife").days.grid
    assert isinstance(grid, RegularGrid)
    return grid


def store(path: Path = RESULTS / "mobility_engine.json") -> Store:
    """The result file."""
    return Store(path, SOURCES, hyperparameters="none")


def key(engine: Engine, people: int, seed: int) -> str:
    """Name of a cell."""
    return f"{engine}/people={people}/seed={seed}"


def _timed(devices: Devices, disk: Disk, name: str) -> tuple[list[npt.NDArray[np.float64]], list[float]]:
    with disk.ledger(name) as ledger:
        vault = FederatedVault(devices, ledger)
        run = vault.reserve(disk.plan)
        means, seconds = [], []
        for _ in range(disk.plan.rounds):
            start = time.perf_counter()
            means.append(vault.noisy_sum(run, MOVES_PART, WORK)[0])
            seconds.append(time.perf_counter() - start)
    return means, seconds


def row(engine: Engine, people: int, seed: int) -> dict[str, float]:
    """One city on one engine, beside devices in one process."""
    days = city(people, days=DAYS, seed=seed, preset="geolife").days
    unit = Unit("person", "add_or_remove", people)
    plan = plans.price(
        replace(Plan(people=people, rounds=ROUNDS[engine], engine=engine), noise_multiplier=0.0), unit=unit, delta=DELTA
    )
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder), plan)
        disk.write(days)
        here, quick = _timed(StackedDevices(days.trajectories(simulated=True)), disk, "stacked")

        def serve(devices: FlowerDevices) -> tuple[list[npt.NDArray[np.float64]], list[float]]:
            devices.wait(people)
            return _timed(devices, disk, "server")

        there, slow = simulate(serve, disk, devices=people, spec=days.trajectories().spec, timeout=600.0)
    apart = max(float(np.abs(a - b).max()) for a, b in zip(there, here, strict=True))
    return {
        "in process": float(np.median(quick[1:])),
        "start": slow[0],
        "seconds": float(np.median(slow[1:])),
        "apart": apart,
        "largest": float(np.abs(here[0]).max()),
    }


def figures() -> list[Figure]:
    """Every promised figure, recomputed from the raw rows."""
    results, out = store(), []
    for engine in ROUNDS:
        for people in PEOPLE:
            cells = [results.fresh(key(engine, people, seed)) for seed in SEEDS]
            name = f"{people} devices, {engine}"
            out.append(
                Figure(f"{name}: distance from sums in one process", max(c["apart"] for c in cells), 1e-6, False)
            )
            out.append(Figure(f"{name}: largest number of a mean", min(c["largest"] for c in cells), 0.05))
    return out


def main(arguments: list[str]) -> None:
    """Compute what is missing or stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(arguments).quick
    results = store((ROOT / "runs" / "quick" if quick else RESULTS) / "mobility_engine.json")
    for people in (4,) if quick else PEOPLE:
        for engine in ROUNDS:
            for seed in range(1) if quick else SEEDS:
                name = key(engine, people, seed)
                if not results.has(name):
                    values = row(engine, people, seed)
                    results.put(
                        name, dataset=f"invented city: {people} people of {DAYS} days", seed=seed, values=values
                    )
                    print(name, " ".join(f"{n}={v:.4g}" for n, v in values.items()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
