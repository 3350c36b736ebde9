"""The chain of 40 states on which private policy evaluation is compared (Xie et al., "Privacy preserving off-policy
evaluation", arXiv 1902.00174), with everything about it in closed form.

A unit starts at one of the states 0 .. 38, uniformly; in every step it stays or advances by one with probability 1/2
each; entering state 39 pays 1 and ends the episode, every other step pays 0. There are two actions, and neither has an
effect: every policy has the same value, so that whatever an off-policy estimate gets wrong comes from its ratios.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Policy, Stepped, projected_bellman_error
from tacit.envs.rollouts import collect as _collect

STATES = 40
"""The last one is absorbing."""
ACTIONS = 2
GAMMA = 0.99
HORIZON = 160
"""Public cap on the length; a longer episode has a probability under 1e-11."""


def spec() -> PublicSpec:
    """Discrete observations and actions, rewards in [0, 1], logged propensities."""
    return PublicSpec(
        observation=Discrete(STATES),
        action=Discrete(ACTIONS),
        reward=Box((0.0,), (1.0,)),
        source="environment",
        propensities=True,
    )


class Chain:
    """The dynamics; a state is an int64."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """Uniform states that are not the last, [N]."""
        return generator.integers(STATES - 1, size=units)

    def step(self, state: Array, action: npt.NDArray[np.int64], generator: np.random.Generator) -> Stepped:
        """Next states, rewards and ends [N]; `action` [N] has no effect."""
        next_state = state + (generator.random(len(state)) < 0.5)
        terminated = next_state == STATES - 1
        return next_state, terminated.astype(np.float64), terminated

    def observe(self, state: Array) -> Array:
        """The states themselves."""
        return state


def collect(policy: Policy, units: int, *, seed: int, horizon: int = HORIZON) -> dict[str, Array]:
    """One episode of each of `units` units under `policy`; the columns of `tacit.envs.rollouts.collect`."""
    return _collect(Chain(), policy, units, seed=seed, horizon=horizon)


def values(gamma: float = GAMMA) -> FloatArray:
    """[39], the value of every state but the last: (gamma q)^(k - 1) q, q = 1/2 / (1 - gamma/2), of the k-th from the
    end."""
    q = 0.5 / (1.0 - 0.5 * gamma)
    return np.asarray(q * (gamma * q) ** np.arange(STATES - 2, -1, -1.0))


def expected_moments(gamma: float = GAMMA) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Expectations of a trajectory's means: A = E[phi (phi - gamma phi')^T], b = E[phi r], C = E[phi phi^T], [39, 39],
    [39] and [39, 39].

    phi is the one-hot of the 39 states, and the mean is over a trajectory's own steps (so that long and short ones
    weigh alike). With k states left, the visits N_j to each are geometric and exchangeable and their sum is the length
    L, so E[N_j / L] = 1/k; and E[1/L] = integral over [0, 1] of u^(k - 1) / (1 + u) du, which is ln 2 for k = 1 and 1/k
    less its value for k at k + 1.
    """
    n = STATES - 1
    inverse_length = np.empty(n)  # E[1/L] with k = 1 .. 39 states left
    inverse_length[0] = np.log(2.0)
    for k in range(1, n):
        inverse_length[k] = 1.0 / k - inverse_length[k - 1]
    visits = np.cumsum((1.0 / np.arange(1, n + 1))[::-1]) / n  # the state s is on the way from every start <= s
    moves = np.cumsum(inverse_length[::-1]) / n
    a = np.diag(visits - gamma * (visits - moves)) - gamma * np.diag(moves[:-1], 1)
    b = np.zeros(n)
    b[-1] = moves[-1]
    return a, b, np.diag(visits)


def mspbe(theta: npt.ArrayLike, gamma: float = GAMMA) -> float:
    """The mean squared projected Bellman error (b - A theta)^T C^-1 (b - A theta) of values theta [39]; infinite where
    they are not finite. Its minimum is not at the true values (which have 4.2e-7) but at a root mean square distance of
    0.0092 from them: a mean over a trajectory's own steps favours short trajectories, which advanced more often."""
    return projected_bellman_error(*expected_moments(gamma), theta)
