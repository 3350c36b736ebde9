"""Who may evaluate what, and with which behaviour policy."""

import dataclasses

import pytest
from small_mdp import BEHAVIOUR, TARGET, open_vault

from tacit.errors import CertificateError, PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation.algorithm import fit
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling
from tacit.methods.off_policy_evaluation.policies import Behaviour, Callable, Tabular, Uniform
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, describe_policy, resolve, resolve_behaviour
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.sentences import policy as said


def released(vault, policy, dataset_id):
    """A release as it would come out of this vault, but for the ledger that it names."""
    plan = ImportanceSampling(problem=Problem(gamma=0.9, horizon=3))
    plan = plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4)
    run = vault.reserve(plan)
    plan.estimate(vault, run, Behaviour(), None)
    release = vault.release(run, policy, label=plan.label())
    return dataclasses.replace(release, certificate=dataclasses.replace(release.certificate, dataset_id=dataset_id))


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
    assert resolve_behaviour(BEHAVIOUR, BehaviourPolicy(own), vault) is TARGET
    for wrong in (BEHAVIOUR, Behaviour()):
        with pytest.raises(PlanError, match=r"another policy|no policy"):
            resolve(Release(wrong, own.certificate), vault)
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
    assert said(describe_policy(Behaviour())) == "the policy that made the records"
    assert said(describe_policy(TARGET)) == "a public Tabular policy over 2 actions, fixed without these records"
    assert "json:loads" in said(describe_policy(Callable("json:loads", 2)))


def test_a_plan_is_about_one_policy():
    plan = ImportanceSampling(problem=Problem(gamma=0.9, horizon=3))
    about = {plan.with_target(policy).target for policy in (Behaviour(), Uniform(2), TARGET, BEHAVIOUR)}
    assert len(about) == 4
    assert plan.with_target(Tabular(TARGET.table.copy())).target == plan.with_target(TARGET).target
    assert plan.with_target(TARGET, BEHAVIOUR).target != plan.with_target(TARGET).target


def test_a_second_policy_may_be_evaluated_by_the_same_plan_and_each_is_charged(tmp_path):
    vault = open_vault(tmp_path)
    plan = ImportanceSampling(problem=Problem(gamma=0.9, horizon=3))
    plan = plan.calibrate(unit=vault.unit, epsilon=0.5, delta=1e-5)
    for policy in (TARGET, Uniform(2)):
        before = vault.ledger.spent()[0]
        fit(plan, vault, policy)
        assert vault.ledger.spent()[0] - before == pytest.approx(0.5, rel=1e-3)
        with pytest.raises(PlanExhausted):
            fit(plan, vault, policy)
