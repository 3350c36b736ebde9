"""Exact discrete Laplace and Gaussian noise on the integers (Canonne, Kamath and Steinke, NeurIPS 2020).

Laplace noise is their algorithm 2, Gaussian noise their algorithm 3: a discrete Laplace number of whole scale t is kept
with probability exp(-(|y| - V/t)^2 / (2 V)), V the variance parameter; what is kept has P(y) ~ exp(-y^2 / (2 V)),
whatever t. Nothing here rounds: every coin is thrown by comparing whole random numbers with whole bounds, and its
exponent is taken apart so that these stay below 2^63.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tacit.errors import PlanError

Integers = npt.NDArray[np.int64]
Draw = Callable[[Integers], Integers]
"""Independent integers, exactly uniform on 0 .. high - 1 for every positive `high` of an array."""

LARGEST = 2**40


def discrete_laplace(draw: Draw, size: int, scale: int) -> Integers:
    """[size] independent integers with P(j) = (1 - a) / (1 + a) * a^|j|, a = exp(-1 / scale); exact."""
    if scale != int(scale) or not 1 <= scale <= LARGEST:
        what = "the scale of the noise is out of range"
        expected, remedy = "a whole number from 1 to 2**40", "give the scale in steps of the grid"
        raise PlanError(what, where="SecretNoise.discrete_laplace", expected=expected, remedy=remedy)
    result = np.empty(size, np.int64)
    todo = np.arange(size)
    while todo.size:
        low = draw(np.full(todo.size, int(scale), np.int64))
        accepted = _bernoulli_exp(draw, low, int(scale))
        low, places = low[accepted], todo[accepted]
        magnitude = low + int(scale) * _geometric_exp(draw, places.size)
        negative = draw(np.full(places.size, 2, np.int64)) == 1
        once = ~(negative & (magnitude == 0))  # else zero would have two signs and twice its probability
        result[places[once]] = np.where(negative, -magnitude, magnitude)[once]
        todo = np.concatenate([todo[~accepted], places[~once]])
    return result


def _bernoulli_exp(draw: Draw, numerator: Integers, denominator: int) -> npt.NDArray[np.bool_]:
    """True with probability exp(-numerator / denominator), exactly; numerators from 0 to the denominator."""
    # With x = numerator / denominator, coins of probability x / 1, x / 2, ... are thrown until one fails; the k-th is
    # the first to fail with probability x^(k-1) / (k-1)! - x^k / k!, and over odd k these sum to exp(-x).
    odd = np.empty(numerator.size, np.bool_)
    todo, k = np.arange(numerator.size), 1
    while todo.size:
        heads = draw(np.full(todo.size, k * denominator, np.int64)) < numerator[todo]
        odd[todo[~heads]] = k % 2 == 1
        todo, k = todo[heads], k + 1
    return odd


def _geometric_exp(draw: Draw, size: int) -> Integers:
    """How often in a row an event of probability exp(-1) happens: [size] geometric numbers."""
    count = np.zeros(size, np.int64)
    todo = np.arange(size)
    while todo.size:
        todo = todo[_bernoulli_exp(draw, np.ones(todo.size, np.int64), 1)]
        count[todo] += 1
    return count


LARGEST_NUMERATOR, LARGEST_DENOMINATOR = 2**50, 2**10

_FAR = 64
"""Proposals beyond so many scales are refused: the coin would keep one of them with probability below e^-1900."""


def discrete_gaussian(draw: Draw, size: int, variance: int | Fraction) -> Integers:
    """[size] independent integers with P(j) ~ exp(-j^2 / (2 V)); exact but for 64 scales and more, as `_FAR` says."""
    # variance: V, a fraction with a numerator of at most 2^50 and a denominator of at most 2^10. The variance itself is
    # never above it, and V to a relative 1e-15 for V >= 1
    p, q = _parts(variance)
    scale = max(1, math.isqrt(p // q))
    result = np.empty(size, np.int64)
    todo = np.arange(size)
    while todo.size:
        proposed = discrete_laplace(draw, todo.size, scale)
        accepted = np.abs(proposed) <= _FAR * scale
        accepted[accepted] = _keep(draw, np.abs(proposed[accepted]), p, q, scale)
        result[todo[accepted]] = proposed[accepted]
        todo = todo[~accepted]
    return result


def _parts(variance: int | Fraction) -> tuple[int, int]:
    whole = isinstance(variance, int | Fraction) and not isinstance(variance, bool)
    value = Fraction(variance) if whole else Fraction(0)
    if not (0 < value.numerator <= LARGEST_NUMERATOR and value.denominator <= LARGEST_DENOMINATOR):
        what = "the variance of the noise is out of range"
        expected = "a whole number or a Fraction > 0, numerator at most 2**50, denominator at most 2**10"
        remedy = "give the variance in steps of the grid, rounded up to such a number"
        raise PlanError(what, where="SecretNoise.discrete_gaussian", expected=expected, remedy=remedy)
    return value.numerator, value.denominator


def _keep(draw: Draw, y: Integers, p: int, q: int, t: int) -> npt.NDArray[np.bool_]:
    """True with probability exp(-(y - V/t)^2 / (2 V)) for V = p / q; y from 0 to 64 t."""
    # With z = |y t q - p| = u t q + v the exponent z^2 / (2 p q t^2) is
    # u^2 q / (2 p) + (u q / p) (v / (t q)) + (v / (t q))^2 q / (2 p),
    # each a whole part and a product of fractions <= 1.
    u, v = np.divmod(np.abs(y * (t * q) - p), t * q)
    within = (v, np.full_like(v, t * q))
    alive = np.ones(y.size, np.bool_)
    for top, bottom, factors in (
        (u * u * q, 2 * p, ()),
        (u * q, p, (within,)),
        (np.full_like(u, q), 2 * p, (within,) * 2),
    ):
        whole, rest = np.divmod(top, bottom)
        _throw(draw, alive, whole, factors)
        last = (rest, np.full_like(rest, bottom))
        _throw(draw, alive, np.ones_like(whole), (last, *factors))
    return alive


def _throw(
    draw: Draw, alive: npt.NDArray[np.bool_], times: Integers, factors: tuple[tuple[Integers, Integers], ...]
) -> None:
    """Clear `alive` unless so many coins of probability exp(-product of the fractions) all fall on heads."""
    remaining, todo = times.copy(), np.flatnonzero(alive & (times > 0))
    while todo.size:
        heads = _bernoulli_exp_product(draw, tuple((top[todo], bottom[todo]) for top, bottom in factors), todo.size)
        alive[todo[~heads]] = False
        remaining[todo] -= 1
        todo = todo[heads]
        todo = todo[remaining[todo] > 0]


def _bernoulli_exp_product(
    draw: Draw, factors: tuple[tuple[Integers, Integers], ...], size: int
) -> npt.NDArray[np.bool_]:
    """[size] true with probability exp(-x), x the product of fractions in [0, 1]; as in `discrete_laplace`."""
    # The k-th coin, of probability x / k, is the conjunction of one for each fraction and one of probability 1 / k.
    odd = np.empty(size, np.bool_)
    todo, k = np.arange(size), 1
    while todo.size:
        heads = draw(np.full(todo.size, k, np.int64)) == 0 if k > 1 else np.ones(todo.size, np.bool_)
        for top, bottom in factors:
            heads[heads] = draw(bottom[todo[heads]]) < top[todo[heads]]
        odd[todo[~heads]] = k % 2 == 1
        todo, k = todo[heads], k + 1
    return odd
