"""Cost and memory against size: process CPU time, peak memory, and how both grow.

Run `python -m benchmarks.scale`, or with `--quick` up to 100,000 of everything. Each size of each task runs in a
process of its own. Units own one row each and are everybody: 10^4 to 10^7 of them. The tasks over units are: ingest of
arrays, of a CSV file and of a Parquet file, whose units have ids; a Poisson sample at a rate of 1 %; one read of 128
rows; a noisy sum of 16 numbers a unit; noisy histograms in default tables; the halves of all units. `imitation` fits
the default plan to 83 to 10^5 people with two days each. `votes` fits clones to 10^2 to 10^5 experts with 400 rows
each, which lie in a folder, as `tacit learn` keeps many of them.

`exponent_TASK` is the least-squares slope of log cost over log size. Nothing is subtracted from the cost: a constant
overhead is met by leaving out the sizes that cost less than twice as much as the smallest one, and by taking the two
largest where fewer are left.

Peak memory is `ru_maxrss` at the end over that after the imports and a warm-up with a few units: inputs, records and
mapped pages of files count. `noisy_sum_over_input` is what the largest noisy sum adds to the peak over the vectors that
it sums, `folds_us` the microseconds a unit of the largest halves, `gib_TASK` the largest peak of a task.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.spec import Box, PublicSpec
from tacit.data.store import CHUNK, StoredRecords
from tacit.data.trajectories import Trajectories
from tacit.methods import experts, mobility
from tacit.methods.synthesis import TableMatching
from tacit.methods.synthesis.table_matching import release_histograms
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise, poisson_sample
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.plan import PrivatePlan
from tacit.privacy.vault.records import Reader
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import populations
from tacit_worlds.city import city

Columns = dict[str, np.ndarray]
Task = Callable[[int, Path], Callable[[], object]]
"""From a size and an empty folder to what is measured."""

UNITS = (10_000, 100_000, 1_000_000, 10_000_000)
PEOPLE = (83, 1_000, 10_000, 100_000)
EXPERTS = (100, 1_000, 10_000, 100_000)
FEW = 50
"""Of the warm-up."""
QUICK = 100_000
RATE, ROWS, NUMBERS = 0.01, 128, 16
DAYS, EPISODES, HORIZON = 2, 2, 200
SPEC = PublicSpec(
    Box((-1.0,) * 2, (1.0,) * 2), Box((-1.0,), (1.0,)), Box((-1.0,), (1.0,)), "declared", difference=(0.5,) * 2
)
LONG, MOST = 0.5, 5
"""Seconds that a task runs at least, and how often at most; the median counts."""


def columns(size: int, first: int = 0) -> Columns:
    """Rows of units `first` to `first + size - 1`."""
    rng = np.random.default_rng(first)
    return {
        "observations": rng.random((size, 2), np.float32),
        "actions": rng.random((size, 1), np.float32),
        "rewards": rng.random(size, np.float32),
        "next_observations": rng.random((size, 2), np.float32),
        "terminations": np.ones(size, np.bool_),
        "truncations": np.zeros(size, np.bool_),
    }


def records(size: int) -> Trajectories:
    """Records of so many units, without the cost of their ingest."""
    rows, ends = np.arange(size), np.arange(size + 1)
    return Trajectories(StoredRecords(columns(size), rows, ends, ends), SPEC, simulated=True)


def blocks(size: int) -> Iterator[pa.Table]:
    """The same as tables, some rows at a time."""
    for first in range(0, size, CHUNK):
        part = columns(min(CHUNK, size - first), first)
        names = {"observation": part["observations"].T, "next_observation": part["next_observations"].T}
        flat = {f"{name}_{i}": column for name, both in names.items() for i, column in enumerate(both)}
        flat |= {"action_0": part["actions"][:, 0], "reward": part["rewards"]}
        flat |= {"termination": part["terminations"].view(np.int8)}
        yield pa.table({**flat, "person": first + np.arange(len(part["rewards"]))})


def write(writer: csv.CSVWriter | parquet.ParquetWriter, size: int) -> None:
    """Write these tables to a file."""
    with writer:
        for block in blocks(size):
            writer.write_table(block)


def arrays(size: int, _: Path) -> Callable[[], object]:
    """Ingest of arrays."""
    given, ids = columns(size), np.arange(size)
    return lambda: Trajectories.from_arrays(**given, unit_ids=ids, spec=SPEC)


def csv_file(size: int, folder: Path) -> Callable[[], object]:
    """Ingest of a CSV file."""
    path = folder / "rows.csv"
    write(csv.CSVWriter(path, next(blocks(1)).schema), size)
    return lambda: Trajectories.from_csv(path, unit="person", spec=SPEC)


def parquet_file(size: int, folder: Path) -> Callable[[], object]:
    """Ingest of a Parquet file."""
    path = folder / "rows.parquet"
    write(parquet.ParquetWriter(path, next(blocks(1)).schema), size)
    return lambda: Trajectories.from_parquet(path, unit="person", spec=SPEC)


def draw(size: int, _: Path) -> Callable[[], object]:
    """A Poisson sample."""
    noise = SecretNoise()
    return lambda: poisson_sample(size, RATE, noise)


def read(size: int, _: Path) -> Callable[[], object]:
    """A read of a few rows."""
    reader, chosen = Reader(records(size), SecretNoise()), np.linspace(0, size - 1, ROWS).astype(np.int64)
    return lambda: reader.rows(chosen, 1, "drawn")


def folds(size: int, _: Path) -> Callable[[], object]:
    """The halves of all units."""
    data, noise = records(size), SecretNoise()
    return lambda: Reader(data, noise).folds("key")


def noisy_sum(size: int, folder: Path) -> Callable[[], object]:
    """A noisy sum over everybody."""
    part = PoissonSum(name="sums", steps=MOST, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0)
    vault, run = begun(part, size, folder)
    projected = Projected(tuple(map(tuple, np.random.default_rng(1).normal(size=(2, NUMBERS)).tolist())))
    return lambda: vault.noisy_sum(run, "sums", projected)


def histograms(size: int, folder: Path) -> Callable[[], object]:
    """Noisy histograms of everybody."""
    matching = TableMatching.of(SPEC, steps=MOST)
    vault, run = begun(matching.part(1.0), size, folder)
    sums = release_histograms(vault, run, matching.part(1.0).name, matching.tables)
    return lambda: next(sums)


@dataclass(frozen=True)
class Projected:
    """Of each unit so many numbers, from its only row."""

    weights: tuple[tuple[float, ...], ...]

    def __call__(self, rows: Mapping[str, Any], state: object) -> np.ndarray:
        """[U, numbers]."""
        return np.asarray(rows["observations"][:, 0] @ np.array(self.weights))


@dataclass(frozen=True, kw_only=True)
class OnePart(PrivatePlan):
    """A plan of one part."""

    method: ClassVar[str] = "sums"
    source: ClassVar[str] = "benchmarks.scale"
    part: PoissonSum

    def parts(self) -> tuple[PoissonSum, ...]:
        """The part."""
        return (self.part,)


def begun(part: PoissonSum, size: int, folder: Path) -> tuple[Vault, Run]:
    """A vault of so many units, and a run of the part."""
    unit = Unit("person", "add_or_remove", size)
    plan = OnePart(part=part).account(unit=unit, delta=0.1 / size)
    ledger = Ledger(folder / f"{size}.ledger", unit, epsilon=1e6, delta=0.5 / size, composition=SUM)
    vault = Vault(records(size), ledger)
    return vault, vault.reserve(plan)


def imitation(size: int, folder: Path) -> Callable[[], object]:
    """Imitation of movement with the default plan."""
    days, unit, delta = city(size, DAYS).days, Unit("person", "add_or_remove", size), 0.1 / size
    plan = mobility.OneShotPlan().calibrate(unit=unit, epsilon=2.0, delta=delta)
    vault = Vault(
        days.trajectories(simulated=True),
        Ledger(folder / f"{size}.ledger", unit, epsilon=2.0, delta=delta, composition=SUM),
    )
    return lambda: mobility.fit(plan, vault, grid=days.grid)


def votes(size: int, folder: Path) -> Callable[[], object]:
    """Votes of clones with the default plan of `tacit learn`."""
    world, unit, delta = populations.world("cart_pole"), Unit("expert", "add_or_remove", size), 0.1 / size
    sees = Scaled(world.box.low, world.box.high)
    plan = experts.Votes(
        anchors=experts.UniformAnchors(low=world.box.low, high=world.box.high),
        clone=experts.LinearClone(features=sees, actions=world.actions),
        policy=Policy(sees, Mlp((sees.size, world.actions), gain=0.0), Categorical(world.actions)),
        rows=EPISODES * HORIZON,
    ).calibrate(unit=unit, epsilon=2.0, delta=delta)
    played = populations.log_blocks(
        world, populations.population(world, "good", size, seed=0), EPISODES, HORIZON, seed=0
    )
    data = Trajectories.from_blocks(played, spec=world.spec, simulated=True, store=folder / f"{size}")
    vault = Vault(data, Ledger(folder / f"{size}.ledger", unit, epsilon=2.0, delta=delta, composition=SUM))
    return lambda: experts.fit(plan, vault)


TASKS: Mapping[str, tuple[Task, Sequence[int]]] = {
    "arrays": (arrays, UNITS),
    "csv": (csv_file, UNITS),
    "parquet": (parquet_file, UNITS),
    "draw": (draw, UNITS),
    "read": (read, UNITS),
    "noisy_sum": (noisy_sum, UNITS),
    "histograms": (histograms, UNITS),
    "folds": (folds, UNITS),
    "imitation": (imitation, PEOPLE),
    "votes": (votes, EXPERTS),
}
ONCE = ("imitation", "votes")
"""Tasks whose plan is run once."""


def measured(name: str, size: int) -> dict[str, float]:
    """CPU seconds of a task, the peak of all in MiB, and what the task itself added to it."""
    task, _ = TASKS[name]
    with tempfile.TemporaryDirectory() as folder:
        warm, own = Path(folder, "warm"), Path(folder, "own")
        warm.mkdir()
        own.mkdir()
        task(FEW, warm)()
        base = peak_mib()
        run = task(size, own)
        before, seconds = peak_mib(), list[float]()
        while not seconds or (name not in ONCE and sum(seconds) < LONG and len(seconds) < MOST):
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
        return {"seconds": statistics.median(seconds), "mib": peak_mib() - base, "added": peak_mib() - before}


def peak_mib() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of log cost over log size, by the rule of the module's docstring."""
    above = [i for i, cost in enumerate(costs) if cost >= 2 * costs[0]]
    chosen = above if len(above) > 1 else range(len(costs) - 2, len(costs))
    x, y = np.log([sizes[i] for i in chosen]), np.log([costs[i] for i in chosen])
    return float(np.polyfit(x, y, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", choices=[[], *TASKS], help="some of the tasks; all without")
    parser.add_argument("--quick", action="store_true", help=f"up to {QUICK:,} of everything")
    parser.add_argument("--one", nargs=2, metavar=("TASK", "SIZE"), help="print the figures of one size and no more")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(arguments.one[0], int(arguments.one[1]))))
        return
    figures: dict[str, Any] = {}
    bars: dict[str, float] = {}
    for name in arguments.tasks or TASKS:
        sizes = [size for size in TASKS[name][1] if not arguments.quick or size <= QUICK]
        found = []
        for size in sizes:
            command = [sys.executable, "-m", "benchmarks.scale", "--one", name, str(size)]
            alone = subprocess.run(command, check=True, capture_output=True, text=True)
            found.append(json.loads(alone.stdout.splitlines()[-1]))
            print(f"{name:12}{size:>12,}{found[-1]['seconds']:12.4f} s{found[-1]['mib']:10.1f} MiB", flush=True)
        last, size = found[-1], sizes[-1]
        figures[f"exponent_{name}"] = exponent(sizes, [one["seconds"] for one in found])
        figures[f"gib_{name}"] = last["mib"] / 1024
        bars[f"exponent_{name}"] = 1.05
        if name != "imitation":
            bars[f"gib_{name}"] = 4.0
        if name == "noisy_sum":
            figures["noisy_sum_over_input"] = last["added"] * 2**20 / (size * NUMBERS * 8)
            bars["noisy_sum_over_input"] = 1.2
        if name == "folds":
            figures["folds_us"], bars["folds_us"] = 1e6 * last["seconds"] / size, 1.0
    timing.report({"benchmark": "scale", **figures, "at_most": bars, "quick": arguments.quick})


if __name__ == "__main__":
    main()
