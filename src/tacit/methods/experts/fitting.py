"""From noisy votes to a policy: post-processing, so nothing here costs privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Policy
from tacit.privacy.parts import check

Array = NDArray[Any]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

Loss = Literal["squares"]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How the policy is fitted to the votes.

    Args:
        loss: "squares" of the outputs' distance from the centred shares.
        ridge: penalty of squared parameters, an anchor.

    Raises:
        PlanError: a value is out of range.
    """

    loss: Loss = "squares"
    ridge: float = 1e-6

    def __post_init__(self) -> None:
        check("fit.loss", self.loss, self.loss in get_args(Loss), " or ".join(get_args(Loss)))
        check("fit.ridge", self.ridge, 0 < self.ridge < math.inf, "a finite number > 0")


def fit(how: Fit, policy: Policy, states: Array, votes: Float64) -> Float32:
    """The policy's parameters [R, P], for states [R, N, ...] and centred votes [R, N, A]."""
    return _least_squares(policy, states, votes, how.ridge)


def _least_squares(policy: Policy, states: Array, votes: Float64, ridge: float) -> Float32:
    x = policy.features(states).astype(np.float64)
    x = np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)
    turned = x.swapaxes(1, 2)
    gram = turned @ x / x.shape[1] + ridge * np.eye(x.shape[2])
    theta = np.linalg.solve(gram, turned @ votes / x.shape[1])
    return np.asarray(theta.reshape(len(theta), -1), np.float32)
