"""A domain that shows memories: what it shows is the memory of what the domain itself would have shown."""

import numpy as np

from tacit.data.memory import Memory
from tacit.envs.gym_domain import GymDomain
from tacit.envs.rollouts import MemoryDomain, collect, uniform_policy
from tacit_worlds import clinic

MEMORY = Memory((0.7, 0.0, 0.0, 0.7, 1.0, 1.0))


def test_a_remembered_domain_shows_the_memory_of_its_own_observations() -> None:
    plain = collect(clinic.Clinic(), uniform_policy(6), 40, seed=3, horizon=24)
    shown = collect(MemoryDomain(clinic.Clinic(), MEMORY), uniform_policy(6), 40, seed=3, horizon=24)
    episode = plain["episode_ids"]
    starts = np.r_[True, episode[1:] != episode[:-1]]
    held, after = MEMORY.memories(plain["observations"], plain["next_observations"], starts)
    np.testing.assert_array_equal(plain["actions"], shown["actions"])
    np.testing.assert_allclose(shown["observations"], held, atol=1e-5)
    np.testing.assert_allclose(shown["next_observations"], after, atol=1e-5)


def test_limits_of_the_domain_itself_stay() -> None:
    assert MemoryDomain(clinic.Clinic(), MEMORY).truncated is None
    domain = MemoryDomain(GymDomain("CartPole-v1"), Memory((0.0,) * 4))
    generator = np.random.default_rng(0)
    state, _, _ = domain.step(domain.starts(2, generator), np.array([0, 1]), generator)
    assert domain.truncated is not None
    assert domain.truncated(state).tolist() == [False, False]
    assert domain.observe(state).shape == (2, 4)
