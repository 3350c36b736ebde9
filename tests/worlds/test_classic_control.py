"""Cart-pole and acrobot against Gymnasium's own."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from tacit.envs.rollouts import Domain
from tacit.errors import DataError
from tacit_worlds import acrobot, cart_pole

NOTHING = np.random.default_rng(0)
CASES = [
    pytest.param("CartPole-v1", cart_pole.CartPole(), 2, id="cart-pole"),
    pytest.param("Acrobot-v1", acrobot.Acrobot(), 3, id="acrobot"),
]
VARIED = [
    pytest.param("CartPole-v1", cart_pole.CartPole(11.0, 9.5, 0.8, 0.2, 0.6), 2, id="cart-pole-varied"),
    pytest.param("Acrobot-v1", acrobot.Acrobot((0.8, 0.8), (0.9, 1.1)), 3, id="acrobot-varied"),
]


def vary(other: Any, domain: Any) -> None:
    """Give one of Gymnasium's environments the physics of ours."""
    if isinstance(domain, cart_pole.CartPole):
        other.gravity, other.force_mag, other.length = domain.gravity, domain.force, domain.half_length
        other.masscart, other.masspole = domain.cart_mass, domain.pole_mass
        other.total_mass, other.polemass_length = domain.cart_mass + domain.pole_mass, domain.pole_mass * other.length
        return
    (other.LINK_LENGTH_1, other.LINK_LENGTH_2), (other.LINK_MASS_1, other.LINK_MASS_2) = domain.lengths, domain.masses
    other.LINK_COM_POS_1, other.LINK_COM_POS_2 = (length / 2 for length in domain.lengths)


@pytest.mark.parametrize(("name", "domain", "actions"), CASES + VARIED)
def test_the_dynamics_are_gymnasiums(name: str, domain: Domain, actions: int) -> None:
    """Forty episodes of theirs beside ours, all at once, for at most 60 random steps each (an acrobot's start is fast,
    so that some swing up): states, float32 observations, rewards and ends.
    """
    others: list[Any] = [gymnasium.make(name).unwrapped for _ in range(40)]
    state = domain.starts(40, np.random.default_rng(1))
    if name == "Acrobot-v1":
        state[:, 2:] = np.random.default_rng(2).uniform(-5.0, 5.0, (40, 2))
    for other, first in zip(others, state, strict=True):
        other.reset(seed=0)
        vary(other, domain)
        other.state = first.copy()
    going, ends, generator = np.ones(40, dtype=bool), 0, np.random.default_rng(3)
    for _ in range(60):
        action = generator.integers(actions, size=40)
        state, paid, ended = domain.step(state, action, NOTHING)
        seen = domain.observe(state)
        assert seen.dtype == np.float32
        for i in np.flatnonzero(going):
            theirs, reward, over, _, _ = others[i].step(int(action[i]))
            assert np.abs(state[i] - others[i].state).max() < 1e-10
            assert np.abs(seen[i] - theirs).max() < 1e-6
            assert (paid[i], ended[i]) == (reward, over)
        ends += int((ended & going).sum())
        going &= ~ended
    assert ends >= 5


@pytest.mark.parametrize(("name", "domain", "actions"), CASES)
def test_the_starts_are_gymnasiums(name: str, domain: Domain, actions: int) -> None:
    other: Any = gymnasium.make(name).unwrapped
    theirs = []
    for seed in range(50):
        other.reset(seed=seed)
        theirs.append(other.state)
    ours, range_ = domain.starts(50_000, np.random.default_rng(0)), float(np.abs(theirs).max())
    assert ours.dtype == np.float64
    assert np.abs(ours).max() == pytest.approx(range_, rel=0.02)
    assert ours.std(axis=0) == pytest.approx(np.full(4, range_ / np.sqrt(3.0)), rel=0.03)
    assert ours.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.01 * range_)


def test_bounds_are_finite_and_hold_gymnasiums() -> None:
    for name, module in (("CartPole-v1", cart_pole), ("Acrobot-v1", acrobot)):
        space: Any = gymnasium.make(name).observation_space
        inside = np.isfinite(space.high) & (space.high < 1e30)
        assert np.abs(np.array(module.HIGH) - space.high)[inside].max() < 1e-3
        assert tuple(-v for v in module.HIGH) == module.LOW
        assert gymnasium.spec(name).max_episode_steps == module.HORIZON
        assert module.spec().terminals


def test_a_cart_from_rest_stays_within_its_bounds() -> None:
    """A constant push, the fastest way to end an episode, leaves the public speeds unreached."""
    domain = cart_pole.CartPole()
    state, going, largest = domain.starts(100, np.random.default_rng(4)), np.ones(100, dtype=bool), np.zeros(4)
    while going.any():
        state, _, ended = domain.step(state, np.arange(100) % 2, NOTHING)
        largest = np.maximum(largest, np.abs(state[going]).max(axis=0))
        going &= ~ended
    assert (largest < cart_pole.HIGH).all()
    assert largest[1] < 2.5
    assert largest[3] < 3.6


@pytest.mark.parametrize(
    "make",
    [
        lambda: cart_pole.CartPole(gravity=0.0),
        lambda: cart_pole.CartPole(pole_mass=float("nan")),
        lambda: acrobot.Acrobot(lengths=(1.0, -1.0)),
        lambda: acrobot.Acrobot(masses=(float("inf"), 1.0)),
    ],
)
def test_impossible_physics_are_refused(make: Any) -> None:
    with pytest.raises(DataError, match="a finite number > 0"):
        make()
