"""The chain against its recursion, literal figures and simulation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tacit.data.spec import Discrete
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import monte_carlo_values, uniform_policy
from tacit_worlds import chain


def skewed(observations: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.tile([0.9, 0.1], (len(observations), 1))


def test_values_solve_the_bellman_equation() -> None:
    v = chain.values()
    after = np.append(v[1:], 0.0)
    paid = np.eye(39)[-1]
    assert v == pytest.approx(0.5 * 0.99 * v + 0.5 * (paid + 0.99 * after), abs=1e-14)
    assert v[-1] == pytest.approx(0.5 / 0.505)


def test_the_figures_of_the_comparison() -> None:
    """Zero and the mean value: errors of V 0.712 and 0.1555, MSPBE 0.0367 and 0.0034; the values themselves 4e-7."""
    v = chain.values()
    assert np.sqrt((v**2).mean()) == pytest.approx(0.712, abs=5e-4)
    assert v.std() == pytest.approx(0.1555, abs=5e-5)
    assert chain.mspbe(np.zeros(39)) == pytest.approx(0.03669, abs=5e-6)
    assert chain.mspbe(np.full(39, v.mean())) == pytest.approx(0.00336, abs=5e-6)
    assert chain.mspbe(v) == pytest.approx(4.17e-7, abs=5e-10)
    assert chain.mspbe(np.full(39, np.nan)) == float("inf")


def test_inverse_lengths_are_those_of_the_negative_binomial() -> None:
    """b sums E[1/L] over the starts: E[1/L] = sum over l >= k of C(l - 1, k - 1) / (l 2^l)."""
    total = 0.0
    for k in range(1, 40):
        probability = 0.5**k
        for length in range(k, 400):
            total += probability / length
            probability *= 0.5 * length / (length - k + 1)
    assert chain.expected_moments()[1][-1] == pytest.approx(total / 39, rel=1e-12)


def test_population_is_what_trajectories_average_to() -> None:
    columns = chain.collect(uniform_policy(2), 100_000, seed=0)
    state, after, ended = columns["observations"], columns["next_observations"], columns["terminations"]
    length = np.bincount(columns["unit_ids"])
    share = 1.0 / length[columns["unit_ids"]] / len(length)
    visits = np.bincount(state, share, 39)
    moved = np.bincount(state, share * (after != state), 39)
    a, b, c = chain.expected_moments()
    assert np.diag(c) == pytest.approx(visits, abs=1.5e-3)
    assert np.diag(a) == pytest.approx(visits - 0.99 * (visits - moved), abs=1.5e-3)
    assert np.diag(a, 1) == pytest.approx(-0.99 * moved[:-1], abs=1.5e-3)
    assert b == pytest.approx(np.bincount(state, share * columns["rewards"], 39), abs=1.5e-3)
    assert ended.sum() == 100_000
    assert np.count_nonzero(a) == 39 + 38
    fixed_point = np.linalg.solve(a, b)
    assert chain.mspbe(fixed_point) < 1e-25
    assert np.sqrt(((fixed_point - chain.values()) ** 2).mean()) == pytest.approx(0.0092, abs=5e-5)


def test_monte_carlo_agrees_under_any_policy() -> None:
    states = np.array([0, 20, 38])
    for policy in (uniform_policy(2), skewed):
        mean, error = monte_carlo_values(
            chain.Chain(), policy, states, rollouts=20_000, horizon=160, gamma=0.99, seed=1
        )
        assert (np.abs(mean - chain.values()[states]) < 4.5 * error).all()
        assert error.max() < 5e-4


def test_rows_keep_their_promises() -> None:
    columns = chain.collect(skewed, 500, seed=3)
    unit, state, after = columns["unit_ids"], columns["observations"], columns["next_observations"]
    assert np.array_equal(np.unique(unit), np.arange(500))
    same = unit[1:] == unit[:-1]
    assert (np.diff(unit) >= 0).all()
    assert np.array_equal(state[1:][same], after[:-1][same])
    assert np.isin(after - state, [0, 1]).all()
    assert np.array_equal(columns["terminations"], after == 39)
    assert np.array_equal(columns["rewards"], columns["terminations"].astype(np.float32))
    assert np.array_equal(columns["propensities"], np.float32([0.9, 0.1])[columns["actions"]])
    assert columns["actions"].mean() == pytest.approx(0.1, abs=0.01)
    first = state[np.append(True, ~same)]
    assert np.abs(np.bincount(first, minlength=39) / 500 - 1 / 39).max() < 0.03
    assert (first < 39).all()
    again = chain.collect(skewed, 500, seed=3)
    assert all(np.array_equal(columns[name], again[name]) for name in columns)


def test_rows_become_trajectories() -> None:
    data = Trajectories.from_arrays(**chain.collect(uniform_policy(2), 50, seed=0), spec=chain.spec(), simulated=True)
    assert data.spec.observation == Discrete(40)
    assert data.spec.propensities


def test_a_horizon_truncates() -> None:
    columns = chain.collect(uniform_policy(2), 200, seed=0, horizon=5)
    assert np.bincount(columns["unit_ids"]).max() == 5
    last = np.append(np.diff(columns["unit_ids"]) > 0, True)
    assert np.array_equal(columns["terminations"] | columns["truncations"], last)
    assert not (columns["terminations"] & columns["truncations"]).any()
