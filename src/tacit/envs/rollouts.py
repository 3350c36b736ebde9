"""What the domains with discrete actions share: logging the rows of a policy, and its true values by Monte Carlo."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tacit.data.memory import Memory
from tacit.data.spec import Discrete, PublicSpec
from tacit.errors import DataError

# What the simulators with physical parameters share: the check of these parameters.


def require_physical(where: str, positive: Mapping[str, float], nonnegative: Mapping[str, float] | None = None) -> None:
    """Refuse physical parameters that are out of range.

    Args:
        where: the simulator's name.
        positive: names and values that must be finite and above 0.
        nonnegative: those that may be 0, too.

    Raises:
        DataError: one of them is out of range.
    """
    for values, least, words in ((positive, 0.0, "> 0"), (nonnegative or {}, -math.ulp(0.0), ">= 0")):
        for name, value in values.items():
            if not (math.isfinite(value) and value > least):
                remedy = f"choose another {name}, or leave it out for the usual one"
                raise DataError(f"{name} is {value!r}", where=where, expected=f"a finite number {words}", remedy=remedy)


# What evaluation asks of trained policies.


class Policies(Protocol):
    """K deterministic policies that act together, as agents that learn from tables do."""

    @property
    def members(self) -> int:
        """K."""

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Actions [K, N, d_a] for observations [K, N, d]."""


Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
Stepped = tuple[Array, FloatArray, npt.NDArray[np.bool_]]
"""Next states [N, ...], rewards [N], and which episodes terminated [N]."""
Policy = Callable[[Array], Array]
"""Observations [N] or [N, d] to the probabilities [N, A] of the actions."""


@dataclass(frozen=True)
class PlaneWorld:
    """A public simulator of point masses in a plane with walls, whose rows begin with a position, as a report asks
    it."""

    # name and unit of each scalar column: observations, actions, rewards, next observations
    columns: Sequence[tuple[str, str]]
    cells: tuple[str, ...]  # rows of the plane's cells, '#' for a wall; x grows with the row and y with the column
    origin: float  # cell 0 covers [-origin, 1 - origin] on both axes
    goal: tuple[float, float]  # where it is, (x, y)
    starts: tuple[str, ...]  # from where policies are evaluated, such as "all", the first, and "far"
    baseline: tuple[str, Policies]  # a policy that learns nothing, and what a report calls it
    step: Callable[[FloatArray, Array], FloatArray]  # states [N, 4] and actions [N, a] to true next states [N, 4]
    reward: Callable[[FloatArray], FloatArray]  # states [N, 4] to true rewards [N]
    in_wall: Callable[[FloatArray], npt.NDArray[np.bool_]]  # positions [N, 2] to whether they lie inside walls, [N]
    # (policies, starts=, seed=, episodes=) to the mean normalised return of each policy, [K]
    evaluate: Callable[..., FloatArray]


class Domain(Protocol):
    """A simulator of N units at once."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """First states [N, ...]."""

    def step(self, state: Array, action: npt.NDArray[np.int64], generator: np.random.Generator) -> Stepped:
        """Next states, rewards [N] and whether the episodes terminated [N], for states [N, ...] and actions [N]."""

    def observe(self, state: Array) -> Array:
        """Observations [N] or [N, d] of states [N, ...]: what policies and records see."""


def uniform_policy(actions: int) -> Policy:
    """The policy that takes every one of `actions` actions with the same probability."""
    return lambda observations: np.full((len(observations), actions), 1.0 / actions)


def collect(domain: Domain, policy: Policy, units: int, *, seed: int, horizon: int) -> dict[str, Array]:
    """Log one episode of each of N units until it terminates, or is truncated after `horizon` steps.

    Args:
        domain: the simulator.
        policy: the behaviour policy.
        units: N.
        seed: of the starts, the actions and the dynamics; the same arguments give the same rows.
        horizon: most steps of an episode.

    Returns:
        Columns in the order unit, time, as `Trajectories.from_arrays` takes them: observations, next_observations
        (float32, or int64 where they are discrete), actions int64, rewards float32, terminations and truncations bool,
        propensities float32 (probability of the logged action), unit_ids and episode_ids int64 (0 .. N - 1).
    """
    generator = np.random.default_rng(seed)
    alive, state = np.arange(units), domain.starts(units, generator)
    observations = domain.observe(state)
    blocks = []
    for t in range(horizon):
        probabilities = policy(observations)
        actions = draw(probabilities, generator)
        state, rewards, terminated = domain.step(state, actions, generator)
        next_observations = domain.observe(state)
        blocks.append(
            {
                "observations": observations,
                "actions": actions,
                "rewards": rewards.astype(np.float32),
                "next_observations": next_observations,
                "terminations": terminated,
                "truncations": ~terminated & (t == horizon - 1),
                "propensities": probabilities[np.arange(len(actions)), actions].astype(np.float32),
                "unit_ids": alive,
                "episode_ids": alive,
            }
        )
        alive, state, observations = alive[~terminated], state[~terminated], next_observations[~terminated]
        if not len(alive):
            break
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    order = np.argsort(columns["unit_ids"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def monte_carlo_values(
    domain: Domain, policy: Policy, states: Array, *, rollouts: int, horizon: int, gamma: float, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Discounted returns of a policy from given states, by Monte Carlo.

    Args:
        domain: the simulator.
        policy: the policy that is evaluated.
        states: [S, ...] first states.
        rollouts: independent episodes from each of them, at least 2.
        horizon: steps after which the rest of a return is left out (at most gamma^horizon / (1 - gamma) of the largest
            reward).
        gamma: discount.
        seed: of the actions and the dynamics.

    Returns:
        Mean returns [S] and their standard errors [S].
    """
    generator = np.random.default_rng(seed)
    state = np.repeat(states, rollouts, axis=0)
    total, alive, weight = np.zeros(len(state)), np.arange(len(state)), 1.0
    for _ in range(horizon):
        actions = draw(policy(domain.observe(state)), generator)
        state, rewards, terminated = domain.step(state, actions, generator)
        total[alive] += weight * rewards
        weight *= gamma
        alive, state = alive[~terminated], state[~terminated]
        if not len(alive):
            break
    returns = total.reshape(len(states), rollouts)
    return returns.mean(axis=1), returns.std(axis=1, ddof=1) / np.sqrt(rollouts)


def projected_bellman_error(a: FloatArray, b: FloatArray, c: FloatArray, theta: npt.ArrayLike) -> float:
    """The mean squared projected Bellman error (b - A theta)^T C^-1 (b - A theta) of theta [n], for A [n, n], b [n] and
    C [n, n] (positive definite); infinite where a weight is not finite."""
    weights = np.asarray(theta, dtype=np.float64)
    if not np.isfinite(weights).all():
        return float("inf")
    residual = b - a @ weights
    return float(residual @ np.linalg.solve(c, residual))


def draw(probabilities: Array, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """One action [N] from each row of `probabilities` [N, A]; never one of probability 0."""
    below = np.cumsum(probabilities, axis=1)
    point = generator.random(len(below)) * below[:, -1]
    return np.asarray((below <= point[:, None]).sum(axis=1), dtype=np.int64)


# A finite domain that shows how many steps have gone by, for policies that plan to a horizon.


@dataclass(frozen=True)
class TimedDomain:
    """A domain whose states are 0 .. S - 1, with state and observation t S + s after t steps."""

    domain: Domain  # the simulator; its states are what it shows
    states: int  # S
    horizon: int  # H, after which t stays

    def __post_init__(self) -> None:
        if self.states < 1 or self.horizon < 1:
            what, expected = f"there are {self.states} states and {self.horizon} steps", "at least one of each"
            raise DataError(what, where="Timed", expected=expected, remedy="give the domain's own numbers")

    def spec(self, spec: PublicSpec) -> PublicSpec:
        """The public spec with the (H + 1) S observations of this domain."""
        return replace(spec, observation=Discrete((self.horizon + 1) * self.states))

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """Those of the domain, at time 0."""
        return self.domain.starts(units, generator)

    def step(self, state: Array, action: npt.NDArray[np.int64], generator: np.random.Generator) -> Stepped:
        """Next states, rewards and ends [N] of the domain, one step later."""
        time, place = np.divmod(state, self.states)
        next_place, rewards, terminated = self.domain.step(place, action, generator)
        return np.minimum(time + 1, self.horizon) * self.states + next_place, rewards, terminated

    def observe(self, state: Array) -> Array:
        """The states themselves."""
        return state


# A domain that shows what a course has shown so far, for policies that were learned from memories.


@dataclass(frozen=True)
class MemoryDomain:
    """A domain of continuous observations that shows the memory of the episode so far (`tacit.data.memory`). A state is
    a row of three fields: `inner`, the domain's own state; `held`, the memory; `count`, how many observations it has
    met. So a policy of memories needs no state of its own, however many people it serves."""

    domain: Domain
    memory: Memory

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """[N], those of the domain with nothing seen before."""
        inner = self.domain.starts(units, generator)
        observations = np.asarray(self.domain.observe(inner), np.float64)
        return _pack_state(inner, observations, np.ones(len(observations), np.int64))

    def step(self, state: Array, action: npt.NDArray[np.int64], generator: np.random.Generator) -> Stepped:
        """Next states, rewards and ends [N] of the domain; the new observation enters the memory."""
        inner, rewards, terminated = self.domain.step(state["inner"], action, generator)
        count = state["count"] + 1
        remembered = self.memory.update(state["held"], self.domain.observe(inner), count)
        return _pack_state(inner, remembered, count), rewards, terminated

    def observe(self, state: Array) -> Array:
        """[N, d] float32, the memory."""
        return np.asarray(state["held"], np.float32)

    @property
    def truncated(self) -> Callable[[Array], npt.NDArray[np.bool_]] | None:
        """Which episodes the domain itself has cut, where it has a limit of its own."""
        limit_reached: Any = getattr(self.domain, "truncated", None)
        return None if limit_reached is None else lambda state: limit_reached(state["inner"])


def _pack_state(inner: Array, held: Array, count: Array) -> Array:
    kinds = [("inner", inner.dtype, inner.shape[1:]), ("held", np.float64, held.shape[1:]), ("count", np.int64)]
    state = np.empty(len(inner), kinds)
    state["inner"], state["held"], state["count"] = inner, held, count
    return state
