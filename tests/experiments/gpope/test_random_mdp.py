"""Random decision processes: their figures, their equations, and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.gpope.random_mdp import tabular

from experiments.gpope import random_mdp
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import monte_carlo_values

MDP = random_mdp.random_mdp()


def test_the_figures_of_the_default() -> None:
    target, behaviour = random_mdp.values(MDP, MDP.target), random_mdp.values(MDP, MDP.behaviour)
    assert np.sqrt((target**2).mean()) == pytest.approx(3.06, abs=0.01)
    assert target.std() == pytest.approx(1.58, abs=0.01)
    assert np.sqrt(((target - behaviour) ** 2).mean()) == pytest.approx(1.02, abs=0.01)
    assert (target.min(), target.max()) == pytest.approx((0.71, 5.36), abs=0.01)
    assert (MDP.target / MDP.behaviour).max() == pytest.approx(3.45, abs=0.01)


@pytest.mark.parametrize("seed", [0, 61])
def test_it_is_a_decision_process(seed: int) -> None:
    mdp = random_mdp.random_mdp(seed)
    for table in (mdp.transitions, mdp.behaviour, mdp.target):
        assert (table >= 0).all()
        assert table.sum(axis=-1) == pytest.approx(1.0)
    assert mdp.rewards.min() >= 0
    assert mdp.rewards.max() <= 0.75
    far = np.abs(np.arange(20)[:, None] - np.arange(20)) > 2
    assert (mdp.transitions.transpose(1, 0, 2)[:, far] == 0).all()


def test_values_solve_the_bellman_equation() -> None:
    v = random_mdp.values(MDP, MDP.target)
    ahead = MDP.rewards + 0.95 * MDP.transitions @ v
    assert v == pytest.approx((MDP.target * ahead).sum(axis=1), abs=1e-12)
    assert random_mdp.mspbe(MDP, v) < 1e-25
    assert random_mdp.mspbe(MDP, np.full(20, np.inf)) == float("inf")


def test_monte_carlo_agrees() -> None:
    states = np.array([0, 10, 19])
    for table in (MDP.target, MDP.behaviour):
        how = {"rollouts": 2_000, "horizon": 300, "gamma": random_mdp.GAMMA, "seed": 0}
        mean, error = monte_carlo_values(MDP, tabular(table), states, **how)
        assert (np.abs(mean - random_mdp.values(MDP, table)[states]) < 4 * error).all()
        assert error.max() < 0.05


def test_population_is_what_rows_average_to() -> None:
    """With the ratios, rows of the behaviour policy have the target's A and b."""
    columns = random_mdp.collect(MDP, tabular(MDP.behaviour), 5_000, seed=0)
    state, after, action = columns["observations"], columns["next_observations"], columns["actions"]
    ratio = MDP.target[state, action] / columns["propensities"]
    rows = len(state)
    assert rows == 200_000
    phi, following = np.eye(20)[state], np.eye(20)[after]
    a, b, c = random_mdp.population(MDP)
    assert phi.mean(axis=0) == pytest.approx(np.diag(c), abs=2e-3)
    assert (ratio[:, None] * phi).T @ (phi - 0.95 * following) / rows == pytest.approx(a, abs=2e-3)
    assert (ratio * columns["rewards"]) @ phi / rows == pytest.approx(b, abs=1e-3)


def test_rows_become_trajectories() -> None:
    columns = random_mdp.collect(MDP, tabular(MDP.behaviour), 30, seed=0)
    assert columns["propensities"] == pytest.approx(MDP.behaviour[columns["observations"], columns["actions"]])
    assert columns["truncations"].reshape(30, 40)[:, -1].all()
    assert columns["truncations"].sum() == 30
    data = Trajectories.from_arrays(**columns, spec=random_mdp.spec(), simulated=True)
    assert not data.spec.terminals
