"""Plans of policy gradients: what they promise, what they refuse, and their public schedules."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from typing import Any

import pytest

from tacit.errors import PlanError
from tacit.methods.policy_gradient.plan import Local, PolicyGradientPlan
from tacit.methods.policy_gradient.rounds import Staircase
from tacit.methods.policy_gradient.trust_region import KL, L2
from tacit.privacy.noise import correlated
from tacit.privacy.vault.plan import plan_id, public_fields
from tacit.units import Unit

UNIT = Unit("person", "add_or_remove", 10_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 0}, "rounds"),
        ({"users": 2.5}, "users"),
        ({"horizon": True}, "horizon"),
        ({"participations": 0}, "participations"),
        ({"gamma": 1.1}, "gamma"),
        ({"trace": -0.1}, "trace"),
        ({"clip_norm": 0.0}, "clip_norm"),
        ({"clip_norm": math.nan}, "clip_norm"),
        ({"most_noise": 0.0}, "most_noise"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"correlation": "none"}, "correlation"),
        ({"decay": (2.0,)}, "decay"),
        ({"decay": (0.5,), "correlation": "independent"}, "decay"),
        ({"critic": "everybody"}, "critic"),
        ({"reward_rate": math.inf}, "reward_rate"),
        ({"reward_rate": 1.0, "gamma": 1.0}, "reward_rate"),
        ({"ridge": 0.0}, "ridge"),
        ({"return_scale": -1.0}, "return_scale"),
        ({"kappa": 0.0}, "kappa"),
        ({"step": 0.0}, "step"),
        ({"schedule": "cosine"}, "schedule"),
        ({"average": 0.0}, "average"),
        ({"entropy": -0.1}, "entropy"),
        ({"entropy": 0.1, "local": Local()}, "entropy"),
        ({"trust_region": L2(1.0), "correlation": "tree"}, "correlation"),
    ],
)
def test_invalid_plans_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        dataclasses.replace(PolicyGradientPlan(), **change)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_nothing_is_calibrated_to_an_epsilon_that_is_none(epsilon: float) -> None:
    with pytest.raises(PlanError, match="epsilon"):
        PolicyGradientPlan().calibrate(unit=UNIT, epsilon=epsilon, delta=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Local(epochs=0),
        lambda: Local(learning_rate=0.0),
        lambda: Local(entropy=-1.0),
        lambda: Staircase(factor=1.0, every=1, least=1.0),
        lambda: Staircase(factor=2.0, every=0, least=1.0),
        lambda: PolicyGradientPlan.paper("atari"),  # type: ignore[arg-type]
    ],
)
def test_invalid_pieces_are_refused(make: Any) -> None:
    with pytest.raises(PlanError):
        make()


def test_the_price_is_one_gaussian_whatever_the_rounds() -> None:
    plans = [
        PolicyGradientPlan(rounds=rounds, noise_multiplier=4.0).account(unit=UNIT, delta=1e-5)
        for rounds in (1, 50, 200)
    ]
    assert [plan.epsilon for plan in plans] == pytest.approx([0.9263] * 3, rel=1e-3)
    replaced = PolicyGradientPlan(noise_multiplier=4.0).account(unit=Unit("person", "replace_one", 10_000), delta=1e-5)
    assert replaced.epsilon == pytest.approx(1.99, rel=2e-3)


def test_calibration_finds_the_least_noise_and_shrinks_the_clip_with_it() -> None:
    plan = PolicyGradientPlan(clip_norm=0.8, most_noise=3.2)
    loud, quiet = (plan.calibrate(unit=UNIT, epsilon=epsilon, delta=1e-5) for epsilon in (2.0, 0.4344))
    assert loud.noise_multiplier == pytest.approx(1.994, rel=2e-3)
    assert (plan.bound, loud.bound) == (0.8, 0.8)
    assert quiet.noise_multiplier == pytest.approx(8.0, rel=2e-3)
    assert quiet.bound == pytest.approx(0.4, rel=2e-3)
    assert quiet.parts()[0].clip_norm == quiet.bound
    assert "each over all person(s) that are met for it (32 are expected" in str(quiet)
    assert dataclasses.replace(quiet, most_noise=None).bound == 0.8


def test_a_shared_critic_has_an_infinite_price_and_no_calibration() -> None:
    plan = PolicyGradientPlan.paper(rounds=10, noise_multiplier=1.0)
    assert [(part.name, part.noise_multiplier) for part in plan.parts()] == [("policy", 1.0), ("critic", 0.0)]
    assert plan.parts()[0].correlation == "independent"
    with pytest.raises(PlanError, match="everybody's records"):
        plan.calibrate(unit=UNIT, epsilon=1.0, delta=1e-5)
    priced = plan.account(unit=UNIT, delta=1e-5)
    assert priced.epsilon == math.inf


def test_no_noise_has_an_infinite_price_and_no_calibration() -> None:
    silent = PolicyGradientPlan(noise_multiplier=0.0, most_noise=1.0)
    assert silent.bound == silent.clip_norm
    with pytest.raises(PlanError, match="says no noise, and epsilon 1 is asked for"):
        silent.calibrate(unit=UNIT, epsilon=1.0, delta=1e-5)
    assert silent.account(unit=UNIT, delta=1e-5).epsilon == math.inf


@pytest.mark.parametrize(
    ("setting", "clip", "steps", "trace"),
    [("control", 0.05, 64, 0.85), ("mujoco", 1.8, 2_048, 0.91), ("dosing", 0.08, 64, 0.97)],
)
def test_the_papers_settings(setting: Any, clip: float, steps: int, trace: float) -> None:
    plan = PolicyGradientPlan.paper(setting)
    assert (plan.clip_norm, plan.horizon, plan.trace, plan.users, plan.gamma) == (clip, steps, trace, 8, 0.99)
    assert plan.local is not None
    assert plan.critic == "shared"


def test_schedules_by_hand() -> None:
    linear = PolicyGradientPlan(rounds=4, step=2.0)
    assert [linear.step_at(k) for k in range(4)] == [2.0, 1.5, 1.0, 0.5]
    assert [linear.is_averaged(k) for k in range(4)] == [False, False, True, True]
    assert dataclasses.replace(linear, schedule="constant").step_at(3) == 2.0
    assert dataclasses.replace(linear, average=0.25).is_averaged(2) is False
    assert all(dataclasses.replace(linear, average=1.0).is_averaged(k) for k in range(4))
    stairs = PolicyGradientPlan(rounds=200, step=12.0, schedule=Staircase(factor=5.0, every=50, least=0.2))
    assert [stairs.step_at(k) for k in (0, 49, 50, 100, 150)] == pytest.approx([12, 12, 2.4, 0.48, 0.2])


def test_the_noise_of_one_step_by_hand() -> None:
    plan = PolicyGradientPlan(noise_multiplier=2.0)
    sensitivity = math.sqrt(1 + 0.25 + (3 / 8) ** 2)  # c = 1, 1/2, 3/8
    assert [plan.noise_at(k, 3) for k in range(3)] == pytest.approx(
        [2 * sensitivity * math.sqrt(s) for s in (1.0, 1.25, 1.25 + 1 / 64)]  # the inverse begins 1, -1/2, -1/8
    )
    alone = dataclasses.replace(plan, correlation="independent", participations=4)
    assert alone.noise_at(7, 50) == pytest.approx(4.0)
    tree = dataclasses.replace(plan, correlation="tree", participations=1)
    sensitivity = correlated.sensitivity("tree", 8, 1)
    expected = [2 * sensitivity * math.sqrt(s) for s in (1, 2, 1, 3, 1, 2, 1, 4)]
    assert [tree.noise_at(k, 8) for k in range(8)] == pytest.approx(expected)
    assert PolicyGradientPlan().noise_at(0, 1) == 0.0


@pytest.mark.parametrize(
    "plan",
    [
        PolicyGradientPlan(),
        PolicyGradientPlan.paper(noise_multiplier=1.0),
        PolicyGradientPlan(noise_multiplier=2.0, trust_region=L2(0.5), most_noise=1.0).account(unit=UNIT, delta=1e-5),
        PolicyGradientPlan(
            trust_region=KL(0.01), decay=(1.0, 0.5), schedule=Staircase(factor=5.0, every=50, least=0.06)
        ),
    ],
)
def test_json_gives_back_an_equal_plan(plan: PolicyGradientPlan) -> None:
    again = PolicyGradientPlan.from_json(public_fields(plan))
    assert again == plan
    assert plan_id(again) == plan_id(plan)


def test_an_infinite_epsilon_is_read_as_certificates_write_it() -> None:
    plan = PolicyGradientPlan.paper(noise_multiplier=1.0).account(unit=UNIT, delta=1e-5)
    assert PolicyGradientPlan.from_json(public_fields(plan) | {"epsilon": "inf"}) == plan


def test_other_json_is_refused() -> None:
    for fields in (
        {},
        public_fields(PolicyGradientPlan()) | {"new": 1},
        public_fields(PolicyGradientPlan()) | {"local": {"epoch": 1}},
    ):
        with pytest.raises(PlanError, match="missing or unknown"):
            PolicyGradientPlan.from_json(fields)


def test_the_plan_loads_no_torch() -> None:
    use = "tacit.policy_gradient.fit, tacit.policy_gradient.PolicyGradientPlan()"
    code = f"import sys, tacit; {use}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
