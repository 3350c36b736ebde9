"""Why what is left of a drawn trajectory must not go back into the pool: the two stages then do not compose.

The world of this counterexample: 3,000 experts with one and the same policy and one trajectory each; 25 distinct ones
are drawn, and the prefix that comes out is the same for all. The second stage is epsilon_2-private: the sum of
a score of each expert's rows in the pool, in [-1, 1], plus Laplace noise. An expert's rows score 1 when they are whole
and -1 when they have lost their beginning (those of the expert who leaves score 1 in any case). If that expert was
drawn, then without it another one is: two rows' scores change besides its own, and the sum moves by 3 where the second
stage's noise is made for 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pytest

EXPERTS, DRAWN = 3_000, 25
FIRST = SECOND = 5.0
DELTA = 1 / EXPERTS

Shifts = Mapping[float, float]
"""Where the noiseless sum lies, relative to the sum without the expert -> probability."""


def delta_of(shifts: Shifts, epsilon: float) -> float:
    """Of a mixture of Laplace distributions of scale 1 / SECOND at the shifts, against the one at 0; larger side."""
    ends = 40 / SECOND + max(abs(shift) for shift in shifts)
    knots = np.unique([-ends, ends, 0.0, *shifts])
    x = np.concatenate([np.linspace(a, b, 400_001)[:-1] for a, b in itertools.pairwise(knots)])
    with_expert = sum(p * np.exp(-SECOND * np.abs(x - shift)) for shift, p in shifts.items()) * SECOND / 2
    without = np.exp(-SECOND * np.abs(x)) * SECOND / 2
    width = np.diff(np.append(x, ends))
    return max(
        float((np.maximum(one - math.exp(epsilon) * other, 0) * width).sum())
        for one, other in ((with_expert, without), (without, with_expert))
    )


def sum_with(experts: int, drawn: int, *, tails_kept: bool) -> Shifts:
    """Law of the sum with the expert, less the sum without it (which is no random number: all score alike)."""
    drawn_chance = drawn / experts
    if not tails_kept:
        return {1.0: 1.0}
    others_whole, others_cut = experts - 1 - drawn, drawn
    without = others_whole - others_cut
    kept = 1 + others_whole - others_cut - without
    cut = 1 + (others_whole + 1) - (others_cut - 1) - without
    return {float(kept): 1 - drawn_chance, float(cut): drawn_chance}


def test_tails_in_the_pool_break_the_sum_of_the_epsilons() -> None:
    shifts = sum_with(EXPERTS, DRAWN, tails_kept=True)
    assert shifts == {1.0: pytest.approx(1 - 25 / 3000), 3.0: pytest.approx(25 / 3000)}
    assert delta_of(shifts, SECOND) == pytest.approx(0.0082, abs=2e-4)
    assert delta_of(shifts, FIRST + SECOND) == pytest.approx(8.6e-4, abs=0.3e-4)
    assert delta_of(shifts, FIRST + SECOND) > 2.5 * DELTA


def test_a_pool_that_no_draw_touches_keeps_the_claim() -> None:
    shifts = sum_with(EXPERTS, DRAWN, tails_kept=False)
    assert delta_of(shifts, SECOND) < 1e-12
    assert delta_of(shifts, SECOND - 1) > 0.1  # the sum of scores does use up its epsilon


def test_more_draws_make_it_worse() -> None:
    assert delta_of(sum_with(EXPERTS, 100, tails_kept=True), FIRST + SECOND) == pytest.approx(0.018, abs=2e-3)
