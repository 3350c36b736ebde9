"""Golden runs of sums over people's devices: noise of the server, shared, of each device, and Laplace's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.golden import runs
from tests.golden.runs import Numbers, Run

from tacit import Box, Discrete, Ledger, PublicSpec, Trajectories, Unit
from tacit.privacy.ledger.ledger import SUM
from tacit.privacy.mechanisms.device_sums import DeviceSum, LaplaceSum
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.plan import PrivatePlan, account, calibrate

AREA = "federated"
PEOPLE, STEPS = 20, 3
SPEC = PublicSpec(Box((-4.0,), (4.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared")
UNIT = Unit("person", "add_or_remove", PEOPLE)
PUBLIC = {"weights": np.array([0.5, -0.25])}
Own = dict[str, np.ndarray]


@dataclass(frozen=True)
class Remembering:
    """Answers (mean of a person's rewards times the public numbers, a random number, how often it was asked)."""

    def begin(self, rows: Mapping[str, np.ndarray], seeds: np.ndarray) -> Own:
        count = np.maximum(rows["mask"].sum(axis=1), 1)
        mean = (rows["rewards"] * rows["mask"]).sum(axis=1) / count
        return {"mean": mean, "lot": (seeds % 100) / 200, "asked": np.zeros(len(count))}

    def __call__(self, own: Own, public: Mapping[str, np.ndarray], seeds: np.ndarray) -> tuple[np.ndarray, Own]:
        asked = own["asked"] + 1
        answer = np.concatenate(
            [np.outer(own["mean"], public["weights"]), own["lot"][:, None], asked[:, None] / 8], axis=1
        )
        return answer, {**own, "asked": asked}


@dataclass(frozen=True, kw_only=True)
class OneSum(PrivatePlan):
    """A plan with one sum."""

    method: ClassVar[str] = "golden run"
    source: ClassVar[str] = "this test"
    part: Any
    noise_multiplier: float | None = None

    def parts(self) -> tuple[Any, ...]:
        return (replace(self.part, noise_multiplier=self.noise_multiplier),)


def people() -> Trajectories:
    """One to six rows each; the last two people have none."""
    rng = np.random.default_rng(7)
    unit = np.array([u for u in range(PEOPLE - 2) for _ in range(1 + u % 6)])
    seen = rng.uniform(-2, 2, (len(unit), 1))
    return Trajectories.from_arrays(
        observations=seen,
        actions=np.zeros(len(unit), np.int64),
        rewards=rng.random(len(unit)),
        next_observations=seen,
        terminations=np.append(unit[1:] != unit[:-1], True),
        unit_ids=unit,
        spec=SPEC,
        simulated=True,
    )


def summed(part: Any, *, noise_multiplier: float | None = None) -> Run:
    def make(folder: Path) -> Numbers:
        plan = OneSum(part=part, noise_multiplier=noise_multiplier)
        if noise_multiplier is None:
            plan = calibrate(plan, unit=UNIT, epsilon=5.0, delta=1e-3)
        else:
            plan = account(plan, unit=UNIT, delta=1e-3)
        devices = StackedDevices(people(), chunk=7, noise=SecretNoise.for_tests(3))
        with Ledger(folder / "run.ledger", UNIT, epsilon=1e6, delta=0.02, composition=SUM) as ledger:
            vault = FederatedVault(devices, ledger, noise=SecretNoise.for_tests(2))
            run = vault.reserve(plan)
            means = [vault.noisy_sum(run, "sum", Remembering(), PUBLIC)[0].tolist() for _ in range(STEPS)]
        found: dict[str, Any] = {f"mean {step}": mean for step, mean in enumerate(means)}
        return {"noise_multiplier": plan.noise_multiplier, "epsilon": plan.epsilon} | found

    return Run(make, lambda: (part,))


COMMON: dict[str, Any] = {"name": "sum", "steps": STEPS, "clip_norm": 0.6}
RUNS = {
    "noise of the server": summed(PoissonSum(**COMMON, sampling_rate=1.0, rows="first", rows_per_unit=4)),
    "shared noise": summed(DeviceSum(**COMMON, devices=PEOPLE, noise="shared", floor=18, rows_per_unit=4)),
    "noise of each device": summed(DeviceSum(**COMMON, devices=PEOPLE, noise="device", rows_per_unit=4)),
    "Laplace noise": summed(
        LaplaceSum(name="sum", steps=STEPS, size=4, bound=0.5, rows_per_unit=4), noise_multiplier=2.0
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_stored_numbers(name: str, tmp_path: Path) -> None:
    runs.check_numbers(AREA, name, RUNS[name], tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_default_parameters_are_the_stored_ones(name: str) -> None:
    runs.check_parameters(AREA, name, RUNS[name])


def test_every_stored_run_is_run() -> None:
    assert list(runs.stored(AREA)) == list(RUNS)


if __name__ == "__main__":
    runs.write(AREA, RUNS, sys.argv[1:])
