"""What one person adds: the mean of a statistic over her own days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.data.days import days_of

Rows = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Statistic(Protocol):
    """What is counted of a day: a frozen dataclass whose fields are public."""

    @property
    def size(self) -> int:
        """d."""

    def __call__(self, days: Ints) -> Floats:
        """Cells [n, 48] -> [n, d], each day alone."""


@dataclass(frozen=True)
class Averages:
    """Every person's mean of a statistic over her whole days, zero for whoever has none; kept in the vault."""

    statistic: Statistic

    def __call__(self, rows: Rows) -> dict[str, Floats]:
        """Rows of U people -> `mean` [U, d]."""
        days, owner = days_of(rows)
        people = len(rows["mask"])
        totals = np.zeros((people, self.statistic.size))
        np.add.at(totals, owner, self.statistic(days))
        return {"mean": totals / np.maximum(np.bincount(owner, minlength=people), 1)[:, None]}


@dataclass(frozen=True)
class Mean:
    """The contribution: a person's own average."""

    summary: Averages

    def __call__(self, rows: Rows, state: object = None) -> Floats:
        """A summary of U people -> [U, d]."""
        return np.asarray(rows["mean"], np.float64)
