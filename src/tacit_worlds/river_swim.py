"""RiverSwim (Strehl and Littman 2008; with the probabilities of Osband et al. 2013): six places along a river, many
swimmers at once.

Swimming left (action 0) always moves one place left, and pays 0.005 at the left bank. Swimming right (action 1) moves
right with probability 0.35, back with 0.05, else not; from the left bank right with 0.6; at the right bank it pays 1
and stays with probability `last`, else goes back. Swimmers start at the left bank; nothing terminates, and an episode
is truncated after 20 steps. Learning has to pass a trap: the left bank pays at once, the right one after five lucky
steps.

The paper on private policy gradients (arXiv 2501.19080) uses two values of `last`, which its text does not give; 0.6
and 0.9 are ours, with V* = 3.397 and 5.195.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Stepped
from tacit.errors import DataError

STATES, ACTIONS = 6, 2
HORIZON = 20
LEFT_REWARD, RIGHT_REWARD = 0.005, 1.0
LEFT_BANK, FORWARD, BACK = 0.6, 0.35, 0.05


def spec() -> PublicSpec:
    """Six places, two actions, rewards in [0, 1], no terminations."""
    return PublicSpec(
        observation=Discrete(STATES),
        action=Discrete(ACTIONS),
        reward=Box((0.0,), (RIGHT_REWARD,)),
        source="environment",
        terminals=False,
    )


@dataclass(frozen=True)
class RiverSwim:
    """The dynamics; a state is an int64. `last` is the probability of staying at the right bank when swimming right."""

    last: float = 0.6

    def __post_init__(self) -> None:
        if not 0.0 <= self.last <= 1.0:
            what, expected = "last is no probability", "a number in [0, 1]"
            raise DataError(what, where="RiverSwim", expected=expected, remedy="use 0.6 or 0.9")

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """The left bank, [N]."""
        return np.zeros(units, dtype=np.int64)

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> Stepped:
        """Next states, rewards [N] and no ends [N]."""
        chance, first, final = generator.random(len(state)), state == 0, state == STATES - 1
        right = chance < np.where(first, LEFT_BANK, np.where(final, 0.0, FORWARD))
        back = chance >= np.where(first, 1.0, np.where(final, self.last, 1.0 - BACK))
        move = np.where(action == 1, right.astype(np.int64) - back, -1)
        rewards = np.where(action == 1, RIGHT_REWARD * final, LEFT_REWARD * first)
        return np.maximum(state + move, 0), rewards, np.zeros(len(state), dtype=np.bool_)

    def observe(self, state: Array) -> Array:
        """The states themselves."""
        return state

    def transition_model(self) -> tuple[FloatArray, FloatArray]:
        """Transition probabilities [S, A, S] and rewards [S, A]."""
        transitions, rewards = np.zeros((STATES, ACTIONS, STATES)), np.zeros((STATES, ACTIONS))
        for s in range(STATES):
            transitions[s, 0, max(s - 1, 0)] = 1.0
        transitions[0, 1, :2] = 1.0 - LEFT_BANK, LEFT_BANK
        for s in range(1, STATES - 1):
            transitions[s, 1, s - 1 : s + 2] = BACK, 1.0 - BACK - FORWARD, FORWARD
        transitions[-1, 1, -2:] = 1.0 - self.last, self.last
        rewards[0, 0], rewards[-1, 1] = LEFT_REWARD, RIGHT_REWARD
        return transitions, rewards


def optimal_values(river: RiverSwim, horizon: int = HORIZON) -> FloatArray:
    """[H + 1, S], the largest expected undiscounted return from each step and place; V* of the task is at [0, 0]."""
    transitions, rewards = river.transition_model()
    values = np.zeros((horizon + 1, STATES))
    for t in range(horizon - 1, -1, -1):
        values[t] = (rewards + transitions @ values[t + 1]).max(axis=1)
    return values


def policy_values(policy: npt.ArrayLike, river: RiverSwim, horizon: int = HORIZON) -> FloatArray:
    """[H + 1, S], the expected undiscounted return of a policy from each step and place.

    Args:
        policy: probabilities [S, A], or [H, S, A] where they change with the step.
        river: the process.
        horizon: H.

    Raises:
        DataError: the policy has another shape or is no policy.
    """
    probabilities = np.asarray(policy, dtype=np.float64)
    if probabilities.shape not in ((STATES, ACTIONS), (horizon, STATES, ACTIONS)) or not (
        (probabilities >= 0.0).all() and np.allclose(probabilities.sum(axis=-1), 1.0)
    ):
        what = "the policy does not give probabilities of the two actions in the six places"
        expected, remedy = "[6, 2] or [horizon, 6, 2], adding up to 1", "evaluate the policy at the six observations"
        raise DataError(what, where="policy_values", expected=expected, remedy=remedy)
    transitions, rewards = river.transition_model()
    probabilities = np.broadcast_to(probabilities, (horizon, STATES, ACTIONS))
    values = np.zeros((horizon + 1, STATES))
    for t in range(horizon - 1, -1, -1):
        values[t] = (probabilities[t] * (rewards + transitions @ values[t + 1])).sum(axis=1)
    return values
