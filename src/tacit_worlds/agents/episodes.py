"""Episodes of several agents side by side, as on-policy learners meet them: rollouts, statistics, advantages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Episodes", "Rows", "Running", "Simulator", "advantages", "normalized"]

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_RANGE = 10.0  # normalised observations and scaled rewards are cut here


class Simulator(Protocol):
    """What learning asks of an environment: M states [M, ...] moved by M actions, and what is seen of them [M, d]."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """First states [M, ...]."""

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> tuple[Array, FloatArray, BoolArray]:
        """Next states, rewards [M] and whether the episodes terminated [M]."""

    def observe(self, state: Array) -> Array:
        """Observations [M, d]."""


def advantages(
    rewards: Array, values: Array, following: Array, terminated: BoolArray, over: BoolArray, gamma: float, trace: float
) -> Array:
    """Generalised advantages (Schulman et al., arXiv:1506.02438, equation 16) of steps [T, ...]."""
    # rewards, values, following: [T, ...] rewards, values of the states and of the states after them; terminated: the
    # episode ended in the state after, which is worth 0; over: it ended or was cut, later steps belong to another one;
    # gamma, trace: discount and lambda
    error = rewards + gamma * np.where(terminated, 0.0, following) - values
    out, later = np.empty_like(error), np.zeros_like(error[0])
    for t in range(len(error) - 1, -1, -1):
        later = error[t] + gamma * trace * np.where(over[t], 0.0, later)
        out[t] = later
    return out


def normalized(observations: Array, mean: FloatArray, deviation: FloatArray) -> F32:
    """(observations [G, N, d] - mean [G, d]) / deviation [G, d], cut to [-10, 10]."""
    x = (observations - mean[:, None]) / deviation[:, None]
    return np.asarray(np.clip(x, -_RANGE, _RANGE), dtype=np.float32)


@dataclass
class Running:
    """Mean and variance [G, d] of all values seen so far, each agent's own; the prior is one standard normal value."""

    mean: FloatArray
    variance: FloatArray
    count: float = 1.0

    @classmethod
    def of(cls, agents: int, size: int) -> Running:
        """Before any value."""
        return cls(np.zeros((agents, size)), np.ones((agents, size)))

    def add(self, values: Array) -> None:
        """Enter values [G, N, d]."""
        n = values.shape[1]
        total = self.count + n
        shift = values.mean(axis=1) - self.mean
        between = np.square(shift) * self.count * n / total
        self.variance = (self.variance * self.count + values.var(axis=1) * n + between) / total
        self.mean = self.mean + shift * (n / total)
        self.count = total

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation [G, d]."""
        return np.asarray(np.sqrt(self.variance + 1e-8))


@dataclass(frozen=True, eq=False)
class Rows:
    """The steps of a rollout, agent by agent: T steps of N episodes are rows [G, T * N]."""

    x: F32  # [G, T N, d] normalised observations
    actions: Array  # [G, T N, ...] actions that were played
    log_probability: F32  # [G, T N] of them
    advantage: F32  # advantage, goal: [G, T N] generalised advantages, and what the values should be
    goal: F32


class Episodes:
    """N running episodes of each of G agents, with the agents' running statistics of observations and returns."""

    def __init__(
        self,
        simulator: Simulator,
        *,
        agents: int,
        environments: int,
        observation: int,
        horizon: int,
        generator: np.random.Generator,
    ) -> None:
        self._simulator, self._horizon, self._generator = simulator, horizon, generator
        self._shape = (agents, environments)
        self._state = simulator.starts(agents * environments, generator)
        self._age = np.zeros(agents * environments, dtype=np.int64)
        self._returns = np.zeros(agents * environments)
        self._paid = Running.of(agents, 1)
        self.seen = Running.of(agents, observation)
        self._x = self._look(self._state)

    def _look(self, state: Array) -> F32:
        """What is seen of the states [G N], entered and normalised [G, N, d]."""
        observations = self._simulator.observe(state).reshape(*self._shape, -1)
        self.seen.add(observations)
        return normalized(observations, self.seen.mean, self.seen.deviation)

    def rollout(
        self,
        steps: int,
        act: Callable[[F32], tuple[Array, F32]],
        values: Callable[[F32], F32],
        gamma: float,
        trace: float,
    ) -> Rows:
        """Go on for T steps."""
        # steps: T; act: normalised observations [G, N, d] to actions [G, N, ...] and their log-probabilities [G, N];
        # values: normalised observations [G, M, d] to values [G, M]
        columns: dict[str, list[Array]] = {name: [] for name in ("x", "actions", "log", "paid", "end", "over", "after")}
        for _ in range(steps):
            actions, log_probability = act(self._x)
            row = {"x": self._x, "actions": actions, "log": log_probability, **self._step(actions, gamma)}
            for name, column in columns.items():
                column.append(row[name])
        joined = {name: _by_agent(column) for name, column in columns.items()}
        v, following = values(joined["x"]), values(joined["after"])
        paid, value, next_value, end, over = (
            self._by_step(column) for column in (joined["paid"], v, following, joined["end"], joined["over"])
        )
        gain = advantages(paid, value, next_value, end, over, gamma, trace)
        advantage = np.asarray(_by_agent(list(gain)), dtype=np.float32)
        return Rows(joined["x"], joined["actions"], joined["log"], advantage, advantage + v)

    def _by_step(self, column: Array) -> Array:
        """[T, G, N] of [G, T N]."""
        agents, environments = self._shape
        return column.reshape(agents, -1, environments).transpose(1, 0, 2)

    def _step(self, actions: Array, gamma: float) -> dict[str, Array]:
        """Move all episodes; scaled rewards, what happened, and the normalised observations after [G, N, d]."""
        played = actions.reshape(-1, *actions.shape[2:])
        state, paid, terminated = self._simulator.step(self._state, played, self._generator)
        self._age += 1
        over = terminated | (self._age >= self._horizon)
        self._returns = gamma * self._returns + paid
        self._paid.add(self._returns.reshape(*self._shape, 1))
        scaled = np.clip(paid.reshape(self._shape) / self._paid.deviation, -_RANGE, _RANGE)
        self._returns[over] = 0.0
        after = self._look(state)
        self._state, self._x = state, after
        if over.any():
            self._state[over] = self._simulator.starts(int(over.sum()), self._generator)
            self._age[over] = 0
            self._x = self._look(self._state)
        return {
            "paid": scaled,
            "end": terminated.reshape(self._shape),
            "over": over.reshape(self._shape),
            "after": after,
        }


def _by_agent(column: list[Array]) -> Array:
    """[G, T N, ...] of T arrays [G, N, ...]."""
    stacked = np.stack(column, axis=1)
    return stacked.reshape(len(stacked), -1, *stacked.shape[3:])
