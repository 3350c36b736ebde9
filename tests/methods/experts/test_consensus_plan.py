"""The plan of consensus and DP-SGD: thresholds and noise before any record is read, and a public schedule."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pole_experts import DELTA, FEATURES, POLICY, UNIT

from tacit.agents.learners import BC, CQL
from tacit.errors import PlanError
from tacit.methods.experts.clones import LinearClone
from tacit.methods.experts.consensus import Consensus
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import ComposedEvent, GaussianEvent, PoissonSampledEvent, flatten
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.mechanisms.thresholds import KappaStop, PMin
from tacit.privacy.vault import plan as plans

CLONE = LinearClone(features=FEATURES, actions=2, floor=0.05)


def plan(**fields: Any) -> Consensus:
    plain: dict[str, Any] = {"policy": POLICY, "experts": 200, "trajectories": 4, "floor": PMin(0.05), "horizon": 40}
    return Consensus(**plain | {"steps": 100, "expected_batch_size": 50, "stable_fraction": 0.5} | fields)


def cost(*parts: AboveThreshold | PoissonSum) -> float:
    event = ComposedEvent([part.event for part in parts])
    return accounting.epsilon(event, delta=DELTA, relation="add_or_remove").epsilon


def test_the_prefixes_cost_their_share_and_both_stages_the_whole() -> None:
    ready = plan(share=0.4, stable_fraction=0.7).calibrate(unit=UNIT, epsilon=8.0, delta=DELTA)
    prefixes, training = ready.parts()
    assert isinstance(prefixes, AboveThreshold)
    assert isinstance(training, PoissonSum)
    assert 0.999 * 3.2 < cost(prefixes) <= 3.2
    assert 0.999 * 8.0 < cost(prefixes, training) <= 8.0
    # as one composition, the two cost less than the sum of both: noise that keeps 4.8 alone would be more than this
    assert cost(training) > 4.8
    assert training.held_out == prefixes.held_out > 0
    assert plans.certified_bound(ready).epsilon <= 8.0


def test_every_noisy_step_pays_for_its_own_sample() -> None:
    """K steps at the rate B / population: that a step was noisy is public, so its coin amplifies nothing."""
    ready = plan(stable_fraction=0.9, steps=1_000).calibrate(unit=UNIT, epsilon=8.0, delta=DELTA)
    _, training = ready.parts()
    sigma = ready.noise_multiplier
    assert sigma is not None
    assert flatten(training.event) == ((PoissonSampledEvent(0.25, GaussianEvent(sigma)), 100),)


def test_without_noisy_steps_the_prefixes_take_all() -> None:
    ready = plan(stable_fraction=1.0).calibrate(unit=UNIT, epsilon=3.0, delta=DELTA)
    (prefixes,) = ready.parts()
    assert isinstance(prefixes, AboveThreshold)
    assert 0.999 * 3.0 < cost(prefixes) <= 3.0
    assert ready.noise_multiplier is None
    assert plans.certified_bound(ready).epsilon <= 3.0


@pytest.mark.parametrize("fields", [{"trajectories": 0}, {"stable_fraction": 0.0}])
def test_dp_sgd_alone_asks_for_no_consensus(fields: dict[str, Any]) -> None:
    ready = plan(**fields, experts=None).calibrate(unit=UNIT, epsilon=3.0, delta=DELTA)
    (training,) = ready.parts()
    assert isinstance(training, PoissonSum)
    assert (training.steps, training.sampling_rate, training.held_out) == (100, 0.25, 0)


def test_printing_tells_threshold_reserve_and_expected_steps_before_any_record_is_read() -> None:
    ready = plan().calibrate(unit=UNIT, epsilon=8.0, delta=DELTA)
    prefixes = ready.parts()[0]
    assert isinstance(prefixes, AboveThreshold)
    words = str(ready)
    assert f"one of the {prefixes.held_out} trajectories that are kept of each for this alone" in words
    assert f"fewer than {prefixes.thresholds.threshold:.6g} of at least" in words
    assert "steps on average" in words
    assert "50 noisy sum(s)" in words
    assert "nothing is promised" in str(plan())


def test_clones_need_no_reserve() -> None:
    ready = plan(clone=CLONE, rows=80).calibrate(unit=UNIT, epsilon=8.0, delta=DELTA)
    prefixes, training = ready.parts()
    assert isinstance(prefixes, AboveThreshold)
    assert (prefixes.source, prefixes.rows_per_unit, prefixes.held_out) == ("clones", 80, 0)
    assert isinstance(training, PoissonSum)
    assert training.held_out == 0


def test_an_unreachable_threshold_says_what_to_turn() -> None:
    with pytest.raises(PlanError, match=r"unreachable threshold.*200 promised.*more epsilon"):
        plan(trajectories=50).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 1 / 3, 0.5, 0.9, 1.0])
def test_noisy_steps_are_spread_evenly(fraction: float) -> None:
    one = plan(stable_fraction=fraction, steps=97)
    noisy = np.cumsum([one.is_noisy_step(step) for step in range(97)])
    assert noisy[-1] == one.private_steps == round((1 - fraction) * 97)
    assert (np.abs(noisy - np.arange(1, 98) * one.private_steps / 97) < 1).all()


def test_a_price_is_honest_about_given_noise() -> None:
    ready = plan().calibrate(unit=UNIT, epsilon=8.0, delta=DELTA)
    assert ready.account(unit=UNIT, delta=DELTA).epsilon == pytest.approx(8.0, rel=1e-3)
    with pytest.raises(PlanError, match="not calibrated"):
        plan().account(unit=UNIT, delta=DELTA)


@pytest.mark.parametrize(
    "one",
    [
        plan(learner=CQL(alpha=0.1, reward_scale=0.01)),
        plan(learner=BC(), floor=KappaStop(0.1), clone=CLONE),
        plan(trajectories=0, experts=None),
    ],
)
def test_plans_survive_json(one: Consensus) -> None:
    assert Consensus.from_json(plans.public_fields(one)) == one
    ready = one.calibrate(unit=UNIT, epsilon=8.0, delta=DELTA)
    assert Consensus.from_json(plans.public_fields(ready)) == ready


def test_floors_make_different_plans() -> None:
    ready = (plan(floor=one(0.02)).calibrate(unit=UNIT, epsilon=8.0, delta=DELTA) for one in (PMin, KappaStop))
    assert len(set(map(plans.plan_id, ready))) == 2


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"experts": None}, "experts"),
        ({"stable_fraction": 1.5}, "stable_fraction"),
        ({"stable_fraction": 1.0, "trajectories": 0}, "stable_fraction"),
        ({"share": 1.0}, "share"),
        ({"steps": 0}, "steps"),
        ({"trajectories": -1}, "trajectories"),
        ({"rate": 0.0}, "rate"),
        ({"clip_norm": float("nan")}, "clip_norm"),
        ({"average": 2.0}, "average"),
        ({"floor": 0.05}, "floor"),
        ({"clone": replace(CLONE, floor=0.04)}, "clone.floor"),
        ({"clone": replace(CLONE, actions=3)}, "clone.actions"),
    ],
)
def test_values_out_of_range_are_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanError, match=f"plan: {named} is"):
        plan(**fields)


def test_what_does_not_fit_the_population_is_refused() -> None:
    for fields, named in (({"expected_batch_size": 201}, "expected_batch_size"), ({"experts": 201}, "experts")):
        with pytest.raises(PlanError, match=f"{named} is 201"):
            plan(**fields).calibrate(unit=UNIT, epsilon=8.0, delta=DELTA)
    with pytest.raises(PlanError, match="delta"):
        plan().calibrate(unit=UNIT, epsilon=8.0, delta=0.1)
    with pytest.raises(PlanError, match="missing or unknown"):
        Consensus.from_json({"policy": None})


def test_the_plan_loads_no_torch() -> None:
    code = "import sys; import tacit.methods.experts.consensus; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
