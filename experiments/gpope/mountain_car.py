"""Mountain car (Moore 1990; Sutton and Barto, "Reinforcement learning", example 10.1), many cars at once.

Position x in [-1.2, 0.6], velocity v in [-0.07, 0.07]; the actions 0, 1, 2 push with a = -1, 0, 1:

    v' = clip(v + 0.001 a - 0.0025 cos(3 x)),   x' = clip(x + v'),   v' = 0 where the car hits the left wall

Every step pays -1, the step that reaches x >= 0.5 (the last one) too. Starts are uniform over the states left of the
goal, not at the bottom of the valley as in the textbook: from there a random policy practically never arrives, and its
value would be the same everywhere.

The policies: `learned_q` is Q-learning with the Fourier basis of order 5 (36 features an action); `behaviour` takes its
best action but a uniform one with probability 1/2, so the uniform target has ratios between 1/2 and 2.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Policy
from tacit.envs.rollouts import collect as _collect
from tacit.envs.rollouts import monte_carlo_values as _truth
from tacit_worlds.agents.q_learning import FourierQ, epsilon_greedy, learn

LOW, HIGH = (-1.2, -0.07), (0.6, 0.07)
GOAL = 0.5
ACTIONS = 3
GAMMA = 0.99
HORIZON = 300  # public cap on the length: a longer episode is truncated (its last state keeps its value)
EXPLORATION = 0.5


def spec() -> PublicSpec:
    """Position and velocity in their bounds, three actions, rewards in [-1, 0], logged propensities."""
    return PublicSpec(
        observation=Box(LOW, HIGH),
        action=Discrete(ACTIONS),
        reward=Box((-1.0,), (0.0,)),
        source="physics",
        propensities=True,
    )


class MountainCar:
    """The dynamics; a state is (position, velocity)."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """[N, 2], uniform over the states left of the goal."""
        return generator.uniform(LOW, (GOAL, HIGH[1]), (units, 2))

    def step(
        self, state: Array, action: npt.NDArray[np.int64], generator: np.random.Generator
    ) -> tuple[Array, FloatArray, npt.NDArray[np.bool_]]:
        """Next states [N, 2], rewards -1 [N] and whether the goal is reached [N]; nothing is random."""
        x, v = state.T
        speed = np.clip(v + 0.001 * (action - 1.0) - 0.0025 * np.cos(3.0 * x), LOW[1], HIGH[1])
        place = np.clip(x + speed, LOW[0], HIGH[0])
        speed[(place == LOW[0]) & (speed < 0.0)] = 0.0
        return np.stack([place, speed], axis=1), np.full(len(state), -1.0), place >= GOAL

    def observe(self, state: Array) -> Array:
        return state.astype(np.float32)


@lru_cache(maxsize=1)
def learned_q() -> FourierQ:
    """Q(s, a) of 60,000 steps of 32 cars (about 4 seconds): the greedy policy needs about 60 steps to the goal."""
    car = MountainCar()
    return learn(
        car,
        car.starts,
        actions=ACTIONS,
        low=LOW,
        high=HIGH,
        order=5,
        gamma=GAMMA,
        rate=0.3,
        trace=0.9,
        epsilon=0.2,
        episodes=32,
        horizon=500,
        steps=60_000,
        seed=2,
    )


def behaviour() -> Policy:
    """The policy that the logs come from: greedy on `learned_q`, with probability 1/2 uniform."""
    return epsilon_greedy(learned_q(), EXPLORATION)


def collect(policy: Policy, units: int, *, seed: int, horizon: int = HORIZON) -> dict[str, Array]:
    """One episode of each of `units` cars under `policy`; the columns of `tacit.envs.rollouts.collect`."""
    return _collect(MountainCar(), policy, units, seed=seed, horizon=horizon)


def truth(
    policy: Policy, states: Array, *, rollouts: int, horizon: int = 1_000, gamma: float = GAMMA, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Values [S] of the states [S, 2] and their standard errors (`tacit.envs.rollouts.monte_carlo_values`)."""
    return _truth(MountainCar(), policy, states, rollouts=rollouts, horizon=horizon, gamma=gamma, seed=seed)
