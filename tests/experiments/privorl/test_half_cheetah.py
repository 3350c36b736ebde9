"""The learner's rows on the half-cheetah, other robots, and what policies are worth there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
from experiments.privorl.envs import half_cheetah
from experiments.privorl.envs.half_cheetah import (
    Robot,
    collect,
    evaluate,
    normalised,
    other_robots,
    other_rows,
    spec,
    step,
)

from tacit.data import Box, Trajectories

pytest.importorskip("mujoco")
SHORT: dict[str, Any] = {"episodes": 16}
NOTHING = np.random.default_rng(0)


def test_a_step_from_an_observation_is_gymnasiums() -> None:
    robot: Any = gymnasium.make("HalfCheetah-v5").unwrapped
    rng = np.random.default_rng(0)
    seen, _ = robot.reset(seed=0)
    for _ in range(50):
        action = rng.uniform(-1.0, 1.0, (1, 6))
        ours, paid = step(seen[None], action)
        seen, reward, _, _, _ = robot.step(action[0])
        assert ours[0] == pytest.approx(seen, abs=1e-3, rel=1e-4)
        assert paid[0] == pytest.approx(reward, abs=1e-3)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of 250 steps instead of 1,000."""
    monkeypatch.setattr(half_cheetah, "HORIZON", 250)


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(half_cheetah, "HORIZON", 250)
        return collect(600, seed=900, **SHORT)


def test_rows_are_those_of_episodes(rows: dict[str, Any]) -> None:
    assert {name: (column.shape, column.dtype.name) for name, column in rows.items()} == {
        "observations": ((600, 17), "float32"),
        "actions": ((600, 6), "float32"),
        "rewards": ((600,), "float32"),
        "next_observations": ((600, 17), "float32"),
        "terminations": ((600,), "bool"),
        "truncations": ((600,), "bool"),
        "episode_ids": ((600,), "int64"),
    }
    assert np.flatnonzero(rows["truncations"]).tolist() == [249, 499, 599]
    np.testing.assert_array_equal(rows["episode_ids"], np.repeat([0, 1, 2], [250, 250, 100]))
    inside = np.flatnonzero(~rows["truncations"])
    np.testing.assert_array_equal(rows["next_observations"][inside], rows["observations"][inside + 1])
    starts = rows["observations"][[0, 250, 500]]
    assert np.abs(starts[:, :8]).max() <= 0.1
    assert len(np.unique(starts, axis=0)) == 3
    assert np.abs(rows["actions"]).max() <= 1.0
    following, paid = step(rows["observations"][::20], rows["actions"][::20])
    assert rows["next_observations"][::20] == pytest.approx(following, abs=1e-3, rel=1e-3)
    assert rows["rewards"][::20] == pytest.approx(paid, abs=1e-3)


def test_rows_fit_the_public_bounds(rows: dict[str, Any]) -> None:
    bounds = spec()
    Trajectories.from_arrays(**rows, unit_ids=":transition", spec=bounds, simulated=True)
    assert isinstance(bounds.observation, Box)
    seen, box = rows["observations"], bounds.observation
    assert ((seen >= np.array(box.low)) & (seen <= np.array(box.high))).mean() > 0.999
    assert bounds.reward.low[0] < rows["rewards"].min()
    assert rows["rewards"].max() < bounds.reward.high[0]
    assert bounds.difference is not None
    spread = (rows["next_observations"] - seen).std(axis=0) / np.array(bounds.difference)
    assert ((spread > 0.3) & (spread < 3.0)).all()


@pytest.mark.usefixtures("short")
def test_the_same_seed_makes_the_same_rows(rows: dict[str, Any]) -> None:
    again = collect(600, seed=900, **SHORT)
    assert all(np.array_equal(again[name], column) for name, column in rows.items())


@pytest.mark.usefixtures("short")
def test_other_rows_are_of_other_robots(rows: dict[str, Any]) -> None:
    other = other_rows(301, seed=900, robots=2, **SHORT)
    assert set(other) == set(rows) - {"episode_ids"}
    assert {len(column) for column in other.values()} == {301}
    for k, robot in enumerate(other_robots(2, seed=900)):
        part = slice(150 * k, 150 * (k + 1))
        seen, action, following = (other[name][part] for name in ("observations", "actions", "next_observations"))
        own = robot.observe(robot.step(robot.placed(seen), action, NOTHING)[0])
        real, _ = step(seen, action)
        assert np.abs(own - following).mean() < 1e-3
        assert np.abs(real - following).mean() > 0.1


def test_no_other_robot_is_like_the_real_one() -> None:
    robots = other_robots(60, seed=1)
    factors = np.array([(robot.gravity, robot.mass, robot.strength) for robot in robots])
    assert np.abs(np.log(factors)).min() >= 0.15
    assert np.abs(np.log(factors)).max() <= 0.5
    assert (factors > 1.0).any(axis=0).all()
    assert (factors < 1.0).any(axis=0).all()
    assert robots == other_robots(60, seed=1)
    assert robots != other_robots(60, seed=2)


def test_physics_of_another_robot() -> None:
    """In the air the trunk falls with gravity; masses and motors show in how the joints answer a torque."""
    high = np.zeros((1, 17))
    high[0, 0] = 5.0

    def after(robot: Robot, torque: float) -> Any:
        return robot.observe(robot.step(robot.placed(high), np.full((1, 6), torque), NOTHING)[0])[0]

    usual = after(Robot(), 0.0)
    assert usual[9] == pytest.approx(-9.81 * 0.05, rel=0.02)
    assert after(Robot(gravity=2.0), 0.0)[9] == pytest.approx(2.0 * usual[9], rel=0.02)
    moved = after(Robot(), 0.5)
    assert after(Robot(strength=0.5), 1.0) == pytest.approx(moved, abs=1e-4)
    assert np.abs(after(Robot(mass=1.5), 0.5) - moved).max() > 0.5
    assert np.array_equal(after(Robot(), 0.5), moved)


@dataclass(frozen=True)
class Constant:
    """Policies of constant torques [K]."""

    torques: tuple[float, ...]

    @property
    def members(self) -> int:
        return len(self.torques)

    def act(self, observations: Any) -> Any:
        assert observations.shape[0] == self.members
        assert observations.shape[2] == 17
        torque = np.array(self.torques, np.float32)[:, None, None]
        return np.broadcast_to(torque, (*observations.shape[:2], 6))


def test_evaluation_against_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both policies from the same starts; twenty steps each."""
    monkeypatch.setattr(half_cheetah, "HORIZON", 20)
    found = evaluate(Constant((0.0, 0.3)), episodes=3, seed=5)
    env: Any = gymnasium.make("HalfCheetah-v5").unwrapped
    starts = Robot().starts(3, np.random.default_rng(5))
    for member, torque in enumerate((0.0, 0.3)):
        returns = []
        for start in starts:
            env.reset()
            env.set_state(start[1:10], start[10:19])
            returns.append(sum(env.step(np.full(6, torque))[1] for _ in range(20)))
        assert found[member] == pytest.approx(normalised(returns).mean(), abs=1e-3)
    assert found[0] != found[1]


def test_the_scale_is_d4rls() -> None:
    assert normalised([-280.178953, 12_135.0, 5_927.4105235]) == pytest.approx([0.0, 100.0, 50.0])


@pytest.mark.slow
def test_the_learner_becomes_medium() -> None:
    """About a third of an expert's return at the end, little at the start, and most bounds hold."""
    rows = collect(seed=900)
    returns = normalised(rows["rewards"].reshape(-1, 1_000).sum(axis=1))
    assert returns[:20].mean() < 15.0
    assert 25.0 < returns[-20:].mean() < 60.0
    box = spec().observation
    assert isinstance(box, Box)
    held = (rows["observations"] >= np.array(box.low)) & (rows["observations"] <= np.array(box.high))
    assert held.mean(axis=0).min() > 0.98
