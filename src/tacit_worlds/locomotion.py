"""Gymnasium's HalfCheetah-v5 and Hopper-v5, many robots at once: MuJoCo advances all of them in one call.

A state is MuJoCo's full physics state (time, positions, velocities). What happens in a step is what happens in
Gymnasium's, up to the tolerance of MuJoCo's constraint solver: there each step starts the solver where the one before
ended, here afresh, so that a state is all there is to know.

Gymnasium bounds neither observations nor rewards. The public bounds here are those of the mechanism: joints reach their
limits (of the model files) and little beyond; the trunk's height and pitch are those of a robot on its feet or fallen;
speeds are up to twice those of good controllers, Hopper's cut at 10 by Gymnasium itself. Policies clip to them; the
simulation does not.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np

from tacit.data.spec import Box, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Stepped
from tacit.errors import DataError

Name = Literal["HalfCheetah-v5", "Hopper-v5"]
HORIZON = 1_000

_CHEETAH = ((0.8, math.pi, 1.1, 0.8, 0.8, 1.0, 1.2, 0.5), (10.0, 5.0, 10.0, 25.0, 25.0, 25.0, 25.0, 25.0, 25.0))
_HOPPER_LOW = (0.7, -0.2, -2.7, -2.7, -0.8, -5.0, -5.0, -10.0, -10.0, -10.0, -10.0)
_HOPPER_HIGH = (1.8, 0.2, 0.3, 0.3, 0.8, 5.0, 5.0, 10.0, 10.0, 10.0, 10.0)
_SAFE_SPEED, _SAFE_HEIGHT, _SAFE_PITCH, _FASTEST = 100.0, 0.7, 0.2, 10.0


def spec(name: Name) -> PublicSpec:
    """Public bounds: 17 observations and 6 torques of HalfCheetah-v5, 11 and 3 of Hopper-v5; torques are in [-1, 1]. A
    cheetah's reward is its speed less 0.1 times the squared torques, a hopper's its speed, plus 1 on its feet, less
    0.001 times the squared torques."""
    if name == "HalfCheetah-v5":
        high = _CHEETAH[0] + _CHEETAH[1]
        return PublicSpec(
            observation=Box(tuple(-v for v in high), high),
            action=Box((-1.0,) * 6, (1.0,) * 6),
            reward=Box((-10.0,), (15.0,)),
            source="physics",
            terminals=False,
        )
    return PublicSpec(
        observation=Box(_HOPPER_LOW, _HOPPER_HIGH),
        action=Box((-1.0,) * 3, (1.0,) * 3),
        reward=Box((-4.0,), (8.0,)),
        source="physics",
    )


@dataclass(frozen=True)
class Locomotion:
    """The dynamics of "HalfCheetah-v5" or "Hopper-v5"; MuJoCo is loaded when a state is first asked for. Raises
    DataError of another name; or, on first use, where MuJoCo is not installed."""

    name: Name

    def __post_init__(self) -> None:
        if self.name not in ("HalfCheetah-v5", "Hopper-v5"):
            what, remedy = "there is no such robot", "take tacit.envs.gym_domain.GymDomain for other environments"
            raise DataError(what, where="Locomotion", expected="HalfCheetah-v5 or Hopper-v5", remedy=remedy)

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """[N, s], around the rest position."""
        physics = self._physics
        state = np.zeros((units, physics.size))
        positions, speeds = (units, physics.model.nq), (units, physics.model.nv)
        noise = 0.1 if self._is_cheetah else 5e-3
        state[:, physics.positions] = physics.model.qpos0 + generator.uniform(-noise, noise, positions)
        if self._is_cheetah:
            state[:, physics.speeds] = noise * generator.standard_normal(speeds)
        else:
            state[:, physics.speeds] = generator.uniform(-noise, noise, speeds)
        return state

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> Stepped:
        """Next states [N, s], rewards [N] and which hoppers fell [N], for torques [N, a]; nothing is random."""
        physics = self._physics
        torque = np.clip(np.nan_to_num(np.asarray(action, dtype=np.float64)), -1.0, 1.0)
        next_state = physics.advance(np.ascontiguousarray(state), torque)
        speed = (next_state[:, 1] - state[:, 1]) / (physics.frames * physics.model.opt.timestep)
        effort = np.square(torque).sum(axis=1)
        if self._is_cheetah:
            return next_state, speed - 0.1 * effort, np.zeros(len(state), dtype=np.bool_)
        rest = next_state[:, 3 : physics.speeds.stop]
        safe = (np.abs(rest) < _SAFE_SPEED).all(axis=1) & (next_state[:, 2] > _SAFE_HEIGHT)
        safe &= np.abs(next_state[:, 3]) < _SAFE_PITCH
        return next_state, speed + safe - 1e-3 * effort, ~safe

    def observe(self, state: Array) -> Array:
        """All positions but the first (how far it came) and all velocities, float32."""
        physics = self._physics
        first = physics.speeds.start
        observations = state[:, physics.positions.start + 1 : physics.speeds.stop].astype(np.float32)
        if not self._is_cheetah:
            np.clip(observations[:, first - 2 :], -_FASTEST, _FASTEST, out=observations[:, first - 2 :])
        return observations

    @property
    def _is_cheetah(self) -> bool:
        return self.name == "HalfCheetah-v5"

    @cached_property
    def _physics(self) -> _Physics:
        file, frames = ("half_cheetah.xml", 5) if self._is_cheetah else ("hopper.xml", 4)
        return _Physics(file, frames)


class _Physics:
    """A model of MuJoCo, and the memory that it computes in."""

    def __init__(self, file: str, frames: int) -> None:
        try:
            mujoco: Any = importlib.import_module("mujoco")
            self._rollout: Any = importlib.import_module("mujoco.rollout")
        except ImportError:
            mujoco = None
        if mujoco is None:
            what, expected = "MuJoCo is not installed", "the package mujoco"
            raise DataError(what, where="Locomotion", expected=expected, remedy="install tacit[mujoco]")
        assets = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
        self.model: Any = mujoco.MjModel.from_xml_path(str(assets / file))
        self._mj_data: Any = mujoco.MjData(self.model)
        self.frames = frames
        self.size = int(mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
        self.positions = slice(1, 1 + self.model.nq)
        self.speeds = slice(self.positions.stop, self.positions.stop + self.model.nv)

    def advance(self, state: FloatArray, torque: FloatArray) -> FloatArray:
        """States [N, s] after `frames` steps of MuJoCo under constant torques [N, a]."""
        if not len(state):
            return state.copy()
        controls = np.repeat(torque[:, None], self.frames, axis=1)
        states, _ = self._rollout.rollout(self.model, self._mj_data, state, controls)
        return np.ascontiguousarray(states[:, -1])
