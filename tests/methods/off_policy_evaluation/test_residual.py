"""Residual return regression: its plan, its contributions, what it converges to, and how close it comes."""

import dataclasses
import math

import numpy as np
import pytest
from experiments.gpope.gpope_step_sizes import unit_rows
from gpope_cases import open_vault as open_chain
from small_mdp import (
    BEHAVIOUR,
    ENDS,
    MOVES,
    PROBLEM,
    REWARDS,
    SPEC,
    TARGET,
    Silent,
    enumerate_episodes,
    open_vault,
    padded,
    simulate,
)

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation.algorithm import fit
from tacit.methods.off_policy_evaluation.features import Fourier, OneHot, Smoothness
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour, Uniform
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.residual import (
    CentreScore,
    LevelVector,
    RangeIndicator,
    ResidualRegression,
    ResidualShares,
    ResidualSize,
    ResidualStatistics,
    ResidualVector,
    StartValue,
    level_length,
)
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics, apply, constant
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import chain

CHAIN = Problem(gamma=chain.GAMMA, horizon=60, return_range=(0.0, 1.0))
ON = ResidualRegression(problem=PROBLEM, features=OneHot(2), on_policy=True)
OFF = dataclasses.replace(ON, on_policy=False)
FINDER = dataclasses.replace(ON, range_finder=True)
WIDE = dataclasses.replace(PROBLEM, return_range=(-50.0, 50.0))
PATIENTS = Unit("patient", "add_or_remove", 1_000)


def values_of(policy, horizon=None):
    """V of the small process, without an end or over a horizon."""
    value = np.zeros(2)
    for _ in range(horizon or 500):
        value = (policy.table * (REWARDS + PROBLEM.gamma * (1 - ENDS) * (MOVES @ value))).sum(axis=1)
    return value


# -- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [ON, OFF, FINDER, dataclasses.replace(OFF, range_finder=True, rounds=3)])
def test_the_parts_add_up_to_one_gaussian(plan):
    parts = dataclasses.replace(plan, noise_multiplier=3.0).parts()
    assert sum(part.steps / part.noise_multiplier**2 for part in parts) == pytest.approx(1 / 9)
    assert all(
        (part.sampling_rate, part.clip_norm, part.rows, part.rows_per_unit) == (1.0, 1.0, "first", 3) for part in parts
    )


def test_which_parts_there_are():
    def names(plan):
        return {part.name for part in plan.parts()}

    assert names(ON) == {"scores", "gram", "scale", "round"}
    assert names(OFF) == {"scores", "gram", "scale", "round", "centre", "level"}
    assert names(FINDER) == {"scores", "gram", "scale", "round", "centre", "range"}
    assert [said["code"] for said in ON.covered_clauses] == ["residual_sums"]
    assert [said["code"] for said in OFF.covered_clauses] == ["residual_sums", "level_sums"]
    known = dataclasses.replace(FINDER, problem=dataclasses.replace(PROBLEM, return_range=(-2.0, 2.0)))
    assert names(known) == names(ON)


def test_calibration_is_that_of_the_gaussian_mechanism():
    plan = ON.calibrate(unit=PATIENTS, epsilon=1.0, delta=1e-5)
    assert plan.noise_multiplier == pytest.approx(3.7307, rel=1e-3)
    replaced = ON.calibrate(unit=Unit("patient", "replace_one", 1_000), epsilon=1.0, delta=1e-5)
    # shares times squared diameters: scores 2.6, Gram 2, scale 1, rounds 4
    apart = np.sqrt(0.1 * 2.6 + 0.2 * 2 + 0.1 + 0.6 * 4)
    assert replaced.noise_multiplier == pytest.approx(apart * 3.7307, rel=1e-3)
    assert "patient" in str(plan)


@pytest.mark.parametrize(("epsilon", "centre", "tau"), [(1.0, 0.1, 0.25), (0.1, 0.2, 0.1)])
def test_a_low_budget_trusts_the_centre_more(epsilon, centre, tau):
    plan = OFF.calibrate(unit=PATIENTS, epsilon=epsilon, delta=1e-5)  # 1,000 / 3.73 = 268 and 1,000 / 30.7 = 33
    assert (plan.shares.centre, plan.tau) == (centre, tau)
    own = dataclasses.replace(OFF, shares=ResidualShares(gram=0.3), tau=0.4).calibrate(
        unit=PATIENTS, epsilon=0.1, delta=1e-5
    )
    assert (own.shares, own.tau) == (ResidualShares(gram=0.3), 0.4)


@pytest.mark.parametrize(
    "fields",
    [
        {"trace": 1.1},
        {"rounds": 0},
        {"multiplier": 0.0},
        {"tau": math.inf},
        {"level": 0.2},
        {"shares": ResidualShares(gram=0.9)},
        {"shares": ResidualShares(scale=0.0)},
        {"features": Fourier(1, 0, 1), "prior": Smoothness(3.0)},
    ],
)
def test_values_out_of_range_are_refused(fields):
    with pytest.raises(PlanError):
        dataclasses.replace(ON, **fields)


# -- contributions ----------------------------------------------------------------------------------------------------


def summary(policy=TARGET, features=OneHot(2)):  # noqa: B008
    return ResidualStatistics(BellmanStatistics(PROBLEM, policy, None, features))


def rows():
    """Two units: (state 0, action 1: -2) then (state 1, action 0: 0.5, the end); and a single step of reward 1."""
    return padded([[(0, 1, 1, False), (1, 0, 0, True)], [(0, 0, 0, False)]])


def test_returns_without_ratios():
    stats = summary()(rows())
    assert stats["returns"] == pytest.approx([-2 + 0.9 * 0.5, 1.0])
    assert stats["largest"] == pytest.approx([1.55, 1.0])


def test_a_return_is_scaled_from_the_range_and_cut():
    stats = {"returns": np.array([-1.0, 0.5, 2.0, 99.0])}
    assert CentreScore(summary())(stats, (-1.0, 2.0))[:, 0] == pytest.approx([-1, 0, 1, 1])


def test_halvings_of_the_widest_range():
    found = RangeIndicator(summary(), 8.0)({"largest": np.array([99.0, 8.0, 4.1, 4.0, 1.0, 1e-30, 0.0])}, None)
    assert found.argmax(axis=1).tolist() == [0, 0, 0, 1, 3, 23, 23]
    assert (found.sum(axis=1) == 1).all()


def test_residuals_in_multiples_of_the_clip_and_their_sizes():
    stats = summary()(rows())
    theta = np.array([0.3, -0.2])
    x = constant(stats) - apply(stats, theta)
    assert ResidualVector(summary())(stats, (theta, 0.5)) == pytest.approx(x / 0.5)
    assert ResidualSize(summary())(stats, (theta, 100.0))[:, 0] == pytest.approx(np.linalg.norm(x, axis=1) / 100)
    assert ResidualSize(summary())(stats, (theta, 1e-6))[:, 0].tolist() == [1.0, 1.0]


def test_the_value_of_first_states():
    log, longer = cut_episodes(rows(), PROBLEM, Behaviour()), Problem(gamma=0.9, horizon=50)
    assert StartValue(longer, OneHot(2), (-1.0, 3.0))(log, np.array([2.0, 0.0])).tolist() == [0.5, 0.5]
    assert StartValue(longer, OneHot(2), (-1.0, 3.0))(log, np.array([99.0, 0.0])).tolist() == [1.0, 1.0]


def test_a_level_moves_the_mean_residual_by_its_weight():
    """Residuals at lambda 1 by their recursion: e = ratio (r + gamma V' - V + gamma e'), over the horizon's steps."""
    log, theta = cut_episodes(rows(), PROBLEM, TARGET), np.array([0.3, -0.2])
    state = log.observations.astype(int)
    expected = []
    for values in (theta, theta + 1.0):
        v, after = values[state], values[log.next_observations.astype(int)] * ~log.terminations
        e = np.zeros(state.shape)
        for t in reversed(range(state.shape[1])):
            later = e[:, t + 1] * log.follows[:, t] if t + 1 < state.shape[1] else 0.0
            e[:, t] = log.ratio[:, t] * (log.rewards[:, t] + PROBLEM.gamma * (after[:, t] + later) - v[:, t])
        expected.append((e * log.alive).sum(axis=1) / PROBLEM.horizon)
    vector = LevelVector(summary(), 0.5, 40.0)
    found = vector(summary()(rows()), theta) * vector.scales
    assert found[:, 0] == pytest.approx(expected[0])
    assert found[:, 1] == pytest.approx(expected[0] - expected[1])
    assert np.linalg.norm(vector(summary()(rows()), np.full(2, 1e9)), axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize("features", [OneHot(2), Fourier(1, 0.0, 1.0)], ids=["tabular", "features"])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_no_unit_adds_more_than_one_to_a_level(features, sign):
    """Ratios of 1e15 at every step, of any theta, rewards of both signs; an empty unit; weights below 0."""
    longer = Problem(gamma=1.0, horizon=200)
    steps = [[(t % 2, 1, 1 - t % 2, False) for t in range(count)] for count in (200, 200, 1, 0)]
    rows = padded(steps, longer)
    rows["propensities"][[0, 2]] = 0.8e-15
    rows["rewards"] = np.where(np.arange(200) % 2, sign, -1e3 * sign).astype(np.float32) * np.ones((4, 1))
    summary = ResidualStatistics(BellmanStatistics(longer, TARGET, None, features, alike=not features.tabular))
    stats, vector = summary(rows), LevelVector(summary, 1.0, 40.0)
    for theta in (0.0, 40.0, -1e9, 1e30):
        pairs = vector(stats, np.full(features.size, theta))
        assert np.isfinite(pairs).all()
        assert (np.abs(pairs) <= math.sqrt(0.5)).all()
        assert (pairs[:, 1] >= 0).all()
        assert np.linalg.norm(pairs, axis=1).max() <= 1 + 1e-12
        assert pairs[3].tolist() == [0.0, 0.0]
    against = {"level": np.array([[-3.0, -5.0, 1e15], [1e15, -1e15, -1e15]], np.float32)}
    found = LevelVector(ResidualStatistics(BellmanStatistics(longer, TARGET, None, OneHot(2))), 1.0, 40.0)
    assert found(against, np.ones(2)).tolist() == [[math.sqrt(0.5), 0.0], [-math.sqrt(0.5), 0.0]]


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_what_a_level_weighs_without_ratios(gamma):
    """Where nothing terminates and the ratios are 1: the mean over t of 1 - gamma^(H - t); 0 without a discount."""
    problem = Problem(gamma=gamma, horizon=3)
    expected = np.mean([1 - gamma**left for left in (3, 2, 1)])
    assert level_length(problem, terminals=False) == pytest.approx(expected)
    assert level_length(problem, terminals=True) == 1.0


def test_a_heavy_tail_that_every_round_cuts_off_is_found_by_the_level(tmp_path):
    """One unit of ten earns 40 a step, the others nothing; no noise is drawn. Half the mean norm is a tight clip."""
    rng, units, horizon = np.random.default_rng(0), 400, 5
    spec = PublicSpec(Discrete(2), Discrete(2), Box((0.0,), (40.0,)), "declared", terminals=False, propensities=True)
    n = units * horizon
    lucky = np.repeat(np.arange(units) % 10 == 0, horizon)
    data = Trajectories.from_arrays(
        observations=np.zeros(n, int),
        actions=rng.integers(2, size=n),
        rewards=np.where(lucky, 40.0, 0.0),
        next_observations=np.zeros(n, int),
        terminations=np.zeros(n, bool),
        propensities=np.full(n, 0.5),
        unit_ids=np.arange(n) // horizon,
        episode_ids=np.arange(n) // horizon,
        spec=spec,
        simulated=True,
    )
    unit = Unit("patient", "add_or_remove", units)
    problem = Problem(gamma=0.5, horizon=horizon, return_range=(0.0, 200.0))
    plan = ResidualRegression(problem=problem, features=OneHot(2), on_policy=False, rounds=2, multiplier=0.5)
    plan = plan.calibrate(unit=unit, epsilon=20.0, delta=1e-5)
    with Ledger(tmp_path / "a.ledger", unit, epsilon=1e6, delta=1e-4, composition=SUM) as ledger:
        found = fit(plan, Vault(data, ledger, noise=Silent()), Uniform(2)).value
    truth = 0.1 * 40 / (1 - 0.5)  # the mean reward is 4, for ever
    assert found.theta[0] == pytest.approx(truth, abs=0.35)


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [TARGET, Behaviour()], ids=["off-policy", "on-policy"])
def test_without_noise_and_clip_the_rounds_solve_the_mean_equation(tmp_path, policy):
    vault = open_vault(tmp_path, units=300, noise=Silent())
    plan = ON if policy == Behaviour() else OFF
    plan = dataclasses.replace(plan, rounds=60, multiplier=100.0, problem=WIDE)
    plan = plan.calibrate(unit=vault.unit, epsilon=50.0, delta=1e-4)
    evaluation = fit(plan, vault, policy).value
    data = Trajectories.from_arrays(**simulate(300, seed=0), spec=SPEC, simulated=True)
    stats = BellmanStatistics(WIDE, policy, None, OneHot(2))(unit_rows(data, WIDE))
    solved = np.linalg.solve(stats["A"].mean(0, dtype=float), stats["b"].mean(0, dtype=float))
    if policy is TARGET:  # and the mean residual over all steps is 0 after the shift of the level, up to its prior
        assert np.ptp(evaluation.theta - solved) < 2e-3
        *slopes, constant_part = stats["level"].mean(0, dtype=float)
        solved = solved + (constant_part - slopes @ solved) / sum(slopes)
    assert evaluation.theta == pytest.approx(solved, abs=4e-3)


@pytest.mark.parametrize("features", [OneHot(2), Fourier(1, 0.0, 1.0)], ids=["tabular", "features"])
@pytest.mark.parametrize("policy", [TARGET, Behaviour()], ids=["off-policy", "on-policy"])
def test_values_come_close_and_the_interval_holds_the_truth(tmp_path, policy, features):
    vault = open_vault(tmp_path, units=4_000, seed=3)
    plan = dataclasses.replace(OFF if policy is TARGET else ON, features=features)
    plan = plan.calibrate(unit=vault.unit, epsilon=2.0, delta=1e-5)
    released = fit(plan, vault, policy)
    evaluation, table = released.value, TARGET if policy is TARGET else BEHAVIOUR
    truth = values_of(table)  # states bootstrapped at the horizon: V without an end
    assert evaluation.values(np.array([0, 1])) == pytest.approx(truth, abs=0.35)
    half = (evaluation.interval.high - evaluation.interval.low) / 2  # the noise is secret: twice its 95 % interval
    assert values_of(table, 3) @ [0.75, 0.25] == pytest.approx(evaluation.value, abs=2 * half)
    assert evaluation.interval.low <= evaluation.value <= evaluation.interval.high
    assert released.certificate.epsilon <= 2.0
    assert len(evaluation.diagnostics["clips"]) == 12
    released.certificate.verify()


def test_the_chain_at_epsilon_one(tmp_path):
    """Twice the error that 100 trials have on average; the best constant has 0.156, and zero has 0.71."""
    vault = open_chain(tmp_path, 1_000, relation="add_or_remove", seed=17)
    plan = ResidualRegression(problem=CHAIN, features=OneHot(39), on_policy=True)
    plan = plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5)
    values = fit(plan, vault, Behaviour()).value.values(np.arange(39))
    assert np.sqrt(np.mean((values - chain.values()) ** 2)) < 0.035
    assert chain.mspbe(values) < 3e-5


def test_smoothness_tells_states_that_nobody_visits_about_their_neighbours(tmp_path):
    columns = chain.collect(lambda s: np.full((len(s), 2), 0.5), 400, seed=18, horizon=60)
    first = np.r_[True, np.diff(columns["unit_ids"]) != 0]
    late = np.isin(columns["unit_ids"], columns["unit_ids"][first & (columns["observations"] >= 20)])
    unit, found = Unit("trajectory", "add_or_remove", 400), []
    for name, prior in (("rough", None), ("smooth", Smoothness(13.0))):
        data = Trajectories.from_arrays(
            **{name: column[late] for name, column in columns.items()}, spec=chain.spec(), simulated=True
        )
        ledger = Ledger(tmp_path / name, unit, epsilon=1e6, delta=1e-4, composition=SUM)
        plan = ResidualRegression(problem=CHAIN, features=OneHot(39), on_policy=True, prior=prior)
        plan = plan.calibrate(unit=unit, epsilon=5.0, delta=1e-4)
        evaluation = fit(plan, Vault(data, ledger, noise=Silent()), Behaviour()).value
        found.append((evaluation.values(np.arange(39)), evaluation.diagnostics["centre"]))
    (rough, centre), (smooth, _) = found
    assert rough[:20] == pytest.approx(np.full(20, centre), abs=0.02)
    assert smooth[19] < centre - 0.04
    assert (np.diff(smooth[:20]) < 1e-4).all()
    assert rough[30:] == pytest.approx(chain.values()[30:], abs=0.03)


def test_the_range_is_found(tmp_path):
    vault = open_chain(tmp_path, 1_000, relation="add_or_remove", noise=SecretNoise.for_tests(1), seed=19)
    wide = Problem(gamma=chain.GAMMA, horizon=60)  # the reward's bounds allow 45
    plan = ResidualRegression(problem=wide, features=OneHot(39), on_policy=True, range_finder=True)
    plan = plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5)
    evaluation = fit(plan, vault, Behaviour()).value
    assert evaluation.limits == (0.0, wide.discounted_length / 32)  # 1.41: the first halving that holds 1
    assert evaluation.value == pytest.approx(chain.values().mean(), abs=0.15)
    assert np.sqrt(np.mean((evaluation.values(np.arange(39)) - chain.values()) ** 2)) < 0.1


def test_a_range_that_noise_hides_stays_wide(tmp_path):
    vault = open_chain(tmp_path, 50, relation="add_or_remove")
    plan = ResidualRegression(
        problem=Problem(gamma=0.9, horizon=60), features=OneHot(39), on_policy=True, range_finder=True
    ).calibrate(unit=vault.unit, epsilon=1e-3, delta=1e-4)
    evaluation = fit(plan, vault, Behaviour()).value
    assert np.isfinite(evaluation.theta).all()
    assert np.isfinite([evaluation.value, evaluation.interval.low, evaluation.interval.high]).all()


def test_a_known_behaviour_policy_replaces_the_logged_propensities(tmp_path):
    found = []
    for name, behaviour in (("a", None), ("b", BehaviourPolicy(BEHAVIOUR, source="declared"))):
        vault = open_vault(tmp_path, seed=2, noise=Silent(), name=name)
        plan = OFF.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4)
        found.append(fit(plan, vault, TARGET, behaviour=behaviour).value.theta)
    assert found[0] == pytest.approx(found[1], abs=1e-5)


def test_a_plan_is_for_one_kind_of_policy_and_one_run(tmp_path):
    vault = open_vault(tmp_path)
    on, off = (plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4) for plan in (ON, OFF))
    with pytest.raises(PlanError, match="on_policy"):
        fit(on, vault, TARGET)
    with pytest.raises(PlanError, match="on_policy"):
        fit(off, vault, Behaviour())
    fit(on, vault, Behaviour())
    with pytest.raises(PlanExhausted):
        fit(on, vault, Behaviour())


def test_bounds_follow_the_sign_of_the_rewards():
    spec = PublicSpec(observation=Discrete(2), action=Discrete(2), reward=Box((-3.0,), (-1.0,)), source="declared")
    assert Problem(gamma=0.0, horizon=5).value_range(spec) == (-3.0, 0.0)
    stats = summary()(padded(enumerate_episodes()[0]))
    assert (stats["largest"] <= 1e-6 + 2.0 * PROBLEM.discounted_length).all()


@pytest.mark.parametrize("horizon", [4, 8])
def test_units_of_many_episodes_with_features_of_numbers_pass_the_trial(tmp_path, horizon):
    """Rounding depends on a row's place in a matrix product; that is not a coupling of units."""
    rng = np.random.default_rng(1)
    spec = PublicSpec(Box((0.0, 0.0), (1.0, 1.0)), Discrete(3), Box((0.0,), (1.0,)), "declared", propensities=True)
    rows = 120 * horizon
    data = Trajectories.from_arrays(
        observations=rng.random((rows, 2)),
        actions=rng.integers(3, size=rows),
        rewards=rng.random(rows),
        next_observations=rng.random((rows, 2)),
        terminations=np.zeros(rows, bool),
        propensities=np.full(rows, 1 / 3),
        unit_ids=np.arange(rows) // (3 * horizon),
        episode_ids=np.arange(rows) // horizon,
        spec=spec,
        simulated=True,
    )
    unit = Unit("patient", "add_or_remove", 60)
    with Ledger(tmp_path / "a.ledger", unit, epsilon=10.0, delta=0.01, composition=SUM) as ledger:
        problem = Problem(gamma=0.95, horizon=horizon, episodes_per_unit=3)
        vault = Vault(data, ledger)
        for order in (1, 3):
            features = Fourier(order, (0.0, 0.0), (1.0, 1.0))
            plan = ResidualRegression(problem=problem, features=features, on_policy=False, rounds=2)
            plan = plan.calibrate(unit=unit, epsilon=5.0, delta=1e-3)
            assert np.isfinite(fit(plan, vault, Uniform(3)).value.value)
