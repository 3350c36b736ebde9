"""Mountain car against Gymnasium's own, by hand, and what its policies are like."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.utils.env_checker import check_env

from experiments.gpope import mountain_car
from tacit.data.trajectories import Trajectories
from tacit.envs.gym_domain import DomainEnv
from tacit.envs.rollouts import uniform_policy

CAR = mountain_car.MountainCar()
NOTHING = np.random.default_rng(0)


def push_right(observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    return np.tile([0.0, 0.0, 1.0], (len(observations), 1))


def with_the_motion(observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    return np.eye(3)[np.where(observations[:, 1] < 0.0, 0, 2)]


def test_the_dynamics_are_gymnasiums() -> None:
    """500 random steps from 20 states, side by side; an end of theirs is an end of ours."""
    other: Any = gymnasium.make("MountainCar-v0").unwrapped
    state = CAR.starts(20, np.random.default_rng(1))
    for first in state:
        ours = first[None]
        other.reset(seed=0)
        other.state = tuple(first)
        for action in np.random.default_rng(2).integers(3, size=25):
            ours, paid, ended = CAR.step(ours, np.array([action]), NOTHING)
            _, reward, over, _, _ = other.step(int(action))
            assert ours[0] == pytest.approx(np.array(other.state), abs=1e-12)
            assert (paid[0], ended[0]) == (reward, over)


def test_one_step_by_hand() -> None:
    state = np.array([[0.0, 0.01], [-1.19, -0.05], [0.49, 0.07]])
    after, paid, ended = CAR.step(state, np.array([2, 0, 1]), NOTHING)
    assert after[0] == pytest.approx([0.0085, 0.0085])
    assert after[1] == pytest.approx([-1.2, 0.0])
    assert after[2] == pytest.approx([0.56 - 0.0025 * np.cos(1.47), 0.07 - 0.0025 * np.cos(1.47)])
    assert ended.tolist() == [False, False, True]
    assert paid.tolist() == [-1.0, -1.0, -1.0]


def test_rows_become_trajectories() -> None:
    columns = mountain_car.collect(uniform_policy(3), 200, seed=0, horizon=50)
    assert np.array_equal(np.unique(columns["unit_ids"]), np.arange(200))
    assert columns["observations"].dtype == np.float32
    assert set(columns["propensities"].tolist()) == {float(np.float32(1 / 3))}
    following, _, ended = CAR.step(columns["observations"].astype(np.float64), columns["actions"], NOTHING)
    assert np.abs(following - columns["next_observations"]).max() < 1e-6
    assert (ended != columns["terminations"]).mean() < 1e-3
    assert columns["terminations"].any()
    assert columns["truncations"].any()
    data = Trajectories.from_arrays(**columns, spec=mountain_car.spec(), simulated=True)
    assert data.spec.propensities


def test_truth_of_a_policy_without_chance() -> None:
    """Pushing with the motion from rest at -0.5 needs n steps, so it is worth -(1 - 0.99^n) / 0.01, without error."""
    start = np.array([[-0.5, 0.0], [0.45, 0.07]])
    length = np.bincount(_episode(start)["unit_ids"])
    assert 100 < length[0] < 140
    mean, error = mountain_car.truth(with_the_motion, start, rollouts=2, seed=0)
    assert mean == pytest.approx(-(1.0 - 0.99**length) / 0.01)
    assert error.max() < 1e-12
    never, _ = mountain_car.truth(push_right, start[:1], rollouts=2, horizon=30, gamma=1.0, seed=0)
    assert never[0] == -30.0


def _episode(start: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[Any]]:
    from tacit.envs.rollouts import collect

    class FromThere(mountain_car.MountainCar):
        def starts(self, units: int, generator: np.random.Generator) -> npt.NDArray[np.float64]:
            return start

    return collect(FromThere(), with_the_motion, len(start), seed=0, horizon=300)


def test_the_environment_is_sound() -> None:
    env = DomainEnv(CAR, mountain_car.spec(), horizon=3)
    arguments = {"domain": CAR, "spec": mountain_car.spec(), "horizon": 3}
    env.spec = gymnasium.envs.registration.EnvSpec("tacit/Car-v0", entry_point=DomainEnv, kwargs=arguments)
    check_env(env)
    seen, _ = env.reset(seed=5)
    ours = seen.astype(np.float64)[None]
    for step in (1, 2, 3):
        ours, _, _ = CAR.step(ours, np.array([2]), NOTHING)
        got, paid, over, cut, _ = env.step(np.int64(2))
        assert got == pytest.approx(ours[0], abs=1e-6)
        assert (paid, over, cut) == (-1.0, False, step == 3)


@pytest.mark.slow  # 8 s of learning for one figure of an experiment
def test_the_learned_policy_reaches_the_goal() -> None:
    """About 89 steps on average under the behaviour policy (5 seconds of training), against 237 of the uniform one."""
    learned = mountain_car.collect(mountain_car.behaviour(), 500, seed=0)
    assert learned["terminations"].sum() / 500 > 0.95
    assert len(learned["rewards"]) / 500 < 110
    probabilities = mountain_car.behaviour()(learned["observations"])
    assert np.unique(probabilities.round(6)).tolist() == pytest.approx([1 / 6, 2 / 3], abs=1e-6)
    random = mountain_car.collect(uniform_policy(3), 500, seed=0)
    assert random["terminations"].sum() / 500 < 0.3
    assert mountain_car.learned_q().weights.shape == (36, 3)
