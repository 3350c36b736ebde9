"""Detectors for sums over devices, as those of `detectors.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from device_cases import DELTA, PARTS, PEOPLE, PUBLIC, UNIT, Coupled, OnePlan, Remembering, ledger, people, priced
from scipy import stats

from tacit.errors import LedgerError, MechanismError
from tacit.privacy.mechanisms.device_sums import LaplaceSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import Answer, Device, Query, StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault

RARE = 1e-7  # p-values below this are no accident
WIDE = 2_000


@dataclasses.dataclass(frozen=True)
class Constant(Remembering):
    """The same number many times, no matter who is asked."""

    value: float = 0.0
    width: int = WIDE

    def __call__(
        self, own: dict[str, npt.NDArray[Any]], public: Mapping[str, npt.NDArray[Any]], seeds: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[Any]]]:
        return np.full((len(seeds), self.width), self.value), own


def _vault(folder: Path, name: str, count: int = PEOPLE) -> FederatedVault:
    return FederatedVault(StackedDevices(people(count), chunk=5), ledger(folder, name))


def _plan(kind: str, noise_multiplier: float, width: int) -> OnePlan:
    part: Any = PARTS[kind]
    if isinstance(part, LaplaceSum):
        part = dataclasses.replace(part, size=width)
    return plans.account(OnePlan(part=part, noise_multiplier=noise_multiplier), unit=UNIT, delta=DELTA)


def noise_of_devices(folder: Path) -> None:
    """What people who answer zero add up to is noise of the declared law, another one in every step."""
    for kind, sigma in (("server", 4.0), ("shared", 4.0), ("device", 4.0), ("laplace", 400.0)):
        vault = _vault(folder, f"noise-{kind}")
        run = vault.reserve(_plan(kind, sigma, WIDE))
        drawn = np.stack([vault.noisy_sum(run, "sum", Constant(), PUBLIC)[0] for _ in range(2)]) * PEOPLE
        scale = sigma * np.sqrt(PEOPLE if kind == "device" else 1)
        law = stats.laplace(scale=sigma) if kind == "laplace" else stats.norm(scale=scale)
        p = stats.kstest(drawn.ravel(), law.cdf, method="asymp").pvalue
        assert p > RARE, f"noise by {kind} does not follow its law: p {p:.1e}"
        assert not np.array_equal(*drawn), f"noise by {kind} comes again"


def one_device_more(folder: Path) -> None:
    """Somebody with enormous answers moves a sum by at most one clip, or each number by the bound."""
    for kind in PARTS:
        sums = []
        for count in (PEOPLE, PEOPLE - 1):
            vault = _vault(folder, f"more-{kind}-{count}", count)
            run = vault.reserve(_plan(kind, 0.0, 40))
            sums.append(vault.noisy_sum(run, "sum", Constant(value=1e6, width=40), PUBLIC)[0] * PEOPLE)
        moved = np.abs(np.subtract(*sums))
        most = moved.max() if kind == "laplace" else np.linalg.norm(moved)
        assert most <= 1.0 + 1e-9, f"one person moved the sum by {most:.3g} clips"


class _Missing:
    """Devices of which one did not answer."""

    def __init__(self) -> None:
        self._devices = StackedDevices(people())
        self.spec, self.simulated, self.assumptions = self._devices.spec, True, ()

    def enter(self, population: int) -> object:
        return self._devices.enter(population)

    def ask(self, query: Query) -> Answer:
        answer = self._devices.ask(query)
        return Answer(answer.total, answer.answered - 1)


def fewer_answers_than_shares(folder: Path) -> None:
    """Of fewer answers than the noise was shared among, nothing is released, and the step stays charged."""
    vault = FederatedVault(_Missing(), ledger(folder))
    run = vault.reserve(priced("shared", 4.0))
    try:
        vault.noisy_sum(run, "sum", Remembering(), PUBLIC)
    except MechanismError:
        assert vault.steps_left(run, "sum") == 3, "an aborted step was not charged"
    else:
        raise AssertionError("a sum with too little noise was released")


def queries_repeated(folder: Path) -> None:
    """A device answers a step once, in this process and in the next."""
    state: dict[str, npt.NDArray[Any]] = {}
    for _ in range(2):
        one = Device(people(1), ledger(folder), priced("device", 4.0), {"sum": Remembering()}, state=state)
        for again in range(2):
            try:
                one.answer(one.plan_id, "sum", 0, PUBLIC, 3)
            except LedgerError:
                continue
            assert again == 0, "a step was answered twice"
            assert not state, "a step was answered again by the next process"
        state = one.state()
        one.ledger.close()
    away = Device(people(1), ledger(folder, "away"), priced("device", 4.0), {"sum": Remembering()})
    away.answer(away.plan_id, "sum", 3, PUBLIC, 3)
    try:
        away.answer(away.plan_id, "sum", 3, PUBLIC, 3)
    except LedgerError:
        return
    raise AssertionError("a device that was away answers a step twice")


def devices_apart(folder: Path) -> None:
    """A work in which one person's answer depends on another's records is refused."""
    vault = _vault(folder, "apart")
    run = vault.reserve(priced("server", 4.0))
    try:
        vault.noisy_sum(run, "sum", Coupled(), PUBLIC)
    except MechanismError:
        return
    raise AssertionError("people's answers may depend on each other")


@dataclasses.dataclass(frozen=True)
class Coined(Remembering):
    """A coordinate of her own, which her mean reward says, with a sign that her seed throws in every step."""

    width: int = 17

    def __call__(
        self, own: dict[str, npt.NDArray[Any]], public: Mapping[str, npt.NDArray[Any]], seeds: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[Any]]]:
        place = np.rint(16 * own["mean"]).astype(int)
        return np.eye(self.width)[place] * np.where(seeds % 2, 1.0, -1.0)[:, None], own


def seeds_of_devices(folder: Path) -> None:
    """With secret coins that are fixed, a person who leaves moves nobody else's: the sums move by one answer."""
    sums = []
    for name, first in (("whole", 0), ("gone", 1)):
        (folder / name).mkdir()
        devices = StackedDevices(people(PEOPLE - first, first=first), chunk=5, noise=SecretNoise.for_tests(3))
        vault = FederatedVault(devices, ledger(folder / name, "ledger"))
        run = vault.reserve(_plan("server", 0.0, Coined().width))
        sums.append([vault.noisy_sum(run, "sum", Coined(), PUBLIC)[0] * PEOPLE for _ in range(3)])
    moved = np.linalg.norm(np.subtract(*sums), axis=1)
    assert (moved <= 1 + 2**-7).all(), f"one person moved a sum by {moved.max():.3g} clips"
    assert len({total.tobytes() for total in map(np.sign, sums[0])}) > 1, "seeds come again"


FEDERATED_DETECTORS = (
    noise_of_devices,
    one_device_more,
    fewer_answers_than_shares,
    queries_repeated,
    devices_apart,
    seeds_of_devices,
)
