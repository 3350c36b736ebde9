"""Doubly robust evaluation: exact expectations for any Q, the two halves, an evaluation."""

import numpy as np
import pytest
from small_mdp import (
    ENDS,
    MOVES,
    PROBLEM,
    REWARDS,
    SPEC,
    TARGET,
    enumerate_episodes,
    exact_value,
    open_vault,
    padded,
    unit_of,
)

from tacit.errors import PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation.algorithm import fit
from tacit.methods.off_policy_evaluation.features import OneHot
from tacit.methods.off_policy_evaluation.fitted_q import DoublyRobust, DoublyRobustScore, QFunction
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.scores import bound_scores
from tacit.privacy.noise.secret import SecretNoise

EPISODES, CHANCES = enumerate_episodes()
ROWS = padded(EPISODES)
LIMITS = (-5.42, 2.71)


def scored(weights, rows=ROWS, problem=PROBLEM):
    q = QFunction(OneHot(2), np.asarray(weights), TARGET, LIMITS, 0.3)
    return 0.3 + 2.0 * DoublyRobustScore(problem, 2.0)(cut_episodes(rows, problem, TARGET), q)


@pytest.mark.parametrize("weights", [np.zeros((2, 2)), [[1.0, -1.0], [0.5, 2.0]], [[-4.0, 2.0], [2.5, -5.0]]])
def test_the_mean_score_is_the_value_for_any_q(weights):
    assert CHANCES @ scored(weights) == pytest.approx(exact_value(TARGET), abs=1e-5)


def test_a_good_q_takes_most_of_the_variance_away():
    good = REWARDS + 0.9 * (1 - ENDS) * (MOVES @ [0.9, 0.3])
    plain = bound_scores(cut_episodes(ROWS, PROBLEM, TARGET), PROBLEM, SPEC)[0]

    def variance(values):
        return CHANCES @ values**2 - (CHANCES @ values) ** 2

    assert variance(scored(good)) < 0.3 * variance(plain)


def test_units_average_their_episodes():
    problem = Problem(gamma=0.9, horizon=3, episodes_per_unit=2)
    first, second = [(0, 0, 0, True)], [(1, 1, 0, False), (0, 1, 1, True)]
    rows = padded([first + second], Problem(gamma=0.9, horizon=6))
    rows["starts"][0, 1] = True
    weights = [[1.0, -1.0], [0.5, 2.0]]
    apart = scored(weights, padded([first, second]))
    assert scored(weights, rows, problem)[0] == pytest.approx(apart.mean())


def test_the_halves_cost_as_one(tmp_path):
    plan = DoublyRobust(problem=PROBLEM, features=OneHot(2)).calibrate(unit=unit_of(1000), epsilon=1.0, delta=1e-5)
    assert plan.noise_multiplier == pytest.approx(3.7307, rel=1e-4)
    assert {part.name: part.fold for part in plan.parts()} == {"centre": 0, "gram": 0, "residuals": 0, "scores": 1}
    assert plan.parts()[-1].noise_multiplier == plan.noise_multiplier
    first = sum(part.steps / part.noise_multiplier**2 for part in plan.parts()[:-1])
    assert first == pytest.approx(1 / plan.noise_multiplier**2)


def test_the_evaluation_is_near_the_truth_and_certified(tmp_path):
    vault = open_vault(tmp_path, units=4000, seed=5, noise=SecretNoise.for_tests(1), distinct=True)
    plan = DoublyRobust(problem=PROBLEM, features=OneHot(2)).calibrate(unit=vault.unit, epsilon=2.0, delta=1e-5)
    released = fit(plan, vault, TARGET)
    evaluation = released.value
    assert evaluation.interval.low <= evaluation.value <= evaluation.interval.high
    assert evaluation.interval.high - evaluation.interval.low < 2
    assert evaluation.value == pytest.approx(exact_value(TARGET), abs=0.15)
    assert released.certificate.epsilon <= 2.0
    released.certificate.verify()
    with pytest.raises(PlanExhausted):
        fit(plan, vault, TARGET)


def test_the_behaviour_itself_and_bad_values_are_refused(tmp_path):
    plan = DoublyRobust(problem=PROBLEM, features=OneHot(2)).calibrate(unit=unit_of(500), epsilon=1.0, delta=1e-5)
    with pytest.raises(PlanError, match="probabilities"):
        fit(plan, open_vault(tmp_path), Behaviour())
    for wrong in ({"width": 0.0}, {"clip": 0.0}, {"level": 0.1}):
        with pytest.raises(PlanError):
            DoublyRobust(problem=PROBLEM, features=OneHot(2), **wrong)
