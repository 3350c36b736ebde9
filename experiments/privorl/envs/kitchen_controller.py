"""A scripted controller of FrankaKitchen's arm: the fingertip follows a path past public places of the scene.

A task is a path of waypoints. Each is an offset from a site of the model (a handle, a knob, the kettle) as the scene
begins, and a direction of the fingers. The tip pursues a point that runs a little ahead of it on the path. Damped
least squares turn the pursuit into joint speeds (Buss 2004, "Introduction to inverse kinematics"); the motors hold the
arm's weight. Closed fingers push: the gripper grasps nothing. A task that is not done at its path's end is tried again.
Offsets were found by hand and by random search in the simulator; no learner's return had a part in it.

A `Style` is how a person differs from another: her pace, where she puts the tip, how much her hand trembles.

A demonstration is one episode of one person, who does the tasks of a `Menu` in its order and may leave one out; it ends
with her last task, or after the kitchen's 280 steps. These rows are not D4RL's, which people made by teleoperation.
Private rows are demonstrations of `OWN`, public rows those of other people who do `OTHER`: both share the arm, the room
and two tasks, in another order, but no person and no seed. So a policy of public rows may do two of the four tasks.
"""

import importlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from experiments.lib.table_cache import Columns
from experiments.privorl.envs import kitchen
from experiments.privorl.envs.kitchen import COMPLETE, HORIZON, Task

FloatArray = npt.NDArray[np.float64]
Vector = tuple[float, float, float]

TIP = 0.05  # metres from the model's site `end_effector` to the fingertip
NEAR = 0.29  # distance to its goal at which a person calls a task done; the kitchen pays at 0.3

_ARM = slice(0, 7)
_STEP = 0.08  # seconds of the simulator in a step
_SPAN = 2.0  # rad/s of a joint at action 1
_DAMPING, _TURNING = 0.05, 3.0
_CLOSE = 0.04  # metres within which the tip slows down
_LEVER = 0.3  # metres: the weight of turning against moving
_REST = (-0.3, -1.2, 1.5, -2.3, 0.0, 1.2, 1.2)  # joints lean to these where the tip leaves them free
_BACK = 0.14  # metres that the tip draws back along the fingers after a task
_BEFORE, _PATIENCE = 0.03, 14  # metres before the last waypoints at which a push begins; steps without coming nearer

_FORWARD: Vector = (0.0, 1.0, 0.0)


@dataclass(frozen=True)
class Waypoint:
    """A place of the fingertip."""

    offset: Vector  # metres from the task's site
    fingers: Vector = _FORWARD  # where they point
    firm: bool = False  # whether it touches something there, and so is placed with more care


@dataclass(frozen=True)
class Path:
    """What the tip does for a task."""

    site: str  # of the model, from which the waypoints are measured
    waypoints: tuple[Waypoint, ...]  # in their order
    pushes: int = 1  # how many of the last stretches push
    ahead: float = 0.08  # metres along the path between the tip and the point that it pursues
    force: float = 2.0  # how many times the person's speed she asks for where she pushes, against what resists


def _knob(number: int) -> Path:
    """Push the top of a knob's handle to the right."""
    first, *rest = (-0.075, -0.12, 0.02), (-0.036, 0.015, 0.041), (0.12, 0.015, 0.027)
    return Path(f"knob{number}_site", (Waypoint(first), *(Waypoint(one, firm=True) for one in rest)), 1, 0.08, 2.5)


PATHS: Mapping[Task, Path] = {
    "bottom burner": _knob(2),
    "top burner": _knob(4),  # done in three of six tries, so no demonstration has it
    "light switch": Path(
        "light_site",
        (Waypoint((0.068, -0.1, 0.0)), Waypoint((0.068, 0.03, 0.0), firm=True), Waypoint((-0.1, 0.03, 0.0), firm=True)),
    ),
    "slide cabinet": Path(
        "slide_site",
        (
            Waypoint((-0.13, -0.2, -0.1)),
            Waypoint((-0.09, 0.02, 0.0), firm=True),
            Waypoint((0.36, 0.02, 0.0), firm=True),
        ),
    ),
    "microwave": Path(
        "microhandle_site",
        (
            Waypoint((0.077, -0.093, 0.098), (-0.71, 0.7, 0.0)),
            Waypoint((0.055, 0.08, 0.129), (-0.42, 0.91, 0.0), firm=True),
            Waypoint((0.005, 0.058, 0.129), (-0.78, 0.62, 0.0), firm=True),
            Waypoint((-0.019, -0.117, 0.102), (-0.95, 0.32, 0.0), firm=True),
            Waypoint((-0.07, -0.244, 0.092), (-0.57, 0.82, 0.0), firm=True),
            Waypoint((-0.17, -0.352, 0.137), (-0.53, 0.85, 0.0), firm=True),
        ),
        pushes=3,
        force=1.65,
    ),
    "kettle": Path(
        "kettle_site",
        (
            Waypoint((-0.07, -0.146, 0.158)),
            Waypoint((0.01, -0.185, -0.14), firm=True),
            Waypoint((0.02, 0.35, -0.15), firm=True),
        ),
        force=2.5,
    ),
}


@dataclass(frozen=True)
class Style:
    """How a person moves."""

    speed: float = 0.4  # metres per second of the tip
    # loose, firm: standard deviations of where she puts the tip, in metres, in the air and where it touches
    loose: float = 0.015
    firm: float = 0.002
    tremor: float = 0.03  # standard deviation of what is added to each joint's action
    tries: int = 3  # of a task, before she goes on to the next one


class Arm:
    """Kinematics of the robot in a room, as its own encoders and its public model give them."""

    def __init__(self, room: gymnasium.Env[Any, Any]) -> None:
        self._mujoco = importlib.import_module("mujoco")
        inner: Any = room.unwrapped
        self.model, self.data = inner.model, inner.data
        self._hand = self.model.site("end_effector").id
        self._low, self._high = self.model.jnt_range[_ARM].T

    def site(self, name: str) -> FloatArray:
        return np.array(self.data.site(name).xpos)

    def tip(self) -> tuple[FloatArray, FloatArray]:
        """Place of the fingertip, and the axes of the hand in columns."""
        axes = np.array(self.data.site_xmat[self._hand]).reshape(3, 3)
        return self.data.site_xpos[self._hand] + TIP * axes[:, 2], axes

    def toward(self, target: FloatArray, fingers: FloatArray, speed: float) -> FloatArray:
        """Action [9] that moves the tip to a target at this speed and turns the fingers, which stay closed."""
        place, axes = self.tip()
        error = target - place
        moving = error * (speed / max(float(np.linalg.norm(error)), _CLOSE))
        pointing = fingers / np.linalg.norm(fingers)
        up = np.array([0.0, 0.0, 1.0]) - pointing[2] * pointing
        up /= np.linalg.norm(up)
        wanted = np.stack([up, np.cross(pointing, up), pointing], axis=1)
        turning = 0.5 * _TURNING * np.cross(axes, wanted, axisa=0, axisb=0, axisc=0).sum(axis=1)
        turning *= min(1.0, 1.5 / max(float(np.linalg.norm(turning)), 1e-9))
        speeds = self._speeds(place, np.concatenate([moving, _LEVER * turning]))
        weight = self.data.qfrc_bias[_ARM] / self.model.actuator_gainprm[_ARM, 0] / _STEP
        action = np.full(9, -1.0)
        action[_ARM] = (speeds + weight) / _SPAN
        return np.clip(action, -1.0, 1.0)

    def _speeds(self, place: FloatArray, twist: FloatArray) -> FloatArray:
        """Joint speeds [7] by damped least squares; a joint at its limit stays there, the rest lean to `_REST`."""
        slopes = np.zeros((2, 3, self.model.nv))
        self._mujoco.mj_jac(self.model, self.data, slopes[0], slopes[1], place, self.model.site_bodyid[self._hand])
        jacobian = np.concatenate([slopes[0, :, _ARM], _LEVER * slopes[1, :, _ARM]])
        now, free, speeds = self.data.qpos[_ARM], np.ones(7, bool), np.zeros(7)
        for _ in range(4):
            part = jacobian * free
            lean = free * np.clip(0.5 * (np.array(_REST) - now), -0.5, 0.5)
            inner = part @ part.T + _DAMPING**2 * np.eye(6)
            speeds = part.T @ np.linalg.solve(inner, twist - part @ lean) + lean
            ahead = now + 0.15 * speeds
            stuck = free & (((ahead > self._high - 0.02) & (speeds > 0)) | ((ahead < self._low + 0.02) & (speeds < 0)))
            if not stuck.any():
                break
            free &= ~stuck
        return speeds


def distance(arm: Arm, task: Task) -> float:
    """Distance of a task from its goal, as the kitchen measures it."""
    goals = importlib.import_module("gymnasium_robotics.envs.franka_kitchen.kitchen_env")
    now = arm.data.qpos[goals.OBS_ELEMENT_INDICES[task]]
    return float(np.linalg.norm(now - goals.OBS_ELEMENT_GOALS[task]))


def actions(arm: Arm, order: Sequence[Task], style: Style, rng: np.random.Generator) -> Iterator[FloatArray]:
    """The actions of a person who does these tasks one after another, each for the scene as it is when she is asked.

    Args:
        arm: of the room in which she acts; the caller takes each action there before asking for the next one.
        order: of the tasks.
        style: of the person.
        rng: of her own.
    """
    origins = {task: arm.site(PATHS[task].site) for task in order}
    for task in order:
        for _ in range(style.tries):
            reached = yield from _attempt(arm, task, origins[task], style, rng)
            yield from _away(arm, style, rng)
            if reached:
                break


def _attempt(
    arm: Arm, task: Task, origin: FloatArray, style: Style, rng: np.random.Generator
) -> Generator[FloatArray, None, bool]:
    """Follow the path until the task is done, or its end is reached or not neared any more; whether it is done."""
    start, axes = arm.tip()
    points, fingers = [start], [axes[:, 2]]
    for waypoint in PATHS[task].waypoints:
        spread = style.firm if waypoint.firm else style.loose
        points.append(origin + np.array(waypoint.offset) + spread * rng.standard_normal(3))
        fingers.append(np.array(waypoint.fingers, np.float64))
    path, own = _Polyline(np.array(points), np.array(fingers)), PATHS[task]
    pushed = path.ends[-own.pushes - 1] - _BEFORE
    at, waited = 0.0, 0
    while distance(arm, task) >= NEAR and waited < _PATIENCE:
        reached = path.nearest(arm.tip()[0], at)
        waited = 0 if reached > at + 0.004 else waited + 1
        at = max(at, reached)
        if at >= path.length - 0.01:
            break
        speed = style.speed * (own.force if at > pushed else 1.0)
        yield _trembling(arm.toward(*path.point(at + own.ahead), speed), style, rng)
    return distance(arm, task) < NEAR


def _away(arm: Arm, style: Style, rng: np.random.Generator) -> Iterator[FloatArray]:
    place, axes = arm.tip()
    target, pointing = place - _BACK * axes[:, 2], axes[:, 2].copy()
    for _ in range(12):
        if float(np.linalg.norm(arm.tip()[0] - target)) < 0.03:
            return
        yield _trembling(arm.toward(target, pointing, style.speed), style, rng)


def _trembling(action: FloatArray, style: Style, rng: np.random.Generator) -> FloatArray:
    moved = action.copy()
    moved[_ARM] += style.tremor * rng.standard_normal(7)
    return np.clip(moved, -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class _Polyline:
    """A path of points [P, 3] with directions [P, 3]; it goes straight on behind its end."""

    points: FloatArray
    fingers: FloatArray

    @property
    def ends(self) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(self.points, axis=0), axis=1))])

    @property
    def length(self) -> float:
        return float(self.ends[-1])

    def point(self, at: float) -> tuple[FloatArray, FloatArray]:
        """Place and direction so many metres along the path."""
        ends = self.ends
        k = int(np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(ends) - 2))
        share = (at - ends[k]) / max(ends[k + 1] - ends[k], 1e-9)
        turned = min(share, 1.0)
        place = self.points[k] + share * (self.points[k + 1] - self.points[k])
        return place, self.fingers[k] + turned * (self.fingers[k + 1] - self.fingers[k])

    def nearest(self, place: FloatArray, at: float) -> float:
        """How far along the path its nearest point is, of those up to 0.12 m further on than `at`."""
        shares = np.linspace(at, min(at + 0.12, self.length), 25)
        places = np.stack([np.interp(shares, self.ends, column) for column in self.points.T], axis=1)
        return float(shares[np.linalg.norm(places - place, axis=1).argmin()])


@dataclass(frozen=True)
class Menu:
    """What people do."""

    order: tuple[Task, ...]  # the tasks, which count as rewards
    left_out: float = 0.25  # probability with which a person leaves one task out; which one is drawn evenly
    # slowest, fastest: metres per second of the fingertip
    slowest: float = 0.38
    fastest: float = 0.48

    def person(self, rng: np.random.Generator) -> tuple[list[Task], Style]:
        tasks = list(self.order)
        if rng.random() < self.left_out:
            del tasks[rng.integers(len(tasks))]
        return tasks, Style(speed=float(rng.uniform(self.slowest, self.fastest)))


OWN = Menu(COMPLETE)
OTHER = Menu(("slide cabinet", "kettle", "bottom burner"))


def collect(population: int, *, menu: Menu = OWN, seed: int) -> Columns:
    """So many transitions of people with this menu, episode after episode; the last episode is cut."""
    found: list[Columns] = []
    rows = 0
    while rows < population:
        found.append(episode(menu, seed=seed, number=len(found)))
        rows += len(found[-1]["rewards"])
    return {name: np.concatenate([one[name] for one in found])[:population] for name in found[0]}


def episode(menu: Menu, *, seed: int, number: int) -> Columns:
    """The demonstration of one person: her rows, without what follows her last task."""
    rng = np.random.default_rng([seed, number])
    tasks, style = menu.person(rng)
    room = kitchen.new_room(menu.order)
    try:
        seen = room.reset(seed=int(rng.integers(2**31)))[0]["observation"].copy()
        arm = Arm(room)
        steps: list[tuple[FloatArray, ...]] = []
        hers: Iterator[FloatArray] = actions(arm, tasks, style, rng)
        for action, _ in zip(hers, range(HORIZON), strict=False):
            view, paid, over, _, _ = room.step(action)
            after = view["observation"].copy()
            steps.append((seen, action, np.float64(paid), after, np.bool_(over)))
            seen = after
            if over:
                break
    finally:
        room.close()
    observations, acts, rewards, following, ends = (np.array(column) for column in zip(*steps, strict=True))
    return {
        "observations": observations.astype(np.float32),
        "actions": acts.astype(np.float32),
        "rewards": rewards.astype(np.float32),
        "next_observations": following.astype(np.float32),
        "terminations": ends.astype(np.bool_),
    }
