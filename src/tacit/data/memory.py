"""What a course has shown so far, kept in the columns of its newest observation: a public function of the course alone.

The k-th observation x_k of an episode (k = 1, 2, ...) becomes m_k, column by column,

    m_1 = x_1,    m_k = m_{k-1} + max(rate, 1 / k) (x_k - m_{k-1})

so a rate of 1 is the newest value ("now"), 0 the mean of all so far ("mean"), and one between them an exponential mean
that begins as a plain one. m_k lies between the least and the largest value so far: public bounds stay as they are. A
row's memory depends on earlier rows of the same episode only, so what one unit adds to any sum still depends on that
unit's rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box
from tacit.errors import DataError
from tacit.serialization import Json
from tacit.validation import require_valid

Array = NDArray[Any]
Float64 = NDArray[np.float64]
NOW, MEAN = 1.0, 0.0
"""Rates of the newest value and of the mean of all so far."""


@dataclass(frozen=True)
class Memory(Json):
    """What of each column of an observation is kept: the rates, one a column, in [0, 1]: `NOW`, `MEAN`, or that of an
    exponential mean. Raises PlanError where a rate is no such number, or there are none."""

    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", tuple(float(rate) for rate in self.rates))
        valid = len(self.rates) > 0 and all(0 <= rate <= 1 for rate in self.rates)
        require_valid("memory.rates", self.rates, valid, "one number in [0, 1] for each column of an observation")

    def update(self, memories: Array, observations: Array, count: Array) -> Float64:
        """The memory [N, d] once an observation [N, d] was the `count`-th [N] of episodes that had `memories` [N, d].
        Where the count is 1, what was held before does not matter."""
        gain = np.maximum(np.array(self.rates), 1.0 / np.asarray(count)[:, None])
        previous = np.where(np.asarray(count)[:, None] > 1, memories, observations)
        return np.asarray(previous + gain * (np.asarray(observations, np.float64) - previous))

    def memories(
        self, observations: Array, next_observations: Array, starts: NDArray[np.bool_]
    ) -> tuple[Float64, Float64]:
        """The memory at each row, with its observation as the newest, and after it, with its next observation; [T, d]
        each. The rows [T, d] of an episode are together and in order; `starts` [T] says which is the first of one."""
        rows = np.arange(len(starts))
        first_rows = np.maximum.accumulate(np.where(starts, rows, 0)) if len(rows) else rows
        step = rows - first_rows
        memories = np.array(observations, np.float64)
        order = np.argsort(step, kind="stable")
        for t, now in enumerate(np.split(order, np.cumsum(np.bincount(step))[:-1])):
            if t:
                memories[now] = self.update(memories[now - 1], memories[now], np.full(len(now), t + 1))
        return memories, self.update(memories, next_observations, step + 2)

    def require_fit(self, space: object, *, where: str) -> None:
        """Refuse (DataError) observations that are discrete, or have another number of columns."""
        if not isinstance(space, Box) or space.size != len(self.rates):
            found = f"{space.size} columns" if isinstance(space, Box) else "one discrete number"
            what = f"a memory of {len(self.rates)} columns for observations of {found}"
            expected = "one rate for each column of a continuous observation"
            remedy = "give the memory as many rates as the observations have columns"
            raise DataError(what, where=where, expected=expected, remedy=remedy)


def memory_columns(columns: Mapping[str, Array], episodes: Array, memory: Memory) -> dict[str, Array]:
    """Memories in place of observations and next observations, [T, d] float32."""
    starts = np.zeros(len(columns["rewards"]), np.bool_)
    starts[episodes[:-1]] = True
    observations, next_observations = memory.memories(columns["observations"], columns["next_observations"], starts)
    return {"observations": observations.astype(np.float32), "next_observations": next_observations.astype(np.float32)}
