"""Cart and pole (Barto, Sutton and Anderson 1983), many of them at once: the task of Gymnasium's CartPole-v1.

A state is (x, x', theta, theta'); the actions 0 and 1 push the cart left and right with 10 N (by default) for 0.02 s
(explicit Euler). Every step pays 1, the one that leaves |x| <= 2.4 or |theta| <= 12 degrees, the last, too; starts are
uniform in [-0.05, 0.05]^4. Gymnasium truncates after 500 steps.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, Stepped, require_physical

ACTIONS = 2
HORIZON = 500
HIGH = (4.8, 4.0, 0.418, 4.0)
LOW = (-4.8, -4.0, -0.418, -4.0)
"""Twice the limits of position and angle, as Gymnasium has them, and speeds past which an episode is as good as lost
(an episode from rest under one push has at most 2.5 m/s and 3.6 rad/s): Gymnasium gives the speeds no bounds. Policies
clip to them; the simulation does not.
"""

SECONDS = 0.02
FARTHEST, STEEPEST = 2.4, 12.0 * 2.0 * math.pi / 360.0


def spec() -> PublicSpec:
    """Four bounded numbers, two actions, rewards in [0, 1]."""
    return PublicSpec(
        observation=Box(LOW, HIGH), action=Discrete(ACTIONS), reward=Box((0.0,), (1.0,)), source="physics"
    )


@dataclass(frozen=True)
class CartPole:
    """The dynamics; a state is (x, x', theta, theta'). The defaults are Gymnasium's: gravity in m/s^2, the force of a
    push in N, masses in kg, and the length from the joint to the middle of the pole in m. Raises DataError where a
    parameter is not a finite number > 0."""

    gravity: float = 9.8
    force: float = 10.0
    cart_mass: float = 1.0
    pole_mass: float = 0.1
    half_length: float = 0.5

    def __post_init__(self) -> None:
        require_physical("CartPole", asdict(self))

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """[N, 4], uniform in [-0.05, 0.05]."""
        return generator.uniform(-0.05, 0.05, (units, 4))

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> Stepped:
        """Next states [N, 4], rewards 1 [N] and whether cart or pole left their limits [N]; nothing is random."""
        x, speed, angle, turn = state.T
        mass, moment = self.cart_mass + self.pole_mass, self.pole_mass * self.half_length
        cosine, sine = np.cos(angle), np.sin(angle)
        pull = (np.where(action == 1, self.force, -self.force) + moment * turn**2 * sine) / mass
        falling = self.gravity * sine - cosine * pull
        turning = falling / (self.half_length * (4.0 / 3.0 - self.pole_mass * cosine**2 / mass))
        next_state = np.empty((len(state), 4))
        next_state[:, 0] = x + SECONDS * speed
        next_state[:, 1] = speed + SECONDS * (pull - moment * turning * cosine / mass)
        next_state[:, 2] = angle + SECONDS * turn
        next_state[:, 3] = turn + SECONDS * turning
        terminated = (np.abs(next_state[:, 0]) > FARTHEST) | (np.abs(next_state[:, 2]) > STEEPEST)
        return next_state, np.ones(len(state)), terminated

    def observe(self, state: Array) -> Array:
        """The states as float32."""
        return state.astype(np.float32)
