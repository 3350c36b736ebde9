"""Policies against literal probabilities; who may evaluate what, and with which behaviour."""

import dataclasses

import numpy as np
import pytest
from safetensors.numpy import save_file
from small_mdp import BEHAVIOUR, TARGET, open_vault

from tacit.errors import CertificateError, PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation import importance
from tacit.methods.off_policy_evaluation.features import OneHot
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling
from tacit.methods.off_policy_evaluation.policies import Behaviour, Callable, LinearQ, Network, Tabular, Uniform
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, addressed, resolve, resolve_behaviour, words
from tacit.privacy.release import Release

HERE = "tests_policies"


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def left(observations):
    return np.tile([0.75, 0.25], (len(observations), 1))


def unnormalised(observations):
    return np.ones((len(observations), 2))


def test_uniform_and_tables():
    assert Uniform(4).probabilities(np.zeros((2, 3))).tolist() == [[0.25] * 4] * 2
    assert TARGET.probabilities(np.array([1, 0, 5])).tolist() == [[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]]


def test_softmax_and_epsilon_greedy_over_a_linear_value():
    weights = np.array([[0.0, np.log(3.0)], [2.0, 0.0]])
    softmax = LinearQ(OneHot(2), weights)
    assert softmax.probabilities(np.array([0]))[0] == pytest.approx([0.25, 0.75])
    cooler = LinearQ(OneHot(2), weights, temperature=0.5)
    assert cooler.probabilities(np.array([0]))[0] == pytest.approx([0.1, 0.9])
    greedy = LinearQ(OneHot(2), weights, kind="epsilon_greedy", epsilon=0.2)
    assert greedy.probabilities(np.array([0, 1])) == pytest.approx(np.array([[0.1, 0.9], [0.9, 0.1]]))


def test_a_network_from_a_file_layer_by_layer(tmp_path):
    hidden, out = np.array([[1.0, -1.0], [-1.0, 1.0]], np.float32), np.array([[2.0, 0.0], [0.0, 0.0]], np.float32)
    zero = np.zeros(2, np.float32)
    layers = {"net.10.weight": out, "net.10.bias": zero, "net.2.weight": hidden, "net.2.bias": zero}
    save_file(layers, tmp_path / "policy.safetensors")
    policy = Network.load(tmp_path / "policy.safetensors")
    logit = 2.0 * max(0.0, 3.0 - 1.0)
    expected = np.exp(logit) / (np.exp(logit) + 1)
    assert policy.probabilities(np.array([[3.0, 1.0]]))[0] == pytest.approx([expected, 1 - expected])
    assert policy.actions == 2
    assert policy.probabilities(np.array([1]))[0] == pytest.approx([0.5, 0.5])  # the state 1 as an indicator: relu(-1)
    tanh = Network(policy.layers, activation="tanh").probabilities(np.array([[3.0, 1.0]]))
    assert tanh[0, 0] == pytest.approx(1 / (1 + np.exp(-2 * np.tanh(2.0))))


def test_the_users_own_function_must_return_distributions():
    assert Callable(f"{HERE}:left", 2).probabilities(np.zeros(3)).tolist() == [[0.75, 0.25]] * 3
    wrong = Callable(f"{HERE}:unnormalised", 2)
    assert wrong.probabilities(np.zeros(3)).tolist() == [[0.5, 0.5]] * 3  # behind a door nothing may be raised
    with pytest.raises(PlanError, match="distributions"):
        wrong.require_distributions(np.zeros(3))
    with pytest.raises(PlanError, match="distributions"):
        Callable(f"{HERE}:left", 3).probabilities(np.zeros(3))
    with pytest.raises(PlanError, match="cannot be imported"):
        Callable("nowhere:nothing", 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tabular(np.array([[0.5, 0.6]])),
        lambda: Tabular(np.array([[1.5, -0.5]])),
        lambda: LinearQ(OneHot(2), np.array([[np.nan]])),
        lambda: LinearQ(OneHot(2), np.zeros((2, 2)), temperature=0.0),
        lambda: LinearQ(OneHot(2), np.zeros((2, 2)), epsilon=1.5),
        lambda: Network(((np.zeros((2, 3)), np.zeros(2)), (np.zeros((2, 3)), np.zeros(2)))),
        lambda: Network(()),
    ],
)
def test_parameters_out_of_range_are_refused(make):
    with pytest.raises(PlanError):
        make()


def released(vault, policy, dataset_id):
    """A release as it would come out of this vault, but for the ledger that it names."""
    from tacit.methods.off_policy_evaluation import importance
    from tacit.methods.off_policy_evaluation.importance import ImportanceSampling
    from tacit.methods.off_policy_evaluation.problem import Problem

    plan = ImportanceSampling(problem=Problem(gamma=0.9, horizon=3))
    plan = plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4)
    certificate = importance.evaluate(plan, vault, Behaviour()).certificate
    return Release(policy, dataclasses.replace(certificate, dataset_id=dataset_id))


def test_a_policy_released_under_the_ledger_may_be_evaluated_and_no_other_release(tmp_path):
    vault = open_vault(tmp_path)
    own = released(vault, TARGET, vault.ledger.dataset_id)
    (tmp_path / "elsewhere").mkdir()
    elsewhere = open_vault(tmp_path / "elsewhere")
    other = released(elsewhere, TARGET, elsewhere.ledger.dataset_id)
    edited = dataclasses.replace(other.certificate, dataset_id=vault.ledger.dataset_id)
    forged = dataclasses.replace(other, certificate=edited)
    assert resolve(own, vault) is TARGET
    assert resolve(TARGET, vault) is TARGET
    assert resolve(Behaviour(), vault) == Behaviour()
    with pytest.raises(PlanError, match="another ledger"):
        resolve(other, vault)
    with pytest.raises(CertificateError):
        resolve(forged, vault)
    assert resolve_behaviour(TARGET, BehaviourPolicy(Release(BEHAVIOUR, own.certificate)), vault) is BEHAVIOUR
    with pytest.raises(PlanError, match="another ledger"):
        resolve_behaviour(TARGET, BehaviourPolicy(other), vault)


def test_policies_over_other_actions_or_of_no_form_are_refused(tmp_path):
    vault = open_vault(tmp_path)
    with pytest.raises(PlanError, match="3 actions"):
        resolve(Uniform(3), vault)
    with pytest.raises(PlanError, match="no known form"):
        resolve(lambda observations: observations, vault)


def test_a_behaviour_policy_needs_a_public_source(tmp_path):
    vault = open_vault(tmp_path)
    assert resolve_behaviour(TARGET, BehaviourPolicy(BEHAVIOUR, source="physics"), vault) is BEHAVIOUR
    assert resolve_behaviour(TARGET, None, vault) is None  # the records have propensities
    assert resolve_behaviour(Behaviour(), BehaviourPolicy(BEHAVIOUR), vault) is None  # not needed
    with pytest.raises(PlanError, match="source is missing"):
        resolve_behaviour(TARGET, BehaviourPolicy(BEHAVIOUR), vault)
    with pytest.raises(PlanError, match="no probabilities"):
        resolve_behaviour(TARGET, BehaviourPolicy(Behaviour(), source="physics"), vault)


def test_records_without_propensities_need_a_behaviour_policy(tmp_path):
    vault = open_vault(tmp_path)
    vault.spec = dataclasses.replace(vault.spec, propensities=False)
    with pytest.raises(PlanError, match="behaviour policy is unknown"):
        resolve_behaviour(TARGET, None, vault)
    assert resolve_behaviour(Behaviour(), None, vault) is None


def test_certificates_name_the_policy():
    assert words(Behaviour()) == "the policy that made the records"
    assert "Tabular" in words(TARGET)
    assert f"{HERE}:left" in words(Callable(f"{HERE}:left", 2))


def test_a_plan_is_about_one_policy():
    plan = ImportanceSampling(problem=Problem(gamma=0.9, horizon=3))
    about = {addressed(plan, policy).target for policy in (Behaviour(), Uniform(2), TARGET, BEHAVIOUR)}
    assert len(about) == 4
    assert addressed(plan, Tabular(TARGET.table.copy())).target == addressed(plan, TARGET).target
    assert addressed(plan, TARGET, BEHAVIOUR).target != addressed(plan, TARGET).target


def test_a_second_policy_may_be_evaluated_by_the_same_plan_and_each_is_charged(tmp_path):
    vault = open_vault(tmp_path)
    plan = ImportanceSampling(problem=Problem(gamma=0.9, horizon=3))
    plan = plan.calibrate(unit=vault.unit, epsilon=0.5, delta=1e-5)
    for policy in (TARGET, Uniform(2)):
        before = vault.ledger.spent()[0]
        importance.evaluate(plan, vault, policy)
        assert vault.ledger.spent()[0] - before == pytest.approx(0.5, rel=1e-3)
        with pytest.raises(PlanExhausted):
            importance.evaluate(plan, vault, policy)


def test_layers_of_a_file_need_numbers(tmp_path):
    layers = {
        f"{name}.{kind}": np.zeros((2, 2) if kind == "weight" else 2) for name in "ab" for kind in ("weight", "bias")
    }
    save_file(layers, tmp_path / "policy.safetensors")
    with pytest.raises(PlanError, match="numbered"):
        Network.load(tmp_path / "policy.safetensors")
