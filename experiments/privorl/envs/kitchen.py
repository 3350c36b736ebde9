"""FrankaKitchen: public bounds, and the evaluation of policies that learned from demonstrations.

Demonstrations are a user's own, or those of a scripted controller (`kitchen_controller`).

The environment is gymnasium-robotics' FrankaKitchen-v1 (Gupta et al. 2019, arXiv:1910.11956; the tasks of D4RL, Fu et
al. 2020, arXiv:2004.07219). A policy sees the 59 numbers of its entry `observation` (9 positions and 9 speeds of the
robot, 21 positions and 20 speeds of the things around it), gives 9 joint speeds in [-1, 1], and has 280 steps for four
tasks. The normalised return is 25 for each task done. D4RL's own files have 60 numbers and other noise: a policy
that learned from those cannot be evaluated here; Minari's (`D4RL/kitchen/...`) fit.

D4RL's kitchen-mixed and kitchen-partial label the same demonstrations for different tasks. So neither is public where
the other is private; `tacit.data.overlap` finds this.
"""

import importlib
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt

from tacit.data.spec import Box, PublicSpec
from tacit.envs.rollouts import Policies

Task = Literal["bottom burner", "top burner", "light switch", "slide cabinet", "hinge cabinet", "microwave", "kettle"]
COMPLETE: tuple[Task, ...] = ("microwave", "kettle", "light switch", "slide cabinet")
PARTIAL: tuple[Task, ...] = COMPLETE
MIXED: tuple[Task, ...] = ("microwave", "kettle", "bottom burner", "light switch")

HORIZON = 280
_ID = "FrankaKitchen-v1"

# (low, high, typical change of a step), of positions and of speeds: the limits of the model's joints, a little wider.
_ARM = ((-3.0, 3.0), (-1.9, 1.9), (-3.0, 3.0), (-3.2, -0.3), (-3.0, 3.0), (-1.8, 2.3), (-3.0, 3.0))
_KNOB, _BURNER = (-1.7, 0.1, 0.02), (-0.011, 0.002, 0.0005)
_THINGS = (
    *(_KNOB, _BURNER) * 4,
    (-0.8, 0.1, 0.02),  # light switch
    (-0.06, 0.01, 0.002),  # its lever
    (-0.05, 0.5, 0.02),  # slide cabinet
    (-1.7, 0.1, 0.02),  # left and right doors of the hinge cabinet
    (-0.1, 1.7, 0.02),
    (-2.2, 0.1, 0.02),  # microwave
    *((-1.5, 1.0, 0.01), (-0.5, 1.5, 0.01), (1.0, 2.5, 0.01)),  # kettle: place
    *((-1.0, 1.0, 0.02),) * 4,  # and orientation
)
_TURNING, _PRESSED = (-6.0, 6.0, 0.2), (-0.2, 0.2, 0.01)
_SPEEDS = (*(_TURNING, _PRESSED) * 4, _TURNING, _PRESSED, *((-3.0, 3.0, 0.1),) * 4, *((-2.0, 2.0, 0.1),) * 3)
_SPINS = ((-10.0, 10.0, 0.3),) * 3
_ROBOT = (
    *((low, high, 0.05) for low, high in _ARM),
    *((-0.005, 0.045, 0.005),) * 2,  # fingers
    *((-2.5, 2.5, 0.2),) * 7,
    *((-0.5, 0.5, 0.04),) * 2,
)


def spec() -> PublicSpec:
    """Public bounds of 59 observations, 9 joint speeds and the reward (tasks done in a step), and typical changes."""
    low, high, difference = zip(*_ROBOT, *_THINGS, *_SPEEDS, *_SPINS, strict=True)
    return PublicSpec(
        observation=Box(low, high),
        action=Box((-1.0,) * 9, (1.0,) * 9),
        reward=Box((0.0,), (4.0,)),
        source="physics",
        difference=difference,
    )


def evaluate(
    policies: Policies, *, tasks: Sequence[Task] = PARTIAL, episodes: int = 10, seed: int
) -> npt.NDArray[np.float64]:
    """Mean normalised return of each policy, [K]: 100 times the share of the tasks that it has done, over episodes.

    Args:
        policies: K of them, which see observations [K, 1, 59].
        tasks: what is to be done in an episode, which ends when all of it is.
        episodes: how many; an episode's noise on the observations is the same for all policies.
        seed: of that noise.
    """
    rooms = [new_room(tasks) for _ in range(policies.members)]
    done = np.zeros((policies.members, episodes))
    try:
        for episode in range(episodes):
            seen = np.stack([room.reset(seed=seed + episode)[0]["observation"] for room in rooms])
            going = np.ones(len(rooms), dtype=bool)
            for _ in range(HORIZON):
                action = np.nan_to_num(policies.act(seen[:, None].astype(np.float32))[:, 0])
                for k in np.flatnonzero(going):
                    view, paid, over, _, _ = rooms[k].step(np.clip(action[k], -1.0, 1.0).astype(np.float64))
                    seen[k] = view["observation"]
                    done[k, episode] += paid
                    going[k] = not over
                if not going.any():
                    break
    finally:
        for room in rooms:
            room.close()
    return np.asarray(100.0 * done.mean(axis=1) / len(set(tasks)))


def new_room(tasks: Sequence[Task]) -> gymnasium.Env[Any, Any]:
    """A kitchen in which these tasks are paid, and that ends when all are done; the extra `bench` has the package."""
    if _ID not in gymnasium.registry:
        gymnasium.register_envs(importlib.import_module("gymnasium_robotics"))
    return gymnasium.make(_ID, tasks_to_complete=list(tasks), disable_env_checker=True)
