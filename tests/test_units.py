"""What a promise is made of: a unit, an epsilon and a delta, each in range."""

from __future__ import annotations

import math

import pytest

from tacit.errors import PlanError
from tacit.methods.synthesis import TransitionsPlan
from tacit.privacy.vault.plan import PrivatePlan, public_fields
from tacit.units import Promise, Unit

UNIT = Unit("patient", "add_or_remove", 1_000)


@pytest.mark.parametrize(
    ("name", "called"),
    [
        *((name, "patient") for name in ("patient", "patient_id", "Pat-Nr.", "PatientID", "MRN", "infos/patient")),
        *((name, name) for name in ("transition", "author", "cell of a map", "swimmer")),
        *((name, f"{name} holder") for name in ("id", "ref_no", "Kunden-Nr.", "x1")),
        ("account_owner", "account owner"),
    ],
)
def test_a_unit_has_a_noun_that_its_column_need_not_be(name: str, called: str) -> None:
    assert Unit(name, "add_or_remove", 1_000).noun == called


@pytest.mark.parametrize("epsilon", [0.0, 1.0, math.inf])
def test_a_promise_may_cost_nothing_or_promise_nothing(epsilon: float) -> None:
    assert Promise(UNIT, epsilon, 1e-4).epsilon == epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta", "name"),
    [(-1.0, 1e-4, "epsilon"), (math.nan, 1e-4, "epsilon"), (1.0, 0.0, "delta"), (1.0, 1e-3, "1 / population")],
)
def test_a_promise_out_of_range_is_refused(epsilon: float, delta: float, name: str) -> None:
    with pytest.raises(PlanError, match=name):
        Promise(UNIT, epsilon, delta)


def test_a_plan_without_a_promise_says_so_when_it_is_asked() -> None:
    plan = TransitionsPlan()
    assert plan.promise is None
    for name in ("unit", "epsilon", "delta"):
        with pytest.raises(PlanError, match=r"the plan is not calibrated; .+ call plan\.calibrate"):
            getattr(plan, name)


def test_a_promise_stands_among_the_fields_of_a_plan_and_is_read_back() -> None:
    plan = TransitionsPlan(promise=Promise(UNIT, 2.0, 1e-4))
    fields = public_fields(plan)
    assert (fields["unit"]["name"], fields["epsilon"], fields["delta"]) == ("patient", 2.0, 1e-4)
    assert "promise" not in fields
    assert TransitionsPlan.from_json(fields) == plan
    assert TransitionsPlan.from_json(public_fields(TransitionsPlan())) == TransitionsPlan()
    with pytest.raises(PlanError, match="a field is missing or unknown"):
        TransitionsPlan.from_json({**fields, "epsilon": None})


@pytest.mark.parametrize("name", ["unit", "epsilon", "delta", "promise"])
def test_a_plan_has_no_promise_beside_the_one_that_is_paid_for(name: str) -> None:
    with pytest.raises(PlanError, match=f"the plan has a {name} of its own"):
        type("Plan", (PrivatePlan,), {"__annotations__": {name: "float"}, name: 0.1})
