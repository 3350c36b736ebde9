"""Any Gymnasium environment as a domain: the same rows, its own limit, and errors that say what to do."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.utils.env_checker import check_env

from tacit.data.spec import Box, Discrete
from tacit.envs.gym_domain import DomainEnv, GymDomain
from tacit.envs.serving import SimulatedUsers, returns, serve
from tacit.errors import DataError
from tacit_worlds.cart_pole import CartPole

Array = npt.NDArray[Any]
BOX = Box((-4.8, -4.0, -0.5, -4.0), (4.8, 4.0, 0.5, 4.0))


def discrete(observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
    return generator.integers(2, size=len(observations))


def continuous(observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
    return generator.uniform(-3.0, 3.0, (len(observations), 1)).astype(np.float32)


def play(domain: Any, actor: Any, people: int, **options: Any) -> dict[str, Array]:
    return serve(domain, actor, [0] * people, generator=np.random.default_rng(0), **options)


def test_the_rows_are_the_environments() -> None:
    """Every row of a served cart is one that our own cart-pole makes of the same state."""
    rows = play(GymDomain("CartPole-v1"), discrete, 9, horizon=40)
    assert rows["mask"][:, :8].all()
    assert not rows["mask"].all()
    kept = rows["mask"]
    state = rows["observations"][kept].astype(np.float64)
    after, paid, ended = CartPole().step(state, rows["actions"][kept], np.random.default_rng(0))
    assert np.abs(after - rows["next_observations"][kept]).max() < 1e-6
    assert np.array_equal(paid, rows["rewards"][kept])
    assert np.array_equal(ended, rows["terminations"][kept])
    following = rows["mask"][:, 1:]
    assert np.array_equal(rows["observations"][:, 1:][following], rows["next_observations"][:, :-1][following])
    assert len(np.unique(rows["observations"][:, 0, 0])) == 9


def test_the_same_seed_gives_the_same_rows_also_from_used_environments() -> None:
    domain = GymDomain("CartPole-v1")
    first, second = (play(domain, discrete, 4, horizon=80, repeat=2, restarts=True) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert first["mask"].all()
    assert first["terminations"].sum() > 4


def test_environments_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = [], gymnasium.make

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(arguments[0])
        return make(*arguments, **options)

    monkeypatch.setattr(gymnasium, "make", counted)
    domain = GymDomain("CartPole-v1")
    for _ in range(3):
        play(domain, discrete, 5, horizon=60)
    assert len(made) == 5
    play(domain, discrete, 5, horizon=60, restarts=True)
    assert len(made) <= 10


def test_the_environments_limit_truncates() -> None:
    domain = GymDomain("Pendulum-v1", max_episode_steps=7)
    assert domain.limit == 7
    rows = play(domain, continuous, 2, horizon=10)
    assert rows["mask"].sum(axis=1).tolist() == [7, 7]
    assert rows["truncations"][:, 6].all()
    assert not rows["terminations"].any()
    again = play(domain, continuous, 2, horizon=10, restarts=True)
    assert again["mask"].all()
    assert np.flatnonzero(again["truncations"][0]).tolist() == [6, 9]
    total = returns(domain, continuous, 2, 3, horizon=10, generator=np.random.default_rng(0))
    assert (total < -1.0).all()


def test_discrete_observations() -> None:
    domain = GymDomain("FrozenLake-v1", is_slippery=False)
    spec = domain.public_spec(reward=(0.0, 1.0))
    assert (spec.observation, spec.action) == (Discrete(16), Discrete(4))
    users = SimulatedUsers(domain, spec, horizon=20, seed=0)
    rows = users.serve(users.arrive(6), discrete)
    assert rows["observations"].dtype == np.int64
    assert rows["observations"].shape == (6, 20)


def test_actions_are_clipped_and_made_finite() -> None:
    domain = GymDomain("Pendulum-v1")
    ends = []
    for action in (2.0, 99.0, 0.0, np.nan):
        state = domain.starts(1, np.random.default_rng(1))
        domain.step(state, np.array([[action]], dtype=np.float32), np.random.default_rng(0))
        ends.append(domain.observe(state).tolist())
    assert ends[0] == ends[1] != ends[2] == ends[3]


def test_the_environment_is_sound() -> None:
    domain = GymDomain("Pendulum-v1")
    arguments = {"domain": domain, "spec": domain.public_spec(reward=(-16.3, 0.0)), "horizon": 5}
    env = DomainEnv(**arguments)  # type: ignore[arg-type]
    env.spec = gymnasium.envs.registration.EnvSpec("tacit/Gym-v0", entry_point=DomainEnv, kwargs=arguments)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*symmetric and normalized space.*")  # a torque is in [-2, 2]
        check_env(env)


def test_public_bounds() -> None:
    cart = GymDomain("CartPole-v1")
    spec = cart.public_spec(observation=BOX, reward=(0.0, 1.0))
    assert (spec.observation, spec.action, spec.source) == (BOX, Discrete(2), "declared")
    spec = GymDomain("Pendulum-v1").public_spec(reward=(-16.3, 0.0))
    assert spec.observation == Box((-1.0, -1.0, -8.0), (1.0, 1.0, 8.0))
    assert (spec.action, spec.source) == (Box((-2.0,), (2.0,)), "environment")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reward": (0.0, 1.0)}, "the observation has no finite bounds"),
        ({"observation": BOX}, "the reward has no public bounds"),
        ({"observation": Box((0.0,), (1.0,)), "reward": (0.0, 1.0)}, "the observation bounds have 1 dimensions"),
        ({"observation": BOX, "action": BOX, "reward": (0.0, 1.0)}, "the action is discrete"),
    ],
)
def test_missing_bounds(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        GymDomain("CartPole-v1").public_spec(**given)
    assert "known without the data" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("CartPole-v9", "CartPole-v1"),
        ("no such thing", "import the package"),
        ("", "import the package"),
        ("nomodule:Any-v0", "import the package"),
    ],
)
def test_an_unknown_environment(name: str, remedy: str) -> None:
    with pytest.raises(DataError, match="knows no such environment") as caught:
        GymDomain(name)
    assert remedy in caught.value.remedy


def test_what_is_not_installed_or_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="the observation space is of a kind"):
        GymDomain("Blackjack-v1")

    def missing(*arguments: Any, **options: Any) -> Any:
        raise gymnasium.error.DependencyNotInstalled("Box2D")

    monkeypatch.setattr(gymnasium, "make", missing)
    with pytest.raises(DataError, match="is not installed"):
        GymDomain("CartPole-v1")
