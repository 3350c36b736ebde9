"""Weights of parametric experts: controllers that were tuned on variations of a world, their gains disturbed.

A controller is a matrix of gains; an expert is one of them with every gain multiplied by 1 + s z, z standard normal.
What a search found is in `controllers.json`, next to the command that finds it again.
"""

from __future__ import annotations

import itertools
import json
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_discrete_are

from tacit.agents.features import Features, Scaled
from tacit.agents.stacked import Stacked
from tacit.envs import acrobot, cart_pole
from tacit.envs.cart_pole import SECONDS, CartPole

__all__ = ["cart_pole_gains", "cart_pole_settings", "disturbed", "policies", "tuned"]

FloatArray = npt.NDArray[np.float64]

CART_POLE_COSTS = (
    ((1.0, 1.0, 10.0, 1.0), 0.1),
    ((1.0, 1.0, 100.0, 10.0), 1.0),
    ((0.1, 0.1, 1.0, 0.1), 1.0),
)
"""Quadratic costs of the state (its diagonal) and of the push: a hasty, an upright and a lazy controller."""


def cart_pole_settings() -> list[CartPole]:
    """The 1,000 carts of the paper (appendix B.1): gravity 8.75 .. 11, force 9 .. 11.25, mass of cart 0.8 .. 1.25."""
    ranges = (np.linspace(8.75, 11.0, 10), np.linspace(9.0, 11.25, 10), np.linspace(0.8, 1.25, 10))
    return [CartPole(gravity=g, force=f, cart_mass=m) for g, f, m in itertools.product(*(r.tolist() for r in ranges))]


@cache
def cart_pole_gains() -> FloatArray:
    """Linear-quadratic regulators of all settings under all costs, [3,000, 4]; the push is the sign of -K x."""
    return np.array([_regulator(cart, *cost) for cost in CART_POLE_COSTS for cart in cart_pole_settings()])


def _regulator(cart: CartPole, state_cost: tuple[float, ...], push_cost: float) -> FloatArray:
    """K [4] of the dynamics around the upright pole, where a push is a number in units of the force."""
    mass, moment = cart.cart_mass + cart.pole_mass, cart.pole_mass * cart.half_length
    inertia = cart.half_length * (4.0 / 3.0 - cart.pole_mass / mass)
    a, b = np.eye(4), np.zeros((4, 1))
    a[0, 1] = a[2, 3] = SECONDS
    a[1, 2], a[3, 2] = -SECONDS * moment * cart.gravity / (inertia * mass), SECONDS * cart.gravity / inertia
    b[1, 0] = SECONDS * cart.force / mass * (1.0 + moment / (inertia * mass))
    b[3, 0] = -SECONDS * cart.force / mass / inertia
    p = solve_discrete_are(a, b, np.diag(state_cost), np.array([[push_cost]]))
    return np.asarray(np.linalg.solve(push_cost + b.T @ p @ b, b.T @ p @ a)[0])


@cache
def tuned(world: str) -> FloatArray:
    """Gains of a world's tuned controllers [settings, ...], as `python -m experiments.tune_controllers` writes them."""
    kept: dict[str, Any] = json.loads(resources.files("tacit.envs").joinpath("controllers.json").read_text())
    return np.array(kept[world]["gains"]).reshape(-1, *kept[world]["shape"])


def disturbed(gains: FloatArray, noise: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Gains [m, ...], each times 1 + s z with the expert's own s, `noise` [m]."""
    spread = noise.reshape(-1, *(1,) * (gains.ndim - 1))
    return np.asarray(gains * (1.0 + spread * generator.normal(size=gains.shape)))


def policies(world: str, gains: FloatArray, floor: float) -> Stacked:
    """The controllers of a world with these gains [m, ...], greedy but for a floor."""
    match world:
        case "cart_pole":
            push = -gains * np.asarray(cart_pole.HIGH)
            return _linear(Scaled(cart_pole.LOW, cart_pole.HIGH), np.stack([-push, push], axis=2), floor)
        case "acrobot":
            return _linear(Scaled(acrobot.LOW, acrobot.HIGH), gains, floor)
    raise ValueError(world)


def _linear(features: Features, weights: FloatArray, floor: float) -> Stacked:
    """Policies without a bias from weights [m, in, A], scaled to numbers of the order of 1."""
    largest = np.abs(weights).max(axis=(1, 2), keepdims=True)
    count, inputs, actions = weights.shape
    layer = (weights / largest).astype(np.float32), np.zeros((count, actions), np.float32)
    return Stacked(features, (inputs, actions), (layer,), floor)
