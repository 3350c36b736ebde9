"""What the paper's noise is read as, beside what it costs."""

from __future__ import annotations

import pytest

from tacit.methods.mobility.pategail import PateGailPlan
from tacit.units import Unit


def test_no_reading_is_the_honest_epsilon() -> None:
    """Neither 1 / b, one reward as if one person could move the mean by 1, nor basic composition of T B / (N b)."""
    unit = Unit("person", "replace_one", 83)
    plan = PateGailPlan.paper(83, scale=0.1, starts="given").account(unit=unit, delta=1e-5)
    assert plan.epsilon is not None
    one_query, all_of_them = 1 / 0.1, plan.rounds * plan.queries / (83 * 0.1)
    assert all_of_them == pytest.approx(849.4, abs=0.1)
    assert one_query < plan.epsilon < all_of_them
