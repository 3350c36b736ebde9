"""Overlap: the vector by hand, the diagnostics without noise, and what they say of a policy without support."""

import dataclasses
import math

import numpy as np
import pytest
from small_mdp import BEHAVIOUR, PROBLEM, TARGET, enumerate_episodes, open_vault, padded, unit_of

from tacit.errors import PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation.algorithm import fit
from tacit.methods.off_policy_evaluation.importance import OverlapPlan, WeightVector, read_overlap
from tacit.methods.off_policy_evaluation.policies import Behaviour, Tabular
from tacit.methods.off_policy_evaluation.scores import FIT
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.privacy.noise.secret import SecretNoise

EPISODES, CHANCES = enumerate_episodes()
ROWS = padded(EPISODES)
PLAN = OverlapPlan(problem=PROBLEM, noise_multiplier=1e-6)
UNITS = 10_000


def vector_of(policy, rows=ROWS, **fields):
    plan = dataclasses.replace(PLAN, **fields)
    return WeightVector(PROBLEM, policy, None, plan.edges, plan.largest_weight, plan.largest_ratio)(rows, None)


def diagnostics(policy, rows=ROWS, **fields):
    return read_overlap(UNITS * CHANCES @ vector_of(policy, rows, **fields), dataclasses.replace(PLAN, **fields), UNITS)


def final_weights(policy):
    return np.array(
        [math.prod(policy.table[s, a] / BEHAVIOUR.table[s, a] for s, a, _, _ in steps) for steps in EPISODES]
    )


def test_vectors_have_norm_at_most_one_and_hold_what_they_say():
    vectors = vector_of(TARGET) / FIT
    assert np.linalg.norm(vectors, axis=1).max() <= 1 + 1e-12
    weight = final_weights(TARGET)
    np.testing.assert_allclose(vectors[:, 11], math.sqrt(0.15) * weight / 100, rtol=1e-5)
    np.testing.assert_allclose(vectors[:, 12], math.sqrt(0.1) * (weight / 100) ** 2, rtol=1e-5)
    np.testing.assert_allclose(vectors[:, 13], math.sqrt(0.1) * np.array([len(e) for e in EPISODES]) / 3)
    expected = np.histogram(np.log10(weight) - 1e-6, bins=(-np.inf, -3, -2, -1, -0.5, -0.1, 0.1, 0.5, 1, 2, 3, np.inf))[
        0
    ]
    np.testing.assert_allclose((vectors[:, :11] / math.sqrt(0.4)).sum(axis=0), expected)


def test_without_noise_the_diagnostics_are_exact():
    found, weight = diagnostics(TARGET), final_weights(TARGET)
    size = UNITS * (CHANCES @ weight) ** 2 / (CHANCES @ weight**2)
    assert found["effective_sample_size"]["estimate"] == pytest.approx(size, rel=1e-4)
    assert found["effective_sample_size"]["low"] <= size <= found["effective_sample_size"]["high"]
    assert found["mean_ratio"]["estimate"] == pytest.approx(1, abs=1e-5)
    assert sum(found["log10_weights"]["shares"]) == pytest.approx(1)
    assert found["units"] == UNITS
    assert "agrees with 1" in found["words"][-1]


def test_the_behaviour_itself_loses_nothing():
    found = diagnostics(BEHAVIOUR)
    assert found["effective_sample_size"]["estimate"] == pytest.approx(UNITS, rel=1e-5)
    assert found["log10_weights"]["shares"][5] == pytest.approx(1)


def test_a_policy_without_support_is_found_out():
    """In state 0 the behaviour never takes action 1, which the policy takes half the time."""
    policy = Tabular(np.array([[0.5, 0.5], [0.2, 0.8]]))
    only = [not any(s == 0 and a == 1 for s, a, _, _ in steps) for steps in EPISODES]
    rows = {name: column[only] for name, column in ROWS.items()}
    rows["propensities"] = np.where(rows["observations"] == 0, 1.0, rows["propensities"]).astype(np.float32)
    chance = np.array([p * 0.6 ** -sum(s == 0 for s, _, _, _ in e) for e, p in zip(EPISODES, CHANCES, strict=True)])
    chance = chance[only]
    assert chance.sum() == pytest.approx(1)
    found = read_overlap(UNITS * chance @ vector_of(policy, rows), PLAN, UNITS)
    assert found["mean_ratio"]["high"] < 0.8
    assert "never takes" in found["words"][-1]


def test_wrong_propensities_are_found_out():
    rows = {**ROWS, "propensities": ROWS["propensities"] / 2}
    assert "propensities" in diagnostics(TARGET, rows)["words"][-1]


def test_intervals_contain_the_truth_under_noise(tmp_path):
    vault = open_vault(tmp_path, units=4000, seed=1, noise=SecretNoise.for_tests(1))
    plan = OverlapPlan(problem=PROBLEM, largest_weight=20.0).calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5)
    released = fit(plan, vault, TARGET)
    found, weight = released.value.diagnostics, final_weights(TARGET)
    size = 4000 * (CHANCES @ weight) ** 2 / (CHANCES @ weight**2)
    assert found["effective_sample_size"]["low"] <= size <= found["effective_sample_size"]["high"]
    assert found["mean_ratio"]["low"] <= 1 <= found["mean_ratio"]["high"]
    assert released.value.value is None
    released.certificate.verify()
    with pytest.raises(PlanExhausted):
        fit(plan, vault, TARGET)


def test_all_noise_gives_finite_numbers_in_range():
    rng = np.random.default_rng(0)
    plan = dataclasses.replace(PLAN, noise_multiplier=1e4)
    for _ in range(50):
        found = read_overlap(rng.normal(size=16) * 1e4, plan, 100)
        for name, most in (("effective_sample_size", 1e4), ("mean_ratio", 20)):
            values = found[name]
            assert 0 <= values["low"] <= values["high"] <= most
            assert math.isfinite(values["estimate"])


def test_what_has_no_probabilities_and_bad_values_are_refused(tmp_path):
    plan = OverlapPlan(problem=PROBLEM).calibrate(unit=unit_of(500), epsilon=1.0, delta=1e-5)
    with pytest.raises(PlanError, match="probabilities"):
        fit(plan, open_vault(tmp_path), Behaviour())
    known = BehaviourPolicy(BEHAVIOUR, source="declared")
    assert fit(plan, open_vault(tmp_path, name="b"), TARGET, behaviour=known).value.diagnostics["words"]
    for wrong in ({"edges": (1.0,)}, {"edges": (1.0, 0.0)}, {"largest_weight": 0.5}, {"largest_ratio": math.inf}):
        with pytest.raises(PlanError):
            OverlapPlan(problem=PROBLEM, **wrong)
