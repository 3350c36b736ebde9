"""Where `improvement` runs: the clinics, clicks, purchases, a shop's stock, CartPole, HIV."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.beyond import improvement_logs as logs
from tacit.agents.policies import PolicyActor
from tacit.data.memory import Memory
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import Array, Domain, FloatArray, MemoryDomain, collect
from tacit.envs.serving import returns
from tacit.methods.improvement import Problem
from tacit_worlds import clinic, clinic_model, populations
from tacit_worlds.clinic import Clinic

EPISODES = 2_000  # fresh episodes on which a policy is judged
COURSE = Memory((0.7, 0.0, 0.0, 0.7, 1.0, 1.0))
"""Of the clinic: exponential means of symptoms and side effects, means of both markers."""


@dataclass(frozen=True)
class World:
    """People, what is known of them, and how a policy is judged."""

    collect: Callable[[int, int], Mapping[str, Any]]  # (people, seed) -> columns of `Trajectories.from_arrays`
    domain: Domain | None  # the simulator
    spec: PublicSpec  # public bounds
    problem: Problem  # of the plan
    settings: Mapping[str, Any]  # of the plan beside the problem: memory and columns
    horizon: int  # steps of an episode on which a policy is judged
    shown: Callable[[FloatArray], FloatArray] = np.asarray  # returns -> what is reported
    judge: Callable[[PolicyActor], float] | None = None  # what is reported of a policy, where that is known exactly

    def data(self, people: int, seed: int) -> Trajectories:
        return Trajectories.from_arrays(**self.collect(people, seed), spec=self.spec, simulated=True)

    def score(self, actor: PolicyActor, memory: Memory, seed: int) -> float:
        """Mean reported return of a policy of memories on fresh people."""
        if self.judge is not None:
            return self.judge(actor)
        generator = np.random.default_rng((seed, 1))
        domain = MemoryDomain(self.domain, memory)
        paid = returns(domain, actor, 1, EPISODES, horizon=self.horizon, generator=generator)
        return float(self.shown(paid).mean())


# The clinic, and clinics with other constants.


@dataclass(frozen=True)
class OtherClinic:
    """A clinic whose chances of falls, rises and side effects differ by factors that the seed draws."""

    seed: int  # of the factors; of the habits of its doctors as well

    @cached_property
    def tables(self) -> tuple[FloatArray, FloatArray]:
        """Chances that severity and burden fall or stay, cumulated, as in `tacit_worlds.clinic`."""
        generator = np.random.default_rng(self.seed)
        severity, burden = clinic_model.SEVERITY.copy(), clinic_model.BURDEN.copy()
        for table in (severity, burden):
            shape = (1,) * (table.ndim - 2) + (clinic_model.ACTIONS, 3)
            table *= np.exp(generator.uniform(-0.25, 0.25, shape))
            table /= table.sum(axis=-1, keepdims=True)
        return severity[..., :2].cumsum(axis=-1), burden[..., :2].cumsum(axis=-1)

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        return Clinic().starts(units, generator)

    def step(
        self, state: Array, action: Array, generator: np.random.Generator
    ) -> tuple[Array, FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        columns = (clinic.KIND, clinic.FLAG, clinic.WEIGHT, clinic.SIDE)
        kind, flag, severity, burden = (state[:, i].astype(np.int64) for i in columns)
        chance, treatment = generator.random((len(state), 6)), np.asarray(action, np.int64)
        below, heavier = self.tables
        moved = (chance[:, :1] >= below[kind, flag, severity, burden, treatment]).sum(axis=1)
        severity = np.clip(severity - 1 + moved, 0, clinic_model.CRISIS)
        moved = (chance[:, 1:2] >= heavier[flag, treatment]).sum(axis=1)
        burden = np.clip(burden - 1 + moved, 0, clinic_model.PATIENTS[3] - 1)
        after = state.copy()
        after[:, clinic.WEIGHT], after[:, clinic.SIDE] = severity, burden
        after[:, clinic.VISIT] += 1.0
        after[:, clinic.READINGS] = clinic_model.readings(kind, severity, burden, chance[:, 2:])
        ended = (severity == 0) | (severity == clinic_model.CRISIS)
        return after, clinic_model.REWARDS[severity, burden, treatment], ended

    def observe(self, state: Array) -> Array:
        return Clinic().observe(state)

    def collect(self, patients: int, seed: int) -> Mapping[str, Array]:
        """One course of each of so many patients, who have one of eight doctors each."""
        staff = clinic.doctors(seed=self.seed)
        parts = []
        for doctor, share in enumerate(np.array_split(np.arange(patients), staff.count)):
            policy = clinic.unstack_policies(staff.take(slice(doctor, doctor + 1)))[0]
            columns = collect(self, policy, len(share), seed=1_000 * seed + doctor, horizon=clinic.HORIZON)
            for name in ("unit_ids", "episode_ids"):
                columns[name] = columns[name] + share[0]
            parts.append(columns)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


_COLUMNS = {"memory": COURSE, "columns": (0, 1, 2, 3), "value_columns": (0, 3)}


def of_clinic(memory: Memory = COURSE, low: float = -9.0, high: float = 5.0) -> World:
    """The clinic: markers are constant, symptoms and side effects move; returns are in [-9, 5] nearly always."""
    problem = Problem(gamma=1.0, horizon=clinic.HORIZON, episodes_per_unit=4, return_range=(low, high))
    settings = {**_COLUMNS, "memory": memory}
    return World(
        lambda people, seed: clinic.collect(people, seed=seed),
        Clinic(),
        clinic.spec(),
        problem,
        settings,
        clinic.HORIZON,
        clinic.normalized_returns,
    )


def other_clinic(number: int) -> World:
    other = OtherClinic(number)
    problem = Problem(gamma=1.0, horizon=clinic.HORIZON, return_range=(-9.0, 5.0))
    return dataclasses.replace(of_clinic(), collect=other.collect, domain=other, problem=problem)


# Clicks and the shop.


def of_clicks(scale: float = 1.0) -> World:
    """The click logs, in which a click pays `scale`; every column as it comes, one event an episode."""
    problem = Problem(gamma=1.0, horizon=1, episodes_per_unit=logs.MOST_EVENTS, return_range=(0.0, scale))
    spec = logs.clicks_spec(scale)
    return World(lambda users, seed: logs.clicks(users, seed, scale), None, spec, problem, {}, 1, judge=logs.click_rate)


def of_purchases() -> World:
    problem = Problem(gamma=1.0, horizon=1, episodes_per_unit=logs.MOST_EVENTS, return_range=(0.0, logs.DEAREST))
    spec = logs.clicks_spec(logs.DEAREST)

    def bought(users: int, seed: int) -> Mapping[str, Any]:
        return logs.clicks(users, seed, purchases=True)

    return World(bought, None, spec, problem, {}, 1, judge=logs.click_rate)


def of_stock() -> World:
    problem = Problem(gamma=1.0, horizon=logs.WEEKS, return_range=(-1_000.0, 2_000.0))
    return World(logs.stock, logs.Shop(), logs.stock_spec(), problem, {}, logs.WEEKS, logs.stock_normalised)


# Physical worlds, from people of mixed skill who play one episode each.


_SEEN = ("observations", "next_observations")


def of_people(name: populations.Name, horizon: int, returns: tuple[float, float], **settings: Any) -> World:
    """One of `tacit_worlds.populations`, from its mixed people; what they see is cut to the public box of the world."""
    world = populations.world(name)
    low, high = np.array(world.box.low), np.array(world.box.high)
    spec = dataclasses.replace(world.spec, observation=world.box, propensities=True)

    def logs(people: int, seed: int) -> Mapping[str, Array]:
        experts = populations.population(world, "mixed", people, seed=seed)
        blocks = list(populations.log_blocks(world, experts, 1, horizon, seed=seed))
        columns = {part: np.concatenate([block[part] for block in blocks]) for part in blocks[0]}
        chances = experts.probabilities(columns["observations"], columns["unit_ids"])
        columns["propensities"] = np.take_along_axis(chances, columns["actions"][:, None], 1)[:, 0]
        seen = {part: np.clip(columns[part], low, high).astype(np.float32) for part in _SEEN}
        return {**columns, **seen}

    size = len(world.dimension_names)
    every = tuple(range(size))
    chosen = {"memory": Memory((1.0,) * size), "columns": every, "value_columns": every, **settings}
    return World(logs, world.domain, spec, Problem(gamma=1.0, horizon=horizon, return_range=returns), chosen, horizon)


def world(name: str) -> World:
    if name.startswith("other-"):
        return other_clinic(int(name.removeprefix("other-")))
    worlds: Mapping[str, Callable[[], World]] = {
        "clinic": of_clinic,
        "clinic-untuned": lambda: dataclasses.replace(of_clinic(), settings={}),
        "clinic-narrow": lambda: of_clinic(COURSE, -5.0, 3.0),
        "clicks": of_clicks,
        "clicks-10": lambda: of_clicks(10.0),
        "clicks-100": lambda: of_clicks(100.0),
        "purchases": of_purchases,
        "stock": of_stock,
        "cart_pole": lambda: of_people("cart_pole", 200, (0.0, 200.0), advises=False),
        "hiv": lambda: of_people("hiv", 50, (0.0, 200.0), advises=False),
    }
    return worlds[name]()
