"""Exact discrete Laplace noise on the integers (Canonne, Kamath and Steinke, NeurIPS 2020, algorithm 2).

Nothing here rounds: only whole random numbers below whole bounds are compared, so the law is exact given the words.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tacit.errors import PlanError

Integers = npt.NDArray[np.int64]
Draw = Callable[[Integers], Integers]
"""Independent integers, exactly uniform on 0 .. high - 1 for every positive `high` of an array."""

LARGEST = 2**40


def discrete_laplace(draw: Draw, size: int, scale: int) -> Integers:
    """[size] independent integers with P(j) = (1 - a) / (1 + a) * a^|j|, a = exp(-1 / scale); exact.

    Args:
        draw: where the uniform integers come from.
        size: how many.
        scale: a whole number from 1 to 2^40.

    Raises:
        PlanError: the scale is not such a number.
    """
    if scale != int(scale) or not 1 <= scale <= LARGEST:
        raise PlanError(
            "the scale of the noise is out of range",
            where="SecretNoise.discrete_laplace",
            expected="a whole number from 1 to 2**40",
            remedy="give the scale in steps of the grid",
        )
    result = np.empty(size, np.int64)
    todo = np.arange(size)
    while todo.size:
        low = draw(np.full(todo.size, int(scale), np.int64))
        kept = _one_in_exp(draw, low, int(scale))
        low, places = low[kept], todo[kept]
        magnitude = low + int(scale) * _ones(draw, places.size)
        negative = draw(np.full(places.size, 2, np.int64)) == 1
        once = ~(negative & (magnitude == 0))  # else zero would have two signs and twice its probability
        result[places[once]] = np.where(negative, -magnitude, magnitude)[once]
        todo = np.concatenate([todo[~kept], places[~once]])
    return result


def _one_in_exp(draw: Draw, numerator: Integers, denominator: int) -> npt.NDArray[np.bool_]:
    """True with probability exp(-numerator / denominator), exactly; numerators from 0 to the denominator.

    With x = numerator / denominator, coins of probability x / 1, x / 2, ... are thrown until one fails; the k-th is the
    first to fail with probability x^(k-1) / (k-1)! - x^k / k!, and over odd k these sum to exp(-x).
    """
    odd = np.empty(numerator.size, np.bool_)
    todo, k = np.arange(numerator.size), 1
    while todo.size:
        heads = draw(np.full(todo.size, k * denominator, np.int64)) < numerator[todo]
        odd[todo[~heads]] = k % 2 == 1
        todo, k = todo[heads], k + 1
    return odd


def _ones(draw: Draw, size: int) -> Integers:
    """How often in a row an event of probability exp(-1) happens: [size] geometric numbers."""
    count = np.zeros(size, np.int64)
    todo = np.arange(size)
    while todo.size:
        todo = todo[_one_in_exp(draw, np.ones(todo.size, np.int64), 1)]
        count[todo] += 1
    return count
