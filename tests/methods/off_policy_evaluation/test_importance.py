"""Importance sampling end to end: the promise, the value, the interval, and what is refused."""

import pytest
from small_mdp import BEHAVIOUR, PROBLEM, TARGET, Silent, exact_value, open_vault, unit_of

from tacit.errors import PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation.algorithm import fit
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling
from tacit.methods.off_policy_evaluation.policies import Behaviour
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.privacy.noise.secret import SecretNoise


def calibrated(vault, epsilon=1.0, **fields):
    return ImportanceSampling(problem=PROBLEM, **fields).calibrate(unit=vault.unit, epsilon=epsilon, delta=1e-4)


@pytest.mark.parametrize("policy", [TARGET, Behaviour()])
@pytest.mark.parametrize("weighting", ["pdis", "wpdis"])
def test_the_value_lies_in_an_interval_that_holds_the_truth(tmp_path, policy, weighting):
    vault = open_vault(tmp_path, units=2000, seed=1, noise=SecretNoise.for_tests(1))
    released = fit(calibrated(vault, weighting=weighting, clip=2.0), vault, policy)
    evaluation = released.value
    truth = exact_value(TARGET if policy is TARGET else BEHAVIOUR)
    assert evaluation.interval.low <= evaluation.value <= evaluation.interval.high
    assert evaluation.interval.low <= truth <= evaluation.interval.high
    assert evaluation.value == pytest.approx(truth, abs=0.25)
    assert released.certificate.epsilon <= 1.0
    released.certificate.verify()


def test_a_lower_bound_alone_is_higher(tmp_path):
    lows = {}
    for sides in ("both", "lower"):
        vault = open_vault(tmp_path, noise=Silent(), name=sides)
        interval = fit(calibrated(vault, sides=sides), vault, TARGET).value.interval
        lows[sides] = interval.low
        assert interval.kind == {"both": "two_sided", "lower": "lower"}[sides]
    assert lows["both"] < lows["lower"] < exact_value(TARGET)


def test_a_known_behaviour_policy_replaces_the_logged_propensities(tmp_path):
    values = []
    for name, behaviour in (("a", None), ("b", BehaviourPolicy(BEHAVIOUR, source="declared"))):
        vault = open_vault(tmp_path, seed=2, noise=Silent(), name=name)
        values.append(fit(calibrated(vault), vault, TARGET, behaviour=behaviour).value.value)
    assert values[0] == pytest.approx(values[1], abs=1e-6)


def test_one_noisy_sum_is_the_whole_plan(tmp_path):
    plan = ImportanceSampling(problem=PROBLEM).calibrate(unit=unit_of(1000), epsilon=1.0, delta=1e-5)
    assert plan.noise_multiplier == pytest.approx(3.7307, rel=1e-4)
    assert [part.name for part in plan.parts()] == ["scores"]
    assert "1 noisy sum(s) over every patient" in str(plan)
    replaced = ImportanceSampling(problem=PROBLEM).calibrate(unit=unit_of(1000, "replace_one"), epsilon=1.0, delta=1e-5)
    assert replaced.noise_multiplier == pytest.approx(2 * 3.7307, rel=1e-4)


def test_the_same_plan_does_not_run_twice(tmp_path):
    vault = open_vault(tmp_path)
    plan = calibrated(vault)
    fit(plan, vault, TARGET)
    with pytest.raises(PlanExhausted):
        fit(plan, vault, TARGET)


@pytest.mark.parametrize(
    "fields", [{"clip": 0.0}, {"clip": 1e9}, {"level": 0.3}, {"weighting": "wis"}, {"sides": "upper"}]
)
def test_values_out_of_range_are_refused(fields):
    with pytest.raises(PlanError):
        ImportanceSampling(problem=PROBLEM, **fields)


@pytest.mark.parametrize(("epsilon", "population", "clip"), [(0.1, 1000, 1.0), (1.0, 1000, 2.7), (1.0, 100_000, 10.0)])
def test_the_clip_widens_where_the_noise_is_small(epsilon, population, clip):
    plan = ImportanceSampling(problem=PROBLEM)
    assert plan.calibrate(unit=unit_of(population), epsilon=epsilon, delta=1e-6).clip == pytest.approx(clip, abs=0.35)
    own = ImportanceSampling(problem=PROBLEM, clip=0.5)
    assert own.calibrate(unit=unit_of(population), epsilon=epsilon, delta=1e-6).clip == 0.5
