"""Weights of parametric experts: controllers that were tuned on variations of a world, their gains disturbed.

A controller is a matrix of gains; an expert is one of them with every gain multiplied by 1 + s z, z standard normal.
What a search found is in `controllers.json`, next to the command that finds it again.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tacit.agents.features import Features, Scaled
from tacit.agents.stacked import Stacked
from tacit.envs import acrobot, cart_pole, hiv
from tacit.envs.cart_pole import SECONDS, CartPole
from tacit.envs.variations import Name, count, variation

__all__ = ["cart_pole_gains", "disturbed", "policies", "tuned"]

FloatArray = npt.NDArray[np.float64]

CART_POLE_COSTS = (
    ((1.0, 1.0, 10.0, 1.0), 0.1),
    ((1.0, 1.0, 100.0, 10.0), 1.0),
    ((0.1, 0.1, 1.0, 0.1), 1.0),
)
"""Quadratic costs of the state (its diagonal) and of the push: a hasty, an upright and a lazy controller."""
DOUBLINGS = 16


@cache
def cart_pole_gains() -> FloatArray:
    """Linear-quadratic regulators of all variations under all costs, [3,000, 4]; the push is the sign of -K x."""
    carts = [_around_the_top(cast(CartPole, variation("cart_pole", i))) for i in range(count("cart_pole"))]
    a, b = (np.stack(part) for part in zip(*carts, strict=True))
    return np.concatenate([_regulators(a, b, np.diag(state), push) for state, push in CART_POLE_COSTS])


def _around_the_top(cart: CartPole) -> tuple[FloatArray, FloatArray]:
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
    """K [n, 4] for dynamics A [n, 4, 4] and b [n, 4], all at once, by the doubling method for the Riccati equation
    (Anderson 1978): every round squares what is left of the closed loop.
    """
    forward, spread, value = a, b[:, :, None] * b[:, None, :] / push_cost, np.broadcast_to(state_cost, a.shape)
    for _ in range(DOUBLINGS):
        within = np.linalg.inv(np.eye(4) + spread @ value)
        turned = forward.swapaxes(1, 2)
        value, spread = (
            value + turned @ value @ within @ forward,
            spread + forward @ within @ spread @ turned,
        )
        forward = forward @ within @ forward
    weighted = (value @ b[:, :, None])[:, :, 0]
    return np.asarray((weighted[:, None] @ a)[:, 0] / (push_cost + (weighted * b).sum(axis=1))[:, None])


@cache
def tuned(world: Name) -> FloatArray:
    """Gains of a world's tuned controllers [settings, ...], as `python -m experiments.tune_controllers` writes them."""
    kept: dict[str, Any] = json.loads(resources.files("tacit.envs").joinpath("controllers.json").read_text())
    return np.array(kept[world]["gains"]).reshape(-1, *kept[world]["shape"])


def disturbed(gains: FloatArray, noise: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Gains [m, ...], each times 1 + s z with the expert's own s, `noise` [m]."""
    spread = noise.reshape(-1, *(1,) * (gains.ndim - 1))
    return np.asarray(gains * (1.0 + spread * generator.normal(size=gains.shape)))


def policies(world: Name, gains: FloatArray, floor: float) -> Stacked:
    """The controllers of a world with these gains [m, ...], greedy but for a floor."""
    match world:
        case "cart_pole":
            push = -gains * np.asarray(cart_pole.HIGH)
            return _linear(Scaled(cart_pole.LOW, cart_pole.HIGH), np.stack([-push, push], axis=2), floor)
        case "acrobot":
            return _linear(Scaled(acrobot.LOW, acrobot.HIGH), gains, floor)
        case "hiv":
            return _linear(Scaled(hiv.FEATURE_LOW, hiv.FEATURE_HIGH), gains, floor)
    return _landers(gains, floor)


def _linear(features: Features, gains: FloatArray, floor: float) -> Stacked:
    """Linear policies from gains [m, in, A] or, with the biases last, [m, in + 1, A], scaled to be at most 1."""
    rows = (gains / np.abs(gains).max(axis=(1, 2), keepdims=True)).astype(np.float32)
    weights, biases = rows[:, : features.size], rows[:, features.size :]
    return Stacked(features, (features.size, gains.shape[2]), ((weights, biases.sum(axis=1)),), floor)


def _landers(gains: FloatArray, floor: float) -> Stacked:
    """Landing by proportional and differential control, written as a network with two hidden ReLU layers.

    With the gains (a, b, c, d, e, f, g, h, u, v), the wanted angle is a x + b x' within [-c, c] and the wanted height
    d |x|; the tilt to correct is e (wanted angle - angle) - f angle', the fall to stop g (wanted height - y) - h y', or
    -v y' and no tilt once a leg touches the ground. The largest of u, tilt, fall and -tilt decides between no
    engine, the left, the main and the right one.
    """
    from tacit.envs import lunar_lander

    a, b, c, d, e, f, g, h, u, v = gains.T
    low, high = np.asarray(lunar_lander.FEATURE_LOW), np.asarray(lunar_lander.FEATURE_HIGH)
    one, zero = np.ones(len(gains)), np.zeros(len(gains))
    x, y, by_x, by_y, angle, turn, left, right = range(8)

    def layer(inputs: int, *units: tuple[dict[int, FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
        weights = np.zeros((len(gains), inputs, len(units)))
        for k, (entering, _) in enumerate(units):
            for i, weight in entering.items():
                weights[:, i, k] = weight
        return weights, np.stack([bias for _, bias in units], axis=1)

    lift = 10.0 * one  # more than any scaled input's size, so that a unit passes the input on
    weights, biases = layer(
        8,
        ({x: a, by_x: b}, np.abs(c)),
        ({x: a, by_x: b}, -np.abs(c)),
        ({x: one}, zero),
        ({x: -one}, zero),
        ({y: one}, lift),
        ({by_y: one}, lift),
        ({angle: one}, lift),
        ({turn: one}, lift),
        ({left: one, right: one}, zero),
        ({left: one, right: one}, -one),
    )
    entering = weights * ((high - low) / 2.0)[:, None], biases + ((high + low) / 2.0) @ weights
    gate = 1_000.0 * one
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
    last = layer(4, ({}, u), ({0: one}, zero), ({2: one, 3: one}, zero), ({1: one}, zero))
    features = Scaled(lunar_lander.FEATURE_LOW, lunar_lander.FEATURE_HIGH)
    layers = tuple((w.astype(np.float32), bias.astype(np.float32)) for w, bias in (entering, middle, last))
    return Stacked(features, (8, 10, 4, 4), layers, floor, "relu")
