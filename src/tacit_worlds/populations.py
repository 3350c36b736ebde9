"""Populations of experts to learn from: worlds, thousands of policies in each, what they logged, and what one is worth.

The experts are parametric stand-ins for the 3,000 PPO agents of the paper (Sharma et al., "Offline reinforcement
learning with expert-level privacy", section 6.1). As there, they are tuned on variations of a world (other gravity,
masses, lengths, penalties) and log in the default one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from tacit.agents.features import Features, Scaled
from tacit.agents.stacked import StackedPolicies
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, Domain, FloatArray
from tacit.envs.serving import Actor, serve
from tacit.envs.serving import returns as _returns
from tacit.errors import DataError
from tacit_worlds import acrobot, cart_pole, hiv
from tacit_worlds.acrobot import Acrobot
from tacit_worlds.cart_pole import SECONDS, CartPole
from tacit_worlds.hiv import Hiv

__all__ = ["DAYS", "ExpertActor", "Kind", "Name", "World", "cart_pole_gains", "log_blocks", "logs", "policies"]
__all__ += ["population", "returns", "tuned_gains", "variation", "variation_count", "world"]


# Weights of parametric experts: controllers that were tuned on variations of a world, their gains disturbed.


CART_POLE_COSTS = (((1.0, 1.0, 10.0, 1.0), 0.1), ((1.0, 1.0, 100.0, 10.0), 1.0), ((0.1, 0.1, 1.0, 0.1), 1.0))
"""Quadratic costs of the state (its diagonal) and of the push: a hasty, an upright and a lazy controller."""
DOUBLINGS = 16


@cache
def cart_pole_gains() -> FloatArray:
    """Linear-quadratic regulators of all variations under all costs, [3,000, 4]; the push is the sign of -K x."""
    carts = [_linear_dynamics(cast(CartPole, variation("cart_pole", i))) for i in range(variation_count("cart_pole"))]
    a, b = (np.stack(part) for part in zip(*carts, strict=True))
    return np.concatenate([_regulators(a, b, np.diag(state), push) for state, push in CART_POLE_COSTS])


def _linear_dynamics(cart: CartPole) -> tuple[FloatArray, FloatArray]:
    """A [4, 4] and b [4] of the dynamics x' = A x + b u near the upright pole, u in units of the force."""
    mass, moment = cart.cart_mass + cart.pole_mass, cart.pole_mass * cart.half_length
    inertia = cart.half_length * (4.0 / 3.0 - cart.pole_mass / mass)
    a, b = np.eye(4), np.zeros(4)
    a[0, 1] = a[2, 3] = SECONDS
    a[1, 2], a[3, 2] = -SECONDS * moment * cart.gravity / (inertia * mass), SECONDS * cart.gravity / inertia
    b[1] = SECONDS * cart.force / mass * (1.0 + moment / (inertia * mass))
    b[3] = -SECONDS * cart.force / mass / inertia
    return a, b


def _regulators(a: FloatArray, b: FloatArray, state_cost: FloatArray, push_cost: float) -> FloatArray:
    """K [n, 4] for dynamics A [n, 4, 4] and b [n, 4], all at once."""
    # The doubling method for the Riccati equation (Anderson 1978): every round squares what is left of the closed loop.
    forward, spread, value = a, b[:, :, None] * b[:, None, :] / push_cost, np.broadcast_to(state_cost, a.shape)
    for _ in range(DOUBLINGS):
        within = np.linalg.inv(np.eye(4) + spread @ value)
        turned = forward.swapaxes(1, 2)
        value, spread = (value + turned @ value @ within @ forward, spread + forward @ within @ spread @ turned)
        forward = forward @ within @ forward
    weighted = (value @ b[:, :, None])[:, :, 0]
    return np.asarray((weighted[:, None] @ a)[:, 0] / (push_cost + (weighted * b).sum(axis=1))[:, None])


@cache
def tuned_gains(world: Name) -> FloatArray:
    """Gains of a world's tuned controllers [settings, ...], as `experiments.experts.tune_controllers` writes them."""
    controllers: dict[str, Any] = json.loads(resources.files("tacit_worlds").joinpath("controllers.json").read_text())
    return np.array(controllers[world]["gains"]).reshape(-1, *controllers[world]["shape"])


def policies(world: Name, gains: FloatArray, floor: float) -> StackedPolicies:
    """The controllers of a world with these gains [m, ...], greedy but for a floor."""
    match world:
        case "cart_pole":
            push = -gains * np.asarray(cart_pole.HIGH)
            return _linear_policies(Scaled(cart_pole.LOW, cart_pole.HIGH), np.stack([-push, push], axis=2), floor)
        case "acrobot":
            return _linear_policies(Scaled(acrobot.LOW, acrobot.HIGH), gains, floor)
        case "hiv":
            return _linear_policies(Scaled(hiv.FEATURE_LOW, hiv.FEATURE_HIGH), gains, floor)
    return _lander_policies(gains, floor)


def _linear_policies(features: Features, gains: FloatArray, floor: float) -> StackedPolicies:
    """Linear policies from gains [m, in, A] or, with the biases last, [m, in + 1, A], scaled to be at most 1."""
    rows = (gains / np.abs(gains).max(axis=(1, 2), keepdims=True)).astype(np.float32)
    weights, biases = rows[:, : features.size], rows[:, features.size :]
    return StackedPolicies(features, (features.size, gains.shape[2]), ((weights, biases.sum(axis=1)),), floor)


def _lander_policies(gains: FloatArray, floor: float) -> StackedPolicies:
    """Landing by proportional and differential control, written as a network with two hidden ReLU layers.

    With the gains (a, b, c, d, e, f, g, h, u, v), the wanted angle is a x + b x' within [-c, c] and the wanted height
    d |x|; the tilt to correct is e (wanted angle - angle) - f angle', the fall to stop g (wanted height - y) - h y', or
    -v y' and no tilt once a leg touches the ground. The largest of u, tilt, fall and -tilt decides between no
    engine, the left, the main and the right one.
    """
    from tacit_worlds import lunar_lander

    a, b, c, d, e, f, g, h, u, v = gains.T
    low, high = np.asarray(lunar_lander.FEATURE_LOW), np.asarray(lunar_lander.FEATURE_HIGH)
    ones, zeros = np.ones(len(gains)), np.zeros(len(gains))
    x, y, by_x, by_y, angle, turn, left, right = range(8)

    def layer(inputs: int, *units: tuple[dict[int, FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
        weights = np.zeros((len(gains), inputs, len(units)))
        for k, (entering, _) in enumerate(units):
            for i, weight in entering.items():
                weights[:, i, k] = weight
        return weights, np.stack([bias for _, bias in units], axis=1)

    lift = 10.0 * ones  # more than any scaled input's size, so that a unit passes the input on
    weights, biases = layer(
        8,
        ({x: a, by_x: b}, np.abs(c)),
        ({x: a, by_x: b}, -np.abs(c)),
        ({x: ones}, zeros),
        ({x: -ones}, zeros),
        ({y: ones}, lift),
        ({by_y: ones}, lift),
        ({angle: ones}, lift),
        ({turn: ones}, lift),
        ({left: ones, right: ones}, zeros),
        ({left: ones, right: ones}, -ones),
    )
    entering = weights * ((high - low) / 2.0)[:, None], biases + ((high + low) / 2.0) @ weights
    gate = 1_000.0 * ones
    target = {0: e, 1: -e, 6: -e, 7: -f}
    tilt = -e * np.abs(c) + lift * (e + f)
    grounded, flying = {8: -gate, 9: gate}, {8: gate, 9: -gate}
    middle = layer(
        10,
        (target | grounded, tilt),
        ({i: -weight for i, weight in target.items()} | grounded, -tilt),
        ({2: g * d, 3: g * d, 4: -g, 5: -h} | grounded, lift * (g + h)),
        ({5: -v} | flying, lift * v - gate),
    )
    last = layer(4, ({}, u), ({0: ones}, zeros), ({2: ones, 3: ones}, zeros), ({1: ones}, zeros))
    features = Scaled(lunar_lander.FEATURE_LOW, lunar_lander.FEATURE_HIGH)
    layers = tuple((w.astype(np.float32), bias.astype(np.float32)) for w, bias in (entering, middle, last))
    return StackedPolicies(features, (8, 10, 4, 4), layers, floor, "relu")


# The variations of worlds that experts are trained on: the grids of the paper (Sharma et al., appendix B.1).


Name = Literal["cart_pole", "acrobot", "lunar_lander", "hiv"]

DAYS = 20.0
"""Length of a step of the patients' treatment."""
GRIDS: dict[str, tuple[tuple[float, float, int], ...]] = {
    "cart_pole": ((8.75, 11.0, 10), (9.0, 11.25, 10), (0.8, 1.25, 10)),
    "acrobot": ((0.8, 1.2, 10), (0.9, 1.1, 10), (0.9, 1.1, 10)),
    "lunar_lander": ((9.0, 11.0, 10), (0.0, 5.0, 10), (0.0, 0.5, 10)),
    "hiv": ((18_750.0, 21_250.0, 50), (1_850.0, 2_150.0, 20), (0.0, 0.01, 2)),
}
"""Least and largest value of each parameter and how many there are: gravity, force and mass of the cart; length of both
links, their masses; gravity, wind, turbulence; the penalties of both drugs, noise of their efficacies.
"""


def variation_count(name: Name) -> int:
    """How many variations of a world there are."""
    return math.prod(number for _, _, number in GRIDS[name])


def variation(name: Name, index: int) -> Domain:
    """The variation of a world with this number, the last parameter changing first. Raises IndexError where the number
    is not in 0 .. count - 1, DataError where the world needs a package that is not installed."""
    grid = GRIDS[name]
    if not 0 <= index < variation_count(name):
        raise IndexError(f"{name} has {variation_count(name)} variations")
    places = np.unravel_index(index, [number for _, _, number in grid])
    first, second, third = (float(np.linspace(*axis)[place]) for axis, place in zip(grid, places, strict=True))
    match name:
        case "cart_pole":
            return CartPole(gravity=first, force=second, cart_mass=third)
        case "acrobot":
            return Acrobot((first, first), (second, third))
        case "lunar_lander":
            from tacit_worlds.lunar_lander import LunarLander

            return LunarLander(first, second, third)
        case "hiv":
            return Hiv((first, second), third, DAYS)


Kind = Literal["good", "mixed"]

FLOOR = 0.02
GOOD, WORST = 0.05, 1.2
"""Relative noise of the gains: of good experts, and the largest of mixed ones, where it is uniform from 0 on."""
TOGETHER = 4096
"""Episodes that are logged in step."""


@dataclass(frozen=True)
class World:
    """A task for experts and for what is learned from them."""

    name: Name  # which one it is
    domain: Domain  # the simulator, in its default setting
    spec: PublicSpec  # public bounds of its rows
    horizon: int  # steps after which a logged episode is cut
    evaluation_horizon: int  # steps after which an episode is cut when a policy is evaluated
    # public bounds of the return of a logged episode (of a lander: a public scale; some are far below it)
    return_bounds: tuple[float, float]
    # the part of the observations where decisions matter: a public scale for features, and where to ask policies what
    # they would do
    box: Box
    dimension_names: tuple[str, ...]  # what the numbers of an observation are

    @property
    def actions(self) -> int:
        """A."""
        return cast(Discrete, self.spec.action).n


def world(name: Name) -> World:
    """The world of this name, with the horizons of the paper (section 6.2; Acrobot is evaluated as Gymnasium does)."""
    match name:
        case "cart_pole":
            return World(
                name,
                cart_pole.CartPole(),
                cart_pole.spec(),
                horizon=200,
                evaluation_horizon=1_000,
                return_bounds=(0.0, 200.0),
                box=Box((-2.4, -2.0, -0.21, -2.0), (2.4, 2.0, 0.21, 2.0)),
                dimension_names=("position", "speed", "angle", "turn"),
            )
        case "acrobot":
            return World(
                name,
                acrobot.Acrobot(),
                acrobot.spec(),
                horizon=200,
                evaluation_horizon=acrobot.HORIZON,
                return_bounds=(-200.0, 0.0),
                box=Box(acrobot.LOW, acrobot.HIGH),
                dimension_names=("cos angle", "sin angle", "cos bend", "sin bend", "turn", "bending"),
            )
        case "lunar_lander":
            from tacit_worlds import lunar_lander

            return World(
                name,
                lunar_lander.LunarLander(),
                lunar_lander.spec(),
                horizon=500,
                evaluation_horizon=lunar_lander.HORIZON,
                return_bounds=(-500.0, 300.0),
                box=Box(lunar_lander.FEATURE_LOW, lunar_lander.FEATURE_HIGH),
                dimension_names=("x", "y", "x speed", "y speed", "angle", "turn", "left leg", "right leg"),
            )
        case "hiv":
            return World(
                name,
                hiv.Hiv(days=DAYS),
                replace(hiv.spec(), propensities=False),
                horizon=50,
                evaluation_horizon=50,
                return_bounds=(50.0 * hiv.REWARD[0], 50.0 * hiv.REWARD[1]),
                box=Box(hiv.FEATURE_LOW, hiv.FEATURE_HIGH),
                dimension_names=("T1", "T2", "T1*", "T2*", "V", "E"),
            )
    what, expected = f"there is no world {name!r}", f"one of {', '.join(get_args(Name))}"
    raise DataError(what, where="populations.world", expected=expected, remedy="choose one of these")


def population(world: World, kind: Kind, experts: int = 3_000, *, seed: int, floor: float = FLOOR) -> StackedPolicies:
    """Experts of a world, greedy but for a floor.

    Args:
        world: where they act; they were tuned on variations of it.
        kind: "good", whose gains are as they were tuned but for little noise, or "mixed", where each has noise of its
            own strength, so that many are bad.
        experts: m.
        seed: of the settings that the experts come from and of the noise; the first experts do not depend on m.
        floor: least probability of an action.

    Raises:
        DataError: the kind is unknown or there is not even one expert.
    """
    if kind not in get_args(Kind) or experts < 1:
        what, expected = f"there are no {experts} experts of the kind {kind!r}", "at least one expert, good or mixed"
        raise DataError(what, where="population", expected=expected, remedy="correct the kind or the number")
    drawn = np.random.default_rng(seed)
    gains = cart_pole_gains() if world.name == "cart_pole" else tuned_gains(world.name)
    chosen = np.resize(drawn.permutation(len(gains)), experts)
    noise = np.full(experts, GOOD) if kind == "good" else drawn.spawn(1)[0].uniform(0.0, WORST, experts)
    spread = noise.reshape(-1, *(1,) * (gains.ndim - 1))  # each expert's own
    return policies(world.name, gains[chosen] * (1.0 + spread * drawn.normal(size=gains[chosen].shape)), floor)


@dataclass(frozen=True, eq=False)
class ExpertActor:
    """Experts as an actor: replicate i is the i-th expert. With a floor of 0 they are greedy."""

    experts: StackedPolicies

    def __call__(
        self, observations: Array, replicate: npt.NDArray[np.int64], generator: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Actions [N] of observations [N, d], each under the expert `replicate` [N]."""
        below = self.experts.probabilities(observations, replicate).cumsum(axis=1)
        point = generator.random(len(below)) * below[:, -1]
        return np.asarray((below[:, :-1] <= point[:, None]).sum(axis=1), dtype=np.int64)


def logs(
    world: World, experts: StackedPolicies, trajectories: int = 20, horizon: int | None = None, *, seed: int
) -> dict[str, Array]:
    """What experts logged in the default setting of a world.

    Args:
        world: the world.
        experts: m policies; unit i is expert i.
        trajectories: episodes of each of them.
        horizon: steps after which an episode is cut, `world.horizon` by default.
        seed: of the starts, the actions and the dynamics.

    Returns:
        Columns for `Trajectories.from_arrays` in the order unit, episode, time: observations, actions, rewards,
        next_observations, terminations, truncations, unit_ids (0 .. m - 1) and episode_ids.
    """
    blocks = list(log_blocks(world, experts, trajectories, horizon, seed=seed))
    return {name: np.concatenate([block.pop(name) for block in blocks]) for name in list(blocks[0])}


def log_blocks(
    world: World, experts: StackedPolicies, trajectories: int = 20, horizon: int | None = None, *, seed: int
) -> Iterator[dict[str, Array]]:
    """The rows of `logs`, those of a few experts at a time, for `Trajectories.from_blocks`."""
    at_once = max(1, TOGETHER // trajectories)
    for first in range(0, experts.count, at_once):
        chunk = experts.take(slice(first, first + at_once))
        owner = np.repeat(np.arange(chunk.count), trajectories)
        rows = serve(
            world.domain,
            ExpertActor(chunk),
            owner,
            horizon=horizon or world.horizon,
            generator=np.random.default_rng([seed, first]),
        )
        mask = rows.pop("mask")
        episode = np.repeat(np.arange(len(owner)), mask.sum(axis=1))
        ids = {"unit_ids": first + owner[episode], "episode_ids": first * trajectories + episode}
        yield {name: column[mask] for name, column in rows.items()} | ids


def returns(
    world: World, actor: Actor, episodes: int, *, seed: int, replicates: int = 1, horizon: int | None = None
) -> FloatArray:
    """Undiscounted returns [R, episodes] in the default setting of a world.

    Args:
        world: the world.
        actor: who plays: a released policy (`learned.actor()`), or `ExpertActor(experts)`.
        episodes: fresh episodes of each replicate.
        seed: of the starts, the actions and the dynamics.
        replicates: R, how many policies the actor holds.
        horizon: steps after which an episode is cut, `world.evaluation` by default.
    """
    generator, horizon = np.random.default_rng(seed), horizon or world.evaluation_horizon
    return _returns(world.domain, actor, replicates, episodes, horizon=horizon, generator=generator)
