import math
from fractions import Fraction

import pytest
from dp_accounting.rdp import compute_epsilon
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PlanError
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.bounds import round_up
from tacit.privacy.accounting.filters import (
    MOST_ROOM,
    SUM,
    Charge,
    Composition,
    Total,
    admits,
    exact_decimal,
    left,
    rdp_to_epsilon,
    room,
    spent,
)

positive = st.floats(min_value=5e-324, max_value=1e6)
small = st.floats(min_value=0.0, max_value=1e-3)


def test_ten_plans_of_a_tenth_fill_a_budget_of_one_exactly() -> None:
    tenths = [Charge(0.1, 1e-7)] * 10
    assert sum(c.epsilon for c in tenths) != 1.0  # floats would be off
    assert admits(Total.of(tenths, SUM), 1.0, 1e-6)
    assert spent(Total.of(tenths, SUM), 1e-6) == (1.0, 1e-6)
    assert not admits(Total.of([*tenths, Charge(5e-324, 0.0)], SUM), 1.0, 1e-6)


def test_delta_alone_can_exceed_the_budget() -> None:
    assert not admits(Total.of([Charge(0.1, 6e-7)] * 2, SUM), 1.0, 1e-6)


@given(st.lists(st.tuples(positive, small), max_size=8), positive, small)
def test_sum_is_exact_and_never_above(costs: list[tuple[float, float]], epsilon: float, delta: float) -> None:
    charges = [Charge(e, d) for e, d in costs]
    exact_e = sum((Fraction(repr(e)) for e, _ in costs), Fraction(0))
    exact_d = sum((Fraction(repr(d)) for _, d in costs), Fraction(0))
    assert admits(Total.of(charges, SUM), epsilon, delta) == (
        exact_e <= Fraction(repr(epsilon)) and exact_d <= Fraction(repr(delta))
    )
    total = spent(Total.of(charges, SUM), delta)
    assert Fraction(repr(total[0])) >= exact_e
    assert total[0] == pytest.approx(float(exact_e), rel=1e-15, abs=5e-324)
    if admits(Total.of(charges, SUM), epsilon, delta):
        assert total[0] <= epsilon
        assert total[1] <= delta


@given(
    st.floats(min_value=0.0, max_value=50.0),
    st.floats(min_value=1.01, max_value=300.0),
    st.floats(min_value=1e-12, max_value=0.1),
)
def test_rdp_conversion_is_the_published_formula_rounded_up(rdp: float, order: float, delta: float) -> None:
    formula = rdp + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    ours = float(rdp_to_epsilon(exact_decimal(rdp), order, exact_decimal(delta)))
    assert ours == pytest.approx(max(0.0, formula), rel=1e-9, abs=1e-9)


def test_rdp_conversion_against_dp_accounting() -> None:
    theirs, _ = compute_epsilon([16.0], [0.8], 1e-6)
    assert float(rdp_to_epsilon(exact_decimal(0.8), 16.0, Fraction(1, 10**6))) == pytest.approx(theirs, rel=1e-12)


def hockey_stick(mu: float, epsilon: float) -> float:
    """The delta of a Gaussian at this distance, by floats."""
    below, above = (0.5 * math.erfc(-x / math.sqrt(2)) for x in (mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu))
    return below - math.exp(epsilon) * above


def test_rdp_conversion_bounds_the_gaussian_hockey_stick() -> None:
    # Gaussian of multiplier 2: (a, a/8)-RDP; its exact delta(epsilon) must lie below 1e-5 at the converted epsilon.
    for order in (4.0, 16.0, 64.0):
        e = float(rdp_to_epsilon(exact_decimal(order / 8), order, Fraction(1, 10**5)))
        assert hockey_stick(0.5, e) <= 1e-5


def test_rdp_filter_adds_rdp_and_ignores_the_plans_own_epsilon() -> None:
    limit = 3.0 - float(rdp_to_epsilon(Fraction(0), 16.0, Fraction(1, 10**6)))
    half = Charge(2.9, 1e-8, rdp=limit / 2 - 1e-9)
    assert admits(Total.of([half, half], Composition(1.0, 16.0)), 3.0, 1e-6)
    assert not admits(Total.of([half, half, Charge(2.9, 1e-8, rdp=1e-6)], Composition(1.0, 16.0)), 3.0, 1e-6)
    epsilon, delta = spent(Total.of([half, half], Composition(1.0, 16.0)), 1e-6)
    assert 2.999 < epsilon <= 3.0
    assert delta == 1e-6


def test_rdp_filter_needs_a_finite_rdp() -> None:
    for rdp in (None, math.inf):
        with pytest.raises(PlanError, match="no finite Rényi bound"):
            admits(Total.of([Charge(0.1, 0.0, rdp)], Composition(1.0, 2.0)), 1.0, 1e-6)


def test_infinite_plans_show_in_what_is_spent_and_stay_out_of_admission() -> None:
    charges = [Charge(math.inf, 0.0), Charge(0.5, 1e-7)]
    assert spent(Total.of(charges, SUM), 1e-6) == (math.inf, 1e-7)
    assert admits(Total.of(charges, SUM), 0.5, 1e-6)
    assert spent(Total.of([], SUM), 1e-6) == (0.0, 0.0)
    assert spent(Total.of([], Composition(1.0, 8.0)), 1e-6) == (0.0, 0.0)


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


# -- as one Gaussian beside a sum --------------------------------------------------------------------------------------


def gaussians(noise_multiplier: float, count: int) -> list[Charge]:
    """So many equal plans of one Gaussian each; their own epsilon and delta, which are not read, are huge."""
    return [Charge(50.0, 1e-4, mu=round_up(1 / noise_multiplier, 12))] * count


@pytest.mark.parametrize(("count", "noise_multiplier"), [(2, 5.28), (4, 7.47), (10, 11.80), (25, 18.66)])
def test_equal_gaussians_fill_a_budget_at_the_square_root_of_their_number(count: int, noise_multiplier: float) -> None:
    # sqrt(count) / mu for the mu of (1, 1e-5), rounded up to two decimals
    assert math.ceil(100 * math.sqrt(count) / 0.268051123) == round(100 * noise_multiplier)
    assert admits(Total.of(gaussians(noise_multiplier, count), Composition(0)), 1.0, 1e-5)
    assert not admits(Total.of(gaussians(noise_multiplier - 0.01, count), Composition(0)), 1.0, 1e-5)
    assert not admits(Total.of(gaussians(noise_multiplier, count + 1), Composition(0)), 1.0, 1e-5)
    epsilon, delta = spent(Total.of(gaussians(noise_multiplier, count), Composition(0)), 1e-5)
    assert 0.995 < epsilon <= 1.0
    assert delta == 1e-5


def test_squared_mus_add_up_exactly() -> None:
    limit = Fraction("0.268051123")
    legs = [Charge(1.0, 0.0, mu=float(limit * 3 / 5)), Charge(1.0, 0.0, mu=float(limit * 4 / 5))]
    assert [Fraction(repr(leg.mu)) for leg in legs] == [limit * 3 / 5, limit * 4 / 5]
    total = Total.of(legs, Composition(0))
    assert (total.squared, total.cost, total.delta) == (limit**2, 0, 0)
    assert admits(total, 1.0, 1e-5)
    hair = Charge(1.0, 0.0, mu=1e-300)
    assert not admits(total.with_charge(hair), 1.0, 1e-5)
    assert total.with_charge(hair).without_charge(hair) == total


def test_plans_without_a_mu_add_up_within_their_share() -> None:
    rule = Composition(0.25)
    quarter = [Charge(0.125, 1.25e-6)] * 2
    assert admits(Total.of(quarter, rule), 1.0, 1e-5)
    for more in (Charge(5e-324, 0.0), Charge(0.0, 5e-324)):
        assert not admits(Total.of([*quarter, more], rule), 1.0, 1e-5)
    assert not admits(Total.of([Charge(1e-9, 0.0)], Composition(0)), 1.0, 1e-5)
    assert spent(Total.of(quarter, rule), 1e-5) == (0.25, 2.5e-6)


def test_neither_part_takes_what_the_other_left() -> None:
    rule, own = Composition(0.25), gaussian.mu_of(Fraction(3, 4), Fraction(3, 4 * 10**5))
    whole = gaussian.mu_of(Fraction(1), Fraction(1, 10**5))
    full = Charge(0.75, 7.5e-6, mu=float(own))
    assert own < Fraction("0.2045") < whole
    for others in ([], [Charge(0.25, 2.5e-6)]):
        assert admits(Total.of([full, *others], rule), 1.0, 1e-5)
        assert not admits(Total.of([full, *others, Charge(0.1, 0.0, mu=1e-9)], rule), 1.0, 1e-5)
    assert not admits(Total.of([Charge(0.75, 7.5e-6, mu=float(whole))], rule), 1.0, 1e-5)
    for gaussian_plans in ([], [full]):
        assert not admits(Total.of([*gaussian_plans, Charge(0.2500001, 0.0)], rule), 1.0, 1e-5)
    epsilon, delta = spent(Total.of([full, Charge(0.25, 2.5e-6)], rule), 1e-5)
    assert 0.999999 < epsilon <= 1.0
    assert delta == 1e-5


@given(st.integers(min_value=0, max_value=999_999), st.floats(min_value=1e-12, max_value=1e6))
def test_a_budget_is_cut_exactly(millionths: int, value: float) -> None:
    sampled = millionths / 1e6
    gaussians_own, others = Composition(sampled).cut(value)
    assert gaussians_own + others == Fraction(repr(value))
    assert others == Fraction(repr(sampled)) * Fraction(repr(value))


def test_what_is_left_is_the_largest_plan_of_either_kind() -> None:
    rule = Composition(0.2)
    total = Total.of([Charge(0.5, 1e-6, mu=0.1), Charge(0.05, 5e-7)], rule)
    epsilon, delta = left(total, 1.0, 1e-5, gaussian=True)
    assert delta == 8e-6
    rest = math.sqrt(float(gaussian.mu_of(Fraction(4, 5), Fraction(8, 10**6))) ** 2 - 0.01)
    assert hockey_stick(rest, epsilon) == pytest.approx(8e-6, rel=1e-6)
    assert admits(total.with_charge(Charge(1.0, 0.0, mu=rest * (1 - 1e-12))), 1.0, 1e-5)
    assert not admits(total.with_charge(Charge(1.0, 0.0, mu=rest * (1 + 1e-12))), 1.0, 1e-5)
    assert left(total, 1.0, 1e-5, gaussian=False) == (0.15, 1.5e-6)
    full = Total.of([Charge(0.5, 1e-6, mu=0.9), Charge(0.4, 5e-6)], rule)
    assert left(full, 1.0, 1e-5, gaussian=True) == (0.0, 8e-6)
    assert left(full, 1.0, 1e-5, gaussian=False) == (0.0, 0.0)
    sums = Total.of([Charge(0.25, 5e-6)], SUM)
    assert left(sums, 1.0, 1e-5, gaussian=True) == left(sums, 1.0, 1e-5, gaussian=False) == (0.75, 5e-6)


def test_the_room_is_how_many_more_fit() -> None:
    one = gaussians(11.80, 1)[0]
    for done in (0, 1, 9, 10, 12):
        assert room(Total.of([one] * done, Composition(0)), one, 1.0, 1e-5) == max(0, 10 - done)
    assert room(Total(Composition(0.5)), Charge(0.1, 0.0), 1.0, 1e-5) == 5
    assert room(Total(Composition(0)), Charge(0.1, 0.0), 1.0, 1e-5) == 0
    assert room(Total.of([Charge(0.05, 1e-7)] * 3, SUM), Charge(0.05, 1e-7), 1.0, 1e-5) == 17
    assert room(Total(Composition(0)), Charge(0.1, 0.0, mu=1e-9), 1.0, 1e-5) == MOST_ROOM


@pytest.mark.parametrize("mu", [-1e-9, math.inf, math.nan])
def test_bad_mus_are_refused(mu: float) -> None:
    with pytest.raises(PlanError, match="mu is negative"):
        Charge(1.0, 0.0, mu=mu)
