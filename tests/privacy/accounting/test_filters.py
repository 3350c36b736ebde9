import math
from fractions import Fraction

import pytest
from dp_accounting.rdp import compute_epsilon
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PlanError
from tacit.privacy.accounting.filters import Charge, RdpOrder, Total, admits, exact_decimal, rdp_to_epsilon, spent

positive = st.floats(min_value=5e-324, max_value=1e6)
small = st.floats(min_value=0.0, max_value=1e-3)


def test_ten_plans_of_a_tenth_fill_a_budget_of_one_exactly() -> None:
    tenths = [Charge(0.1, 1e-7)] * 10
    assert sum(c.epsilon for c in tenths) != 1.0  # floats would be off
    assert admits(Total.of(tenths, "sum"), 1.0, 1e-6)
    assert spent(Total.of(tenths, "sum"), 1e-6) == (1.0, 1e-6)
    assert not admits(Total.of([*tenths, Charge(5e-324, 0.0)], "sum"), 1.0, 1e-6)


def test_delta_alone_can_exceed_the_budget() -> None:
    assert not admits(Total.of([Charge(0.1, 6e-7)] * 2, "sum"), 1.0, 1e-6)


@given(st.lists(st.tuples(positive, small), max_size=8), positive, small)
def test_sum_is_exact_and_never_above(costs: list[tuple[float, float]], epsilon: float, delta: float) -> None:
    charges = [Charge(e, d) for e, d in costs]
    exact_e = sum((Fraction(repr(e)) for e, _ in costs), Fraction(0))
    exact_d = sum((Fraction(repr(d)) for _, d in costs), Fraction(0))
    assert admits(Total.of(charges, "sum"), epsilon, delta) == (
        exact_e <= Fraction(repr(epsilon)) and exact_d <= Fraction(repr(delta))
    )
    total = spent(Total.of(charges, "sum"), delta)
    assert Fraction(repr(total[0])) >= exact_e
    assert total[0] == pytest.approx(float(exact_e), rel=1e-15, abs=5e-324)
    if admits(Total.of(charges, "sum"), epsilon, delta):
        assert total[0] <= epsilon
        assert total[1] <= delta


@given(
    st.floats(min_value=0.0, max_value=50.0),
    st.floats(min_value=1.01, max_value=300.0),
    st.floats(min_value=1e-12, max_value=0.1),
)
def test_rdp_conversion_is_the_published_formula_rounded_up(rdp: float, order: float, delta: float) -> None:
    formula = rdp + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    ours = float(rdp_to_epsilon(exact_decimal(rdp), order, delta))
    assert ours == pytest.approx(max(0.0, formula), rel=1e-9, abs=1e-9)


def test_rdp_conversion_against_dp_accounting() -> None:
    theirs, _ = compute_epsilon([16.0], [0.8], 1e-6)
    assert float(rdp_to_epsilon(exact_decimal(0.8), 16.0, 1e-6)) == pytest.approx(theirs, rel=1e-12)


def test_rdp_conversion_bounds_the_gaussian_hockey_stick() -> None:
    # Gaussian of multiplier 2: (a, a/8)-RDP; its exact delta(epsilon) must lie below 1e-5 at the converted epsilon.
    for order in (4.0, 16.0, 64.0):
        e = float(rdp_to_epsilon(exact_decimal(order / 8), order, 1e-5))
        mu = 0.5
        phi = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))  # noqa: E731
        assert phi(mu / 2 - e / mu) - math.exp(e) * phi(-mu / 2 - e / mu) <= 1e-5


def test_rdp_filter_adds_rdp_and_ignores_the_plans_own_epsilon() -> None:
    limit = 3.0 - float(rdp_to_epsilon(Fraction(0), 16.0, 1e-6))
    half = Charge(2.9, 1e-8, rdp=limit / 2 - 1e-9)
    assert admits(Total.of([half, half], RdpOrder(16.0)), 3.0, 1e-6)
    assert not admits(Total.of([half, half, Charge(2.9, 1e-8, rdp=1e-6)], RdpOrder(16.0)), 3.0, 1e-6)
    epsilon, delta = spent(Total.of([half, half], RdpOrder(16.0)), 1e-6)
    assert 2.999 < epsilon <= 3.0
    assert delta == 1e-6


def test_rdp_filter_needs_a_finite_rdp() -> None:
    for rdp in (None, math.inf):
        with pytest.raises(PlanError, match="no finite Rényi bound"):
            admits(Total.of([Charge(0.1, 0.0, rdp)], RdpOrder(2.0)), 1.0, 1e-6)


def test_infinite_plans_show_in_what_is_spent_and_stay_out_of_admission() -> None:
    charges = [Charge(math.inf, 0.0), Charge(0.5, 1e-7)]
    assert spent(Total.of(charges, "sum"), 1e-6) == (math.inf, 1e-7)
    assert admits(Total.of(charges, "sum"), 0.5, 1e-6)
    assert spent(Total.of([], "sum"), 1e-6) == (0.0, 0.0)
    assert spent(Total.of([], RdpOrder(8.0)), 1e-6) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rdp"),
    [
        (-1e-300, 0.0, None),
        (-1.0, 0.0, None),
        (math.nan, 0.0, None),
        (1.0, -1e-09, None),
        (1.0, 1.0, None),
        (1.0, math.nan, None),
        (1.0, 0.0, -1.0),
        (1.0, 0.0, math.nan),
    ],
)
def test_bad_charges_are_refused(epsilon: float, delta: float, rdp: float | None) -> None:
    with pytest.raises(PlanError):
        Charge(epsilon, delta, rdp)


@pytest.mark.parametrize("order", [1.0, 0.5, math.inf, math.nan])
def test_bad_orders_are_refused(order: float) -> None:
    with pytest.raises(PlanError):
        RdpOrder(order)
