"""What a budget is in mu and what mus cost in epsilon: against 80 digits of another library, and against SciPy."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from tacit.privacy.accounting import gaussian

BUDGETS = [  # epsilon, delta, and the largest mu of nine digits
    ("1", "1e-5", "0.268051123"),
    ("0.01", "0.1", "0.262505512"),
    ("0.001", "1e-9", "0.000242563622"),
    ("0.000001", "1e-12", "0.00000024256976"),
    ("0.3333333333333333", "1e-5", "0.0980211702"),
    ("1", "0.9", "3.72894368"),
    ("20", "1e-6", "3.2353593"),
    ("300", "1e-12", "18.4837047"),
]


def exact_delta(mu: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """The delta of a Gaussian, by mpmath with so many digits that some 40 are left after the subtraction."""
    far = float(epsilon / mu + mu / 2)
    with mpmath.workdps(60 + math.ceil(far * far / 4.6)):
        m, e = (mpmath.mpf(one.numerator) / one.denominator for one in (mu, epsilon))
        root = mpmath.sqrt(2)
        return (mpmath.erfc((e / m - m / 2) / root) - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / root)) / 2


def mp(value: str) -> mpmath.mpf:
    exact = Fraction(value)
    return mpmath.mpf(exact.numerator) / exact.denominator


def digit_after(value: Fraction) -> Fraction:
    """One unit of the ninth digit."""
    exact = decimal.Context(prec=60).divide(Decimal(value.numerator), Decimal(value.denominator))
    return Fraction(10) ** (exact.adjusted() - 8)


@pytest.mark.parametrize(("epsilon", "delta", "mu"), BUDGETS)
def test_the_mu_of_a_budget_is_the_largest_of_nine_digits(epsilon: str, delta: str, mu: str) -> None:
    found = gaussian.mu_of(Fraction(epsilon), Fraction(delta))
    assert found == Fraction(mu)
    assert exact_delta(found, Fraction(epsilon)) <= mp(delta)
    assert exact_delta(found + digit_after(found), Fraction(epsilon)) > mp(delta)


@pytest.mark.parametrize(
    ("squared", "delta", "epsilon"),
    [
        ("0.0625", "1e-5", "0.926341504"),
        ("1", "1e-5", "4.3771781"),
        ("1e-4", "1e-9", None),
        ("1e-10", "1e-12", None),
        ("0.0333333333333333", "1e-6", None),
        ("400", "1e-12", None),
    ],
)
def test_the_epsilon_of_mus_is_the_smallest_of_nine_digits(squared: str, delta: str, epsilon: str | None) -> None:
    exact = Fraction(squared)
    found = gaussian.epsilon_of(exact, Fraction(delta))
    if epsilon is not None:
        assert found == Fraction(epsilon)
    with mpmath.workdps(60):
        root = mpmath.sqrt(mp(squared))
        low = Fraction(int(mpmath.floor(root * 10**40)), 10**40)
    assert exact_delta(low + Fraction(1, 10**40), found) <= mp(delta)
    assert exact_delta(low, found - digit_after(found)) > mp(delta)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_mu_of_a_budget_is_that_of_floats(epsilon: float, delta: float) -> None:
    def excess(mu: float) -> float:
        second = math.exp(epsilon + float(norm.logcdf(-mu / 2 - epsilon / mu)))
        return float(norm.cdf(mu / 2 - epsilon / mu)) - second - delta

    exact = Fraction(repr(epsilon)), Fraction(repr(delta))
    assert float(gaussian.mu_of(*exact)) == pytest.approx(brentq(excess, 1e-3, 20.0, xtol=1e-13), rel=1e-7)


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [
        ("0.268", "1"),
        ("1", "4"),
        ("3", "20"),
        ("20", "300"),
        ("0.01", "0.02"),
        ("0.2", "0"),
        ("0.0003", "0.002"),
    ],
)
def test_the_delta_of_a_gaussian_has_forty_digits(mu: str, epsilon: str) -> None:
    found, wanted = gaussian.delta(Decimal(mu), Decimal(epsilon)), exact_delta(Fraction(mu), Fraction(epsilon))
    with mpmath.workdps(60):
        assert abs(mpmath.mpf(str(found)) / wanted - 1) < mpmath.mpf(10) ** -40


def test_whoever_has_set_other_decimals_finds_the_same() -> None:
    budget, squared = (Fraction(1), Fraction(1, 10**5)), Fraction(1, 16)
    found = []
    for digits, rounding in ((28, decimal.ROUND_HALF_EVEN), (5, decimal.ROUND_UP), (5, decimal.ROUND_DOWN)):
        gaussian.mu_of.cache_clear()
        gaussian.epsilon_of.cache_clear()
        with decimal.localcontext(decimal.Context(prec=digits, rounding=rounding)):
            found.append((gaussian.mu_of(*budget), gaussian.epsilon_of(squared, budget[1])))
    assert len(set(found)) == 1
    assert found[0][0] == Fraction("0.268051123")


def test_nothing_is_left_where_there_is_no_delta_and_nothing_costs_nothing() -> None:
    assert gaussian.mu_of(Fraction(1), Fraction(0)) == 0
    assert gaussian.epsilon_of(Fraction(0), Fraction(1, 10**5)) == 0
    assert gaussian.epsilon_of(Fraction(1, 10**18), Fraction(1, 10**5)) == 0  # delta(0) is below it already


def test_the_epsilon_of_a_full_budget_is_at_most_the_budget() -> None:
    for epsilon, delta, _ in BUDGETS:
        if len(epsilon) < 10:
            mu = gaussian.mu_of(Fraction(epsilon), Fraction(delta))
            used = gaussian.epsilon_of(mu**2, Fraction(delta))
            assert Fraction(epsilon) * (1 - Fraction(1, 10**7)) < used <= Fraction(epsilon)
