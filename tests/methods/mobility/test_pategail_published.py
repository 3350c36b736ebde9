"""The papers' mode: what its noise is read as beside what it costs, scales by sensitivity, and noise by devices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tacit.errors import PlanError
from tacit.methods.mobility.pategail import PateGailPlan
from tacit.methods.mobility.pategail.asking import laplace_weights, log_rewards, pad_rows
from tacit.methods.mobility.pategail.plan import CRITICS, MOST_WEIGHT
from tacit.methods.mobility.pategail.rewards import LEAST, LocalCritics, laplace_noise, sensitivity_weights
from tacit.privacy.sentences import clauses, say
from tacit.units import Unit

UNIT = Unit("person", "replace_one", 83)


def priced(**fields: Any) -> float:
    epsilon = PateGailPlan.paper(83, **{"starts": "given"} | fields).account(unit=UNIT, delta=1e-5).epsilon
    assert epsilon is not None
    return epsilon


def test_no_reading_is_the_honest_epsilon() -> None:
    """Neither 1 / b, one reward as if one person could move the mean by 1, nor basic composition of T 2 B / (N b)."""
    one_query, all_of_them = 1 / 0.1, 50 * 2 * 141 / (83 * 0.1)
    assert all_of_them == pytest.approx(1_698.8, abs=0.1)
    for variant in ("PATEGAIL", "PateGAIL++"):
        assert one_query < priced(variant=variant, scale=0.1) < all_of_them


@pytest.mark.parametrize(
    ("variant", "scale", "expected"),
    [("PATEGAIL", 0.1, 157.19), ("PATEGAIL", 1.0, 6.65), ("PateGAIL++", 0.1, 270.75), ("PateGAIL++", 1.0, 10.09)],
)
def test_scales_by_sensitivity_are_priced_at_their_worst(variant: Any, scale: float, expected: float) -> None:
    """14,100 even numbers of epsilon 1 / (N b), or 7,050 of twice that: what any split may come to."""
    assert priced(variant=variant, scale=scale) == pytest.approx(expected, rel=1e-3)
    (part,) = PateGailPlan.paper(83, variant=variant, scale=scale, starts="given").parts()
    assert part.event.count == 50 * 2 * 141 // (1 if variant == "PATEGAIL" else MOST_WEIGHT)


def test_noise_that_devices_draw_by_their_critics_has_no_epsilon() -> None:
    for sensitivity in (True, False):
        plan = PateGailPlan.paper(83, scale=1.0, local=True, sensitivity=sensitivity, starts="given")
        plan = plan.account(unit=UNIT, delta=1e-5)
        assert plan.epsilon == math.inf
        label = plan.label()
        assert any("draws the noise" in say(line, "person") for line in clauses(label.not_covered))
        assert [say(line, "person").split(":")[0] for line in clauses(label.covered)] == ["nothing"]
        assert plan.noise_std(CRITICS) == pytest.approx(math.sqrt(2 * 83))
        work = plan.work()
        assert isinstance(work, LocalCritics)
        assert work.own_noise == ("sensitive" if sensitivity else "even")
    assert priced(scale=0.0) == math.inf


def test_a_variant_or_allocation_that_is_none_is_refused() -> None:
    with pytest.raises(PlanError, match="variant"):
        PateGailPlan.paper(83, variant="PateGAIL+")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="laplace"):
        PateGailPlan(people=83, kind="samples", laplace=0.1, allocation="utility")
    with pytest.raises(PlanError, match="laplace"):
        PateGailPlan(people=83, kind="samples", laplace=0.1, noise="shared")


@settings(max_examples=100, deadline=None)
@given(
    pilot=arrays.arrays(np.float64, 141, elements=st.floats(-3.0, 3.0)),
    rewards=arrays.arrays(np.float64, 141, elements=st.floats(-0.5, 0.5)),
)
def test_weighted_rewards_stay_within_what_is_paid_for(pilot: Any, rewards: Any) -> None:
    """No number is bounded by the vault: each is at most 1, all together at most 70.5, whatever the pilot says."""
    weights = laplace_weights(pilot)
    assert (weights > 0).all()
    assert weights.max() <= MOST_WEIGHT
    assert np.abs(weights * rewards).sum() <= 141 / 2 + 1e-9


def test_what_looked_real_gets_more_noise() -> None:
    """Weights 1.05, 0.55 and 0.05 over their mean of 0.55: scales of b / 1.909, b and 11 b."""
    np.testing.assert_allclose(laplace_weights(np.array([-0.5, 0.0, 0.5])), [1.05 / 0.55, 1.0, 0.05 / 0.55])
    np.testing.assert_allclose(sensitivity_weights(np.array([-0.7, 0.0, 0.7])), [1.05, 0.55, LEAST])


def test_a_discriminator_s_reward_is_minus_its_logarithm() -> None:
    """-log(1 - R) for R = 0, 1/2 and everything from 0.95 on, between -1/2 and 1/2."""
    found = log_rewards(np.array([-0.5, 0.0, 0.45, 2.0]))
    np.testing.assert_allclose(found, [-0.5, math.log(2) / math.log(20) - 0.5, 0.5, 0.5])


def test_noise_from_seeds_is_laplace_s() -> None:
    drawn = laplace_noise(np.arange(200, dtype=np.uint64), 500)
    assert np.abs(drawn).mean() == pytest.approx(1.0, rel=0.02)
    assert (drawn**2).mean() == pytest.approx(2.0, rel=0.04)
    assert drawn.mean() == pytest.approx(0.0, abs=0.02)
    assert np.array_equal(drawn[3], laplace_noise(np.array([3], np.uint64), 500)[0])


def test_few_lengths_occur() -> None:
    lengths = {len(pad_rows(np.ones((count, 2)))) for count in range(1, 4_000)}
    assert len(lengths) <= 14
    found = pad_rows(np.ones(300, np.int64))
    assert found.dtype == np.int64
    assert (found.sum(), len(found)) == (300, 512)
