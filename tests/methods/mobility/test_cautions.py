"""Certificates of few people say what not to draw."""

from __future__ import annotations

import pytest

from tacit.methods.mobility import OneShotPlan, baselines, pategail
from tacit.methods.mobility.plan import few_people_clause
from tacit.privacy.sentences import clauses, say
from tacit.units import Unit


@pytest.mark.parametrize(("people", "noise", "said"), [(83, 2.0, True), (200, 2.0, False), (199, 2.0, True)])
def test_the_rule_is_of_public_numbers(people: int, noise: float, said: bool) -> None:
    assert bool(few_people_clause(Unit("person", "add_or_remove", people), noise)) == said


@pytest.mark.parametrize(
    ("noise", "floor", "said"),
    [("server", None, False), ("shared", None, False), ("shared", 10, True), ("device", None, True)],
)
def test_noise_of_devices_counts_for_what_it_adds_up_to(noise: str, floor: int | None, said: bool) -> None:
    assert bool(few_people_clause(Unit("person", "add_or_remove", 1_000), 2.0, noise, floor)) == said


def test_nothing_is_said_before_calibration_and_without_noise() -> None:
    assert few_people_clause(None, 2.0) == ()
    assert few_people_clause(Unit("person", "add_or_remove", 83), None) == ()
    assert few_people_clause(Unit("person", "add_or_remove", 83), 0.0) == ()


def test_every_method_says_it() -> None:
    terms = {"unit": Unit("person", "add_or_remove", 83), "epsilon": 2.0, "delta": 1e-5}
    labels = (
        OneShotPlan().calibrate(**terms).label(),
        baselines.BaselinePlan(model="epr").calibrate(**terms).label(),
        pategail.recipe("linear", 83).calibrate(**terms).label(),
    )
    for one in labels:
        lines = [say(clause, "person") for clause in clauses(one.not_protected)]
        assert sum(line.startswith("NOT TO BE USED: maps") and "83 persons" in line for line in lines) == 1
