"""Clones: each expert's policy, learnt from that expert's own rows alone.

A clone is a frozen dataclass of public settings: a `Summary` (rows to parameters) and, with parameters, policies. All
experts' clones are computed side by side in products that are batched over experts, one matrix product an expert, so an
expert's clone is the same bits for any other experts: that is what makes one expert one vote.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import Features, OneHot, Quadratic, Scaled
from tacit.agents.networks import Mlp
from tacit.agents.stacked import Stacked
from tacit.errors import PlanError
from tacit.methods.experts.fitting import descend
from tacit.validation import check

Array = NDArray[Any]

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
        check("clone.ridge", self.ridge, 0 < self.ridge < math.inf, "a finite number > 0")

    @property
    def network(self) -> Mlp:
        """What the parameters are of."""
        return Mlp((self.features.size, self.actions), gain=0.0)

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows [U, L, ...] -> {"parameters": [U, P] float32}."""
        mask = np.asarray(rows["mask"], np.float64)[..., None]
        seen = self.features(rows["observations"])
        x = np.concatenate([seen, np.ones((*seen.shape[:-1], 1))], axis=-1) * mask
        y = ((rows["actions"][..., None] == np.arange(self.actions)) - 1.0 / self.actions) * mask
        turned, count = x.swapaxes(1, 2), mask.sum(axis=1)[:, None]
        gram = turned @ x / count + self.ridge * np.eye(x.shape[2])
        theta = np.linalg.solve(gram, turned @ y / count)
        return {"parameters": theta.reshape(len(theta), -1).astype(np.float32)}

    def experts(self, parameters: Array) -> Stacked:
        """The policies of m clones with parameters [m, P]."""
        return Stacked.from_mlp(self.features, self.network, parameters, self.floor)


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
            check(f"clone.{name}", value, type(value) is int and value >= 1, "a whole number >= 1")
        check("clone.rate", self.rate, 0 < self.rate < math.inf, "a finite number > 0")
        widths = len(self.hidden) >= 1 and all(type(width) is int and width >= 1 for width in self.hidden)
        check("clone.hidden", self.hidden, widths, "one width at least, whole numbers >= 1")

    @property
    def network(self) -> Mlp:
        """What the parameters are of."""
        return Mlp((self.features.size, *self.hidden, self.actions))

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows [U, L, ...] -> {"parameters": [U, P] float32}."""
        sample = spread(rows, self.rows, ("observations", "actions"))
        target = sample["actions"][..., None] == np.arange(self.actions)
        weight = sample["mask"] / np.maximum(sample["mask"].sum(axis=1, keepdims=True), 1)
        x = self.features(sample["observations"])
        middle = (weight[..., None] * x).sum(axis=1, keepdims=True)
        width = np.sqrt((weight[..., None] * np.square(x - middle)).sum(axis=1, keepdims=True)) + _LEAST_SPREAD
        first = self.network.initial(np.random.default_rng(self.seed), 1)
        theta = np.repeat(first, len(target), axis=0)
        inputs = np.asarray((x - middle) / width, np.float32)
        parameters = descend(
            self.network, theta, inputs, target, weight, loss="softmax", steps=self.steps, rate=self.rate
        )
        entry = self.network.layers(parameters)[0]
        entry[:, :-1] /= width.swapaxes(1, 2)
        entry[:, -1] -= (middle.swapaxes(1, 2) * entry[:, :-1]).sum(axis=1)
        return {"parameters": parameters}

    def experts(self, parameters: Array) -> Stacked:
        """The policies of m clones with parameters [m, P]."""
        return Stacked.from_mlp(self.features, self.network, parameters, self.floor)


Clone = LinearClone | MlpClone


def spread(rows: Mapping[str, Array], most: int, names: tuple[str, ...]) -> dict[str, Array]:
    """At most so many of each expert's rows, evenly spaced over its own: columns [U, most, ...] and "mask"."""
    # rows: padded columns [U, L, ...] with "mask" [U, L], true for the first rows of each expert
    count = rows["mask"].sum(axis=1)[:, None]
    place = np.arange(min(most, rows["mask"].shape[1]))
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
    check("clone.actions", actions, valid, "a whole number >= 2")
    assert isinstance(actions, int)
    check("clone.floor", floor, 0 <= floor < 1 / actions, "a probability below 1 / actions")
