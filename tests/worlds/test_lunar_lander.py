"""LunarLander with other physics, and the controllers' networks against Gymnasium's own way to land."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
import pytest

from tacit.data.spec import Box
from tacit.errors import DataError
from tacit_worlds import lunar_lander, populations
from tacit_worlds.lunar_lander import LunarLander
from tacit_worlds.populations import variation

pytestmark = pytest.mark.skipif(find_spec("Box2D") is None, reason="needs the extra box2d")
CASES = [
    pytest.param((), {}, id="default"),
    pytest.param(
        (9.0, 5.0, 0.5), {"gravity": -9.0, "enable_wind": True, "wind_power": 5.0, "turbulence_power": 0.5}, id="varied"
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), CASES)
def test_the_dynamics_are_gymnasiums(ours: tuple[float, ...], theirs: dict[str, Any]) -> None:
    """The same seeds and actions give the same observations, rewards and ends."""
    domain = LunarLander(*ours)
    other = gymnasium.make("LunarLander-v3", **theirs)
    generator = np.random.default_rng(0)
    seeds = np.random.default_rng(1).integers(2**31, size=3)
    state = domain.starts(3, np.random.default_rng(1))
    actions = generator.integers(4, size=(60, 3))
    rows = []
    for action in actions:
        state, paid, ended = domain.step(state, action, generator)
        rows.append((domain.observe(state), paid, ended))
    for i, seed in enumerate(seeds.tolist()):
        other.reset(seed=seed)
        for t, action in enumerate(actions[:, i]):
            seen, paid, ended, _, _ = other.step(int(action))
            assert np.array_equal(rows[t][0][i], seen)
            assert (rows[t][1][i], rows[t][2][i]) == (paid, ended)
            if ended:
                break
        assert t >= 20


def test_the_variations_differ() -> None:
    """The same seed and no engine: under more gravity a lander is faster after 30 steps, and wind moves it aside."""
    speeds, places = [], []
    for domain in (LunarLander(9.0), LunarLander(11.0), LunarLander(11.0, wind=5.0), variation("lunar_lander", 0)):
        state = domain.starts(1, np.random.default_rng(0))
        for _ in range(30):
            state, _, _ = domain.step(state, np.zeros(1, np.int64), np.random.default_rng(0))
        seen = domain.observe(state)[0]
        speeds.append(seen[3])
        places.append(seen[0])
    assert speeds[1] < speeds[0] < 0.0
    assert places[1] != places[2]
    assert (speeds[3], places[3]) == (speeds[0], places[0])


def test_bounds_are_gymnasiums() -> None:
    domain = LunarLander()
    theirs, ours = domain.public_spec(reward=lunar_lander.REWARD), lunar_lander.spec()
    assert (theirs.action, theirs.reward, theirs.source) == (ours.action, ours.reward, ours.source)
    assert isinstance(theirs.observation, Box)
    assert theirs.observation.low == pytest.approx(lunar_lander.LOW, rel=1e-6)
    assert theirs.observation.high == pytest.approx(lunar_lander.HIGH, rel=1e-6)
    assert domain.limit == lunar_lander.HORIZON


def test_impossible_physics_are_refused() -> None:
    for values in ((12.0,), (0.0,), (10.0, -1.0), (10.0, 0.0, float("nan"))):
        with pytest.raises(DataError):
            LunarLander(*values)


def test_a_controllers_network_lands_as_gymnasiums_heuristic_does() -> None:
    """With its gains the actions are the same in every state of two landings, but for ties and clipped features."""
    env = gymnasium.make("LunarLander-v3") if LunarLander() else None
    from gymnasium.envs.box2d.lunar_lander import heuristic

    gains = np.array([[0.5, 1.0, 0.4, 0.55, 0.5, 1.0, 0.5, 0.5, 0.05, 0.5]])
    policy = populations.policies("lunar_lander", gains, 0.0)
    assert env is not None
    seen, total, touching, taken = env.reset(seed=3)[0], 0.0, 0, []
    for _ in range(2):
        over = False
        while not over:
            action = heuristic(env, seen)
            taken.append(int(policy.greedy(seen[None])[0, 0]) == action)
            touching += int(seen[6] or seen[7])
            seen, paid, over, cut, _ = env.step(action)
            total, over = total + float(paid), over or cut
        seen, _ = env.reset()
    assert total > 300.0
    assert touching > 10
    assert np.mean(taken) > 0.995


def test_every_gain_has_its_own_effect() -> None:
    """Gains far from the usual ones, on random states: the network against the formula that its docstring has."""
    generator = np.random.default_rng(0)
    gains = generator.uniform(0.2, 2.0, (20, 10))
    low, high = np.array(lunar_lander.FEATURE_LOW), np.array(lunar_lander.FEATURE_HIGH)
    seen = generator.uniform(low, high, (500, 8))
    seen[:, 6:] = generator.integers(2, size=(500, 2))
    a, b, c, d, e, f, g, h, u, v = gains.T[:, :, None]
    x, y, by_x, by_y, angle, turn, left, right = seen.T
    on_ground = (left + right) > 0
    tilt = np.where(on_ground, 0.0, e * (np.clip(a * x + b * by_x, -c, c) - angle) - f * turn)
    fall = np.where(on_ground, -v * by_y, g * (d * np.abs(x) - y) - h * by_y)
    wanted = np.stack([u + 0.0 * tilt, tilt, fall, -tilt])
    taken = populations.policies("lunar_lander", gains, 0.0).greedy(seen.astype(np.float32))
    best, second = -np.sort(-wanted, axis=0)[:2]
    clear = best - second > 1e-3
    assert clear.mean() > 0.99
    assert np.array_equal(taken[clear], wanted.argmax(axis=0)[clear])
    assert (np.bincount(taken[clear], minlength=4) > 300).all()
