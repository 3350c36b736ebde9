"""Random decision processes with everything about them exact, for off-policy evaluation.

Construction, all of it from one seed: 20 states on a line. The action a in state s moves by d in {-2, .., 2}, stopping
at the ends, with probabilities drawn from a flat Dirichlet distribution for every (s, a). The step pays
0.75 u (s / 19)^3, u uniform in [0, 1] for every (s, a), so values rise along the line. The behaviour policy is the
softmax of 0.5 z, z standard normal for every (s, a); the target adds 1.2 times the mean move of (s, a), and so goes
further right. Starts are uniform; nothing terminates, and an episode is truncated after 40 steps; gamma is 0.95.

The default seed is one of 200 whose figures are close to a process of published size: the target's values lie between
0.71 and 5.36, with root mean square 3.06 and standard deviation 1.58 (the error of the best constant); the behaviour
policy's differ from them by 1.02; the largest ratio is 3.45.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Policy, projected_bellman_error
from tacit.envs.rollouts import collect as _collect

STATES, ACTIONS = 20, 3
GAMMA = 0.95
HORIZON = 40
REACH = 2


@dataclass(frozen=True, eq=False)
class RandomMdp:
    """One process and its two policies; a state is an int64."""

    transitions: FloatArray  # [S, A, S] probabilities
    rewards: FloatArray  # [S, A], in [0, 1]
    # behaviour, target: [S, A] probabilities of the actions
    behaviour: FloatArray
    target: FloatArray

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        return generator.integers(STATES, size=units)

    def step(
        self, state: Array, action: npt.NDArray[np.int64], generator: np.random.Generator
    ) -> tuple[Array, FloatArray, npt.NDArray[np.bool_]]:
        below = np.cumsum(self.transitions, axis=2)[state, action, :-1]
        after = (below <= generator.random(len(state))[:, None]).sum(axis=1)
        return after, self.rewards[state, action], np.zeros(len(state), dtype=bool)

    def observe(self, state: Array) -> Array:
        return state


def random_mdp(seed: int = 61) -> RandomMdp:
    """The process of a seed, by the construction in the module's description."""
    generator = np.random.default_rng(seed)
    place, moves = np.arange(STATES), np.arange(-REACH, REACH + 1)
    chance = generator.dirichlet(np.ones(len(moves)), (STATES, ACTIONS))
    transitions = np.zeros((STATES, ACTIONS, STATES))
    for k, move in enumerate(moves):
        transitions[place, :, np.clip(place + move, 0, STATES - 1)] += chance[:, :, k]
    rewards = 0.75 * generator.uniform(size=(STATES, ACTIONS)) * (place[:, None] / (STATES - 1)) ** 3
    taste = 0.5 * generator.standard_normal((STATES, ACTIONS))
    return RandomMdp(transitions, rewards, _softmax(taste), _softmax(taste + 1.2 * (chance @ moves)))


def spec() -> PublicSpec:
    """Discrete observations and actions, rewards in [0, 1], no terminations, logged propensities."""
    return PublicSpec(
        observation=Discrete(STATES),
        action=Discrete(ACTIONS),
        reward=Box((0.0,), (1.0,)),
        source="environment",
        terminals=False,
        propensities=True,
    )


def tabular(table: FloatArray) -> Policy:
    """The policy with the probabilities `table` [S, A]: `tabular(mdp.behaviour)`, `tabular(mdp.target)`."""
    return lambda observations: table[observations]


def collect(mdp: RandomMdp, policy: Policy, units: int, *, seed: int, horizon: int = HORIZON) -> dict[str, Array]:
    """One episode of each of `units` units under `policy`; the columns of `tacit.envs.rollouts.collect`."""
    return _collect(mdp, policy, units, seed=seed, horizon=horizon)


def values(mdp: RandomMdp, table: FloatArray, gamma: float = GAMMA) -> FloatArray:
    """[S], the value of every state under the policy `table` [S, A], without an end."""
    moves = np.einsum("sa,sat->st", table, mdp.transitions)
    return np.linalg.solve(np.eye(STATES) - gamma * moves, (table * mdp.rewards).sum(axis=1))


def population(
    mdp: RandomMdp, gamma: float = GAMMA, horizon: int = HORIZON
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Expectations over episodes of the behaviour policy of an episode's means, for the target policy.

    With d(s) the mean share of an episode's steps in s: C = diag(d), A = C (I - gamma P), b = C r, where P and r are
    the target's transitions and rewards (A = E[rho phi (phi - gamma phi')^T], b = E[rho phi r], phi the one-hot).

    Returns:
        A [S, S], b [S], C [S, S].
    """
    moves = np.einsum("sa,sat->st", mdp.behaviour, mdp.transitions)
    now, share = np.full(STATES, 1.0 / STATES), np.zeros(STATES)
    for _ in range(horizon):
        share += now / horizon
        now = now @ moves
    c = np.diag(share)
    a = c @ (np.eye(STATES) - gamma * np.einsum("sa,sat->st", mdp.target, mdp.transitions))
    return a, share * (mdp.target * mdp.rewards).sum(axis=1), c


def mspbe(mdp: RandomMdp, theta: npt.ArrayLike, gamma: float = GAMMA) -> float:
    """The mean squared projected Bellman error (b - A theta)^T C^-1 (b - A theta) of values theta [S] (`population`).

    Zero at the target's true values; non-finite values have an infinite error.
    """
    return projected_bellman_error(*population(mdp, gamma), theta)


def _softmax(logits: FloatArray) -> FloatArray:
    weight = np.exp(logits)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))
