"""The private model of the behaviour policy: sums against naive loops, what it finds, what it costs, what it says."""

import dataclasses

import numpy as np
import pytest
from small_mdp import (
    BEHAVIOUR,
    PROBLEM,
    SPEC,
    TARGET,
    Silent,
    enumerate_episodes,
    exact_value,
    open_vault,
    padded,
    unit_of,
)

from tacit.data.spec import Box
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation.algorithm import fit, used_behaviour
from tacit.methods.off_policy_evaluation.behaviour_model import (
    BehaviourGram,
    BehaviourModel,
    BehaviourRows,
    LogitGradient,
)
from tacit.methods.off_policy_evaluation.features import Fourier, OneHot
from tacit.methods.off_policy_evaluation.fitted_q import DoublyRobust, FittedQ
from tacit.methods.off_policy_evaluation.gpope import Gpope
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling
from tacit.methods.off_policy_evaluation.policies import Behaviour, ModelledPolicy, Tabular
from tacit.methods.off_policy_evaluation.residual import ResidualRegression
from tacit.methods.off_policy_evaluation.scores import FIT, MODELLED
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.privacy.certificate.plan import contradictions, plan_from_json

EPISODES, _ = enumerate_episodes()
ROWS = padded(EPISODES)
MODEL = BehaviourModel(features=OneHot(2))
FOURIER = Fourier(2, (0.0,), (1.0,))


def estimators(model):
    """One plan of each method, with the model."""
    shared = {"problem": PROBLEM, "behaviour_model": model}
    return [
        ImportanceSampling(**shared),
        DoublyRobust(**shared, features=OneHot(2)),
        FittedQ(**shared, features=OneHot(2)),
        ResidualRegression(**shared, features=OneHot(2), on_policy=False),
        Gpope(**shared, features=OneHot(2), steps=5),
    ]


@pytest.mark.parametrize("features", [OneHot(2), FOURIER])
@pytest.mark.parametrize("clip", [0.05, 50.0])
def test_sums_are_those_of_a_naive_loop_and_of_norm_at_most_one(features, clip):
    visits = BehaviourRows(PROBLEM, features, 2)
    weights = np.random.default_rng(0).normal(size=(features.size, 2))
    kept = visits(ROWS)
    gradients = LogitGradient(visits)(kept, (weights, clip)) / FIT
    grams = BehaviourGram(visits)(kept, None) / FIT
    assert np.linalg.norm(gradients, axis=1).max() <= 1 + 1e-9
    assert np.linalg.norm(grams, axis=1).max() <= 1 + 1e-9
    for i in (0, 3, 17, 40):
        gradient, gram = np.zeros((features.size, 2)), np.zeros((features.size, features.size))
        for t, (state, action, _, _) in enumerate(EPISODES[i], start=1):
            phi = features(np.array([state]))[0].astype(float)
            odds = np.exp(phi @ weights)
            gradient += np.outer(phi, np.eye(2)[action] - odds / odds.sum()) / np.sqrt(t)
            gram += np.outer(phi, phi) / np.sqrt(t)
        length = np.linalg.norm(gradient) / clip
        np.testing.assert_allclose(
            gradients[i, :-1] / np.sqrt(0.9), gradient.ravel() / clip / max(1, length), rtol=1e-4, atol=1e-6
        )
        assert gradients[i, -1] / np.sqrt(0.1) == pytest.approx(min(1, length), rel=1e-4)
        assert np.linalg.norm(grams[i]) == pytest.approx(min(1, np.linalg.norm(gram) / visits.scale), rel=1e-4)


@pytest.mark.parametrize("features", [OneHot(2), FOURIER])
def test_without_noise_the_model_is_the_behaviour_policy_mixed_with_the_uniform_one(features, tmp_path):
    vault = open_vault(tmp_path, units=2_000, noise=Silent(), propensities=False)
    model = BehaviourModel(features=features, floor=0.2, tau=3.0)
    plan = ImportanceSampling(problem=PROBLEM, behaviour_model=model)
    found = fit(plan.calibrate(unit=vault.unit, epsilon=20.0, delta=1e-5), vault, TARGET).value
    policy = used_behaviour(plan, found, TARGET, None, vault)
    expected = 0.8 * BEHAVIOUR.table + 0.1
    np.testing.assert_allclose(policy.probabilities(np.arange(2)), expected, atol=0.03)


def test_the_floor_holds_for_any_weights():
    policy = BehaviourModel(features=OneHot(2), floor=0.1).policy(np.array([[900.0, -900.0], [0.0, 0.0]]))
    np.testing.assert_allclose(policy.probabilities(np.arange(2)), [[0.95, 0.05], [0.5, 0.5]])
    with pytest.raises(PlanError):
        ModelledPolicy(TARGET, 1.5)


@pytest.mark.parametrize("plan", estimators(MODEL), ids=lambda plan: type(plan).__name__)
def test_model_and_evaluation_are_one_plan_and_the_model_has_its_share(plan):
    plan = plan.calibrate(unit=unit_of(1000), epsilon=1.0, delta=1e-5)
    precisions = {"model": 0.0, 0: 0.0, 1: 0.0, None: 0.0}
    for part in plan.parts():
        key = "model" if part.name.startswith("behaviour") else part.fold
        precisions[key] += part.steps / part.noise_multiplier**2
    whole = 1 / plan.noise_multiplier**2
    assert plan.noise_multiplier == pytest.approx(3.7307, rel=1e-4)
    assert precisions["model"] == pytest.approx(0.3 * whole)
    assert precisions[None] + max(precisions[0], precisions[1]) == pytest.approx(0.7 * whole)


@pytest.mark.parametrize("plan", estimators(MODEL), ids=lambda plan: type(plan).__name__)
def test_an_evaluation_of_records_without_propensities(plan, tmp_path):
    vault = open_vault(tmp_path, units=2_000, propensities=False)
    plan = plan.calibrate(unit=vault.unit, epsilon=20.0, delta=1e-5)
    released = fit(plan, vault, TARGET)
    released.certificate.verify()
    assert len(vault.ledger.plans()) == 1
    assert released.value.interval.words == MODELLED
    assert released.value.interval.low <= released.value.value <= released.value.interval.high
    assert plan.behaviour_model.assumption in released.certificate.to_json()["assumptions"]
    assert any("with 30 % of the budget" in line for line in released.certificate.lines("assumptions"))
    assert not any("logged propensities" in line for line in released.certificate.lines("assumptions"))
    record = released.certificate.to_json()
    assert record["plan"]["behaviour_model"]["share"] == 0.3
    assert plan_from_json(record["method"], record["plan"]).behaviour_model == MODEL
    with pytest.raises(PlanExhausted):
        fit(plan, vault, TARGET)


def test_a_certificate_whose_share_was_edited_is_refused(tmp_path):
    vault = open_vault(tmp_path, propensities=False)
    plan = ImportanceSampling(problem=PROBLEM, behaviour_model=MODEL)
    released = fit(plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5), vault, TARGET)
    record = released.certificate.to_json()
    model = {**record["plan"]["behaviour_model"], "share": 0.4}
    plan = plan_from_json(record["method"], {**record["plan"], "behaviour_model": model})
    fields = [field for field, _ in contradictions(record, plan)]
    assert "assumptions" in fields
    assert "parts[0].noise_multiplier" in fields
    assert not list(contradictions(record, plan_from_json(record["method"], record["plan"])))


def test_a_model_that_would_not_be_used_is_refused_before_anything_is_paid(tmp_path):
    vault = open_vault(tmp_path, propensities=False)
    plan = ImportanceSampling(problem=PROBLEM, behaviour_model=MODEL)
    plan = plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5)
    for target, known in ((Behaviour(), None), (TARGET, BehaviourPolicy(BEHAVIOUR, source="physics"))):
        with pytest.raises(PlanError, match="would not be used"):
            fit(plan, vault, target, behaviour=known)
    unfit = dataclasses.replace(plan, behaviour_model=BehaviourModel(features=Fourier(1, (0.0, 0.0), (1.0, 1.0))))
    with pytest.raises(PlanError, match="another form"):
        fit(unfit, vault, TARGET)
    assert not vault.ledger.plans()
    with pytest.raises(PlanError, match="none in a sampled mode"):
        Gpope(problem=PROBLEM, features=OneHot(2), mode="poisson", behaviour_model=MODEL)


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.0}, {"floor": 0.0}, {"rounds": 0}, {"tau": -1.0}])
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(PlanError):
        dataclasses.replace(MODEL, **wrong)


def test_plans_print_the_share_and_those_without_a_model_are_written_as_ever():
    plan = ImportanceSampling(problem=PROBLEM, behaviour_model=MODEL)
    calibrated = plan.calibrate(unit=unit_of(1000), epsilon=1.0, delta=1e-5)
    assert str(calibrated).endswith(
        "A model of the behaviour policy gets 30 % of this budget (1 / sigma^2); the interval does not count its error."
    )
    plain = dataclasses.replace(calibrated, behaviour_model=None)
    assert "model of the behaviour" not in str(plain)


def test_public_features_are_one_a_state_or_of_order_two_along_each_dimension():
    assert BehaviourModel.of(SPEC) == MODEL
    numbers = dataclasses.replace(SPEC, observation=Box((0.0, -1.0), (1.0, 1.0)))
    assert BehaviourModel.of(numbers).features == Fourier(2, (0.0, -1.0), (1.0, 1.0), coupled=False)


def test_a_better_model_gives_a_better_value(tmp_path):
    """The estimate by the model is nearer to the value of the target than that by a uniform behaviour policy."""
    errors = []
    skewed = Tabular(np.array([[0.05, 0.95], [0.95, 0.05]]))
    for known in (None, BehaviourPolicy(Tabular(np.full((2, 2), 0.5)), source="declared")):
        vault = open_vault(tmp_path, units=4_000, propensities=False, name=str(len(errors)))
        model = MODEL if known is None else None
        plan = ImportanceSampling(problem=PROBLEM, behaviour_model=model, weighting="wpdis")
        value = fit(plan.calibrate(unit=vault.unit, epsilon=50.0, delta=1e-5), vault, skewed, behaviour=known).value
        errors.append(abs(value.value - exact_value(skewed)))
    assert errors[0] < errors[1]
