"""The privacy of one Gaussian, to 50 digits: what a budget is in mu, and what a sum of squared mus costs in epsilon.

A mu-GDP mechanism is (epsilon, delta)-DP for delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)
(Dong, Roth & Su, arXiv:1905.02383, Corollary 1), which rises with mu and falls with epsilon. A ledger that was written
on one machine must be read alike on all others, so decimals are compared here, and no float decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    getcontext,
    localcontext,
)
from fractions import Fraction
from functools import lru_cache

_DIGITS = 9
"""Of a mu or an epsilon that is found, which is the last decimal of so many digits on the safe side."""
_PRECISION = 60


def delta(mu: Decimal, epsilon: Decimal) -> Decimal:
    """The delta of a mu-GDP mechanism at epsilon, to 50 digits.

    Args:
        mu: above 0.
        epsilon: at least 0.
    """
    farthest = float(epsilon / mu + mu / 2)
    # Each term is small beside 1, and the second has exp(epsilon) before it: so many digits are lost.
    lost = math.ceil((0.5 * farthest**2 + float(epsilon)) / math.log(10))
    with localcontext(_context(_PRECISION + lost, ROUND_HALF_EVEN)):
        return _phi(mu / 2 - epsilon / mu) - epsilon.exp() * _phi(-mu / 2 - epsilon / mu)


@lru_cache(maxsize=64)
def mu_of(epsilon: Fraction, delta_: Fraction) -> Fraction:
    """The largest mu of nine digits with which a Gaussian is (epsilon, delta)-DP; 0 where delta is 0."""
    if delta_ == 0:
        return Fraction(0)
    with localcontext(_context(_PRECISION, ROUND_HALF_EVEN)):  # whatever context the caller has
        at, bound = _decimal(epsilon), _decimal(delta_)
        return Fraction(_largest(lambda mu: _is_within(mu, at, bound)))


@lru_cache(maxsize=4096)
def epsilon_of(squared: Fraction, delta_: Fraction) -> Fraction:
    """The smallest epsilon of nine digits of a Gaussian with this mu^2 at delta, which is above 0."""
    if squared == 0:
        return Fraction(0)
    with localcontext(_context(_PRECISION, ROUND_CEILING)):
        mu = (Decimal(squared.numerator) / Decimal(squared.denominator)).sqrt().next_plus()  # sqrt rounds half-even
    with localcontext(_context(_PRECISION, ROUND_HALF_EVEN)):
        bound = _decimal(delta_)
        if _is_within(mu, Decimal(0), bound):
            return Fraction(0)
        below = _largest(lambda epsilon: not _is_within(mu, epsilon, bound))
        return Fraction(below.next_plus(_context(_DIGITS, ROUND_CEILING)))


def _is_within(mu: Decimal, epsilon: Decimal, bound: Decimal) -> bool:
    # Whether delta(mu, epsilon) <= bound; where its first term is seen to be, no digits are spent on it.
    far = epsilon / mu - mu / 2
    # Phi(-x) <= exp(-x^2 / 2) / 2 for x >= 0.
    return (far > 0 and (-far * far / 2).exp() / 2 <= bound) or delta(mu, epsilon) <= bound


def _largest(holds: Callable[[Decimal], bool]) -> Decimal:
    # The largest decimal of nine digits for which this holds, as it does for all smaller ones and for some.
    low, high = Decimal(0), Decimal(1)
    with localcontext(_context(_PRECISION, ROUND_HALF_EVEN)):  # and not the caller's
        while holds(high):
            low, high = high, 2 * high
        while high - low > high * Decimal("1e-12"):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
    nine = _context(_DIGITS, ROUND_FLOOR)
    found = nine.plus(low)
    while holds(after := found.next_plus(nine)):
        found = after
    return found


def _phi(x: Decimal) -> Decimal:
    # The normal distribution function, to as many digits of 1 as the context has.
    square = x * x
    term = total = x
    k = 1
    while total + term != total:  # x + x^3 / 3 + x^5 / (3 * 5) + ..., all of one sign
        k += 2
        term *= square / k
        total += term
    return Decimal("0.5") + total * (-square / 2).exp() / (2 * _pi(getcontext().prec)).sqrt()


@lru_cache(maxsize=64)
def _pi(digits: int) -> Decimal:
    # To so many digits (Machin, 1706).

    def arctangent(n: int) -> Decimal:  # of 1 / n
        power, total, k = Decimal(1) / n, Decimal(1) / n, 1
        while power > Decimal(10) ** -(digits + 5):
            power, k = power / (n * n), k + 2
            total += power / k if k % 4 == 1 else -power / k
        return total

    with localcontext(_context(digits + 5, ROUND_FLOOR)):
        return 4 * (4 * arctangent(5) - arctangent(239))


def _decimal(value: Fraction) -> Decimal:
    # A bound, never above what it is.
    return _context(_PRECISION, ROUND_FLOOR).divide(Decimal(value.numerator), Decimal(value.denominator))


def _context(digits: int, rounding: str) -> Context:
    return Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX)
