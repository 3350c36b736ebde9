"""A tiny federation: people with a few rows each, a work with memory, and plans for every kind of noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacit.data import Box, Discrete, PublicSpec, Trajectories
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.device_sums import DeviceSum, FederatedSum, LaplaceSum
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.plan import PrivatePlan
from tacit.units import Unit

PEOPLE = 12
SPEC = PublicSpec(Box((-4.0,), (4.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared")
UNIT = Unit("person", "add_or_remove", PEOPLE)
DELTA = 1e-3


@dataclass(frozen=True)
class Remembering:
    """Answers (mean of her rewards times the public numbers, how often she was asked), in steps of 1/8."""

    def begin(self, rows: Mapping[str, npt.NDArray[Any]], seeds: npt.NDArray[np.uint64]) -> dict[str, npt.NDArray[Any]]:
        count = np.maximum(rows["mask"].sum(axis=1), 1)
        return {"mean": (rows["rewards"] * rows["mask"]).sum(axis=1) / count, "asked": np.zeros(len(count))}

    def __call__(
        self, own: dict[str, npt.NDArray[Any]], public: Mapping[str, npt.NDArray[Any]], seeds: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[Any]]]:
        asked = own["asked"] + 1
        answer = np.concatenate([np.outer(own["mean"], public["weights"]), asked[:, None] / 8], axis=1)
        return answer, {**own, "asked": asked}


@dataclass(frozen=True)
class Coupled(Remembering):
    """Answers with the mean over everybody: refused."""

    def __call__(
        self, own: dict[str, npt.NDArray[Any]], public: Mapping[str, npt.NDArray[Any]], seeds: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[Any]]]:
        answer, own = super().__call__(own, public, seeds)
        return answer - answer.mean(axis=0), own


@dataclass(frozen=True, kw_only=True)
class OnePlan(PrivatePlan):
    """One sum in the plan, of any kind."""

    method: ClassVar[str] = "test"
    source: ClassVar[str] = "this test"
    part: FederatedSum
    noise_multiplier: float | None = None

    def parts(self) -> tuple[FederatedSum, ...]:
        if self.noise_multiplier is None:
            return (self.part,)
        return (replace(self.part, noise_multiplier=self.noise_multiplier),)


PUBLIC = {"weights": np.array([0.5, -0.25])}
PARTS: dict[str, FederatedSum] = {
    "server": PoissonSum(name="sum", steps=4, sampling_rate=1.0, clip_norm=1.0, rows_per_unit=6, rows="first"),
    "shared": DeviceSum(
        name="sum", steps=4, devices=PEOPLE, clip_norm=1.0, noise="shared", floor=PEOPLE, rows_per_unit=6
    ),
    "device": DeviceSum(name="sum", steps=4, devices=PEOPLE, clip_norm=1.0, noise="device", rows_per_unit=6),
    "laplace": LaplaceSum(name="sum", steps=4, size=3, bound=1.0, rows_per_unit=6),
}


def people(count: int = PEOPLE, *, first: int = 0, simulated: bool = True) -> Trajectories:
    """`count` people with 1 to 6 rows each, the same every time; from person number `first`."""
    rng = np.random.default_rng(7)
    rewards = rng.integers(0, 9, (PEOPLE, 6)) / 8
    rows = [(u, t) for u in range(first, first + count) for t in range(1 + u % 6)]
    unit, time = (np.array(axis) for axis in zip(*rows, strict=True))
    seen = rng.uniform(-2, 2, (len(rows), 1))
    last = np.append(unit[1:] != unit[:-1], True)
    return Trajectories.from_arrays(
        observations=seen,
        actions=np.zeros(len(rows), np.int64),
        rewards=rewards[unit, time],
        next_observations=seen,
        terminations=np.zeros(len(rows), bool),
        truncations=last,
        unit_ids=unit,
        spec=SPEC,
        simulated=simulated,
    )


def exact(step: int, count: int = PEOPLE) -> npt.NDArray[np.float64]:
    """What the mean of all answers is without noise, at a step from 0."""
    rng = np.random.default_rng(7)
    rewards = rng.integers(0, 9, (PEOPLE, 6)) / 8
    means = np.array([rewards[u, : 1 + u % 6].mean() for u in range(count)])
    return np.append(PUBLIC["weights"] * means.sum(), count * (step + 1) / 8) / PEOPLE


def ledger(folder: Path, name: str = "ledger", epsilon: float = 1000.0) -> Ledger:
    return Ledger(folder / name, UNIT, epsilon=epsilon, delta=50 * DELTA, composition=SUM)


def priced(kind: str, noise_multiplier: float) -> OnePlan:
    plan = OnePlan(part=PARTS[kind], noise_multiplier=noise_multiplier)
    return plans.account(plan, unit=UNIT, delta=DELTA)
