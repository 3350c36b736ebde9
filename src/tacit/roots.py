"""The root of a function of one number: `scipy.optimize` has it too, but takes .3 s to import, in every command."""

from __future__ import annotations

import math
from collections.abc import Callable


def find_root(f: Callable[[float], float], low: float, high: float, *, tolerance: float) -> float:
    """Where a continuous function crosses 0 between two points of different sign.

    T. R. Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function without
    using derivatives", Advances in Engineering Software 28 (1997) 145-149: inverse quadratic interpolation where three
    points promise that it lies between them, else bisection.

    Args:
        f: of float64; infinite values have a sign too.
        low, high: ends, in any order.
        tolerance: how far the result may be from the root, beside four roundings of it.

    Raises:
        ValueError: f has one sign at both ends, or is NaN at one.
    """
    a, b, at_a, at_b = high, low, f(high), f(low)
    if not (at_a <= 0 <= at_b or at_b <= 0 <= at_a):
        raise ValueError("the function has one sign at both ends")
    share = 0.5  # of the way from a to b, where the next point lies
    while True:
        best, at_best = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        near = tolerance + 4 * math.ulp(1.0) * abs(best)
        if at_best == 0 or abs(b - a) <= near:
            return best
        least = near / (2 * abs(b - a))
        point = a + min(max(share, least), 1 - least) * (b - a)
        at_point, share = f(point), 0.5
        if (at_point > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            b, c, at_b, at_c = a, b, at_a, at_b
        a, at_a = point, at_point
        xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:  # the parabola through the three points crosses 0 once among them
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
