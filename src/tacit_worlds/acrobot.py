"""The acrobot (Sutton 1996; Sutton and Barto, "Reinforcement learning"), many of them at once: the task of Gymnasium's
Acrobot-v1.

Two links of length and mass 1 (by default) hang from a bar; the actions 0, 1, 2 put a torque of -1, 0, 1 on the joint
between them for 0.2 s, one step of the classical Runge-Kutta method. A state is (theta1, theta2, theta1', theta2'),
theta1 = 0 hanging down, theta2 relative to the first link. Every step pays -1 but the one that swings the tip above the
height of one link, which pays 0 and is the last. Starts are uniform in [-0.1, 0.1]^4 (float32 numbers, as Gymnasium's).
Gymnasium truncates after 500 steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Stepped, require_physical

ACTIONS = 3
HORIZON = 500
FASTEST = (4.0 * math.pi, 9.0 * math.pi)
HIGH = (1.0, 1.0, 1.0, 1.0, *FASTEST)
LOW = (-1.0, -1.0, -1.0, -1.0, -FASTEST[0], -FASTEST[1])
SECONDS = 0.2
GRAVITY = 9.8


def spec() -> PublicSpec:
    """Cosine and sine of both angles, both speeds, three actions, rewards in [-1, 0]."""
    return PublicSpec(
        observation=Box(LOW, HIGH), action=Discrete(ACTIONS), reward=Box((-1.0,), (0.0,)), source="physics"
    )


@dataclass(frozen=True)
class Acrobot:
    """The dynamics; a state is (theta1, theta2, theta1', theta2'). The defaults, lengths (m) and masses (kg) of the two
    links, are Gymnasium's. A link's mass sits in its middle; its moment of inertia about that point stays 1, whatever
    its length and mass. Raises DataError where a parameter is not a finite number > 0."""

    lengths: tuple[float, float] = (1.0, 1.0)
    masses: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        named = {"lengths": self.lengths, "masses": self.masses}
        require_physical("Acrobot", {f"{name}[{i}]": pair[i] for name, pair in named.items() for i in (0, 1)})

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """[N, 4], uniform in [-0.1, 0.1]."""
        return generator.uniform(-0.1, 0.1, (units, 4)).astype(np.float32).astype(np.float64)

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> Stepped:
        """Next states [N, 4], rewards [N] and whether the tip is above the line [N]; nothing is random."""
        now, torque = np.ascontiguousarray(state.T), action - 1.0
        first = self._rates(now, torque)
        second = self._rates(now + 0.5 * SECONDS * first, torque)
        third = self._rates(now + 0.5 * SECONDS * second, torque)
        fourth = self._rates(now + SECONDS * third, torque)
        now += SECONDS / 6.0 * (first + 2.0 * (second + third) + fourth)
        angles = now[:2]
        outside = np.abs(angles) > math.pi
        angles[outside] -= 2.0 * math.pi * np.round(angles[outside] / (2.0 * math.pi))
        np.clip(now[2], -FASTEST[0], FASTEST[0], out=now[2])
        np.clip(now[3], -FASTEST[1], FASTEST[1], out=now[3])
        first_length, second_length = self.lengths
        terminated = -first_length * np.cos(now[0]) - second_length * np.cos(now[0] + now[1]) > first_length
        return now.T.copy(), np.where(terminated, 0.0, -1.0), terminated

    def observe(self, state: Array) -> Array:
        """(cos theta1, sin theta1, cos theta2, sin theta2, theta1', theta2') as float32 [N, 6]."""
        observations = np.empty((len(state), 6), dtype=np.float32)
        observations[:, 0:4:2], observations[:, 1:4:2] = np.cos(state[:, :2]), np.sin(state[:, :2])
        observations[:, 4:] = state[:, 2:]
        return observations

    def _rates(self, state: FloatArray, torque: FloatArray) -> FloatArray:
        """Rates of change per second, [4, N] of [4, N]."""
        (m1, m2), length = self.masses, self.lengths[0]
        middle1, middle2 = 0.5 * length, 0.5 * self.lengths[1]
        inertia2 = m2 * middle2**2 + 1.0
        inertia1 = m1 * middle1**2 + 1.0 + m2 * length**2 + inertia2
        coupling = m2 * length * middle2
        angle, bend, turn, bending = state
        cosine, sine = np.cos(bend), np.sin(bend)
        both = m2 * middle2 * GRAVITY * np.sin(angle + bend)
        d1 = inertia1 + 2.0 * coupling * cosine
        d2 = inertia2 + coupling * cosine
        weight = (m1 * middle1 + m2 * length) * GRAVITY
        pull = weight * np.sin(angle) + both - (coupling * bending + 2.0 * coupling * turn) * bending * sine
        share = d2 / d1
        rates = np.empty_like(state)
        rates[0], rates[1] = turn, bending
        rates[3] = (torque + share * pull - coupling * turn**2 * sine - both) / (inertia2 - share * d2)
        rates[2] = -share * rates[3] - pull / d1
        return rates
