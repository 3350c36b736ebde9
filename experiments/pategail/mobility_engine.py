"""One algorithm, three engines: devices in one process, on Flower, and on Flower with secure aggregation.

What is summed is what the one-shot method asks of people at epsilon 2 (`methods/mobility`: moves, starts and jumps,
one sum each), without the noise, so that the engines can be compared. Each device of Flower's simulation is built again
for every message, in one other process, from the files on her disk. People are invented (`envs/city.py`); a seed is of
a city.

- `seconds`: of a sum (starts and jumps), `start` of the first one (moves), which waits for Ray;
- `apart`: the largest distance of a mean from that of `StackedDevices`;
- `clear`: noise by the server; `secure`: whole numbers summed by SecAgg+ (`federation/server.py`), whose devices all
  work one after another here: with 83 of them a sum takes minutes.
"""

from __future__ import annotations

import functools
import inspect
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from experiments.lib.experiment import Figure, Json, Store, command_line, describe, store_of
from experiments.pategail.mobility_runs import DELTA, unit
from experiments.pategail.mobility_ways import guaranteed
from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import RegularGrid
from tacit.federation import FlowerDevices, simulate
from tacit.methods import mobility
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.base import Contribution
from tacit.privacy.mechanisms.device_sums import FederatedSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import Device, Devices, StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.plan import PrivatePlan
from tacit_worlds.city import Preset, city

Engine = Literal["clear", "secure"]

DAYS, EPSILON = 20, 2.0
PRESET: Preset = "geolife"
SEEDS: dict[tuple[Engine, int], int] = {("clear", 20): 3, ("clear", 83): 1, ("secure", 20): 2}
"""How many cities, by engine and number of people: sums are equal or they are not."""


def planned(engine: Engine) -> mobility.OneShotPlan:
    """The one-shot method, not yet calibrated."""
    noise: Literal["server", "shared"] = "server" if engine == "clear" else "shared"
    return mobility.OneShotPlan(noise=noise, days=DAYS, weights=mobility.Weights())


@functools.cache
def method(people: int, engine: Engine) -> mobility.OneShotPlan:
    """The one-shot method as it would be run."""
    return planned(engine).calibrate(unit=unit(people), epsilon=EPSILON, delta=DELTA)


@dataclass(frozen=True, kw_only=True)
class Plan(PrivatePlan):
    """The method's sums at another noise: none."""

    method: ClassVar[str] = "engine"
    source: ClassVar[str] = "experiments/pategail/mobility_engine.py"
    of: mobility.OneShotPlan
    noise_multiplier: float | None = None

    def parts(self) -> tuple[FederatedSum, ...]:
        """Moves, starts and jumps."""
        return tuple(replace(part, noise_multiplier=self.noise_multiplier) for part in self.of.parts())

    def works(self) -> dict[str, Contribution]:
        """What is computed for each."""
        return mobility.build_contributions(self.of, _grid())


@dataclass(frozen=True)
class Disk:
    """Everybody's own folder: her days and her ledger."""

    folder: Path
    plan: Plan

    def write(self, days: Days) -> None:
        for person in np.unique(days.person):
            np.save(self.folder / f"days{person}.npy", days.cells[days.person == person])

    def ledger(self, name: str) -> Ledger:
        """One person's, or the server's."""
        return Ledger(self.folder / name, self.plan.unit, epsilon=1e9, delta=2 * DELTA, composition=SUM)

    def __call__(self, context: Any, state: Any) -> Device:
        person = int(context.node_config["partition-id"])
        cells = np.load(self.folder / f"days{person}.npy")
        days = Days(cells, np.zeros(len(cells), np.int64), _grid())
        records, ledger = days.trajectories(simulated=True), self.ledger(f"ledger{person}")
        return Device(records, ledger, self.plan, self.plan.works(), state=state)


def _grid() -> RegularGrid:
    grid = city(1, days=1, preset=PRESET).days.grid
    assert isinstance(grid, RegularGrid)
    return grid


def configuration(key: str) -> Json:
    engine, people, _ = _of(key)
    defaults = {name: one.default for name, one in inspect.signature(city).parameters.items() if name != "seed"}
    sums = guaranteed(planned(engine), unit(people), EPSILON)
    return {
        "engine": engine,
        "noise_multiplier": 0.0,
        "data": {"city": describe(defaults | {"people": people, "days": DAYS, "preset": PRESET})},
        "layout": describe(method(people, engine).layout),
        **sums,
    }


store = store_of(__file__, configuration, "none")


def _of(key: str) -> tuple[Engine, int, int]:
    engine, people, seed = key.split("/")
    assert engine in get_args(Engine)
    return cast(Engine, engine), int(people.removeprefix("people=")), int(seed.removeprefix("seed="))


def rows() -> list[str]:
    return [key(engine, people, seed) for (engine, people), seeds in SEEDS.items() for seed in range(seeds)]


def key(engine: Engine, people: int, seed: int) -> str:
    return f"{engine}/people={people}/seed={seed}"


def _timed(devices: Devices, disk: Disk, name: str) -> tuple[list[npt.NDArray[np.float64]], list[float]]:
    with disk.ledger(name) as ledger:
        vault = FederatedVault(devices, ledger)
        run = vault.reserve(disk.plan)
        means, seconds = [], []
        for part, work in disk.plan.works().items():
            start = time.perf_counter()
            means.append(vault.noisy_sum(run, part, work)[0])
            seconds.append(time.perf_counter() - start)
    return means, seconds


def row(engine: Engine, people: int, seed: int) -> dict[str, float]:
    """One city on one engine, beside devices in one process."""
    days = city(people, days=DAYS, seed=seed, preset=PRESET).days
    of = method(people, engine)
    plan = plans.account(Plan(of=of, noise_multiplier=0.0), unit=of.unit, delta=DELTA)
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
        "numbers": sum(mean.size for mean in here),
        "least": min(float(np.linalg.norm(mean)) for mean in here),
    }


def figures() -> list[Figure]:
    results, out = store(), []
    for (engine, people), seeds in SEEDS.items():
        cells = [results.values(key(engine, people, seed)) for seed in range(seeds)]
        name = f"{people} devices, {engine}"
        out.append(Figure(f"{name}: distance from sums in one process", max(c["apart"] for c in cells), 1e-6, False))
        out.append(Figure(f"{name}: least norm of a mean", min(c["least"] for c in cells), 0.05))
    return out


def run_row(key: str, results: Store) -> None:
    engine, people, seed = _of(key)
    values = row(engine, people, seed)
    results.put(key, dataset=f"invented city: {people} people of {DAYS} days", seed=seed, values=values)


if __name__ == "__main__":
    command_line(__file__)
