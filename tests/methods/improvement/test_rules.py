"""Rules in words: a policy of two thresholds is told as it is."""

import dataclasses

import numpy as np
import pytest
from small_clinic import open_vault, plan_of

from tacit.agents.features import Quadratic
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.columns import Column
from tacit.data.memory import MEAN, NOW, Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.methods.improvement import fit
from tacit.methods.improvement.moments import Scales
from tacit.methods.improvement.rules import Rule, describe_rule, find_rules

COLUMNS = (Column("pressure", low=80.0, high=200.0), Column("age", low=0.0, high=100.0))
SPEC = PublicSpec(
    Box((80.0, 0.0), (200.0, 100.0), COLUMNS), Discrete(2), Box((0.0,), (1.0,)), "declared", terminals=False
)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    vault = open_vault(tmp_path_factory.mktemp("rules"))
    return fit(plan_of().calibrate(unit=vault.unit, epsilon=4.0, delta=1e-5), vault).value


def of_pressure(released, cut):
    """Action 1 where the scaled pressure is above a cut, in [-1, 1]; age says nothing."""
    features = Quadratic((80.0, 0.0), (200.0, 100.0))
    policy = Policy(features, Mlp((features.size, 2), gain=0.0), Categorical(2))
    theta = np.zeros((features.size + 1, 2), np.float32)
    theta[0, 1], theta[-1, 1] = 10.0, -10.0 * cut
    plan = dataclasses.replace(released.plan, memory=Memory((MEAN, NOW)), columns=(0, 1), value_columns=(0,))
    scales = Scales(np.array([140.0, 50.0]), np.array([20.0, 15.0]), 2.0, 0.5, 0.5, 100.0)
    return dataclasses.replace(released, plan=plan, policy=policy, theta=theta.reshape(1, -1), scales=scales)


def test_a_threshold_is_found_where_it_is(released):
    rules = find_rules(of_pressure(released, 0.0), SPEC)
    assert [(rule.action, len(rule.conditions), rule.conditions[0][:2]) for rule in rules] == [
        (1, 1, (0, True)),
        (0, 1, (0, False)),
    ]
    assert rules[0].conditions[0][2] == pytest.approx(140.0, abs=1.0)  # the middle of the public range
    assert sum(rule.share for rule in rules) == pytest.approx(1.0)
    assert min(rule.agreement for rule in rules) > 0.95


def test_a_policy_that_does_one_thing_is_one_rule(released):
    assert find_rules(of_pressure(released, 3.0), SPEC) == (Rule((), 0, 1.0, 1.0),)


def test_rules_name_columns_and_what_of_their_course_is_meant():
    rule = Rule(((0, True, 141.26), (1, False, 40.0)), 1, 0.3, 0.9)
    assert describe_rule(rule, SPEC, (MEAN, NOW)) == "mean of pressure at least 141, age below 40"
    assert describe_rule(rule, SPEC, (0.7, NOW)) == "recent pressure at least 141, age below 40"
    assert describe_rule(Rule((), 1, 1.0, 1.0), SPEC, (MEAN, NOW)) == "always"
