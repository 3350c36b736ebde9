"""Plans of PATE-GAN: checked before a record is read, priced by their Gaussians alone."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tacit.errors import PlanError
from tacit.methods.synthesis.baselines.pate_gan_plan import GanPretraining, PateGanPlan
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import GaussianEvent
from tacit.privacy.vault.plan import public_fields
from tacit.units import Unit

UNIT = Unit("transition", "add_or_remove", 10_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"queries": 0}, "queries"),
        ({"teachers": 1.5}, "teachers"),
        ({"teacher_rate": 0.0}, "learning_rate"),
        ({"opponents": 0}, "opponents"),
        ({"labels": "votes"}, "labels"),
        ({"harmonics": 9}, "harmonics"),
        ({"window": 0}, "window"),
        ({"penalty": -1.0}, "penalty"),
        ({"penalty": float("inf")}, "penalty"),
        ({"generator_rate": float("nan")}, "generator_rate"),
        ({"hold": -1}, "hold"),
        ({"hold": 50}, "hold"),
        ({"ema": 1.0}, "ema"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
    ],
)
def test_invalid_plans_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        dataclasses.replace(PateGanPlan(steps=50, hold=9), **change)


@pytest.mark.parametrize("change", [{"provenance": " "}, {"batch": 0}, {"learning_rate": 0.0}, {"penalty": -1.0}])
def test_invalid_pretraining_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        GanPretraining(**{"provenance": "simulated", **change})


def test_the_price_is_that_of_one_gaussian_a_step_whatever_is_asked() -> None:
    plan = PateGanPlan(steps=64).calibrate(unit=UNIT, epsilon=2.0, delta=1e-5)
    assert plan.noise_multiplier is not None
    whole = GaussianEvent(plan.noise_multiplier / 8)
    assert accounting.epsilon(whole, delta=1e-5, relation="add_or_remove").epsilon == pytest.approx(2.0, rel=5e-3)
    more = dataclasses.replace(plan, queries=1_000, teachers=7, teacher_updates=9)
    assert more.account(unit=UNIT, delta=1e-5).epsilon == plan.account(unit=UNIT, delta=1e-5).epsilon
    assert "1,000" in str(plan)


def test_a_plan_survives_json() -> None:
    for pretraining in (None, GanPretraining(provenance="simulated", steps=3)):
        plan = PateGanPlan.paper(pretraining=pretraining).calibrate(unit=UNIT, epsilon=2.0, delta=1e-5)
        fields = json.loads(json.dumps(public_fields(plan)))
        assert PateGanPlan.from_json(fields) == plan
        with pytest.raises(PlanError, match="missing or unknown"):
            PateGanPlan.from_json({**fields, "votes": 1})


def test_the_generator_stands_still_and_then_moves_slowly_if_pretrained() -> None:
    start = GanPretraining(provenance="simulated", generator_rate=8.0)
    plan = PateGanPlan(steps=6, hold=2, generator_rate=3.0, pretraining=start)
    rates = [plan.generator_rate_at(step) for step in range(6)]
    assert rates == pytest.approx([0.0, 0.0, 8.0, 6.828427, 4.0, 1.171573])
    assert dataclasses.replace(plan, pretraining=None).generator_rate_at(2) == 3.0


def test_the_paper_goes_on_as_fast_after_pretraining() -> None:
    start = GanPretraining(provenance="simulated")
    assert PateGanPlan.paper(pretraining=start).generator_rate_at(0) == PateGanPlan.paper().generator_rate_at(0)


def test_delta_must_be_below_one_over_the_population() -> None:
    with pytest.raises(PlanError, match="delta"):
        PateGanPlan().calibrate(unit=UNIT, epsilon=1.0, delta=1e-4)
