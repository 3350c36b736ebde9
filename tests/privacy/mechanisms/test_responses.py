"""Randomised responses: the law of what is released, what it costs, and what certificates say of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit import Unit
from tacit.errors import PlanError
from tacit.privacy.accounting import bounds
from tacit.privacy.accounting.events import ComposedEvent, GaussianEvent, PoissonSampledEvent
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.kinds import part_from_json
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.noise.secret import SecretNoise
from tacit.units import Relation

UNIT = Unit("person", "replace_one", population=1_000)


def part(**fields: Any) -> RandomizedResponses:
    few: dict[str, Any] = {"name": "policy", "steps": 3, "users": 4, "answers": 5, "noise_multiplier": 0.625}
    return RandomizedResponses(**few | fields)


@pytest.mark.parametrize("m", [0.2, 0.625, 4.0])
def test_each_answer_is_turned_round_with_the_stated_chance(m: float) -> None:
    asked, count = part(noise_multiplier=m), 40_000
    given_ = np.repeat([[1.0], [-1.0], [0.0], [math.nan], [math.inf], [-math.inf]], count, axis=1)
    released = asked.randomize(given_, SecretNoise.for_tests(3))
    assert released.dtype == np.int8
    assert asked.flip_probability == pytest.approx(1 / (1 + math.exp(1 / m)))
    for row, chance in zip(released, (1 - asked.flip_probability, asked.flip_probability, *[0.5] * 4), strict=True):
        ups = int((row == 1).sum())
        assert ups + int((row == -1).sum()) == count
        assert stats.binomtest(ups, count, chance).pvalue > 1e-6


class Given(SecretNoise):
    """Words that are given."""

    def __init__(self, words: list[int]) -> None:
        super().__init__()
        self.given = words

    def integers(self, high: np.ndarray) -> np.ndarray:
        assert (high == 1 << 62).all()
        return np.array(self.given).reshape(high.shape)


def test_the_bound_is_never_below_the_chance() -> None:
    q = part().flip_probability
    below, above = math.floor(math.ldexp(q, 62)), math.ceil(math.ldexp(q, 62) * (1 + 2.0**-39)) + 1
    released = part().randomize(np.ones(4), Given([0, below, above, (1 << 62) - 1]))
    assert released.tolist() == [-1, -1, 1, 1]
    coins = part().randomize(np.zeros(2), Given([(1 << 61) - 1, 1 << 61]))
    assert coins.tolist() == [-1, 1]


@given(st.floats(1 / 500, 1e5))
def test_no_two_answers_are_further_apart_than_the_price_of_one(m: float) -> None:
    q = part(noise_multiplier=m).flip_probability
    ratios = [one / other for one in (1 - q, 0.5, q) for other in (1 - q, 0.5, q)]
    assert math.log(max(ratios)) <= 1 / m * (1 + 1e-9)


LEFT_OUT = [(0.625, 5, 5.45345), (2.0, 3, 0.84271), (1.0, 1, 0.62009), (10.0, 200, 2.92814)]


@pytest.mark.parametrize(("m", "answers", "golden"), LEFT_OUT)
def test_who_is_left_out_costs_the_dearer_direction_against_coins(m: float, answers: int, golden: float) -> None:
    delta, q = 1e-5, part(noise_multiplier=m).flip_probability
    event = part(noise_multiplier=m, answers=answers).event
    bound = bounds.epsilon(event, delta=delta, relation="add_or_remove")
    assert (bound.epsilon, bound.check_epsilon) == pytest.approx((golden, golden), abs=2e-5)
    kept = np.arange(answers + 1)
    answered, coins = stats.binom.pmf(kept, answers, 1 - q), stats.binom.pmf(kept, answers, 0.5)

    def dearer(epsilon: float) -> float:
        return max(
            np.maximum(0, one - math.exp(epsilon) * other).sum()
            for one, other in ((answered, coins), (coins, answered))
        )

    assert dearer(bound.epsilon) <= delta < dearer(bound.epsilon - 1e-6)
    assert bounds.delta(event, epsilon=golden, relation="add_or_remove") == pytest.approx(dearer(golden), rel=1e-9)


@pytest.mark.parametrize("m", [0.2, 1.0, 5.0])
def test_against_a_coin_it_is_gaussian_privacy_of_half_the_mu(m: float) -> None:
    """Both trade-off curves have one corner, at (q, 1/2) and at (1/2, q): the Gaussian's passes through both."""
    event, q = part(noise_multiplier=m, answers=1).event, part(noise_multiplier=m).flip_probability
    mu = bounds.mu_gdp(event, "add_or_remove")
    assert 2 * mu == pytest.approx(bounds.mu_gdp(event, "replace_one"), rel=1e-9)
    assert stats.norm.cdf(stats.norm.ppf(1 - q) - mu) == pytest.approx(0.5, rel=1e-9)
    assert stats.norm.cdf(-mu) == pytest.approx(q, rel=1e-9)


@pytest.mark.parametrize("order", [1.1, 2.0, 30.0])
def test_its_divergence_is_the_larger_one_of_both_directions(order: float) -> None:
    answered, coins = np.array([0.832018, 0.167982]), np.array([0.5, 0.5])
    both = [math.log((p**order * q ** (1 - order)).sum()) for p, q in ((answered, coins), (coins, answered))]
    found = bounds.renyi(part(answers=3).event, order=order, relation="add_or_remove")
    assert found == pytest.approx(3 * max(both) / (order - 1), rel=1e-4)


@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_beside_other_steps_each_direction_is_composed_by_itself(rate: float) -> None:
    """Three answers and a sampled Gaussian: both losses on one fine grid, in each direction."""
    event, q = part(answers=3, noise_multiplier=1.0).event, part(noise_multiplier=1.0).flip_probability
    other = PoissonSampledEvent(rate, GaussianEvent(1.3))
    x = np.linspace(-15, 16, 400_001)
    absent = stats.norm.pdf(x, 0, 1.3) * (x[1] - x[0])
    present = (1 - rate) * absent + rate * stats.norm.pdf(x, 1, 1.3) * (x[1] - x[0])
    kept = np.arange(4)
    answered, coins = stats.binom.pmf(kept, 3, 1 - q), stats.binom.pmf(kept, 3, 0.5)
    for epsilon in (0.5, 2.0):
        exact = max(
            sum(np.maximum(0, p * one - math.exp(epsilon) * r * two).sum() for p, r in zip(*votes, strict=True))
            for *votes, one, two in ((answered, coins, present, absent), (coins, answered, absent, present))
        )
        found = bounds.delta(ComposedEvent([event, other]), epsilon=epsilon, relation="add_or_remove")
        assert exact * (1 - 1e-6) <= found <= exact * 1.003


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_older_certificates_state_more(relation: Relation) -> None:
    now, before = (
        bounds.epsilon(one, delta=1e-5, relation=relation).epsilon for one in (part().event, part().former_event)
    )
    assert before == pytest.approx(8.0, abs=2e-4)
    assert now < 5.46 if relation == "add_or_remove" else now == before


@pytest.mark.parametrize(("m", "answers"), [(0.625, 5), (2.0, 3), (1.0, 1)])
def test_the_price_is_that_of_all_answers_of_a_person(m: float, answers: int) -> None:
    delta, q = 1e-5, part(noise_multiplier=m).flip_probability
    found = bounds.epsilon(part(noise_multiplier=m, answers=answers).event, delta=delta, relation="replace_one").epsilon
    kept = np.arange(answers + 1)
    loss = (2 * kept - answers) / m
    mass = stats.binom.pmf(kept, answers, 1 - q)

    def left(epsilon: float) -> float:
        return float((mass * np.maximum(0, 1 - np.exp(epsilon - loss))).sum())

    assert left(found) <= delta
    assert left(found - 2e-3) > delta
    assert found <= answers / m + 1e-3


def test_several_meetings_cost_several_times() -> None:
    twice, once = part(participations=2, answers=3), part(answers=6)
    assert bounds.epsilon(twice.event, delta=1e-5, relation="add_or_remove") == bounds.epsilon(
        once.event, delta=1e-5, relation="add_or_remove"
    )


def test_certificates_state_and_rebuild_it() -> None:
    stated = certificate_parts([part()])[0]
    assert part_from_json(stated) == part()
    assert "turned round with probability 0.167982" in part().describe(UNIT)
    assert "fair coin" in part().describe(UNIT)
    assert part_from_json(stated | {"participations": 2}) == part(participations=2)
    assert not np.isfinite(bounds.epsilon(part(noise_multiplier=0.0).event, delta=1e-5, relation="replace_one").epsilon)
    assert part(noise_multiplier=0.0).randomize(np.array([1.0, -1.0]), SecretNoise()).tolist() == [1, -1]


@pytest.mark.parametrize(
    "wrong",
    [{"answers": 0}, {"users": 1.5}, {"noise_multiplier": 1e-3}, {"noise_multiplier": 1e7}, {"noise_multiplier": True}],
)
def test_values_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=next(iter(wrong))):
        part(**wrong)
