"""Products and functions whose bits are a row's own: whatever other rows there are, in which place, however many.

A matrix product of BLAS rounds a row by the batch that it stands in: the last rows of an odd batch go through other
kernels. That does no harm to a sum, which `proofs/floating_point.md` prices. It does to a *decision*, such as the
largest of two outputs that tie: where it is another one because somebody left, the sum moves by a whole
contribution. So whatever is decided on private rows is decided on what this module computes.

The product is split so that BLAS has nothing to round (Ozaki, Ogita, Oishi and Rump, "Error-free transformations of
matrix multiplication by using fast routines of matrix multiplication and its applications", Numerical Algorithms
2012): any order of additions, any number of threads, fused or not, gives the same bits.
"""

from __future__ import annotations

import importlib
import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["argmax", "one_hot", "product", "softmax", "tanh"]

Float64 = NDArray[np.float64]

_SIGNIFICAND = 53
_LARGEST_SHIFT = 1000  # powers of two far beyond it are no float64
_REMEMBERED = 1 << 20  # bytes of weights whose parts are kept
_NUMBERS = 8_192  # of a block of rows: it stays in the processor's caches
_FEW, _WIDEST = 48, 512  # rows, columns and rows of weights up to which the compiled twin is faster

try:
    _compiled: Any = importlib.import_module("tacit._rowwise").product
except ImportError:  # installed without a compiler: the same bits, more slowly
    _compiled = None


def product(x: NDArray[Any], w: NDArray[Any]) -> Float64:
    """x w, where a row of the result is a function of its own row of x and of w alone, to the last bit.

    With b = (53 - log2 k) / 2 bits, rounded down, a row is 2^e (x1 + x2 + rest), 2^e above its largest entry, x1 on the
    grid 2^-b, x2 on 2^-2b, |rest| <= 2^-(2b + 1); so is a column of w. Then x1 w1, and x1 w2 + x2 w1, are sums of
    whole multiples of one power of two that never come to 2^53 of it: exact in any order. What is left is one addition
    and two powers of two. Proof page: `proofs/floating_point.md`.

    Args:
        x: [..., k] of any number of axes; or [G, n, k] for weights of G groups.
        w: [k, m], or [G, k, m], public and finite.

    Returns:
        [..., m]; off by about k 2^-2b times the largest of the row and of the column: 44 bits for k = 100.
    """
    k, m = w.shape[-2:]
    bits = (_SIGNIFICAND - math.ceil(math.log2(max(k, 2)))) // 2
    weights, rows = np.asarray(w, np.float64), np.asarray(x, np.float64)
    count = math.prod(x.shape[:-1])
    if _compiled and weights.size == k * m > 0 and count <= _FEW and max(k, m) <= _WIDEST:
        result = np.empty((*x.shape[:-1], m))
        _compiled(np.ascontiguousarray(rows), np.ascontiguousarray(weights), result, count, k, m, bits)
        return result
    if weights.ndim == 2:
        weights, rows = weights[None], rows.reshape(1, count, k)
    split = _split_weights if weights.nbytes <= _REMEMBERED else _split_weights.__wrapped__
    w1, w2, columns = split(weights.tobytes(), weights.shape, bits)
    result = np.empty((*rows.shape[:2], m))
    size = max(1, _NUMBERS // max(k, m))
    together = max(1, size // max(1, rows.shape[1]))
    for group, start in itertools.product(range(0, len(rows), together), range(0, rows.shape[1], size)):
        groups, at = slice(group, group + together), (slice(group, group + together), slice(start, start + size))
        x1, x2, scale = _split(rows[at], bits)
        block = np.matmul(x1, w2[groups], out=result[at])
        block += np.matmul(x2, w1[groups])
        block += np.matmul(x1, w1[groups])
        block *= scale
        block *= columns[groups]
    return result.reshape(*x.shape[:-1], m)


def tanh(x: NDArray[Any]) -> Float64:
    """Of every entry, in one place in memory: NumPy's loops over arrays that are turned round may round otherwise."""
    return np.asarray(np.tanh(np.ascontiguousarray(x, np.float64)))


def softmax(values: NDArray[Any]) -> Float64:
    """Logits [..., A] -> probabilities [..., A], added up in the order of the actions."""
    shifted = np.ascontiguousarray(values, np.float64) - values.max(axis=-1, keepdims=True)
    chances: Float64 = np.exp(shifted, out=shifted)
    total = chances[..., 0].copy()
    for action in range(1, chances.shape[-1]):
        total += chances[..., action]
    chances /= total[..., None]
    return chances


def argmax(values: NDArray[Any]) -> NDArray[np.int64]:
    """The first of the largest of the last axis, [..., A] -> [...], of what was computed here or is public."""
    return np.asarray(values.argmax(axis=-1), np.int64)


def one_hot(values: NDArray[Any]) -> Float64:
    """`best` as indicators, [..., A]."""
    return np.asarray(argmax(values)[..., None] == np.arange(values.shape[-1]), np.float64)


@lru_cache(maxsize=8)
def _split_weights(numbers: bytes, shape: tuple[int, ...], bits: int) -> tuple[Float64, ...]:
    """Of weights [G, k, m], the same in thousands of products of few rows: parts [G, k, m] twice, and [G, 1, m]."""
    weights = np.frombuffer(numbers).reshape(shape)
    return tuple(np.ascontiguousarray(part.swapaxes(1, 2)) for part in _split(weights.swapaxes(1, 2), bits))


def _split(x: Float64, bits: int) -> tuple[Float64, Float64, Float64]:
    """(x1, x2, 2^e) of rows [..., k], as `product` says: [..., k] twice, and [..., 1]."""
    high = np.abs(x, order="C")
    largest = np.maximum.reduce(high, axis=-1, keepdims=True, initial=0.0)
    exponent = np.minimum(np.maximum(np.frexp(largest)[1], -_LARGEST_SHIFT), _LARGEST_SHIFT)
    rest = np.multiply(x, np.ldexp(1.0, -exponent), order="C")  # exact, and so are the differences below
    first, second = (1.5 * 2.0 ** (_SIGNIFICAND - 1 - grid) for grid in (bits, 2 * bits))
    np.add(rest, first, out=high)  # of this size every number is a whole multiple of 2^-bits
    high -= first
    rest -= high
    rest += second
    rest -= second
    return high, rest, np.ldexp(1.0, exponent)
