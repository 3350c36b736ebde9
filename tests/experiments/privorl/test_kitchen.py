"""Policies in the kitchen: what is counted, and what is public about the task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from experiments.privorl.envs import kitchen
from experiments.privorl.envs.kitchen import COMPLETE, MIXED, evaluate, spec

from tacit.data import Box


@dataclass
class Constant:
    """Policies [K] that always give one joint speed; remembers what they saw."""

    speeds: tuple[float, ...]
    seen: list[Any] = field(default_factory=list)

    @property
    def members(self) -> int:
        return len(self.speeds)

    def act(self, observations: Any) -> Any:
        assert observations.dtype == np.float32
        self.seen.append(observations.copy())
        speed = np.array(self.speeds, np.float32)[:, None, None]
        return np.broadcast_to(speed, (*observations.shape[:2], 9))


class Room:
    """A task is done in every step whose first joint speed is positive, in episodes of an even seed."""

    def __init__(self, tasks: Any) -> None:
        self.left, self.closed = len(tasks), False
        self.tasks = len(tasks)

    def reset(self, *, seed: int) -> Any:
        self.seed, self.left = seed, self.tasks
        return {"observation": np.full(59, seed, np.float64)}, {}

    def step(self, action: Any) -> Any:
        assert self.left > 0
        assert np.abs(action).max() <= 1.0
        paid = float(action[0] > 0 and self.seed % 2 == 0)
        self.left -= int(paid)
        return {"observation": np.full(59, self.seed + 0.5)}, paid, self.left == 0, False, {}

    def close(self) -> None:
        self.closed = True


def test_tasks_are_counted_for_each_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[Room] = []
    monkeypatch.setattr(kitchen, "new_room", lambda tasks: rooms.append(Room(tasks)) or rooms[-1])
    policies = Constant((-1.0, 7.0, float("nan")))
    assert evaluate(policies, episodes=4, seed=10).tolist() == [0.0, 50.0, 0.0]
    assert len(rooms) == 3
    assert all(room.closed for room in rooms)
    assert len(policies.seen) == 4 * 280
    assert [view[0, 0, 0] for view in policies.seen[::280]] == [10.0, 11.0, 12.0, 13.0]
    busy = Constant((1.0, 1.0))
    assert evaluate(busy, tasks=MIXED, episodes=1, seed=0).tolist() == [100.0, 100.0]
    assert len(busy.seen) == 4  # nobody waits for the end of the 280 steps


def test_a_task_of_the_environments_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kitchen whose microwave is open already, one of four tasks is done at once."""
    pytest.importorskip("gymnasium_robotics")
    own, policies = kitchen.new_room, Constant((0.0,))

    def opened(tasks: Any) -> Any:
        room: Any = own(tasks)
        room.unwrapped.robot_env.init_qpos = room.unwrapped.robot_env.init_qpos.copy()
        room.unwrapped.robot_env.init_qpos[22] = -0.75
        return room

    monkeypatch.setattr(kitchen, "HORIZON", 4)
    assert evaluate(policies, episodes=1, seed=0).tolist() == [0.0]
    monkeypatch.setattr(kitchen, "new_room", opened)
    assert evaluate(policies, episodes=2, seed=0).tolist() == [25.0]
    assert evaluate(policies, tasks=["microwave"], episodes=1, seed=0).tolist() == [100.0]


def test_the_bounds_hold_a_busy_robot() -> None:
    pytest.importorskip("gymnasium_robotics")
    bounds, room, rng = spec(), kitchen.new_room(COMPLETE), np.random.default_rng(0)
    assert isinstance(bounds.observation, Box)
    assert bounds.difference is not None
    seen = [room.reset(seed=0)[0]["observation"].copy()]
    for action in np.repeat(rng.uniform(-1.0, 1.0, (12, 9)), 10, axis=0):
        seen.append(room.step(action)[0]["observation"].copy())
    room.close()
    rows = np.array(seen)
    held = (rows >= np.array(bounds.observation.low)) & (rows <= np.array(bounds.observation.high))
    assert held.all(axis=0).mean() > 0.95
    assert held.mean() > 0.99
    change = np.diff(rows, axis=0)[:, :18].std(axis=0) / np.array(bounds.difference[:18])
    assert ((change > 0.3) & (change < 3.0)).all()
