"""Logs beside the clinic's: clicks on three variants (a bandit, rewards 0 or 1), purchases and the stock of a shop.

Clicks: users with one to five events each, whose variants were drawn with fixed, known chances. A policy's click rate
is exact: true rates over every device, hour and 100 ages. Purchases: whoever clicks pays an amount with heavy tails,
which does not depend on variants.

Stock: a shop orders 0, 2, 4 or 6 boxes each week for 20 weeks, and sees its stock and a forecast of the demand, whose
level stays for some weeks. Managers order by rules of their own. Scores are normalised: 0 is a random order each week,
100 the best policy, which knows the demand's true level and the week (dynamic programming). No course ends early.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tacit.agents.policies import PolicyActor
from tacit.agents.policy_files import FeedForward
from tacit.data.columns import Column
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, collect
from tacit.methods.off_policy_evaluation.policies import Network

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
