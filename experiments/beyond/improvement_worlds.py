"""Where `improvement` runs: the clinics, clicks, purchases, a shop's stock, CartPole, HIV.

Clicks: users with one to five events each, whose variants (of three) were drawn with fixed, known chances. A policy's
click rate is exact: true rates over every device, hour and 100 ages. Purchases: whoever clicks pays an amount with
heavy tails, which does not depend on variants.

Stock: a shop orders 0, 2, 4 or 6 boxes each week for 20 weeks, and sees its stock and a forecast of the demand, whose
level stays for some weeks. Managers order by rules of their own. Scores are normalised: 0 is a random order each week,
100 the best policy, which knows the demand's true level and the week (dynamic programming). No course ends early.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit.agents.policies import PolicyActor
from tacit.agents.policy_files import FeedForward
from tacit.data.columns import Column
from tacit.data.memory import Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import Array, Domain, FloatArray, MemoryDomain, collect
from tacit.envs.serving import returns
from tacit.methods.improvement import Problem
from tacit.methods.off_policy_evaluation.policies import Network
from tacit_worlds import clinic, clinic_model, populations
from tacit_worlds.clinic import Clinic

SHOWN = (0.5, 0.3, 0.2)  # chances of the variants in the logs
DEVICES = (0.6, 0.3, 0.1)  # shares of mobile, desktop and tablet
SPREAD, DEAREST = 1.5, 50.0
"""Standard deviation of the logarithm of a purchase, whose median is 1, and the most that it can be."""
OLDEST, MEAN_AGE, MOST_EVENTS, LATE = 3_650.0, 400.0, 5, 18
DECLARED = 4_000.0  # days, the public bound of an age: a round number
LOGGED_RATE, BEST_RATE = 0.0627667, 0.1001667
"""Click rates of the logs and of the best policy, to seven digits; `rate_of` gives them exactly."""


def click_rates(device: Array, hour: Array) -> FloatArray:
    """True click rates of the variants, [N, 3]."""
    mobile = (device == 0)[:, None]
    rates = np.where(mobile, [[0.05, 0.10, 0.04]], [[0.05, 0.03, 0.09]])
    return np.asarray(rates + 0.02 * (hour > LATE)[:, None])


def clicks_spec(scale: float = 1.0) -> PublicSpec:
    """As `tacit data import` makes it of a spec with these columns."""
    device = Column("device", "category", labels=("mobile", "desktop", "tablet"))
    columns = (device, Column("hour", "integer", 0, 23), Column("account_age_days", low=0.0, high=DECLARED))
    low, high = np.array([column.bounds for column in columns]).T
    return PublicSpec(
        Box(tuple(low.tolist()), tuple(high.tolist()), columns),
        Discrete(len(SHOWN)),
        Box((0.0,), (scale,)),
        "declared",
        terminals=False,
        propensities=True,
    )


def clicks(users: int, seed: int, scale: float = 1.0, *, purchases: bool = False) -> Mapping[str, Array]:
    """Columns of the log; every event is an episode of its user's. A click pays `scale`, or what its purchase costs."""
    generator = np.random.default_rng(seed)
    count = generator.integers(1, MOST_EVENTS + 1, users)
    user = np.repeat(np.arange(users), count)
    n = len(user)
    device = np.repeat(generator.choice(len(DEVICES), users, p=DEVICES), count)
    hour = generator.integers(0, 24, n)
    age = np.repeat(generator.exponential(MEAN_AGE, users).clip(0, OLDEST), count)
    variant = generator.choice(len(SHOWN), n, p=SHOWN)
    clicked = generator.random(n) < click_rates(device, hour)[np.arange(n), variant]
    paid = np.minimum(np.exp(SPREAD * generator.standard_normal(n)), DEAREST) if purchases else scale
    seen = np.stack([device, hour, age], axis=1).astype(np.float32)
    return {
        "observations": seen,
        "next_observations": seen,
        "actions": variant,
        "rewards": (paid * clicked).astype(np.float32),
        "terminations": np.zeros(n, bool),
        "truncations": np.ones(n, bool),
        "propensities": np.array(SHOWN, np.float32)[variant],
        "unit_ids": user,
        "episode_ids": np.arange(n),
    }


def contexts() -> tuple[Array, FloatArray]:
    """Every device and hour with 100 ages of equal weight, [K, 3], and their weights [K], which sum to 1."""
    ages = (-MEAN_AGE * np.log1p(-(np.arange(100) + 0.5) / 100)).clip(0, OLDEST)
    device, hour, age = (part.ravel() for part in np.meshgrid(np.arange(3), np.arange(24), ages, indexing="ij"))
    weight = np.array(DEVICES)[device] / (24 * len(ages))
    return np.stack([device, hour, age], axis=1).astype(np.float32), weight


def rate_of(chances: FloatArray) -> float:
    """The exact click rate of a policy's chances [K, 3] in the `contexts`."""
    seen, weight = contexts()
    return float((weight[:, None] * chances * click_rates(seen[:, 0], seen[:, 1])).sum())


def click_rate(actor: PolicyActor) -> float:
    network = Network.of(FeedForward.of(actor.policy, actor.theta, greedy=actor.greedy))
    return rate_of(network.probabilities(contexts()[0]))


def spelled(actor: PolicyActor) -> str:
    """The likeliest variant of each device and hour at the median age, one letter each: which policy it is."""
    seen = np.array([[device, hour, MEAN_AGE * np.log(2)] for device in range(3) for hour in range(24)], np.float32)
    network = Network.of(FeedForward.of(actor.policy, actor.theta, greedy=False))
    return "".join("ABC"[variant] for variant in network.probabilities(seen).argmax(axis=1))


# The shop.


WEEKS, CAPACITY, MOST_DEMAND = 20, 12, 12
ORDERS = (0, 2, 4, 6)
DEMAND = (1.0, 3.0, 5.0)
STAYS = 0.8  # chance that the demand's level is next week what it is now; else it is a neighbouring one
MOVES = np.array([[STAYS, 1 - STAYS, 0.0], [(1 - STAYS) / 2, STAYS, (1 - STAYS) / 2], [0.0, 1 - STAYS, STAYS]])
SOLD, LEFT, BOX, ORDER = 30.0, 4.0, 8.0, 20.0
BLUR = 0.5  # standard deviation of the forecast around the true mean demand
MANAGERS, LEAST_CHANCE = 8, 0.03


def demand_chances() -> FloatArray:
    """Chances [level, 0 .. 12] of a week's demand: Poisson, and 12 is 12 or more."""
    k = np.arange(MOST_DEMAND + 1)
    factorials = np.cumprod(np.r_[1.0, k[1:]])
    chances = np.exp(-np.array(DEMAND))[:, None] * np.array(DEMAND)[:, None] ** k / factorials
    chances[:, -1] += 1 - chances.sum(axis=1)
    return np.asarray(chances)


def profit(stock: Array, ordered: Array, demand: Array) -> tuple[FloatArray, Array]:
    full = np.minimum(stock + ordered, CAPACITY)
    sold = np.minimum(full, demand)
    return SOLD * sold - LEFT * (full - sold) - BOX * ordered - ORDER * (ordered > 0), full - sold


@dataclass(frozen=True)
class Shop:
    """The dynamics; a state is (stock, level of the demand, forecast)."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        level = generator.integers(0, len(DEMAND), units)
        return self._state(generator.integers(0, 7, units), level, generator)

    def step(
        self, state: Array, action: Array, generator: np.random.Generator
    ) -> tuple[Array, FloatArray, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
        level = state[:, 1].astype(np.int64)
        below = demand_chances().cumsum(axis=1)[level, :-1]
        demand = (generator.random(len(state))[:, None] >= below).sum(axis=1)
        paid, left = profit(state[:, 0], np.array(ORDERS)[np.asarray(action, np.int64)], demand)
        moved = (generator.random(len(state))[:, None] >= MOVES.cumsum(axis=1)[level, :-1]).sum(axis=1)
        return self._state(left, moved, generator), paid, np.zeros(len(state), bool)

    def observe(self, state: Array) -> Array:
        return state[:, [0, 2]].astype(np.float32)

    def _state(self, stock: Array, level: Array, generator: np.random.Generator) -> Array:
        forecast = np.array(DEMAND)[level] + BLUR * generator.standard_normal(len(level))
        return np.stack([stock, level, forecast.clip(-1, 7)], axis=1)


def stock_spec() -> PublicSpec:
    """Two numbers, four orders, the money of a week."""
    low, high = -(LEFT * CAPACITY + BOX * ORDERS[-1] + ORDER), SOLD * CAPACITY
    seen = Box((0.0, -1.0), (float(CAPACITY), 7.0))
    return PublicSpec(seen, Discrete(len(ORDERS)), Box((low,), (high,)), "declared", terminals=False, propensities=True)


def stock(shops: int, seed: int) -> Mapping[str, Array]:
    """Columns of the log: one course of each shop, whose manager has one of eight rules."""
    habits = np.random.default_rng(2_611).uniform([0.5, 0.2, 0.2], [3.5, 0.8, 0.8], (MANAGERS, 3))
    parts = []
    for manager, share in enumerate(np.array_split(np.arange(shops), MANAGERS)):
        base, by_stock, by_forecast = habits[manager]

        def orders(seen: Array, base: float = base, less: float = by_stock, more: float = by_forecast) -> FloatArray:
            wanted = base - less * seen[:, 0] + 2 * more * seen[:, 1]
            odds = np.exp(-np.abs(wanted[:, None] - np.array(ORDERS)) / 1.5)
            return np.asarray(LEAST_CHANCE + (1 - 4 * LEAST_CHANCE) * odds / odds.sum(axis=1, keepdims=True))

        columns = collect(Shop(), orders, len(share), seed=1_000 * seed + manager, horizon=WEEKS)
        for name in ("unit_ids", "episode_ids"):
            columns[name] = columns[name] + share[0]
        parts.append(columns)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@functools.cache
def stock_reference() -> tuple[float, float]:
    """Mean returns of random orders and of the best policy that knows the level and the week, both exact."""
    chances, boxes = demand_chances(), np.arange(CAPACITY + 1)
    paid = np.empty((len(boxes), len(ORDERS), MOST_DEMAND + 1))
    left = np.empty(paid.shape, np.int64)
    for a, order in enumerate(ORDERS):
        paid[:, a], left[:, a] = profit(boxes[:, None], np.array(order), np.arange(MOST_DEMAND + 1))
    random, best = np.zeros((len(boxes), len(DEMAND))), np.zeros((len(boxes), len(DEMAND)))
    for _ in range(WEEKS):
        q = [np.einsum("sad,ld->sal", paid, chances) for _ in range(2)]
        for values, later in zip(q, (random, best), strict=True):
            values += np.einsum("sadl,ld->sal", (later @ MOVES.T)[left], chances)
        random, best = q[0].mean(axis=1), q[1].max(axis=1)
    return float(random[:7].mean()), float(best[:7].mean())


def stock_normalised(returns: FloatArray) -> FloatArray:
    """0 is a random order each week, 100 the best policy of all."""
    low, high = stock_reference()
    return np.asarray(100 * (returns - low) / (high - low))


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
    problem = Problem(gamma=1.0, horizon=1, episodes_per_unit=MOST_EVENTS, return_range=(0.0, scale))
    spec = clicks_spec(scale)
    return World(lambda users, seed: clicks(users, seed, scale), None, spec, problem, {}, 1, judge=click_rate)


def of_purchases() -> World:
    problem = Problem(gamma=1.0, horizon=1, episodes_per_unit=MOST_EVENTS, return_range=(0.0, DEAREST))
    spec = clicks_spec(DEAREST)

    def bought(users: int, seed: int) -> Mapping[str, Any]:
        return clicks(users, seed, purchases=True)

    return World(bought, None, spec, problem, {}, 1, judge=click_rate)


def of_stock() -> World:
    problem = Problem(gamma=1.0, horizon=WEEKS, return_range=(-1_000.0, 2_000.0))
    return World(stock, Shop(), stock_spec(), problem, {}, WEEKS, stock_normalised)


# Physical worlds, from people of mixed skill who play one episode each.


_SEEN = ("observations", "next_observations")


def of_people(name: populations.Name, horizon: int, returns: tuple[float, float], **settings: Any) -> World:
    """One of `tacit_worlds.populations`, from its mixed people; what they see is cut to the public box of the world."""
    world = populations.world(name)
    low, high = np.array(world.box.low), np.array(world.box.high)
    spec = dataclasses.replace(world.spec, observation=world.box, propensities=True)

    def logged(people: int, seed: int) -> Mapping[str, Array]:
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
    return World(logged, world.domain, spec, Problem(gamma=1.0, horizon=horizon, return_range=returns), chosen, horizon)


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
