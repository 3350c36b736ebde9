"""Clones: each expert's policy, learnt from that expert's own rows alone; and the policy that is fitted to their votes.

A clone is a frozen dataclass of public settings: a `Summary` (rows to parameters) and, with parameters, policies. All
experts' clones are computed side by side in products that are batched over experts, one matrix product an expert, so an
expert's clone is the same bits for any other experts: that is what makes one expert one vote. From noisy votes to a
policy it is post-processing, by the same descent. Any other learner may take its place: what it needs, states and
shares, is in `LearnedPolicies.agreement`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import Features, OneHot, Quadratic, Scaled
from tacit.agents.networks import Adam, FunctionalNetwork, Mlp
from tacit.agents.policies import Policy
from tacit.agents.stacked import StackedPolicies
from tacit.errors import PlanError
from tacit.validation import require_valid

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
    """

    loss: Loss = "squares"
    ridge: float = 1e-6
    steps: int = 500
    rate: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        require_valid("fit.loss", self.loss, self.loss in get_args(Loss), " or ".join(get_args(Loss)))
        for name in ("ridge", "rate"):
            value = getattr(self, name)
            require_valid(f"fit.{name}", value, 0 < value < math.inf, "a finite number > 0")
        require_valid("fit.steps", self.steps, type(self.steps) is int and self.steps >= 1, "a whole number >= 1")


def fit_votes(settings: Fit, policy: Policy, states: Array, votes: Float64) -> Float32:
    """The policy's parameters [R, P], for states [R, N, ...] and centred votes [R, N, A]."""
    x = policy.features(states)
    if settings.loss == "squares" and isinstance(policy.network, Mlp) and len(policy.network.sizes) == 2:
        return _least_squares(x, votes, settings.ridge)
    first = policy.network.initial_parameters(np.random.default_rng(settings.seed), 1)
    theta = np.repeat(first, len(x), axis=0)
    target = vote_probabilities(votes) if settings.loss == "softmax" else votes
    weight = np.full(x.shape[:2], 1 / x.shape[1])
    loss, steps, rate = settings.loss, settings.steps, settings.rate
    return descend(policy.network, theta, x, target, weight, loss=loss, steps=steps, rate=rate)


def descend(
    network: FunctionalNetwork,
    theta: Float32,
    x: Float32,
    target: Array,
    weight: Array,
    *,
    loss: Loss,
    steps: int,
    rate: float,
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


def vote_probabilities(votes: Float64) -> Float64:
    """Probabilities [R, N, A] from centred votes: scaled to about 1, then the nearest ones that are no less than 0."""
    actions = votes.shape[2]
    largest = votes.max(axis=2) / (1 - 1 / actions)
    scale = np.quantile(largest, _UNANIMOUS, axis=1)[:, None, None]
    return _project_to_simplex(votes / np.maximum(scale, 1e-12) + 1 / actions)


def _project_to_simplex(values: Float64) -> Float64:
    """The nearest points [..., A] of the simplex (Held, Wolfe and Crowder 1974)."""
    falling = -np.sort(-values, axis=-1)
    ranks = np.arange(1, values.shape[-1] + 1)
    excess = (np.cumsum(falling, axis=-1) - 1) / ranks
    support = (falling > excess).sum(axis=-1, keepdims=True)
    return np.asarray(np.maximum(values - np.take_along_axis(excess, support - 1, axis=-1), 0.0))


def _least_squares(inputs: Float32, votes: Float64, ridge: float) -> Float32:
    x = np.concatenate([inputs, np.ones((*inputs.shape[:-1], 1))], axis=-1)
    turned = x.swapaxes(1, 2)
    gram = turned @ x / x.shape[1] + ridge * np.eye(x.shape[2])
    theta = np.linalg.solve(gram, turned @ votes / x.shape[1])
    return np.asarray(theta.reshape(len(theta), -1), np.float32)


_LEAST_SPREAD = 1e-3
"""Added to the standard deviation of an expert's inputs, so that what never moves is not blown up."""


@dataclass(frozen=True, kw_only=True)
class LinearClone:
    """Ridge least squares of the centred indicators of an expert's actions on features of its observations.

    Args:
        features: a public map; nothing in it may have been fitted to any expert's rows.
        actions: A.
        ridge: penalty of squared parameters, a row, for features of the order of 1. It settles experts with few rows; a
            larger one hides what an expert does about a feature that hardly moves in its rows.
        floor: p_min of the policies that stand for the experts, where these have to be stochastic.

    Raises:
        PlanError: a value is out of range, or the features are no public map.
    """

    features: Features
    actions: int
    ridge: float = 1e-5
    floor: float = 0.0
    kind: Literal["linear"] = field(default="linear", init=False)

    def __post_init__(self) -> None:
        _check_clone(self.features, self.actions, self.floor)
        require_valid("clone.ridge", self.ridge, 0 < self.ridge < math.inf, "a finite number > 0")

    @property
    def network(self) -> Mlp:
        """What the parameters are of."""
        return Mlp((self.features.size, self.actions), gain=0.0)

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows [U, L, ...] -> {"parameters": [U, P] float32}."""
        mask = np.asarray(rows["mask"], np.float64)[..., None]
        inputs = self.features(rows["observations"])
        x = np.concatenate([inputs, np.ones((*inputs.shape[:-1], 1))], axis=-1) * mask
        y = ((rows["actions"][..., None] == np.arange(self.actions)) - 1.0 / self.actions) * mask
        turned, count = x.swapaxes(1, 2), mask.sum(axis=1)[:, None]
        gram = turned @ x / count + self.ridge * np.eye(x.shape[2])
        theta = np.linalg.solve(gram, turned @ y / count)
        return {"parameters": theta.reshape(len(theta), -1).astype(np.float32)}

    def experts(self, parameters: Array) -> StackedPolicies:
        """The policies of m clones with parameters [m, P]."""
        return StackedPolicies.from_mlp(self.features, self.network, parameters, self.floor)


@dataclass(frozen=True, kw_only=True)
class MlpClone:
    """A small tanh network, fitted to an expert's actions by full-batch steps of Adam on the cross-entropy.

    Each expert's inputs are standardised by that expert's own rows, which the first layer takes up afterwards. Every
    network begins with the same public parameters.

    Args:
        features: as for `LinearClone`.
        actions: A.
        hidden: widths of the hidden layers.
        rows: how many of an expert's rows are used, evenly spaced over its own.
        steps: of Adam.
        rate: of the first step; it decays linearly to 0.
        seed: of the first parameters.
        floor: as for `LinearClone`.

    Raises:
        PlanError: a value is out of range, or the features are no public map.
    """

    features: Features
    actions: int
    hidden: tuple[int, ...] = (16,)
    rows: int = 512
    steps: int = 100
    rate: float = 0.03
    seed: int = 0
    floor: float = 0.0
    kind: Literal["mlp"] = field(default="mlp", init=False)

    def __post_init__(self) -> None:
        _check_clone(self.features, self.actions, self.floor)
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for name in ("rows", "steps"):
            value = getattr(self, name)
            require_valid(f"clone.{name}", value, type(value) is int and value >= 1, "a whole number >= 1")
        require_valid("clone.rate", self.rate, 0 < self.rate < math.inf, "a finite number > 0")
        widths = len(self.hidden) >= 1 and all(type(width) is int and width >= 1 for width in self.hidden)
        require_valid("clone.hidden", self.hidden, widths, "one width at least, whole numbers >= 1")

    @property
    def network(self) -> Mlp:
        """What the parameters are of."""
        return Mlp((self.features.size, *self.hidden, self.actions))

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows [U, L, ...] -> {"parameters": [U, P] float32}."""
        sample = subsample_rows(rows, self.rows, ("observations", "actions"))
        target = sample["actions"][..., None] == np.arange(self.actions)
        weight = sample["mask"] / np.maximum(sample["mask"].sum(axis=1, keepdims=True), 1)
        x = self.features(sample["observations"])
        middle = (weight[..., None] * x).sum(axis=1, keepdims=True)
        width = np.sqrt((weight[..., None] * np.square(x - middle)).sum(axis=1, keepdims=True)) + _LEAST_SPREAD
        first = self.network.initial_parameters(np.random.default_rng(self.seed), 1)
        theta = np.repeat(first, len(target), axis=0)
        inputs = np.asarray((x - middle) / width, np.float32)
        parameters = descend(
            self.network, theta, inputs, target, weight, loss="softmax", steps=self.steps, rate=self.rate
        )
        entry = self.network.layers(parameters)[0]
        entry[:, :-1] /= width.swapaxes(1, 2)
        entry[:, -1] -= (middle.swapaxes(1, 2) * entry[:, :-1]).sum(axis=1)
        return {"parameters": parameters}

    def experts(self, parameters: Array) -> StackedPolicies:
        """The policies of m clones with parameters [m, P]."""
        return StackedPolicies.from_mlp(self.features, self.network, parameters, self.floor)


Clone = LinearClone | MlpClone


def subsample_rows(rows: Mapping[str, Array], max_rows: int, names: tuple[str, ...]) -> dict[str, Array]:
    """At most so many of each expert's rows, evenly spaced over its own: columns [U, most, ...] and "mask"."""
    # rows: padded columns [U, L, ...] with "mask" [U, L], true for the first rows of each expert
    count = rows["mask"].sum(axis=1)[:, None]
    place = np.arange(min(max_rows, rows["mask"].shape[1]))
    where = np.where(count > len(place), place * count // len(place), np.minimum(place, np.maximum(count - 1, 0)))
    units = np.arange(len(where))[:, None]
    return {name: rows[name][units, where] for name in names} | {"mask": place < count}


def _check_clone(features: object, actions: object, floor: float) -> None:
    if not isinstance(features, Scaled | OneHot | Quadratic):
        raise PlanError(
            f"the clones share a {type(features).__name__} as their features",
            where="clone",
            expected="a public map: Scaled, Quadratic or OneHot",
            remedy="leave encoders out: one that learnt from several experts' rows ties their clones together, "
            "and then one expert is more than one vote",
        )
    valid = type(actions) is int and actions >= 2
    require_valid("clone.actions", actions, valid, "a whole number >= 2")
    assert isinstance(actions, int)
    require_valid("clone.floor", floor, 0 <= floor < 1 / actions, "a probability below 1 / actions")
