"""`fit` runs the method that the plan is of."""

import pytest
from small_mdp import PROBLEM, TARGET, open_vault

import tacit
from tacit.errors import PlanError
from tacit.methods import off_policy_evaluation as ope
from tacit.methods.off_policy_evaluation.policies import Behaviour

COMMON = {"problem": PROBLEM, "features": ope.OneHot(2)}
OFF_POLICY = [
    ope.ResidualRegression(**COMMON, on_policy=False),
    ope.Gpope(**COMMON),
    ope.ImportanceSampling(problem=PROBLEM),
]


@pytest.mark.parametrize("plan", OFF_POLICY, ids=lambda plan: type(plan).__name__)
def test_each_plan_is_run_by_its_own_method(tmp_path, plan):
    vault = open_vault(tmp_path)
    plan = plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4)
    released = tacit.off_policy_evaluation.fit(plan, vault, TARGET)
    assert released.value.method == plan.method == released.certificate.method
    released.certificate.verify()


def test_behaviour_reaches_the_method(tmp_path):
    vault = open_vault(tmp_path)
    plan = OFF_POLICY[2].calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4)
    with pytest.raises(PlanError, match="source is missing"):
        ope.fit(plan, vault, TARGET, behaviour=ope.BehaviourPolicy(TARGET))


def test_plans_of_other_methods_are_refused(tmp_path):
    vault = open_vault(tmp_path)
    with pytest.raises(PlanError, match="no plan of off-policy evaluation"):
        ope.fit(tacit.synthesis.TransitionsPlan(), vault, Behaviour())
