"""Fitted Q evaluation: sums against naive loops, exact values without noise, the plan's price, an evaluation."""

import dataclasses
import math

import numpy as np
import pytest
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
    exact_value,
    open_vault,
    padded,
    unit_of,
)

from tacit.errors import PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation import fitted_q
from tacit.methods.off_policy_evaluation.algorithm import fit
from tacit.methods.off_policy_evaluation.baselines import SufficientStatistics
from tacit.methods.off_policy_evaluation.features import Fourier, OneHot
from tacit.methods.off_policy_evaluation.fitted_q import (
    ActionGrams,
    DoublyRobust,
    DoublyRobustScore,
    FittedQ,
    QFunction,
    QStartValue,
    Regression,
    Residuals,
    ReturnAndScale,
    Transitions,
)
from tacit.methods.off_policy_evaluation.gpope import Gpope
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling, OverlapPlan
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.residual import ResidualRegression
from tacit.methods.off_policy_evaluation.scores import FIT, ScoreVector
from tacit.privacy.noise.secret import SecretNoise

EPISODES, CHANCES = enumerate_episodes()
ROWS = padded(EPISODES)
LIMITS = (-5.0, 3.0)
FEATURES = Fourier(2, (0.0,), (1.0,))


def exact_q(policy, gamma=0.9):
    """Q without a horizon, [2, 2]."""
    q = np.zeros((2, 2))
    for _ in range(500):
        q = REWARDS + gamma * (1 - ENDS) * (MOVES @ (policy.table * q).sum(axis=1))
    return q


def naive_residuals(steps, weights, features, trace, gamma=0.9):
    """sum_t x_t e_t and sum_t x_t x_t^T over one episode, one step at a time."""
    n = weights.shape[0]

    def phi(state):
        return features(np.array([state]))[0].astype(float)

    moves, gram, following = np.zeros((n, 2)), np.zeros((2, n, n)), 0.0
    for state, action, after, ended in reversed(steps):
        v = 0.0 if ended else float(np.clip(TARGET.table[after] @ (phi(after) @ weights), *LIMITS))
        following = REWARDS[state, action] + gamma * v - phi(state) @ weights[:, action] + gamma * trace * following
        moves[:, action] += phi(state) * following
        gram[action] += np.outer(phi(state), phi(state))
    return moves, gram


@pytest.mark.parametrize("features", [OneHot(2), FEATURES])
@pytest.mark.parametrize("trace", [0.0, 0.8])
@pytest.mark.parametrize("scale", [0.5, 1.5, 10.0])
def test_sums_are_those_of_a_naive_loop(features, trace, scale):
    weights = np.random.default_rng(0).normal(size=(features.size, 2))
    transitions = Transitions(PROBLEM, TARGET, features)
    kept, clip = transitions(ROWS), 1e3
    sums = Residuals(transitions, LIMITS, trace)(kept, (weights, clip, scale)) / FIT
    grams = ActionGrams(transitions)(kept, scale) / FIT
    centres = ReturnAndScale(transitions, LIMITS)(kept, None) / FIT / np.sqrt([0.5, 0.2, 0.3])
    for i in (0, 3, 17, 40):
        moves, gram = naive_residuals(EPISODES[i], weights, features, trace)
        norm = np.linalg.norm(gram)
        bounded = max(norm, scale)
        np.testing.assert_allclose(sums[i, :-1] * clip / math.sqrt(0.9), (moves / bounded).ravel(), atol=2e-4)
        assert sums[i, -1] * clip / math.sqrt(0.1) == pytest.approx(np.linalg.norm(moves) / bounded, abs=2e-4)
        blocks = gram * (np.sqrt(2) - (np.sqrt(2) - 1) * np.eye(features.size))
        expected = np.concatenate([np.diag(b) if features.tabular else b[np.triu_indices(len(b))] for b in blocks])
        np.testing.assert_allclose(grams[i], expected / bounded, atol=1e-5)
        total = sum(0.9**t * REWARDS[state, action] for t, (state, action, _, _) in enumerate(EPISODES[i]))
        assert centres[i] == pytest.approx([(total + 1) / 4, 1, math.log2(norm) / transitions.octaves], abs=1e-5)


@pytest.mark.parametrize("features", [OneHot(2), FEATURES])
@pytest.mark.parametrize("clip", [1e-3, 1.0])
def test_contributions_have_norm_at_most_one(features, clip):
    transitions = Transitions(PROBLEM, TARGET, features)
    kept, weights = transitions(ROWS), np.full((features.size, 2), 50.0)
    norms = [
        np.linalg.norm(vectors, axis=1).max()
        for vectors in (
            Residuals(transitions, LIMITS, 0.8)(kept, (weights, clip, 0.1)),
            ActionGrams(transitions)(kept, 0.1),
            ReturnAndScale(transitions, LIMITS)(kept, None),
        )
    ]
    assert max(norms) <= 1
    assert min(norms[:2]) > 0.9


@pytest.mark.parametrize("features", [OneHot(2), FEATURES])
def test_no_units_add_nothing(features):
    """A fold may be empty, and whether it is must not show."""
    transitions = Transitions(PROBLEM, TARGET, features)
    kept = {name: column[:0] for name, column in transitions(ROWS).items()}
    rows, weights = {name: column[:0] for name, column in ROWS.items()}, np.zeros((features.size, 2))
    assert Residuals(transitions, LIMITS, 0.8)(kept, (weights, 1.0, 1.0)).shape == (0, 2 * features.size + 1)
    assert len(ActionGrams(transitions)(kept, 1.0)) == len(ReturnAndScale(transitions, LIMITS)(kept, None)) == 0
    q = QFunction(features, weights, TARGET, LIMITS, 0.0)
    vector = ScoreVector(PROBLEM, TARGET, None, SPEC, 1.0, QStartValue(PROBLEM, 1.0))
    assert vector(rows, q).shape == (0, 6)
    robust = ScoreVector(PROBLEM, TARGET, None, SPEC, 1.0, DoublyRobustScore(PROBLEM, 1.0))
    assert robust(rows, q).shape == (0, 6)
    assert ScoreVector(PROBLEM, Behaviour(), None, SPEC, 1.0)(rows, None).shape == (0, 3)


@pytest.mark.parametrize("trace", [0.0, 0.8])
@pytest.mark.parametrize(("factor", "error"), [(2.0, 0.12), (8.0, 0.06)])
def test_without_noise_it_finds_the_exact_action_values(tmp_path, monkeypatch, trace, factor, error):
    """What is left with the usual clip is the bias of the clip."""
    monkeypatch.setattr(fitted_q, "CLIP_FACTOR", factor)
    vault = open_vault(tmp_path, units=4000, seed=3, noise=Silent())
    regression = Regression(rounds=60, trace=trace)
    plan = FittedQ(problem=PROBLEM, features=OneHot(2), regression=regression, noise_multiplier=0.5)
    run = vault.reserve(plan.account(unit=vault.unit, delta=1e-5))
    q = regression.fit(vault, run, PROBLEM, OneHot(2), TARGET)
    np.testing.assert_allclose(q.weights, exact_q(TARGET), atol=error)
    assert q.q(np.array([0, 1])) == pytest.approx(q.weights)
    assert q.v(np.array([1])) == pytest.approx((TARGET.table[1] * q.weights[1]).sum())


def test_start_values_are_means_over_episodes():
    q = QFunction(OneHot(2), np.array([[1.0, 2.0], [-1.0, 0.0]]), TARGET, LIMITS, 0.5)
    rows = padded([[(0, 0, 0, True), (1, 1, 0, False), (0, 1, 1, False)]])
    rows["starts"][0, 1] = True
    problem = Problem(gamma=0.9, horizon=3, episodes_per_unit=2)
    log = cut_episodes(rows, problem, TARGET)
    mean = ((0.9 * 1 + 0.1 * 2) + (0.2 * -1 + 0.8 * 0)) / 2
    assert QStartValue(problem, 2.0)(log, q)[0] == pytest.approx((mean - 0.5) / 2)


def test_the_evaluation_is_near_the_truth_and_certified(tmp_path):
    vault = open_vault(tmp_path, units=3000, seed=1, noise=SecretNoise.for_tests(1))
    plan = FittedQ(problem=PROBLEM, features=OneHot(2)).calibrate(unit=vault.unit, epsilon=2.0, delta=1e-5)
    released = fit(plan, vault, TARGET)
    evaluation = released.value
    assert evaluation.interval.low <= exact_value(TARGET) <= evaluation.interval.high
    assert evaluation.value == pytest.approx(start_value(), abs=0.4)
    assert released.certificate.epsilon <= 2.0
    released.certificate.verify()
    with pytest.raises(PlanExhausted):
        fit(plan, vault, TARGET)


def start_value():
    return float(np.array([0.75, 0.25]) @ (TARGET.table * exact_q(TARGET)).sum(axis=1))


def test_records_without_propensities_give_the_value_alone(tmp_path):
    vault = open_vault(tmp_path, units=2_000, propensities=False)
    plan = FittedQ(problem=PROBLEM, features=OneHot(2)).calibrate(unit=vault.unit, epsilon=20.0, delta=1e-5)
    released = fit(plan, vault, TARGET)
    released.certificate.verify()
    assert released.value.interval is None
    line = "the records have no propensities: no ratios were used, and the value has no interval"
    assert line in released.certificate.lines("assumptions")
    q = QFunction(OneHot(2), np.array(released.value.diagnostics["q_weights"]), TARGET, LIMITS, 0.0)
    here, after = q.v(np.array([0, 1])), exact_q(TARGET)
    np.testing.assert_allclose(here, (TARGET.table * after).sum(axis=1), atol=0.3)
    log = cut_episodes(ROWS, PROBLEM, Behaviour())
    ends = (log.alive & (log.step == PROBLEM.horizon - 1) & ~log.terminations).any(axis=1)
    last = ROWS["next_observations"][:, PROBLEM.horizon - 1]
    each = here[ROWS["observations"][:, 0]] - PROBLEM.gamma**PROBLEM.horizon * ends * here[last]
    assert released.value.value == pytest.approx(float(CHANCES @ each), abs=0.1)


@pytest.mark.parametrize(
    "plan",
    [
        ImportanceSampling(problem=PROBLEM),
        DoublyRobust(problem=PROBLEM, features=OneHot(2)),
        ResidualRegression(problem=PROBLEM, features=OneHot(2), on_policy=False),
        Gpope(problem=PROBLEM, features=OneHot(2)),
        SufficientStatistics(problem=PROBLEM, features=OneHot(2), clip_norm=1.0),
        OverlapPlan(problem=PROBLEM),
    ],
)
def test_methods_that_weigh_refuse_records_without_propensities_and_name_both_ways_out(plan, tmp_path):
    vault = open_vault(tmp_path, propensities=False)
    plan = plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5)
    with pytest.raises(PlanError, match=r"a column of propensities .*--behaviour model"):
        fit(plan, vault, TARGET)
    assert not vault.ledger.plans()


def test_the_parts_cost_one_gaussian():
    plan = FittedQ(problem=PROBLEM, features=OneHot(2)).calibrate(unit=unit_of(1000), epsilon=1.0, delta=1e-5)
    precision = sum(part.steps / part.noise_multiplier**2 for part in plan.parts())
    assert precision == pytest.approx(1 / plan.noise_multiplier**2)
    assert plan.noise_multiplier == pytest.approx(3.7307, rel=1e-4)
    assert {part.name: part.steps for part in plan.parts()} == {"centre": 1, "gram": 1, "residuals": 20, "scores": 1}


def test_the_behaviour_itself_and_bad_values_are_refused(tmp_path):
    plan = FittedQ(problem=PROBLEM, features=OneHot(2)).calibrate(unit=unit_of(500), epsilon=1.0, delta=1e-5)
    with pytest.raises(PlanError, match="probabilities"):
        fit(plan, open_vault(tmp_path), Behaviour())
    for wrong in ({"rounds": 0}, {"trace": 1.5}, {"prior": 0.0}):
        with pytest.raises(PlanError):
            Regression(**wrong)
    for wrong in ({"share": 0.0}, {"clip": -1.0}, {"level": 1.0}):
        with pytest.raises(PlanError):
            dataclasses.replace(plan, **wrong)


def test_the_behaviour_policy_is_a_policy_as_any_other():
    assert exact_value(BEHAVIOUR) != pytest.approx(exact_value(TARGET), abs=0.1)
