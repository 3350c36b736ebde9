"""The library's simulators under Gymnasium's names: all of them registered, checked by Gymnasium's own checker."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib import import_module

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tacit.envs.gym_domain import DomainEnv
from tacit.envs.serving import serve
from tacit.errors import DataError
from tacit_worlds import gym, maze_layouts

IDS = sorted(name for name in gymnasium.registry if name.startswith("tacit/"))
NEEDS = {"HalfCheetah-v5": "mujoco", "Hopper-v5": "mujoco", "LunarLander-v3": "Box2D"}


def made(name: str) -> gymnasium.Env:
    package = NEEDS.get(name.removeprefix("tacit/"))
    if package is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pytest.importorskip(package)
    return gymnasium.make(name)


def test_every_simulator_is_registered() -> None:
    mazes = {f"tacit/Maze-{name}-v0" for name in maze_layouts.LAYOUTS}
    assert set(IDS) == {f"tacit/{name}" for name in gym.SIMULATORS} | mazes | {"tacit/Day-v0"}
    assert len(IDS) == 21
    homes = {home.partition(":")[0] for home, _, _ in gym.SIMULATORS.values()}
    with_dynamics = {
        "acrobot",
        "cart_pole",
        "chain",
        "clinic",
        "dosing",
        "hiv",
        "locomotion",
        "lunar_lander",
        "river_swim",
    }
    assert homes == with_dynamics
    gym.register()  # twice is once, without a warning


@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_checker_finds_nothing(name: str) -> None:
    env = made(name)
    with warnings.catch_warnings():  # all others are errors
        if name.startswith(
            "tacit/Dosing"
        ):  # a dose keeps its unit, mU/min from 0 to 10, as records and policies have it
            warnings.filterwarnings("ignore", ".*we recommend using a symmetric and normalized space")
        check_env(env.unwrapped, skip_render_check=True)
    again = env.unwrapped.spec
    assert again is not None
    assert gymnasium.make(again).unwrapped.observation_space == env.unwrapped.observation_space


@pytest.mark.parametrize("name", IDS)
def test_an_episode_ends_where_the_simulator_says(name: str) -> None:
    env = made(name)
    seen, _ = env.reset(seed=1)
    env.action_space.seed(1)
    assert env.observation_space.contains(seen)
    limit = env.spec.max_episode_steps if env.spec is not None else None
    assert limit is not None
    for step in range(1, limit + 1):
        seen, paid, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(seen)
        assert np.isfinite(paid)
        if terminated:
            return
        assert truncated == (step == limit)


@pytest.mark.parametrize("name", gym.SIMULATORS)
def test_the_horizon_is_the_simulators_own(name: str) -> None:
    home, horizon, _ = gym.SIMULATORS[name]
    assert horizon == import_module(f"tacit_worlds.{home.partition(':')[0]}").HORIZON


@pytest.mark.parametrize("name", ["CartPole-v1", "DosingPersonal-v0", "Chain-v0"])
def test_one_unit_gets_the_rows_that_many_at_once_get(name: str) -> None:
    domain, spec, horizon = gym.simulator(name)
    env = DomainEnv(domain, spec, horizon=horizon)
    action = env.action_space.sample() * 0

    def still(observations: np.ndarray, replicate: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return np.repeat(np.asarray(action)[None], len(observations), axis=0)

    rows = serve(domain, still, [0], horizon=9, generator=np.random.default_rng(5))
    seen, _ = env.reset(seed=5)
    for t in range(int(rows["mask"].sum())):
        wanted = rows["observations"][0, t]
        low, high = getattr(env.observation_space, "low", wanted), getattr(env.observation_space, "high", wanted)
        np.testing.assert_allclose(seen, np.clip(wanted, low, high), rtol=1e-6)
        seen, paid, *_ = env.step(action)
        assert paid == pytest.approx(float(rows["rewards"][0, t]), rel=1e-6)


def test_parameters_go_to_the_dynamics() -> None:
    heavy, light = gymnasium.make("tacit/CartPole-v1", gravity=20.0), gymnasium.make("tacit/CartPole-v1")
    states = []
    for env in (heavy, light):
        env.reset(seed=0)
        states.append([env.step(1)[0] for _ in range(3)][-1])
    assert not np.allclose(*states)
    with pytest.raises(DataError, match="gravity"):
        gymnasium.make("tacit/CartPole-v1", gravity=-1.0)
    with pytest.raises(DataError, match="there is no simulator 'Pong'"):
        gym.simulator("Pong")


def test_tacit_itself_does_not_load_gymnasium_and_the_module_prefix_registers() -> None:
    code = (
        "import sys, tacit, tacit.envs, tacit_worlds.cart_pole\n"
        "assert 'gymnasium' not in sys.modules\n"
        "import gymnasium\n"
        "print(gymnasium.make('tacit_worlds.gym:tacit/Dosing-v0').spec.id, 'scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "tacit/Dosing-v0 False\n"), done.stderr
