"""Half-cheetah: the rows that a learner leaves on its way from nothing to a medium policy. These rows are not D4RL's.

D4RL's halfcheetah-medium-replay (Fu et al. 2020, arXiv:2004.07219) is the replay buffer of a learner that was stopped
at about a third of an expert's return. `collect` makes such rows again: PPO learns on Gymnasium's HalfCheetah-v5, and
whole episodes, evenly spread over its life, are kept. Learner, simulator and rows differ from D4RL's, so returns must
not be compared with theirs; only the scale of the normalised return is the same.

Public rows for pre-training are those of other robots (`other_rows`): other masses, gravity and motors, each with a
learner of its own. They tell what a cheetah is, but neither this robot's physics nor its learner's behaviour.
"""

import importlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.agents.heads import Gaussian
from tacit.data.spec import Box, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Policies
from tacit_worlds import locomotion
from tacit_worlds.agents import ppo
from tacit_worlds.locomotion import HORIZON, Locomotion, Name

REFERENCE = (-280.178953, 12135.0)
"""D4RL's returns of a random policy and of an expert, which the normalised return maps to 0 and 100."""

EPISODES = 640  # episodes of the learner whose rows `collect` keeps
OTHERS, OTHER_EPISODES = 4, 160  # how many other robots there are by default, and the episodes of each one's learner

_SIDE = 16  # episodes that run side by side
_ACTION_STD = 0.5
_PIECE = 125  # steps between updates; divides the horizon, so that whole episodes come out
_NEAREST, _FARTHEST = 0.15, 0.5  # range of |log factor| of another robot's masses, gravity and motors

# Height, pitch and six joints (the model's limits, which give way by a quarter), then their speeds.
_LOW = (-0.7, -2.0, -0.8, -1.05, -0.65, -1.25, -1.45, -0.75, -4.0, -4.0, -8.0) + (-30.0,) * 6
_HIGH = (0.7, 5.0, 1.3, 1.05, 1.05, 0.95, 1.1, 0.75, 10.0, 4.0, 8.0) + (30.0,) * 6
_DIFFERENCE = (0.03, 0.06, 0.23, 0.23, 0.27, 0.26, 0.27, 0.2, 0.7, 0.7, 1.5, 7.0, 8.0, 9.0, 8.0, 9.0, 6.0)


def spec() -> PublicSpec:
    """Public bounds of 17 observations, 6 torques and the reward, and the typical change of a step.

    They hold the rows of `other_robots` (all but 1 in 1,000 of every column's values) with room for a robot that runs
    twice as fast as those; a robot that turned over once lies on its back at a pitch of about 3.
    """
    return PublicSpec(
        observation=Box(_LOW, _HIGH),
        action=Box((-1.0,) * 6, (1.0,) * 6),
        reward=Box((-4.0,), (10.0,)),
        source="public_data",
        terminals=False,
        difference=_DIFFERENCE,
    )


@dataclass(frozen=True)
class Robot(Locomotion):
    """HalfCheetah-v5, or one of other physics."""

    name: Name = "HalfCheetah-v5"
    # gravity, mass, strength: factors of gravity, of all masses and inertias, and of the motors' torques
    gravity: float = 1.0
    mass: float = 1.0
    strength: float = 1.0

    @cached_property
    def _physics(self) -> locomotion._Physics:
        physics = super()._physics
        model = physics.model
        model.opt.gravity *= self.gravity
        model.body_mass *= self.mass
        model.body_inertia *= self.mass
        model.actuator_gear *= self.strength
        mujoco: Any = importlib.import_module("mujoco")
        mujoco.mj_setConst(model, mujoco.MjData(model))
        return physics

    def placed(self, observations: npt.ArrayLike) -> FloatArray:
        """States [N, s] that look like observations [N, 17], at the start of the track."""
        seen = np.asarray(observations, dtype=np.float64)
        physics = self._physics
        state = np.zeros((len(seen), physics.size))
        state[:, physics.positions.start + 1 : physics.speeds.stop] = seen
        return state


@lru_cache(maxsize=1)
def _robot() -> Robot:
    return Robot()


def step(observations: npt.ArrayLike, actions: npt.ArrayLike) -> tuple[npt.NDArray[np.float32], FloatArray]:
    """What the simulator makes of observations [N, 17] and torques [N, 6]: the next ones [N, 17], and rewards [N].

    How far the robot came is not observed and matters to nothing, so an observation is all of its state.
    """
    robot = _robot()
    after, paid, _ = robot.step(robot.placed(observations), np.asarray(actions), np.random.default_rng(0))
    return robot.observe(after), paid


def other_robots(count: int, *, seed: int) -> list[Robot]:
    """`count` robots of other physics: no factor of masses, gravity or motors is within 14 % of the real one's."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(_NEAREST, _FARTHEST, (count, 3)) * rng.choice([-1.0, 1.0], (count, 3))
    return [Robot(gravity=g, mass=m, strength=s) for g, m, s in np.exp(size).tolist()]


def collect(rows: int = 200_000, *, seed: int, episodes: int = EPISODES) -> dict[str, npt.NDArray[Any]]:
    """Rows of a learner on the real robot: whole episodes of 1,000 steps, evenly spread over its life, oldest first.

    About 70 seconds of one core for the learner's 640,000 steps, whatever the number of rows that are kept.

    Args:
        rows: how many are kept; the last episode is cut if they do not fill it.
        seed: of the learner; the same arguments give the same rows on the same machine.
        episodes: how many the learner plays, a multiple of 16; with fewer of them it stays weaker.

    Returns:
        observations and next_observations [T, 17] f32, actions [T, 6] f32 in [-1, 1], rewards [T] f32, terminations
        [T] bool (False), truncations [T] bool (the last row of each episode), episode_ids [T] int64.
    """
    return lived(_robot(), rows, episodes=episodes, seed=seed)


def other_rows(
    rows: int, *, seed: int, robots: int = OTHERS, episodes: int = OTHER_EPISODES
) -> dict[str, npt.NDArray[Any]]:
    """Transitions of `other_robots`, an equal share of each one's own learner; columns of `collect` but episode ids."""
    parts = []
    for k, robot in enumerate(other_robots(robots, seed=seed)):
        share = rows * (k + 1) // robots - rows * k // robots
        parts.append(lived(robot, share, episodes=episodes, seed=seed + 1 + k))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "episode_ids"}


def normalised(returns: npt.ArrayLike) -> FloatArray:
    """100 (R - random) / (expert - random), with D4RL's returns."""
    low, high = REFERENCE
    return np.asarray(100.0 * (np.asarray(returns, dtype=np.float64) - low) / (high - low))


def evaluate(policies: Policies, *, episodes: int = 10, seed: int, robot: Robot | None = None) -> FloatArray:
    """Mean normalised return of each policy over whole episodes, [K]; all K meet the same starts.

    Args:
        policies: K of them, which see observations [K, episodes, 17].
        episodes: how many starts.
        seed: of the starts.
        robot: another one than HalfCheetah-v5.
    """
    robot, members = robot or _robot(), policies.members
    first = robot.starts(episodes, np.random.default_rng(seed))
    state = np.tile(first, (members, 1))
    total = np.zeros(len(state))
    nothing = np.random.default_rng(0)
    for _ in range(HORIZON):
        seen = robot.observe(state).reshape(members, episodes, -1)
        state, paid, _ = robot.step(state, policies.act(seen).reshape(len(state), -1), nothing)
        total += paid
    return np.asarray(normalised(total.reshape(members, episodes)).mean(axis=1))


@dataclass(frozen=True, eq=False)
class _Recorder:
    """A robot that keeps what happened in every step of all episodes, a list [t] of blocks [16, ...]."""

    robot: Robot
    blocks: list[dict[str, Array]]

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        return self.robot.starts(units, generator)

    def observe(self, state: Array) -> Array:
        return self.robot.observe(state)

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> tuple[Array, FloatArray, Array]:
        after, paid, ended = self.robot.step(state, action, generator)
        block = {"observations": self.robot.observe(state), "actions": action.copy(), "rewards": paid}
        self.blocks.append(block | {"next_observations": self.robot.observe(after)})
        return after, paid, ended


def lived(robot: Robot, rows: int, *, episodes: int, seed: int, since: float = 0.0) -> dict[str, Array]:
    """Rows of `collect`, from a learner on this robot; of a share `since` of its life, the beginning, none is kept."""
    first = round(since * episodes)
    assert 0 < rows <= (episodes - first) * HORIZON, "the learner plays fewer rows"
    head = Gaussian((-1.0,) * 6, (1.0,) * 6, (0.0,) * 6, _ACTION_STD, learned_std=True)
    config = ppo.PpoConfig(
        episodes * HORIZON,
        environments=_SIDE,
        rollout=_PIECE,
        epochs=10,
        minibatches=16,
        gamma=0.98,
        trace=0.92,
        entropy=0.0,
        rate=6e-4,
    )
    recorder = _Recorder(robot, [])
    ppo.learn(recorder, head, config, observation=17, horizon=HORIZON, seed=seed)
    kept = np.linspace(first, episodes - 1, -(-rows // HORIZON)).round().astype(np.int64)
    columns: dict[str, Array] = {}
    for name in recorder.blocks[0]:
        column = np.stack([block[name] for block in recorder.blocks]).astype(np.float32)  # [t, 16, ...]
        whole = column.reshape(-1, HORIZON, *column.shape[1:]).swapaxes(1, 2)  # [t / 1000, 16, 1000, ...]
        columns[name] = whole.reshape(episodes, HORIZON, *column.shape[2:])[kept].reshape(-1, *column.shape[2:])[:rows]
    at = np.arange(rows)
    ends = (at % HORIZON == HORIZON - 1) | (at == rows - 1)
    flags = {"terminations": np.zeros(rows, dtype=bool), "truncations": ends}
    return columns | flags | {"episode_ids": at // HORIZON}
