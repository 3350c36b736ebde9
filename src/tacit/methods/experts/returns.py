"""How much an expert's say counts: a bounded weight from the expert's own returns, within public bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.validation import check


@dataclass(frozen=True, kw_only=True)
class ReturnWeight:
    """w = exp(sharpness (z - 1)) in (0, 1], z = the expert's mean return, from `low` = 0 to `high` = 1, clipped there.

    Raises:
        PlanError: a bound is not finite, low >= high, or the sharpness is negative or above 30.
    """

    low: float
    """public return of an episode of no use; never taken from the records."""
    high: float
    """that of a very good one, likewise."""
    sharpness: float = 6.0
    """beta; an expert at `low` counts exp(-beta) times as much as one at `high`. 0 weighs all alike."""

    def __post_init__(self) -> None:
        sane = -math.inf < self.low < self.high < math.inf
        check("weight.low, high", (self.low, self.high), sane, "finite public returns, the lower first")
        check("weight.sharpness", self.sharpness, 0 <= self.sharpness <= 30, "a number from 0 to 30")

    def __call__(self, rows: Mapping[str, NDArray[np.generic]]) -> NDArray[np.float64]:
        """Rows of U experts in order of time (a `Summary`'s) -> weights [U]."""
        z = (mean_returns(rows) - self.low) / (self.high - self.low)
        return np.asarray(np.exp(self.sharpness * (np.clip(z, 0.0, 1.0) - 1.0)))


def mean_returns(rows: Mapping[str, NDArray[np.generic]]) -> NDArray[np.float64]:
    """Each expert's mean undiscounted return, [U], over the episodes that end within the rows.

    The last episode is left out where the rows break it off, unless it is the only one.
    """
    mask, rewards = np.asarray(rows["mask"], bool), np.asarray(rows["rewards"], np.float64)
    starts = np.asarray(rows["starts"], bool) & mask
    episodes, units = starts.sum(axis=1), np.arange(len(mask))
    last_row = np.maximum(mask.sum(axis=1) - 1, 0)
    ended = np.asarray(rows["terminations"], bool) | np.asarray(rows["truncations"], bool)
    broken = mask.all(axis=1) & ~ended[units, last_row] & (episodes > 1)
    place = np.cumsum(starts, axis=1)
    counted = mask & (place <= (episodes - broken)[:, None])
    return np.asarray(np.where(counted, rewards, 0.0).sum(axis=1) / np.maximum(episodes - broken, 1))
