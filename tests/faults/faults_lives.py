"""Small runs that are interrupted again and again: a *life* goes on from wherever the last one ended, to the end."""

from __future__ import annotations

import atexit
import functools
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from tests.faults.faults_audit import Say, step

from tacit import hub
from tacit.data import Box, Discrete, PublicSpec, Trajectories
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid
from tacit.envs.serving import SimulatedUsers
from tacit.errors import BudgetExceeded
from tacit.methods import policy_gradient, synthesis
from tacit.methods.mobility import pategail
from tacit.privacy.ledger.ledger import SUM, Composition, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.mechanisms.device_sums import DeviceSum, zeros
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import Answer, Device, Query, StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.plan import PrivatePlan
from tacit.privacy.vault.user_vault import UserVault
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.river_swim import RiverSwim
from tacit_worlds.river_swim import spec as river

UNIT, DELTA = Unit("person", "add_or_remove", 100), 1e-3
SPEC = PublicSpec(Box((-4.0,), (4.0,)), Discrete(2), Box((-10.0,), (10.0,)), "declared", difference=(0.5,))
MOST = 2
"""How often one person may contribute in the life `register`."""


@dataclass(frozen=True)
class Life:
    """One kind of run.

    Args:
        run: (folder, what to tell the observer with) -> goes on to the end, or raises a TacitError.
        ledgers: their names in the folder.
        most: how often one person may contribute to one plan.
        checkpoint, register: their names in the folder, if there are any.
        claimed: how many steps are claimed in its ledgers when it begins.
        begin: makes the folder of a new run.
        settings: plans and sizes, for configurations.
    """

    run: Callable[[Path, Say], None]
    settings: Mapping[str, Any]
    ledgers: tuple[str, ...] = ("ledger",)
    most: int = 1
    checkpoint: str | None = None
    register: str | None = None
    claimed: int = 0
    begin: Callable[[Path], object] = lambda folder: None


# -- the ledger and the register by themselves --------------------------------------------------------------------


PARTS, CLAIMED = {"denoiser": 40, "histogram": 3}, 3
BUDGET: Mapping[str, Any] = {"epsilon": 0.5, "ceiling": 1.0, "delta": 4e-5, "composition": Composition(0.5)}
PLANS: Sequence[Mapping[str, Any]] = (
    {"epsilon": 0.2, "delta": 5e-6, "mu": 0.06},
    {"epsilon": 0.125, "delta": 5e-6},
)
"""What plans of the life `ledger` spend in turn: Gaussian ones on one of two folds, and others on everybody."""
RAISED = 0.25
"""By how much the budget is raised when a plan does not fit, up to the ceiling."""
VISITS, VISITORS = 300, (4, 24)
"""How often people come in the life `register`, and how many of how many."""


def _ledger(folder: Path, say: Say) -> None:
    """Plans are reserved until the budget is spent, and raised as far as it may be; claimed steps are released."""
    with Ledger(folder / "ledger", UNIT, **BUDGET) as ledger:
        for number in itertools.count():
            plan, price = f"plan{number}", PLANS[number % len(PLANS)]
            parts = [
                {"name": name, "kind": "poisson_sum", "sampling_rate": 1, "fold": number // len(PLANS) % 2}
                for name in (PARTS if "mu" in price else ())
            ]
            while True:
                try:
                    ledger.reserve(plan, {"method": "faults", "parts": parts}, parts=PARTS, **price)
                    break
                except BudgetExceeded:
                    if ledger.epsilon == ledger.ceiling:
                        return
                    ledger.raise_budget(ledger.epsilon + RAISED)
            for part, steps in PARTS.items():
                while ledger.claimed(plan, part) < steps:
                    for one in ledger.claim(plan, part, CLAIMED):
                        say(step(ledger.path, plan, part, one))


def _register(folder: Path, say: Say) -> None:
    """The same people come again and again, and new ones all the time."""
    draw = random.Random()
    with _open_register(folder) as register:
        count, among = VISITORS
        for number in range(VISITS):
            people = [f"person-{one}" for one in draw.sample(range(number, number + among), count)]
            granted = register.reserve("plan", people, MOST)
            for person, yes in zip(people, granted, strict=True):
                if yes:
                    say(f"person plan {person}")
            register.commit()


def _apart(folder: Path) -> None:
    """A place for a register, and one for its key."""
    for name in ("vault", "keys"):
        (folder / name).mkdir()


def _open_register(folder: Path) -> Register:
    return Register(folder / "vault" / "register", key=folder / "keys" / "key")


# -- training -----------------------------------------------------------------------------------------------------


SYNTHESIS = synthesis.TransitionsPlan(steps=200, sampling_rate=0.2, width=8, depth=1, warmup=1, learning_rate=1e-3)
SYNTHESIS_EPSILON = 1.0
PEOPLE = 30


@functools.cache
def synthesis_plan(steps: int = SYNTHESIS.steps, epsilon: float = SYNTHESIS_EPSILON) -> synthesis.TransitionsPlan:
    """A tiny synthesis, calibrated once a process."""
    return replace(SYNTHESIS, steps=steps).calibrate(unit=UNIT, epsilon=epsilon, delta=DELTA)


@functools.cache
def _columns() -> Mapping[str, Any]:
    rng = np.random.default_rng(5)
    observations = rng.uniform(-3, 3, (90, 1))
    return {
        "observations": observations,
        "actions": rng.integers(0, 2, 90),
        "rewards": rng.uniform(-9, 9, 90),
        "next_observations": observations + 0.1,
        "terminations": np.zeros(90, bool),
    }


def records(first: int = 0, people: int = PEOPLE) -> Trajectories:
    """The rows of some of thirty people, three each; the same every time."""
    ids, rows = np.repeat(np.arange(first, first + people), 3), slice(3 * first, 3 * (first + people))
    columns: dict[str, Any] = {name: column[rows] for name, column in _columns().items()}
    return Trajectories.from_arrays(**columns, unit_ids=ids, episode_ids=ids, spec=SPEC)


def _training(folder: Path, say: Say) -> None:
    """A synthesis with checkpoints."""
    with Ledger(folder / "ledger", UNIT, epsilon=2.0, delta=2 * DELTA, composition=SUM) as ledger:
        release = synthesis.fit(synthesis_plan(), Vault(records(), ledger), folder=folder / "checkpoint", resume=True)
        release.certificate.verify()


# -- sampling -----------------------------------------------------------------------------------------------------


FILES, DRAWN, MODEL_STEPS = 8, 300, 20


@functools.cache
def _model() -> Path:
    """A released model with its certificate and spent ledger, made once a process."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-model-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with Ledger(folder / "ledger", UNIT, epsilon=2.0, delta=2 * DELTA, composition=SUM) as ledger:
        hub.save(synthesis.fit(synthesis_plan(MODEL_STEPS), Vault(records(), ledger)), folder / "model")
    return folder


def _sampling(folder: Path, say: Say) -> None:
    """A released model is read, sampled and saved; what is there already is checked and left as it is."""
    release = hub.load(folder / "model")
    release.certificate.verify()
    for seed in range(FILES):
        rows, copy = folder / f"rows-{seed}", folder / f"model-{seed}"
        drawn = release.value.sample(DRAWN, seed=seed)
        if rows.exists():
            kept = Trajectories.open(rows).columns["rewards"]
            same = np.array_equal(kept, drawn.columns["rewards"])  # post-processing: the same every time
            assert same, "rows under a final name are not whole"
        else:
            drawn.save(rows)
        if copy.exists():
            hub.load(copy).certificate.verify()
        else:
            hub.save(release, copy)


# -- people and devices -------------------------------------------------------------------------------------------


ONLINE = policy_gradient.PolicyGradientPlan(rounds=60, users=6, horizon=6, critic="none", noise_multiplier=30.0)
ONLINE_UNIT, ONLINE_DELTA = Unit("person", "add_or_remove", 1_000), 1e-4
RETURNING = 600
"""From how many people those who come are drawn."""


class _Returning(SimulatedUsers):
    """People, many of them known from before."""

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        return [[f"person-{one}" for one in random.Random().sample(range(RETURNING), count)]]


@functools.cache
def _policy_plan() -> policy_gradient.PolicyGradientPlan:
    return ONLINE.account(unit=ONLINE_UNIT, delta=ONLINE_DELTA)


def _people(folder: Path, say: Say) -> None:
    """A policy is learnt from people who are met online."""
    plan, users = _policy_plan(), _Returning(RiverSwim(), river(), horizon=ONLINE.horizon, seed=5)
    register = _open_register(folder)
    with (
        register,
        Ledger(folder / "vault" / "ledger", plan.unit, epsilon=50.0, delta=5e-4, composition=SUM) as ledger,
    ):
        vault = UserVault(users, ledger, register)
        policy_gradient.fit(plan, vault, folder=folder / "checkpoint", resume=True)


@dataclass(frozen=True)
class MeanReward:
    """What a device answers: the mean of its person's rewards, eight times (one number alone could agree by chance)."""

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Any) -> NDArray[np.float64]:
        count = np.maximum(rows["mask"].sum(axis=1), 1)
        return np.asarray((rows["rewards"] * rows["mask"]).sum(axis=1) / count / 30)[:, None].repeat(8, axis=1)


PHONES = 3


@dataclass(frozen=True, kw_only=True)
class SumPlan(PrivatePlan):
    """Sixty sums over three devices."""

    method: ClassVar[str] = "sums over devices"
    source: ClassVar[str] = "tests.faults.faults"
    noise_multiplier: float = 20.0

    def parts(self) -> tuple[DeviceSum, ...]:
        own = DeviceSum(
            name="sum",
            steps=60,
            devices=UNIT.size,
            clip_norm=1.0,
            noise="device",
            noise_multiplier=self.noise_multiplier,
            rows_per_unit=3,
        )
        return (own,)


@functools.cache
def _sum_plan() -> SumPlan:
    return plans.account(SumPlan(), unit=UNIT, delta=DELTA)


class _Phones:
    """Three devices in one process, each with its own ledger."""

    spec, simulated, assumptions = SPEC, False, ()

    def __init__(self, folder: Path) -> None:
        self._phones, plan = list[Device](), _sum_plan()
        for number in range(PHONES):
            ledger = Ledger(folder / f"phone{number}", UNIT, epsilon=5.0, delta=2 * DELTA, composition=SUM)
            self._phones.append(Device(records(number, 1), ledger, plan, {"sum": MeanReward()}))

    def enter(self, population: int) -> object:
        return self

    def ask(self, query: Query) -> Answer:
        total = zeros(query.part, query.size)
        for phone in self._phones:
            total = total + phone.answer(query.plan_id, query.part.name, query.step, query.public, query.size)
        return Answer(total, len(self._phones))


def _devices(folder: Path, say: Say) -> None:
    """Every sum takes a step from the server's ledger and one from each device's own."""
    with Ledger(folder / "ledger", UNIT, epsilon=5.0, delta=2 * DELTA, composition=SUM) as ledger:
        vault = FederatedVault(_Phones(folder), ledger)
        run = vault.reserve(_sum_plan())
        while vault.steps_left(run, "sum"):
            vault.noisy_sum(run, "sum", MeanReward())


GRID, TWELVE = RegularGrid(30.0, 100.0, 30.45, 100.45, 0.05), Unit("person", "add_or_remove", 12)
IMITATION, IMITATION_EPSILON = (
    pategail.PateGailPlan(
        people=12,
        rounds=6,
        days=5,
        updates=1,
        critic=pategail.Critic(hidden=(4,), steps=1, batch=8),
        ppo=pategail.Ppo(hidden=(4,), epochs=1, value_steps=1),
        rows_per_unit=2 * 47,
    ),
    5.0,
)


@functools.cache
def _pategail_plan() -> pategail.PateGailPlan:
    return IMITATION.calibrate(unit=TWELVE, epsilon=IMITATION_EPSILON, delta=DELTA)


def _imitation(folder: Path, say: Say) -> None:
    """PateGAIL++ on twelve people's devices."""
    cells = np.repeat(np.random.default_rng(0).integers(0, GRID.size, (24, SLOTS // 8)), 8, axis=1)
    data = Days(cells, np.repeat(np.arange(12), 2), GRID).trajectories(simulated=True)
    with Ledger(folder / "ledger", TWELVE, epsilon=IMITATION_EPSILON, delta=DELTA, composition=SUM) as ledger:
        vault = FederatedVault(StackedDevices(data), ledger)
        pategail.fit(_pategail_plan(), vault, grid=GRID, folder=folder / "checkpoint", resume=True)


CHECKPOINT = "checkpoint/checkpoint.safetensors"
TRAINED = {"plan": SYNTHESIS, "people": PEOPLE, "epsilon": SYNTHESIS_EPSILON, "delta": DELTA, "unit": UNIT}
SAMPLED = TRAINED | {"plan": replace(SYNTHESIS, steps=MODEL_STEPS), "files": FILES, "rows": DRAWN}
LIVES: Mapping[str, Life] = {
    "ledger": Life(
        _ledger,
        {"parts": PARTS, "claimed": CLAIMED, "budget": BUDGET, "plans": PLANS, "raised": RAISED, "unit": UNIT},
    ),
    "register": Life(
        _register,
        {"visits": VISITS, "visitors": VISITORS},
        ledgers=(),
        most=MOST,
        register="vault/register",
        begin=_apart,
    ),
    "training": Life(_training, TRAINED, checkpoint=CHECKPOINT),
    "sampling": Life(
        _sampling,
        SAMPLED,
        claimed=MODEL_STEPS,
        begin=lambda folder: shutil.copytree(_model(), folder, dirs_exist_ok=True),
    ),
    "people": Life(
        _people,
        {"plan": ONLINE, "unit": ONLINE_UNIT, "delta": ONLINE_DELTA, "returning": RETURNING},
        ledgers=("vault/ledger",),
        checkpoint=CHECKPOINT,
        register="vault/register",
        begin=_apart,
    ),
    "devices": Life(
        _devices,
        {"plan": SumPlan(), "parts": SumPlan().parts(), "unit": UNIT, "delta": DELTA},
        ledgers=("ledger", *(f"phone{number}" for number in range(PHONES))),
    ),
    "imitation": Life(
        _imitation,
        {"plan": IMITATION, "unit": TWELVE, "epsilon": IMITATION_EPSILON, "delta": DELTA, "grid": GRID},
        checkpoint=CHECKPOINT,
    ),
}
