"""Every domain is a sound Gymnasium environment."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tacit.envs.gym_domain import DomainEnv
from tacit_worlds import acrobot, cart_pole, dosing, river_swim

CASES = [
    pytest.param(cart_pole.CartPole(), cart_pole.spec(), id="cart-pole"),
    pytest.param(acrobot.Acrobot(), acrobot.spec(), id="acrobot"),
    pytest.param(river_swim.RiverSwim(), river_swim.spec(), id="river-swim"),
    pytest.param(dosing.Dosing(personal=False), dosing.spec(), id="dosing-0"),
    pytest.param(dosing.Dosing(), dosing.spec(), id="dosing-1"),
]


@pytest.mark.parametrize(("domain", "spec"), CASES)
def test_the_environment_is_sound(domain: Any, spec: Any) -> None:
    arguments = {"domain": domain, "spec": spec, "horizon": 6}
    env = DomainEnv(**arguments)
    env.spec = gymnasium.envs.registration.EnvSpec("tacit/Any-v0", entry_point=DomainEnv, kwargs=arguments)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*symmetric and normalized space.*")  # a dose is in [0, 10]
        check_env(env)
    env.reset(seed=1)
    ends = []
    for _ in range(6):
        seen, paid, over, cut, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(seen)
        assert spec.reward.low[0] <= paid <= spec.reward.high[0]
        ends.append((over, cut))
    assert ends == [(False, False)] * 5 + [(False, True)]


def test_observations_are_clipped_to_their_space() -> None:
    env = DomainEnv(dosing.Dosing(), dosing.spec(), horizon=143)
    env.reset(seed=0)
    for _ in range(60):
        seen, _, _, _, _ = env.step(np.array([10.0], dtype=np.float32))
    assert seen[0] == 40.0
    assert seen[1] == 80.0
    assert env.observation_space.contains(seen)
