"""HIV treatment against SciPy's stiff solver, by hand, and what its policies are like."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.utils.env_checker import check_env
from scipy.integrate import solve_ivp

from tacit.data.trajectories import Trajectories
from tacit.envs.gym_domain import DomainEnv
from tacit.envs.rollouts import uniform_policy
from tacit.errors import DataError
from tacit_worlds import hiv

FloatArray = npt.NDArray[np.float64]
PATIENTS, PATIENTS_OF_A_MOMENT = hiv.Hiv(), hiv.Hiv(days=0.01)
NOTHING = np.random.default_rng(0)
needs_kernel = pytest.mark.skipif(hiv.integrate_compiled is None, reason="too slow without a C compiler")
KERNELS = [hiv.integrate_numpy, *([hiv.integrate_compiled] if hiv.integrate_compiled else [])]
AFTER_TREATMENT = np.array([9e5, 3100.0, 50.0, 5.0, 200.0, 30.0])
"""Many healthy cells and little virus: without drugs it multiplies to 2e6 within days."""


def equations(_: float, y: FloatArray, e1: float, e2: float) -> list[float]:
    """The six equations as printed, with the names of the papers."""
    t1, t2, t1s, t2s, v, e = y
    f, k1, k2, delta, m1, m2, nt, c, rho1, rho2 = 0.34, 8e-7, 1e-4, 0.7, 1e-5, 1e-5, 100.0, 13.0, 1.0, 1.0
    b, kb, d, kd, death = 0.3, 100.0, 0.25, 500.0, 0.1
    u1, u2, infected = (1 - e1) * k1 * v * t1, (1 - f * e1) * k2 * v * t2, t1s + t2s
    return [
        1e4 - 0.01 * t1 - u1,
        31.98 - 0.01 * t2 - u2,
        u1 - delta * t1s - m1 * e * t1s,
        u2 - delta * t2s - m2 * e * t2s,
        (1 - e2) * nt * delta * infected - c * v - (rho1 * u1 + rho2 * u2),
        1.0 + b * infected / (infected + kb) * e - d * infected / (infected + kd) * e - death * e,
    ]


def lsoda(state: FloatArray, drugs: FloatArray, days: float = 5.0) -> FloatArray:
    solved = solve_ivp(equations, (0.0, days), state, method="LSODA", rtol=1e-10, atol=1e-9, args=tuple(drugs))
    return np.asarray(solved.y[:, -1])


def worst(kernel: Any, state: FloatArray, drugs: FloatArray, length: float, days: float = 5.0) -> float:
    """Largest relative error after `days` in steps of `length` days."""
    got = state[None].copy()
    with np.errstate(all="ignore"):
        kernel(got, drugs[None].copy(), round(days / length), length)
    return float(np.abs(got[0] / lsoda(state, drugs, days) - 1.0).max())


def test_trajectories_are_lsodas() -> None:
    """Three patients for 150 days under random treatment, each five days from where LSODA is: 1e-4, as it is 1e-7."""
    rng = np.random.default_rng(0)
    exact = PATIENTS.starts(3, rng)
    ours = exact.copy()
    for _ in range(30):
        action = rng.integers(4, size=3)
        ours, _, _ = PATIENTS.step(ours, action, NOTHING)
        exact = np.stack([lsoda(state, hiv.DRUGS[a]) for state, a in zip(exact, action, strict=True)])
        assert ours == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_step_of_a_hundredth_of_a_day_is_short_enough(kernel: Any) -> None:
    """At the steady state 0.05 day would do; after treatment it is off by far, 0.02 too, and 0.01 has 1e-4."""
    none = np.zeros(2)
    assert worst(kernel, np.array(hiv.STEADY_STATE), none, 0.05) < 1e-4
    assert worst(kernel, AFTER_TREATMENT, none, hiv.SUBSTEP, days=20.0) < 1e-4
    for length in (0.05, 0.02):
        assert not worst(kernel, AFTER_TREATMENT, none, length, days=20.0) < 0.1


def test_five_hundredths_of_a_day_is_wrong_although_finite() -> None:
    """The trap of this domain: with 0.05 day some treated patients end up elsewhere, without a NaN."""
    rng = np.random.default_rng(2)
    coarse = PATIENTS.starts(64, rng)
    fine = coarse.copy()
    action = np.zeros(64, dtype=np.int64)
    with np.errstate(all="ignore"):
        for t in range(40):
            if t % 2 == 0:
                action = rng.integers(4, size=64)
            fine, _, _ = PATIENTS.step(fine, action, NOTHING)
            hiv.integrate(coarse, hiv.DRUGS[action], 100, 0.05)
    finite = np.isfinite(coarse).all(axis=1)
    assert np.abs(coarse[finite] / fine[finite] - 1.0).max() > 1.0


@pytest.mark.skipif(hiv.integrate_compiled is None, reason="installed without a C compiler")
@pytest.mark.parametrize("patients", [1, 16, 37])
def test_the_compiled_kernel_is_the_numpy_one(patients: int) -> None:
    """Also where the last block of patients is not full."""
    assert hiv.integrate_compiled is not None
    rng = np.random.default_rng(patients)
    one = PATIENTS.starts(patients, rng)
    other, drugs = one.copy(), hiv.DRUGS[rng.integers(4, size=patients)]
    hiv.integrate_compiled(one, drugs, 100, 0.01)
    hiv.integrate_numpy(other, drugs, 100, 0.01)
    assert one == pytest.approx(other, rel=1e-12)
    with pytest.raises(ValueError, match="integrate"):
        hiv.integrate_compiled(one, drugs[:, :1].copy(), 1, 0.01)


def test_without_a_compiled_kernel_numpy_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the learned policy does not depend on which did: what it learns from has the precision of float32."""
    monkeypatch.setitem(sys.modules, "tacit_worlds._hiv", None)
    assert hiv._load_kernel() is None
    with_kernel = hiv.collect(uniform_policy(4), 5, seed=0, horizon=8)
    monkeypatch.setattr(hiv, "integrate", hiv.integrate_numpy)
    without = hiv.collect(uniform_policy(4), 5, seed=0, horizon=8)
    assert all(column == pytest.approx(without[name], rel=1e-6) for name, column in with_kernel.items())


def test_rewards_by_hand() -> None:
    """1e-5 (1e3 E - 0.1 V - 2e4 e1^2 - 2e3 e2^2) of the state after the step; a recovered patient pays the bound 5."""
    state = np.tile(hiv.STEADY_STATE, (4, 1))
    after, paid, ended = PATIENTS.step(state, np.arange(4), NOTHING)
    costs = np.array([0.0, 2e4 * 0.49, 2e3 * 0.09, 2e4 * 0.49 + 2e3 * 0.09])
    assert paid == pytest.approx(1e-5 * (1e3 * after[:, 5] - 0.1 * after[:, 4] - costs))
    assert paid[0] == pytest.approx(0.175, abs=0.005)
    assert not ended.any()
    assert np.array_equal(state[0], hiv.STEADY_STATE)
    recovered = np.array([[967839.0, 621.0, 76.0, 6.0, 415.0, 353108.0]])
    assert PATIENTS.step(recovered, np.array([0]), NOTHING)[1].tolist() == [5.0]


def test_the_papers_steady_states_stay() -> None:
    for state in (hiv.STEADY_STATE, (967839.0, 621.0, 76.0, 6.0, 415.0, 353108.0)):
        after, _, _ = PATIENTS.step(np.array([state]), np.array([0]), NOTHING)
        assert after[0] == pytest.approx(state, rel=0.1)


def test_rows_become_trajectories() -> None:
    columns = hiv.collect(uniform_policy(4), 20, seed=0, horizon=12)
    assert columns["observations"].shape == (240, 6)
    assert columns["truncations"].reshape(20, 12)[:, -1].all()
    after, paid, _ = PATIENTS.step(10.0 ** columns["observations"].astype(float), columns["actions"], NOTHING)
    assert np.log10(after) == pytest.approx(columns["next_observations"], abs=1e-4)
    assert paid == pytest.approx(columns["rewards"], abs=1e-3)
    first = 10.0 ** columns["observations"][::12] / np.array(hiv.STEADY_STATE)
    assert np.abs(np.log10(first)).max() <= 0.2 + 1e-6
    assert np.log10(first).std() == pytest.approx(0.4 / 12**0.5, rel=0.15)
    data = Trajectories.from_arrays(**columns, spec=hiv.spec(), simulated=True)
    assert data.spec.propensities


def test_the_environment_is_sound() -> None:
    arguments = {"domain": PATIENTS, "spec": hiv.spec(), "horizon": 3}
    env = DomainEnv(**arguments)  # type: ignore[arg-type]
    env.spec = gymnasium.envs.registration.EnvSpec("tacit/Hiv-v0", entry_point=DomainEnv, kwargs=arguments)
    check_env(env)


@needs_kernel
def test_truth_does_not_depend_on_the_number_of_rollouts() -> None:
    states = PATIENTS.starts(3, np.random.default_rng(0))
    few, few_error = hiv.monte_carlo_values(uniform_policy(4), states, rollouts=50, seed=0)
    many, many_error = hiv.monte_carlo_values(uniform_policy(4), states, rollouts=500, seed=1)
    assert (np.abs(few - many) < 4 * (few_error + many_error)).all()


@needs_kernel
def test_the_learned_policies() -> None:
    """Greedy treatment is worth about 160 over 200 steps, the target 54, the logging policy 39, a random one 22."""
    returns = {}
    for name, policy in (
        ("target", hiv.target_policy()),
        ("behaviour", hiv.behaviour_policy()),
        ("random", uniform_policy(4)),
    ):
        columns = hiv.collect(policy, 300, seed=1)
        rewards = columns["rewards"].reshape(300, 200)
        returns[name] = float((rewards * 0.98 ** np.arange(200)).sum(axis=1).mean())
        assert (rewards == hiv.REWARD[1]).mean() < 0.05
        assert rewards.min() > hiv.REWARD[0]
    assert returns["random"] == pytest.approx(22.5, abs=2.0)
    assert returns["random"] + 10 < returns["behaviour"] < returns["target"] - 8


@needs_kernel
def test_the_policies_overlap() -> None:
    """The ratio is 0.8 + 0.2 / (behaviour's probability of the best action), which is at least 1 / (3 + 1 / e)."""
    columns = hiv.collect(hiv.behaviour_policy(), 100, seed=2)
    usual, wanted = hiv.behaviour_policy()(columns["observations"]), hiv.target_policy()(columns["observations"])
    assert usual.sum(axis=1) == pytest.approx(1.0)
    assert wanted.sum(axis=1) == pytest.approx(1.0)
    ratio = wanted / usual
    assert ratio.min() == pytest.approx(0.8)
    assert ratio.max() <= 0.8 + 0.2 * (3.0 + np.exp(-1.0)) + 1e-9
    assert (usual * ratio**2).sum(axis=1).mean() < 1.1
    assert (usual.max(axis=1) / usual.min(axis=1)) == pytest.approx(np.e)


def test_a_longer_step_is_several_short_ones() -> None:
    """Twenty days under one treatment are four times five; the reward is that of the last state."""
    state, action = PATIENTS.starts(5, np.random.default_rng(3)), np.array([0, 1, 2, 3, 3])
    once, paid, _ = hiv.Hiv(days=20.0).step(state, action, NOTHING)
    for _ in range(4):
        state, last, _ = PATIENTS.step(state, action, NOTHING)
    assert np.array_equal(once, state)
    assert np.array_equal(paid, last)


def test_penalties_are_the_rewards() -> None:
    """Doses 0.7 and 0.3 at 2e4 and 2e3: 0.098 + 0.0018 of the reward in units of 1e5."""
    state = np.tile(hiv.STEADY_STATE, (4, 1))
    action = np.arange(4)
    usual, free, dear = (
        hiv.Hiv(penalties).step(state, action, NOTHING)[1] for penalties in ((2e4, 2e3), (0.0, 0.0), (2.1e4, 1.9e3))
    )
    assert free - usual == pytest.approx([0.0, 0.098, 0.0018, 0.0998])
    assert usual - dear == pytest.approx([0.0, 0.0049, -0.00009, 0.00481])


def test_noise_is_on_the_drugs_that_are_given() -> None:
    """A thousand equal patients under both drugs: efficacies 0.7 and 0.3 with a standard deviation of 0.01 each."""
    noisy, generator = hiv.Hiv(efficacy_noise=0.01, days=0.01), np.random.default_rng(5)
    state = np.tile(hiv.STEADY_STATE, (1_000, 1))
    untreated, _, _ = noisy.step(state, np.zeros(1_000, np.int64), generator)
    assert np.array_equal(untreated, PATIENTS_OF_A_MOMENT.step(state, np.zeros(1_000, np.int64), NOTHING)[0])
    for drug, place in ((1, 2), (2, 4)):  # RTI keeps cells from infection, PI virus from multiplying
        usual = PATIENTS_OF_A_MOMENT.step(state[:1], np.array([drug]), NOTHING)[0][0]
        more = state[:1].copy()
        drugs = hiv.DRUGS[[drug]] + 0.01 * (hiv.DRUGS[[drug]] > 0.0)
        hiv.integrate(more, drugs, 1, 0.01)
        after, _, _ = noisy.step(state, np.full(1_000, drug), generator)
        effect = (after[:, place] - usual[place]) / (more[0, place] - usual[place])
        assert effect.mean() == pytest.approx(0.0, abs=0.16)
        assert effect.std() == pytest.approx(1.0, rel=0.12)
    before = generator.bit_generator.state
    PATIENTS.step(state[:2], np.array([3, 3]), generator)
    assert generator.bit_generator.state == before


@pytest.mark.parametrize("values", [{"penalties": (-1.0, 0.0)}, {"efficacy_noise": -0.1}, {"days": 0.0}])
def test_impossible_patients_are_refused(values: Any) -> None:
    with pytest.raises(DataError):
        hiv.Hiv(**values)
