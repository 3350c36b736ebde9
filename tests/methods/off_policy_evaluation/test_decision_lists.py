"""Rules in words, by the names and labels of the public bounds."""

import numpy as np
import pytest

from tacit.data.columns import Column
from tacit.data.spec import Box, Discrete, PublicSpec, space_of
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.decision_lists import DecisionList
from tacit.methods.off_policy_evaluation.policies import row_probabilities, try_policy
from tacit.privacy.vault.origins import digest, has_digest
from tacit.study.policies import resolve_policy

SPEC = PublicSpec(
    observation=space_of(
        Column("device", "category", labels=("ios", "web"), missing="flag"),
        Column("RR syst. [mmHg]", low=60, high=260),
        Column("age", "integer", low=13, high=100, missing="flag"),
    ),
    action=space_of(Column("offer", "category", labels=("none", "10% off", "free"))),
    reward=Box((0.0,), (1.0,)),
    source="declared",
    propensities=True,
)
RULE = "device = ios and age < 30 -> free; RR syst. [mmHg] >= 160.1 -> 10% off; else none"
ROWS = np.array(
    [  # device, is it missing, pressure, age, is it missing
        [0, 0, 100, 29, 0],
        [0, 0, 100, 30, 0],
        [0, 1, 100, 29, 0],  # device missing
        [0, 0, 200, 13, 1],  # age missing
        [1, 0, 160.1, 20, 0],
    ],
    np.float32,
)


def test_the_first_line_whose_conditions_hold_says_the_action_and_missing_cells_meet_none() -> None:
    policy = DecisionList.parse(RULE, SPEC)
    chances = policy.probabilities(ROWS)
    assert chances.tolist() == np.eye(3)[[2, 0, 0, 1, 1]].tolist()
    assert row_probabilities(policy, ROWS).tolist() == chances.tolist()
    assert has_digest(policy)
    assert digest(policy, None) != digest(DecisionList.parse(RULE.replace("30", "31"), SPEC), None)
    try_policy(policy, SPEC)
    assert resolve_policy(RULE, SPEC, "--policy", None) == policy


def test_numbered_actions_and_discrete_observations_have_rules_too() -> None:
    spec = PublicSpec(
        space_of(Column("state", "category", labels=("a", "b", "c"))), Discrete(2, start=1), Box((0,), (1,)), "declared"
    )
    policy = DecisionList.parse("state != b -> 2; else 1;", spec)
    assert policy.probabilities(np.array([0, 1, 2])).tolist() == [[0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("device = ios -> free", "no action for all others"),
        ("device = ios; else none", "says no action"),
        ("device = ios -> gift; else none", "'gift' is no action"),
        ("height > 3 -> free; else none", "'height > 3' is no condition"),
        ("device > ios -> free; else none", "no condition on 'device'.*= or != and one of ios, web"),
        ("device = android -> free; else none", "no condition on 'device'"),
        ("age < young -> free; else none", "no condition on 'age'.*a finite number"),
        ("age -> free; else none", "'age' is no condition"),
    ],
)
def test_other_words_are_refused(text: str, what: str) -> None:
    with pytest.raises(PlanError, match=what):
        DecisionList.parse(text, SPEC)
