"""Q-learning with values linear in the Fourier basis, in many simulated episodes at once, and soft policies from it.
The update is Watkins's Q(lambda) (C. Watkins, "Learning from delayed rewards", 1989): a trace ends at an action that is
not greedy. Every feature learns at the rate alpha / |c| of Konidaris, Osentoski and Thomas (AAAI 2011), alpha falling
to 0 along a line, and the update of a step is the mean over the episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.agents.features import fourier, frequencies
from tacit.envs.rollouts import Domain
from tacit.errors import PlanError

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FourierQ:
    """Q(s, a) = sum over c of cos(pi c . x) weights[c, a], x the observation scaled from its bounds [d] to [0, 1]^d;
    weights [n, A], frequencies [n, d]."""

    weights: FloatArray
    frequencies: FloatArray
    low: tuple[float, ...]
    high: tuple[float, ...]

    def features(self, observations: Array) -> FloatArray:
        """[N, n] for observations [N, d]."""
        return fourier(observations, self.low, self.high, self.frequencies)

    def __call__(self, observations: Array) -> FloatArray:
        """Q [N, A] of observations [N, d]."""
        return np.asarray(self.features(observations) @ self.weights)


def learn(
    simulator: Domain,
    starts: Callable[[int, np.random.Generator], Array],
    *,
    actions: int,
    low: tuple[float, ...],
    high: tuple[float, ...],
    order: int,
    coupled: bool = True,
    gamma: float,
    rate: float,
    trace: float,
    epsilon: float,
    episodes: int,
    horizon: int,
    steps: int,
    seed: int,
) -> FourierQ:
    """Train for a fixed number of steps; the same arguments give the same weights.

    Args:
        simulator: the environment.
        starts: maps (n, generator) to n first states.
        actions: how many actions there are.
        low, high: [d] bounds of the observations.
        order, coupled: of the basis, as in `frequencies`.
        gamma: discount.
        rate: alpha of the first step.
        trace: lambda.
        epsilon: probability of a uniform action instead of the greedy one.
        episodes: how many run side by side; an episode that ends is replaced by a new one.
        horizon: steps after which an episode is cut (its last state keeps its value).
        steps: steps of all of them.
        seed: of everything random.

    Raises:
        PlanError: the weights diverged.
    """
    generator = np.random.default_rng(seed)
    c = frequencies(len(low), order, coupled=coupled)
    rates = rate / np.maximum(1.0, np.linalg.norm(c, axis=1))[:, None]
    weights = np.zeros((len(c), actions))
    traces = np.zeros((episodes, len(c), actions))
    every = np.arange(episodes)
    state, age = starts(episodes, generator), np.zeros(episodes, dtype=np.int64)
    features = fourier(simulator.observe(state), low, high, c)
    for k in range(steps):
        q = features @ weights
        greedy = q.argmax(axis=1)
        chosen = np.where(generator.random(episodes) < epsilon, generator.integers(actions, size=episodes), greedy)
        state, rewards, terminated = simulator.step(state, chosen, generator)
        next_features = fourier(simulator.observe(state), low, high, c)
        td_target = rewards + gamma * np.where(terminated, 0.0, (next_features @ weights).max(axis=1))
        traces *= np.where(chosen == greedy, gamma * trace, 0.0)[:, None, None]
        traces[every, :, chosen] += features
        weights += (1.0 - k / steps) * rates * np.tensordot(td_target - q[every, chosen], traces, axes=1) / episodes
        age += 1
        done = terminated | (age >= horizon)
        if done.any():
            state[done] = starts(int(done.sum()), generator)
            age[done], traces[done] = 0, 0.0
            next_features[done] = fourier(simulator.observe(state[done]), low, high, c)
        features = next_features
    if not np.isfinite(weights).all():
        what, expected = "the weights diverged", "a smaller rate"
        raise PlanError(what, where="q_learning.learn", expected=expected, remedy="lower rate= or trace=")
    return FourierQ(weights, c, low, high)


def epsilon_greedy(q: Callable[[Array], FloatArray], epsilon: float) -> Callable[[Array], FloatArray]:
    """The policy that takes the action of largest Q, but a uniform one with probability `epsilon`."""

    def probabilities(observations: Array) -> FloatArray:
        values = q(observations)
        actions = values.shape[1]
        best = np.eye(actions)[values.argmax(axis=1)]
        return np.asarray((1.0 - epsilon) * best + epsilon / actions)

    return probabilities


def softmax(q: Callable[[Array], FloatArray], temperature: float) -> Callable[[Array], FloatArray]:
    """The policy with probabilities in proportion to exp(Q / temperature)."""

    def probabilities(observations: Array) -> FloatArray:
        values = q(observations) / temperature
        weight = np.exp(values - values.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    return probabilities


# Fitted Q iteration (Ernst, Geurts and Wehenkel, JMLR 6, 2005), linear in the Fourier basis, from logged rows.


def fit(
    tables: Sequence[Mapping[str, npt.NDArray[Any]]],
    *,
    actions: int,
    low: tuple[float, ...],
    high: tuple[float, ...],
    order: int,
    coupled: bool,
    gamma: float,
    value: tuple[float, float],
    ridge: float = 1e-4,
    iterations: int = 80,
) -> FourierQ:
    """Regress r + gamma max Q(s', a') on the features of s, action by action, again and again from Q = 0.

    Args:
        tables: rows of which all are used: observations [T, d], actions [T], rewards [T], next_observations [T, d],
            terminations [T].
        actions, low, high, order, coupled, gamma: as of `learn`.
        value: bounds that the goals of the regression are kept in.
        ridge: penalty on the squared weights, times the number of rows over that of actions.
        iterations: how many regressions.
    """
    c = frequencies(len(low), order, coupled=coupled)
    names = ("observations", "actions", "rewards", "next_observations", "terminations")
    columns = (np.concatenate([table[name] for table in tables]) for name in names)
    observations, logged_actions, rewards, next_observations, terminated = columns
    features, next_features = fourier(observations, low, high, c), fourier(next_observations, low, high, c)
    penalty = ridge * len(rewards) / actions * np.eye(len(c))
    solvers = []
    for a in range(actions):
        rows = np.flatnonzero(logged_actions == a)
        solvers.append((rows, np.linalg.solve(features[rows].T @ features[rows] + penalty, features[rows].T)))
    weights = np.zeros((len(c), actions))
    for _ in range(iterations):
        best = np.where(terminated, 0.0, (next_features @ weights).max(axis=1))
        td_target = np.clip(rewards + gamma * best, *value)
        weights = np.stack([solver @ td_target[rows] for rows, solver in solvers], axis=1)
    return FourierQ(weights, c, low, high)
