"""What the certificate of a learned policy says in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tacit.methods.policy_gradient.plan import PolicyGradientPlan
from tacit.privacy.sentences import Clause, clause, clauses, say
from tacit.units import Unit

UNIT = Unit("patient", "add_or_remove", 10_000)
PLAN = PolicyGradientPlan(rounds=4, users=8, participations=3).calibrate(unit=UNIT, epsilon=1.0, delta=1e-5)
DRAWN = clause("first_drawn", seed=7)


def lines(said: Sequence[Clause | str]) -> list[str]:
    return [say(one, UNIT.name) for one in clauses(said)]


def test_what_the_user_declared_public_is_named() -> None:
    words = lines(replace(PLAN, critic="public").label(DRAWN, information=True).not_covered)
    assert "the first parameters: drawn with the public seed 7" in words
    assert "the critic: the user's own (declared public by the user, not checked here)" in words
    assert any(text.startswith("the Fisher information of the trust region: the user's own") for text in words)
    assert not any("declared" in text for text in lines(PLAN.label(DRAWN).not_covered))


def test_how_often_somebody_contributes_is_said() -> None:
    assert "a patient contributes at most 3 time(s)" in lines(PLAN.label().covered)[1]


def test_a_shared_critic_covers_nothing() -> None:
    found = PolicyGradientPlan.paper(noise_multiplier=1.0).account(unit=UNIT, delta=1e-5).label()
    assert lines(found.covered)[0].startswith("nothing")
    assert "epsilon is infinite" in lines(found.not_covered)[0]
