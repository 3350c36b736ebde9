"""The plan: public parameters are checked before a record is read."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from tacit.errors import PlanError
from tacit.methods.synthesis.plan import Curiosity, Pretraining, Sampler, TransitionsPlan, scheduled_rate
from tacit.units import Promise, Unit


def test_schedule_literals() -> None:
    cosine = [scheduled_rate(8.0, step, 6, 2, "cosine") for step in range(6)]
    assert cosine == pytest.approx([4.0, 8.0, 8.0, 6.828427, 4.0, 1.171573])
    assert [scheduled_rate(8.0, step, 6, 2, "constant") for step in range(6)] == [4.0, 8.0, 8.0, 8.0, 8.0, 8.0]
    assert scheduled_rate(8.0, 0, 6, 0, "cosine") == 8.0


def test_plan_uses_its_schedule() -> None:
    plan = TransitionsPlan(steps=6, warmup=2, learning_rate=8.0)
    assert plan.learning_rate_at(3) == pytest.approx(6.828427)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampling_rate": 0.0}, "sampling_rate"),
        ({"sampling_rate": 1.1}, "sampling_rate"),
        ({"steps": 0}, "steps"),
        ({"steps": 2.5}, "steps"),
        ({"steps": True}, "steps"),
        ({"clip_norm": 0.0}, "clip_norm"),
        ({"clip_norm": float("nan")}, "clip_norm"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"rows_per_unit": 0}, "rows_per_unit"),
        ({"noise_multiplicity": 0}, "noise_multiplicity"),
        ({"width": 0}, "width"),
        ({"harmonics": -1}, "harmonics"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"warmup": 500}, "warmup"),
        ({"schedule": "linear"}, "schedule"),
        ({"betas": (0.9, 1.0)}, "beta2"),
        ({"ema": 1.0}, "ema"),
        ({"P_std": 0.0}, "P_std"),
        ({"P_mean": float("nan")}, "P_mean"),
    ],
)
def test_invalid_plans_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        dataclasses.replace(TransitionsPlan(steps=500), **change)


def test_delta_must_be_below_one_over_the_population() -> None:
    unit = Unit("transition", "add_or_remove", 1_000_000)
    assert TransitionsPlan(promise=Promise(unit, 1.0, 9e-7)).delta == 9e-7
    with pytest.raises(PlanError, match="1 / population"):
        TransitionsPlan(promise=Promise(unit, 1.0, 1e-6))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "euler"}, "method"),
        ({"steps": 1}, "steps"),
        ({"sigma_max": 0.01}, "more than sigma_min"),
        ({"sigma_min": 0.0}, "sigma_min"),
        ({"rho": 0.0}, "rho"),
        ({"churn": 10.0}, "dpm_solver"),
        ({"eta": 1.5}, "eta"),
        ({"eta": -0.5}, "eta"),
        ({"method": "heun", "churn": -1.0}, "churn"),
    ],
)
def test_invalid_samplers_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Sampler(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "both"}, "mode"),
        ({"rate": 1.0}, "rate"),
        ({"mode": "append_pool", "rate": 0.0}, "at least one row"),
        ({"pool": 0}, "pool"),
        ({"sampler_steps": 1}, "sampler_steps"),
    ],
)
def test_invalid_curiosity_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Curiosity(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"provenance": " "}, "provenance"),
        ({"steps": 0}, "steps"),
        ({"weight_decay": -0.1}, "weight_decay"),
        ({"warmup": 800}, "warmup"),
        ({"batch": 0}, "batch"),
    ],
)
def test_invalid_pretraining_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Pretraining(**{"provenance": "a public simulator", "steps": 800, **change})


def test_paper_settings() -> None:
    """PrivORL-n on maze2d-umaze: 5 epochs of batches of 128, the SDE sampler of EDM, W 1024, depth 6, lr 3e-4."""
    plan = TransitionsPlan.paper(population=1_000_000, provenance="three other mazes", epoch=3_950_000)
    assert (plan.steps, plan.sampling_rate) == (39_063, 1.28e-4)
    assert (plan.width, plan.depth, plan.harmonics, plan.clip_norm, plan.noise_multiplicity) == (1_024, 6, 0, 1.0, 1)
    assert (plan.learning_rate_at(0), plan.learning_rate_at(39_062)) == (3e-4, 3e-4)
    assert (plan.P_mean, plan.P_std, plan.betas, plan.ema, plan.ema_every) == (-1.2, 1.2, (0.9, 0.99), 0.995, 10)
    assert plan.sampler == Sampler(
        method="heun",
        steps=128,
        sigma_min=0.002,
        sigma_max=80.0,
        rho=7.0,
        churn=80.0,
        churn_min=0.05,
        churn_max=50.0,
        churn_noise=1.003,
    )
    assert plan.pretraining is not None
    assert plan.pretraining.steps == 308_594
    assert plan.pretraining.curiosity == Curiosity(mode="replace", rate=0.3, sampler_steps=128)


def test_paper_ablation_without_pretraining() -> None:
    assert TransitionsPlan.paper(population=1_000).pretraining is None
    with pytest.raises(PlanError, match="public rows"):
        TransitionsPlan.paper(population=1_000, provenance="three other mazes")
    with pytest.raises(PlanError, match="population"):
        TransitionsPlan.paper(population=100)


def test_plans_need_no_torch() -> None:
    code = "import sys, tacit.methods.synthesis.plan; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_plan_for_people_fits_the_network_to_their_number_and_epsilon() -> None:
    many = TransitionsPlan.for_people(population=10_000, epsilon=10.0)
    assert (many.sampling_rate, many.width, many.rows_per_unit) == (0.4, 128, 16)
    begun = TransitionsPlan.for_people(population=10_000, epsilon=10.0, pretraining=Pretraining(provenance="simulated"))
    assert begun.learning_rate < many.learning_rate
    few = TransitionsPlan.for_people(population=2_000, epsilon=10.0, rows_per_unit=32)
    assert (few.sampling_rate, few.width, few.rows_per_unit) == (1.0, 64, 32)
    unit = Unit("person", "add_or_remove", 2_000)
    assert few.calibrate(unit=unit, epsilon=10.0, delta=1e-6).epsilon == 10.0
    for wrong in ({"population": 0, "epsilon": 1.0}, {"population": 10, "epsilon": 0.0}):
        with pytest.raises(PlanError, match="population and epsilon"):
            TransitionsPlan.for_people(**wrong)  # type: ignore[arg-type]
