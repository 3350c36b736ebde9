"""The two robots against Gymnasium's own."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from tacit.envs.serving import serve
from tacit.errors import DataError
from tacit_worlds.locomotion import HORIZON, Locomotion, spec

pytest.importorskip("mujoco")
NOTHING = np.random.default_rng(0)
NAMES = ["HalfCheetah-v5", "Hopper-v5"]


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_gymnasiums(name: Any) -> None:
    """A hundred random steps, each from Gymnasium's own state."""
    domain, other = Locomotion(name), gymnasium.make(name).unwrapped
    robot: Any = other
    generator, ends = np.random.default_rng(0), 0
    robot.reset(seed=0)
    nq = robot.model.nq
    for _ in range(100):
        state = domain.starts(1, generator)
        state[0, 1:] = robot.state_vector()
        action = generator.uniform(-1.2, 1.2, (1, robot.model.nu)).astype(np.float32)
        after, paid, ended = domain.step(state, action, NOTHING)
        theirs, reward, over, _, _ = robot.step(np.clip(action[0], -1.0, 1.0))
        assert domain.observe(after)[0] == pytest.approx(theirs, abs=1e-3, rel=1e-4)
        assert after[0, 1 : 1 + nq] == pytest.approx(robot.data.qpos, abs=1e-5)
        assert paid[0] == pytest.approx(reward, abs=1e-4)
        assert ended[0] == over
        ends += over
        if over:
            robot.reset()
    assert (ends > 0) == (name == "Hopper-v5")


@pytest.mark.parametrize("name", NAMES)
def test_starts_are_gymnasiums(name: Any) -> None:
    robot: Any = gymnasium.make(name).unwrapped
    theirs = []
    for seed in range(300):
        robot.reset(seed=seed)
        theirs.append(robot.state_vector())
    ours = Locomotion(name).starts(2_000, np.random.default_rng(0))[:, 1:]
    assert ours.mean(axis=0) == pytest.approx(np.mean(theirs, axis=0), abs=0.025)
    assert ours.std(axis=0) == pytest.approx(np.std(theirs, axis=0), rel=0.15)


@pytest.mark.parametrize("name", NAMES)
def test_the_bounds_hold_a_random_robot(name: Any) -> None:
    """Rewards, and 99 of 100 observations, of robots under random torques."""
    bounds = spec(name)
    robot = gymnasium.make(name)
    assert bounds.action.size == robot.action_space.shape[0]  # type: ignore[index]
    assert robot.spec is not None
    assert robot.spec.max_episode_steps == HORIZON

    def actor(seen: Any, replicate: Any, generator: np.random.Generator) -> Any:
        return generator.uniform(-1.0, 1.0, (len(seen), bounds.action.size)).astype(np.float32)

    rows = serve(Locomotion(name), actor, [0] * 8, horizon=60, generator=np.random.default_rng(0))
    seen, paid = rows["observations"][rows["mask"]], rows["rewards"][rows["mask"]]
    low, high = np.array(bounds.observation.low), np.array(bounds.observation.high)  # type: ignore[union-attr]
    assert ((seen >= low) & (seen <= high)).mean() > 0.99
    assert bounds.reward.low[0] < paid.min()
    assert paid.max() < bounds.reward.high[0]
    assert rows["terminations"].any() == bounds.terminals


def test_bad_arguments() -> None:
    with pytest.raises(DataError, match="no such robot"):
        Locomotion("Ant-v5")  # type: ignore[arg-type]
    after, paid, _ = Locomotion("Hopper-v5").step(np.zeros((0, 13)), np.zeros((0, 3)), NOTHING)
    assert after.shape == (0, 13)
    assert paid.shape == (0,)


def test_a_torque_that_is_no_number_is_none() -> None:
    domain = Locomotion("Hopper-v5")
    state = domain.starts(1, np.random.default_rng(0))
    still, _, _ = domain.step(state, np.zeros((1, 3)), NOTHING)
    broken, _, _ = domain.step(state, np.full((1, 3), np.nan), NOTHING)
    assert np.array_equal(still, broken)
