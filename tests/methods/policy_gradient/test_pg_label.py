"""What the certificate of a learned policy says in words."""

from __future__ import annotations

from tacit.methods.policy_gradient.plan import PolicyGradientPlan
from tacit.methods.policy_gradient.state import label
from tacit.units import Unit

UNIT = Unit("patient", "add_or_remove", 10_000)
PLAN = PolicyGradientPlan(rounds=4, users=8, participations=3).calibrate(unit=UNIT, epsilon=1.0, delta=1e-5)


def test_what_the_user_declared_public_is_named() -> None:
    words = label(PLAN, start="zeros", critic="a simulator", information="a survey").not_covered
    assert "the first parameters: zeros" in words
    assert "the critic: a simulator (declared public by the user, not checked here)" in words
    assert any(text.startswith("the Fisher information of the trust region: a survey") for text in words)
    assert not any("declared" in text for text in label(PLAN, start="zeros").not_covered)


def test_how_often_somebody_contributes_is_said() -> None:
    assert "a patient contributes at most 3 times" in label(PLAN, start="zeros").covered[1]


def test_a_shared_critic_covers_nothing() -> None:
    found = label(PolicyGradientPlan.paper(noise_multiplier=1.0).account(unit=UNIT, delta=1e-5), start="zeros")
    assert found.covered[0].startswith("nothing")
    assert "epsilon is infinite" in found.not_covered[0]
