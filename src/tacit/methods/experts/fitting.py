"""From noisy votes to a policy: post-processing, so nothing here costs privacy. The same descent teaches clones.

Any other learner may take its place: what it needs, states and shares, is in `Learned.agreement`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.agents.networks import Adam, Mlp, Network
from tacit.agents.policies import Policy
from tacit.validation import check

Array = NDArray[Any]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

Loss = Literal["squares", "softmax"]
"""Squared distance of the outputs from the centred shares; or cross-entropy with the shares as probabilities."""

_UNANIMOUS = 0.9
"""The shares are scaled so that at this quantile of the anchors all weight is on one action."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How the policy is fitted to the votes: the same numbers give the same policy.

    Args:
        loss: see `Loss`.
        ridge: penalty of squared parameters, an anchor, of the closed form: squares of a network without hidden layers.
        steps: of Adam over all anchors at once, where there is no closed form.
        rate: of the first of these steps; it decays linearly to 0.
        seed: of the first parameters.

    Raises:
        PlanError: a value is out of range.
    """

    loss: Loss = "squares"
    ridge: float = 1e-6
    steps: int = 500
    rate: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        check("fit.loss", self.loss, self.loss in get_args(Loss), " or ".join(get_args(Loss)))
        for name in ("ridge", "rate"):
            value = getattr(self, name)
            check(f"fit.{name}", value, 0 < value < math.inf, "a finite number > 0")
        check("fit.steps", self.steps, type(self.steps) is int and self.steps >= 1, "a whole number >= 1")


def fit_votes(how: Fit, policy: Policy, states: Array, votes: Float64) -> Float32:
    """The policy's parameters [R, P], for states [R, N, ...] and centred votes [R, N, A]."""
    x = policy.features(states)
    if how.loss == "squares" and isinstance(policy.network, Mlp) and len(policy.network.sizes) == 2:
        return _least_squares(x, votes, how.ridge)
    first = policy.network.initial(np.random.default_rng(how.seed), 1)
    theta = np.repeat(first, len(x), axis=0)
    target = shares(votes) if how.loss == "softmax" else votes
    weight = np.full(x.shape[:2], 1 / x.shape[1])
    return descend(policy.network, theta, x, target, weight, loss=how.loss, steps=how.steps, rate=how.rate)


def descend(
    network: Network, theta: Float32, x: Float32, target: Array, weight: Array, *, loss: Loss, steps: int, rate: float
) -> Float32:
    """Parameters [G, P] after full-batch steps of Adam; every group by itself, whatever other groups there are."""
    # theta: the first ones [G, P], changed in place; x: inputs [G, n, inputs]; target: [G, n, A] outputs, or
    # probabilities; weight: [G, n] of the rows
    adam = Adam(np.zeros_like(theta), np.zeros_like(theta))
    target, weight = np.asarray(target, np.float32), np.asarray(weight, np.float32)[..., None]
    for step in range(steps):
        outputs, cache = network.forward(theta, x)
        if loss == "softmax":
            outputs -= outputs.max(axis=2, keepdims=True)
            np.exp(outputs, out=outputs)
            outputs /= outputs.sum(axis=2, keepdims=True)
        slope = network.backward(theta, cache, (target - outputs) * weight)[:, 0]
        adam.ascend(theta, slope, rate * (1 - step / steps))
    return theta


def shares(votes: Float64) -> Float64:
    """Probabilities [R, N, A] from centred votes: scaled to about 1, then the nearest ones that are no less than 0."""
    actions = votes.shape[2]
    largest = votes.max(axis=2) / (1 - 1 / actions)
    scale = np.quantile(largest, _UNANIMOUS, axis=1)[:, None, None]
    return _on_simplex(votes / np.maximum(scale, 1e-12) + 1 / actions)


def _on_simplex(values: Float64) -> Float64:
    """The nearest points [..., A] of the simplex (Held, Wolfe and Crowder 1974)."""
    falling = -np.sort(-values, axis=-1)
    ranks = np.arange(1, values.shape[-1] + 1)
    excess = (np.cumsum(falling, axis=-1) - 1) / ranks
    support = (falling > excess).sum(axis=-1, keepdims=True)
    return np.asarray(np.maximum(values - np.take_along_axis(excess, support - 1, axis=-1), 0.0))


def _least_squares(seen: Float32, votes: Float64, ridge: float) -> Float32:
    x = np.concatenate([seen, np.ones((*seen.shape[:-1], 1))], axis=-1)
    turned = x.swapaxes(1, 2)
    gram = turned @ x / x.shape[1] + ridge * np.eye(x.shape[2])
    theta = np.linalg.solve(gram, turned @ votes / x.shape[1])
    return np.asarray(theta.reshape(len(theta), -1), np.float32)
