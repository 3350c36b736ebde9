"""A million devices: what a tree of secure sums costs, how many of them may drop out, and what the noise then is.

Devices form cohorts of 100, a hundred cohorts a region, a hundred regions the whole. A cohort sums in secret (SecAgg+,
modulo 2^32), regions and the root add up what came out of that. The noise of one release keeps epsilon 2 at delta 1e-7.
It is shared among the floor of one `level`: its sums are private, no matter who reads them. Rows:

- `secure/devices=n/numbers=d`: one secure sum of tacit's own client and server over Flower's messages, in one process;
- `floor/level/share`: on paper, with the largest share of devices that may drop out independently until one node of all
  is lost with probability 1e-3, and the noise of the whole over that of a trusted server (`price`);
- `tree/level/share/dropout`: simulated with the devices' own arithmetic; every device says the same vector;
- `flat/devices=N`: one secure sum without a tree: the largest share that the floor may be in 32 bits.
"""

import functools
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from flwr.supercore.logger import FLOWER_LOGGER
from scipy import stats

from experiments.beyond.loop_grid import LoopGrid, identity
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Computed, Jobs, Store, command_line, describe, markdown
from tacit.data import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.federation import FlowerDevices, client_app
from tacit.federation.guard import threshold
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.device_sums import LEAST_SHARE, DeviceSum, answers
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import Device, Query
from tacit.privacy.vault.plan import PrivatePlan
from tacit.units import Unit

DEVICES = 1_000_000
LEVELS = {"cohort": 100, "region": 10_000, "root": DEVICES}  # devices below one node of a level
EPSILON, DELTA = 2.0, 1e-7
NUMBERS = 8  # d, of the simulated trees
BITS = 16
SECURE = tuple((devices, numbers) for devices in (8, 16, 32, 64) for numbers in (100, 1_000))
SHARES = (0.9, 0.8, 0.6)  # floors, as shares of a node's devices
TREES = ((0.9, 0.05), (0.8, 0.05), (0.8, 0.15))
FLAT = (1_000, 10_000, 100_000, DEVICES)
RARELY = 1e-3
SPEC = PublicSpec(Box((-1.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared")


@dataclass(frozen=True)
class Same:
    """The vector (1, .., 1) / sqrt(d) of everybody."""

    numbers: int

    def __call__(self, rows: Mapping[str, Any], state: Mapping[str, Any]) -> npt.NDArray[np.float64]:
        """[U, d]."""
        return np.full((len(rows["replicate"]), self.numbers), self.numbers**-0.5)


@dataclass(frozen=True, kw_only=True)
class Plan(PrivatePlan):
    """One sum with shared noise."""

    method: ClassVar[str] = "scale"
    source: ClassVar[str] = "experiments/beyond/federation_scale.py"
    devices: int
    floor: int
    bits: int = BITS
    noise_multiplier: float | None = None

    def parts(self) -> tuple[DeviceSum]:
        return (
            DeviceSum(
                name="sum",
                steps=1,
                devices=self.devices,
                clip_norm=1.0,
                noise="shared",
                noise_multiplier=self.noise_multiplier,
                floor=self.floor,
                bits=self.bits,
            ),
        )


@functools.cache
def calibrated(devices: int, floor: int) -> Plan:
    """The plan of so many devices as it would be run."""
    unit = Unit("person", "add_or_remove", devices)
    return plans.calibrate(Plan(devices=devices, floor=floor), unit=unit, epsilon=EPSILON, delta=DELTA)


@functools.cache
def sigma() -> float:
    """The noise multiplier of the promise; the number of devices is not in it."""
    return calibrated(100, 90).noise_multiplier


@dataclass
class Metered(LoopGrid):
    """A grid that counts bytes, messages and the devices' CPU seconds."""

    app: ClientApp
    count: int
    down: int = 0
    up: int = 0
    messages: int = 0
    seconds: float = field(default=0.0)

    def __post_init__(self) -> None:
        super().__init__(self.app, self.count)

    def ask(self, message: Message) -> Message:
        began = time.process_time()
        reply = super().ask(message)
        self.seconds += time.process_time() - began
        self.down += message_to_proto(message).ByteSize()
        self.up += message_to_proto(reply).ByteSize()
        self.messages += 1
        return reply


def secure(devices: int, numbers: int) -> dict[str, float]:
    """One secure sum over devices without records, each with a ledger on the disk."""
    plan = calibrated(devices, math.ceil(0.9 * devices))
    (part,) = plan.parts()
    FLOWER_LOGGER.setLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder, identity():

        def open_device(context: Context, state: Any) -> Device:
            path, budget = Path(folder) / f"{context.node_id}", {"epsilon": 2 * EPSILON, "delta": 2 * DELTA}
            ledger = Ledger(path, plan.unit, **budget, composition=SUM)
            return Device(None, ledger, plan, {"sum": Same(numbers)}, state=state)

        grid = Metered(client_app(open_device), devices)
        asked = FlowerDevices(grid, SPEC, devices=devices, simulated=True)
        began = time.process_time()
        answer = asked.ask(Query(plans.plan_id(plan), part, 0, Same(numbers), {}, numbers))
        spent = time.process_time() - began
    noise = float(np.sqrt((answer.total.astype(float) ** 2).mean()) / 2.0**part.bits)
    return {
        "answered": answer.answered,
        "device": grid.seconds / devices,
        "server": spent - grid.seconds,
        "down": grid.down / devices,
        "up": grid.up / devices,
        "messages": grid.messages / devices,
        "noise": noise / (sigma() * math.sqrt(devices / part.floor)),
    }


def floors(level: str, share: float) -> dict[str, float]:
    """What a floor of a level's nodes bears, and what it costs."""
    size = LEVELS[level]
    floor = math.ceil(share * size)
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        one = min(lost(level, share, middle), 1 - 1e-12)
        low, high = (middle, high) if -math.expm1(DEVICES // size * math.log1p(-one)) <= RARELY else (low, middle)
    opened = _opened(level, share) if level == "cohort" else floor
    return {"floor": floor, "opened": opened, "dropped": low, "price": math.sqrt(DEVICES / floor)}


def _part(level: str, share: float, devices: int) -> DeviceSum:
    """A cohort's sum, whose devices add the share of noise of the level's floor."""
    cohort = LEVELS["cohort"]
    floor = math.ceil(share * min(LEVELS[level], devices))
    own = math.ceil(share * cohort)
    (part,) = Plan(devices=cohort, floor=own, noise_multiplier=sigma() * math.sqrt(own / floor)).parts()
    return part


def tree(level: str, share: float, dropout: float, devices: int) -> dict[str, float]:
    """One sum over the tree; who leaves is drawn by a public seed, the noise as on devices."""
    cohort, size = LEVELS["cohort"], min(LEVELS[level], devices)
    part, noise, rng = _part(level, share, devices), SecretNoise(), np.random.default_rng(0)
    floor, least = math.ceil(share * size), _opened(level, share)
    same = Same(NUMBERS)({"replicate": np.zeros(1)}, {})
    one = np.rint(answers(replace(part, noise_multiplier=0.0), same, noise)[0])
    counts = rng.binomial(cohort, 1 - dropout, devices // cohort)
    whole, spent = np.zeros((len(counts), NUMBERS), np.int64), {"device": 0.0, "cohort": 0.0, "root": 0.0}
    for first in range(0, len(counts), cohort):
        some = counts[first : first + cohort]
        cohorts = np.repeat(np.arange(first, first + len(some)), some)
        began = time.process_time()
        said = answers(part, np.repeat(same, len(cohorts), axis=0), noise)
        spoken = time.process_time()
        np.add.at(whole, cohorts, said)
        spent["device"] += spoken - began
        spent["cohort"] += time.process_time() - spoken
    apart = (whole - counts[:, None] * one) / np.sqrt(np.maximum(counts, 1) * part.variance)[:, None]
    began = time.process_time()
    kept = counts >= least  # others are not opened
    present = (counts * kept).reshape(devices // size, -1).sum(axis=1)
    enough = present >= floor
    total = (whole * kept[:, None]).reshape(devices // size, -1, NUMBERS).sum(axis=1)[enough].sum(axis=0)
    spent["root"] = time.process_time() - began
    answered = int(present[enough].sum())
    return {
        "answered": answered / devices,
        "lost": float(1 - enough.mean()),
        "noise": float(np.sqrt((apart**2).mean())),
        "error": float(np.abs(total - answered * one).max() / math.sqrt(max(1, answered) * part.variance)),
        "device": spent["device"] / int(counts.sum()),
        "cohort": spent["cohort"] / len(counts),
        "root": spent["root"],
    }


def _opened(level: str, share: float) -> int:
    """Fewest answers of a cohort that are opened: what its floor needs, or more than half where others add noise."""
    cohort = LEVELS["cohort"]
    return threshold(_part(level, share, DEVICES), cohort) if level == "cohort" else cohort // 2 + 1


def lost(level: str, share: float, dropout: float) -> float:
    """The share of a level's nodes that is lost, on paper."""
    size = LEVELS[level]
    needed = max(math.ceil(share * size), _opened(level, share) if level == "cohort" else 0)
    return float(stats.binom.cdf(needed - 1, size, 1 - dropout))


def flat(devices: int) -> dict[str, float]:
    """The largest floor of one secure sum that 32 bits hold, over all grids."""
    found = 0
    for bits in range(8, 25):
        floor = min(math.ceil(0.9 * devices), math.floor((sigma() * 2.0**bits / LEAST_SHARE) ** 2))
        try:
            Plan(devices=devices, floor=max(1, floor), bits=bits, noise_multiplier=sigma()).parts()
        except PlanError:
            continue
        found = max(found, floor)
    return {"share": found / devices, "price": math.sqrt(devices / found)}


def jobs(devices: int = DEVICES) -> Jobs:
    found: Jobs = {}
    for size, numbers in SECURE:
        plan = describe(Plan(devices=size, floor=math.ceil(0.9 * size)))
        settings = {"plan": plan, "numbers": numbers, "epsilon": EPSILON, "delta": DELTA}
        found[f"secure/devices={size}/numbers={numbers}"] = settings, functools.partial(secure, size, numbers)
    public = {"levels": dict(LEVELS), "epsilon": EPSILON, "delta": DELTA, "bits": BITS}
    for level in LEVELS:
        for share in SHARES:
            settings = {**public, "level": level, "share": share, "rarely": RARELY}
            found[f"floor/{level}/{share:g}"] = settings, functools.partial(floors, level, share)
        for share, dropout in TREES:
            settings = {**public, "level": level, "share": share, "dropout": dropout, "numbers": NUMBERS}
            job = functools.partial(tree, level, share, dropout, devices)
            found[f"tree/{level}/{share:g}/dropout={dropout:g}"] = settings, job
    for size in FLAT:
        settings = {"devices": size, "epsilon": EPSILON, "delta": DELTA}
        found[f"flat/devices={size}"] = settings, functools.partial(flat, size)
    return found


ROWS = Computed(__file__, jobs)
rows, configuration, store, run_row = ROWS.rows, ROWS.configuration, ROWS.store, ROWS.run_row


def figures() -> Figures:
    results = store()
    for key in rows():
        values = results.values(key)
        if key.startswith("tree"):
            yield at_least(f"{key}: noise of an answer over its share, at least", values["noise"], 0.99)
            yield at_most(f"{key}: at most", values["noise"], 1.01)
            _, level, share, dropout = key.split("/")
            apart = abs(values["lost"] - lost(level, float(share), float(dropout.removeprefix("dropout="))))
            yield at_most(f"{key}: share of lost nodes, from what is expected", apart, 0.02)
            yield at_most(f"{key}: error over the noise", values["error"], 5.0)
        if key.startswith("secure"):
            devices = int(key.split("/")[1].removeprefix("devices="))
            yield at_most(f"{key}: answers that are missing", 1 - values["answered"] / devices, 0.0)


def secure_table(results: Store) -> str:
    lines = []
    for devices, numbers in SECURE:
        values = results.values(f"secure/devices={devices}/numbers={numbers}")
        spent = [f"{values['device']:.2f} s", f"{values['server']:.2f} s"]
        sent = [f"{values['down'] / 1e3:.1f} kB", f"{values['up'] / 1e3:.1f} kB"]
        lines.append([f"{devices} devices", f"{numbers:,}", *spent, *sent])
    return markdown(("numbers", "CPU of a device", "CPU of its server", "to a device", "from it"), lines)


def floor_table(results: Store) -> str:
    lines = []
    for level in LEVELS:
        for share in SHARES:
            values = results.values(f"floor/{level}/{share:g}")
            words = [f"{values['floor']:,.0f}", f"{values['opened']:,.0f}", f"{100 * values['dropped']:.1f} %"]
            lines.append([f"private from the {level}, {LEVELS[level]:,} devices", *words, f"{values['price']:.2f}"])
    return markdown(("floor", "answers needed", "may drop out", "noise, over a server's"), lines)


def tree_table(results: Store) -> str:
    lines = []
    for level in LEVELS:
        for share, dropout in TREES:
            values = results.values(f"tree/{level}/{share:g}/dropout={dropout:g}")
            shown = [f"{100 * values['answered']:.1f} %", f"{100 * values['lost']:.1f} %", f"{values['noise']:.4f}"]
            shown += [f"{1e3 * values['root']:.0f} ms"]
            lines.append([f"private from the {level}", f"{share:g}", f"{100 * dropout:g} %", *shown])
    heads = ("floor", "drop out", "in the sum", "nodes lost", "noise, over paper", "CPU of the root")
    return markdown(heads, lines)


def flat_table(results: Store) -> str:
    lines = []
    for size in FLAT:
        values = results.values(f"flat/devices={size}")
        lines.append([f"{size:,} devices", f"{100 * values['share']:.1f} %", f"{values['price']:.2f}"])
    return markdown(("largest floor", "noise, over a server's"), lines)


if __name__ == "__main__":
    command_line(__file__)
