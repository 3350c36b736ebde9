"""The pieces of a plan of policy gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tacit.validation import check

Critic = Literal["none", "local", "private", "public", "shared"]
"""Where advantages take values from: from nowhere; from each person's own rows alone; from a critic that is released
with the policy under one clip; from a public critic; or, without any privacy, from a critic that everybody teaches."""

Schedule = Literal["linear", "constant"]
"""How the step size goes on: in a straight line to 0 after the last round, or not at all."""


@dataclass(frozen=True, kw_only=True)
class Local:
    """What a person computes from own rows: the paper's local PPO updates (its algorithm 3) instead of one gradient.

    Args:
        epochs: passes over own rows.
        minibatches: parts of a pass, one Adam step each.
        learning_rate: of the person's Adam.
        entropy: coefficient of the policy's entropy.
        seeded: whether Adam begins with the moments of the update that was released last, instead of with none.

    Raises:
        PlanError: a value is out of range.
    """

    epochs: int = 8
    minibatches: int = 2
    learning_rate: float = 2.5e-4
    entropy: float = 0.0
    seeded: bool = True

    def __post_init__(self) -> None:
        whole(epochs=self.epochs, minibatches=self.minibatches)
        positive(learning_rate=self.learning_rate)
        check("entropy", self.entropy, 0 <= self.entropy < math.inf, "a finite number >= 0")


@dataclass(frozen=True, kw_only=True)
class Staircase:
    """A step size that is divided by `factor` after every so many rounds, down to a least one (the paper's RiverSwim).

    Args:
        factor: > 1.
        every: rounds a stair.
        least: the smallest step size.

    Raises:
        PlanError: a value is out of range.
    """

    factor: float
    every: int
    least: float

    def __post_init__(self) -> None:
        whole(every=self.every)
        positive(least=self.least)
        check("factor", self.factor, 1 < self.factor < math.inf, "a finite number > 1")


def whole(**values: int) -> None:
    """Raise a PlanError unless all are whole numbers of at least 1."""
    for name, value in values.items():
        check(name, value, type(value) is int and value >= 1, "a whole number >= 1")


def positive(**values: float) -> None:
    """Raise a PlanError unless all are finite and above 0."""
    for name, value in values.items():
        check(name, value, math.isfinite(value) and value > 0, "a finite number > 0")
