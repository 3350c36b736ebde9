"""What the paper's noise is read as, beside what it costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import PlanError
from tacit.methods.mobility.pategail import Plan, published
from tacit.units import Unit


def test_no_reading_is_the_honest_epsilon() -> None:
    unit = Unit("person", "replace_one", 83)
    plan = Plan.paper(83, scale=0.1, starts="given").price(unit=unit, delta=1e-5)
    assert plan.epsilon is not None
    assert published.one_query(0.1) == pytest.approx(10.0)
    assert published.one_mean(0.1, 83) == pytest.approx(10 / 83)
    assert published.pure(0.1, 83, plan.rounds * plan.queries) == pytest.approx(849.4, abs=0.1)
    assert published.one_query(0.1) < plan.epsilon < published.pure(0.1, 83, plan.rounds * plan.queries)


@settings(max_examples=60, deadline=None)
@given(rewards=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20), epsilon=st.floats(0.1, 10.0))
def test_a_split_budget_never_has_less_noise_on_average(rewards: list[float], epsilon: float) -> None:
    found = np.array(published.scales(epsilon, rewards, sensitivity=1 / 83))
    uniform = len(rewards) / (83 * epsilon)
    assert found.mean() >= uniform * (1 - 1e-9)
    assert (1 / (83 * found)).sum() == pytest.approx(epsilon)  # the whole budget is spent, and no more


def test_what_looks_real_gets_more_noise() -> None:
    low, high = published.scales(1.0, [0.1, 0.9], sensitivity=1.0)
    assert high / low == pytest.approx(0.95 / 0.15)


@pytest.mark.parametrize("bad", [[], [1.2], [-0.1], [[0.5]]])
def test_rewards_outside_their_range_are_refused(bad: list[float]) -> None:
    with pytest.raises(PlanError):
        published.scales(1.0, bad, sensitivity=1.0)
