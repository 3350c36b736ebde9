"""Return-weighted imitation: what an expert adds, and what comes of it."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pole_experts import DELTA, HIGH, LOW, POLICY, UNIT, Silent, balanced, columns, gains, open_vault

from tacit.agents.features import Quadratic, Scaled
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.experts.algorithm import fit
from tacit.methods.experts.imitation import ReturnWeighted, WeightedGradient, WeightedRows
from tacit.methods.experts.learned import ReturnWeight
from tacit.privacy.vault import plan as plans

WEIGHT = ReturnWeight(low=0.0, high=40.0)
NETWORK = Policy(Quadratic(LOW, HIGH), Mlp((14, 6, 2)), Categorical(2))


def plain(policy: Policy) -> np.ndarray:
    """No whitening, for two replicates."""
    return np.repeat(np.eye(policy.features.size)[None], 2, axis=0)


def plan(**fields: Any) -> ReturnWeighted:
    few: dict[str, Any] = {"policy": POLICY, "weight": WEIGHT, "kept": 32, "rows": 80}
    return ReturnWeighted(**few | fields)


def kept(experts: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "observations": rng.uniform(LOW, HIGH, (experts, 10, 4)).astype(np.float32),
        "actions": rng.integers(2, size=(experts, 10)),
        "mask": np.arange(10) < rng.integers(1, 11, size=(experts, 1)),
        "weight": rng.random(experts),
        "replicate": np.sort(rng.integers(2, size=experts)),
    }


@pytest.mark.parametrize("policy", [POLICY, NETWORK])
def test_an_expert_adds_its_weighted_clipped_mean_slope(policy: Policy) -> None:
    rows, rng = kept(6), np.random.default_rng(1)
    theta = (0.5 * rng.normal(size=(2, policy.parameters))).astype(np.float32)
    state = (theta, plain(policy))
    loose = WeightedGradient(WeightedRows(10, None), policy, 1e6)(rows, state)

    def likelihood(own: Any, i: int) -> float:
        mask = rows["mask"][i]
        outputs, _ = policy.network.forward(own[None], policy.features(rows["observations"][i][mask])[None])
        logs = outputs[0].astype(np.float64)
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return float(logs[np.arange(mask.sum()), rows["actions"][i][mask]].mean())

    for i in range(6):
        own, direction = theta[rows["replicate"][i]], rng.normal(size=policy.parameters)
        step = (1e-2 * direction).astype(np.float32)
        slope = (likelihood(own + step, i) - likelihood(own - step, i)) / 2e-2
        assert rows["weight"][i] * slope == pytest.approx(loose[i] @ direction, abs=2e-3)
    tight = WeightedGradient(WeightedRows(10, None), policy, 0.01)(rows, state)
    assert np.linalg.norm(tight, axis=1) == pytest.approx(0.01 * rows["weight"], rel=1e-3)


@pytest.mark.parametrize("policy", [POLICY, NETWORK])
def test_what_an_expert_adds_is_the_same_bits_whoever_the_others_are(policy: Policy) -> None:
    rows, theta = kept(9), policy.initial_parameters(np.random.default_rng(0), 2) + np.float32(0.1)
    state = (theta, plain(policy) * np.random.default_rng(1).random(policy.features.size))
    whole = WeightedGradient(WeightedRows(10, None), policy, 0.05)(rows, state)
    for some in ([4], [0, 3, 8]):
        few = WeightedGradient(WeightedRows(10, None), policy, 0.05)(
            {name: column[some] for name, column in rows.items()}, state
        )
        np.testing.assert_array_equal(few, whole[some])


def test_private_imitation_of_perturbed_controllers_holds_the_pole_up(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, columns(gains(200)), replicates=2)
    release = fit(plan().calibrate(unit=UNIT, epsilon=8.0, delta=DELTA), vault)
    assert min(balanced(release.value.actor(), 2)) > 300
    release.certificate.verify()
    assert release.value.agreement is None


def test_weights_make_the_few_good_experts_count(tmp_path: Path) -> None:
    controllers = np.concatenate([gains(60), -gains(140, seed=1)])  # most of them let the pole fall at once
    held = {}
    for weight in (WEIGHT, None):
        folder = tmp_path / str(weight is None)
        folder.mkdir()
        vault = open_vault(folder, columns(controllers), noise=Silent())
        held[weight] = balanced(
            fit(plan(weight=weight).calibrate(unit=UNIT, epsilon=8.0, delta=DELTA), vault).value.actor()
        )[0]
    assert held[WEIGHT] > 300
    assert held[None] < 50


def test_a_plan_is_run_once(tmp_path: Path) -> None:
    vault, calibrated = (
        open_vault(tmp_path, columns(gains(20))),
        plan(steps=2).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA),
    )
    fit(calibrated, vault)
    with pytest.raises(PlanExhausted):
        fit(calibrated, vault)


def test_all_steps_cost_one_gaussian() -> None:
    one = plan(steps=1, share=0.0).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    many = plan(steps=100).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    assert many.noise_multiplier == pytest.approx(one.noise_multiplier, rel=1e-3)
    multipliers = [(part.noise_multiplier or 0.0) / (many.noise_multiplier or 0.0) for part in many.parts()]
    assert multipliers == pytest.approx([math.sqrt(1 / 0.2), math.sqrt(100 / 0.8)])
    free = dataclasses.replace(one, noise_multiplier=0.0).account(unit=UNIT, delta=DELTA)
    assert free.epsilon == math.inf
    assert "NOTHING" in str(free)


@pytest.mark.parametrize("calibrated", [False, True])
def test_plans_come_back_from_json(calibrated: bool) -> None:
    made = plan(policy=NETWORK, weight=None if calibrated else WEIGHT)
    if calibrated:
        made = dataclasses.replace(made, noise_multiplier=0.0).account(unit=UNIT, delta=DELTA)
    assert ReturnWeighted.from_json(plans.public_fields(made)) == made
    with pytest.raises(PlanError, match="missing or unknown"):
        ReturnWeighted.from_json(plans.public_fields(made) | {"kind": 1})


@pytest.mark.parametrize(
    "fields",
    [
        {"steps": 0},
        {"clip_norm": 0.0},
        {"kept": 0},
        {"rows": 0},
        {"rate": -1.0},
        {"average": 0.0},
        {"momentum": 1.0},
        {"share": 1.0},
        {"policy": Policy(Scaled(LOW, HIGH), Mlp((4, 1)), Gaussian((-1.0,), (1.0,), (0.0,), 0.5))},
    ],
)
def test_plans_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        plan(**fields)
