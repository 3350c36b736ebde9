"""What is evaluated: discounted value over a public horizon, with a public range."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.data.spec import PublicSpec
from tacit.validation import check

MOST_ROWS = 100_000
"""Rows of one unit that may be read: they are held side by side in memory."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The value that is asked for, and how much of each unit may be read for it.

    The value (and its interval) is the expected discounted return over the horizon, from the start of an episode. The
    values of states are those of going on: they have no horizon, and are bootstrapped after a cut.

    Args:
        gamma: discount factor, in [0, 1].
        horizon: steps that count of each episode; later ones are cut.
        episodes_per_unit: episodes that count of each unit; later ones are cut. A unit contributes the mean over its
            episodes, so every unit weighs the same.
        return_range: public (lowest, highest) discounted return of an episode from any of its steps, and so value of a
            state; None takes the widest that the reward's bounds allow. Returns outside are moved onto it, which
            biases the value; a range that is far too wide costs accuracy at a small epsilon.

    Raises:
        PlanError: a value is out of range.
    """

    gamma: float
    horizon: int
    episodes_per_unit: int = 1
    return_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check("gamma", self.gamma, 0 <= self.gamma <= 1, "a number in [0, 1]")
        for name in ("horizon", "episodes_per_unit"):
            value = getattr(self, name)
            check(name, value, type(value) is int and value >= 1, "a whole number >= 1")
        rows = self.rows_per_unit
        check("horizon times episodes_per_unit", rows, rows <= MOST_ROWS, f"at most {MOST_ROWS:,} rows of one unit")
        if self.return_range is not None:
            low, high = self.return_range
            valid = math.isfinite(low) and math.isfinite(high) and low < high
            check("return_range", self.return_range, valid, "two finite numbers, the lower first")
            object.__setattr__(self, "return_range", (float(low), float(high)))

    @property
    def rows_per_unit(self) -> int:
        """Rows of one unit that are read: its first ones in order of time."""
        return self.horizon * self.episodes_per_unit

    @property
    def discounted_length(self) -> float:
        """sum_{t < horizon} gamma^t: the return of a reward of 1 at every step."""
        return float(self.horizon) if self.gamma == 1 else (1 - self.gamma**self.horizon) / (1 - self.gamma)

    def range(self, spec: PublicSpec) -> tuple[float, float]:
        """The public range of values: `return_range`, or what the reward's bounds allow, 0 included."""
        if self.return_range is not None:
            return self.return_range
        length = self.discounted_length
        return min(0.0, spec.reward.low[0] * length), max(0.0, spec.reward.high[0] * length)
