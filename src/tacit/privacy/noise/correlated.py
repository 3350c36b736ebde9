"""Noise that is correlated from step to step, so that a running sum of releases carries little of it.

Step t releases x_t + (C^-1 z)_t for a lower-triangular matrix C and independent Gaussians z, which is a linear image of
C x + z: the privacy is that of a Gaussian mechanism on C x (matrix factorisation; Denisov et al., arXiv:2202.08312),
while the noise of a running sum is that of B z with B = A C^-1. Proof: `proofs/correlated_noise.md`.
"""

from __future__ import annotations

import math
import operator
import os
import threading
from collections.abc import Sequence
from typing import Literal, NoReturn

import numpy as np
import numpy.typing as npt

from tacit.errors import MechanismError, PlanError
from tacit.privacy.noise.lattice import NoiseSource

Float64 = npt.NDArray[np.float64]

Correlation = Literal["independent", "toeplitz", "tree"]
"""What C is: the identity, the square root of a workload (see `coefficients`), or a binary tree of partial sums."""

_ROUNDING = 1e-12  # by how much a coefficient may exceed the one before it


def coefficients(steps: int, decay: Sequence[float] = (1.0,)) -> Float64:
    """First column of C, the lower-triangular Toeplitz square root of the workload prod_r 1 / (1 - r x) over `decay`.

    (1.0,) is the workload of plain running sums, c_k = binom(2k, k) / 4^k (Fichtenberger, Henzinger & Upadhyay,
    arXiv:2202.11205); (r,) that of theta' = r theta + g; (1.0, m) that of gradient ascent with momentum m.

    Args:
        steps: n, how many.
        decay: the r, each in [0, 1].

    Returns:
        [n], never negative, never increasing, with first element 1.

    Raises:
        PlanError: an r is out of range, or the square root increases, for which `sensitivity` would not hold.
    """
    steps = operator.index(steps)
    if steps < 1:
        raise _plan_error("there are no steps", "steps >= 1", "ask for as many steps as the plan has")
    decay = tuple(float(r) for r in decay)
    if not decay or not all(0 <= r <= 1 for r in decay):
        raise _plan_error("a decay is out of range", "at least one number, each in [0, 1]", "use decay=(1.0,)")
    k = np.arange(1, steps)
    half = np.concatenate(([1.0], np.cumprod((2 * k - 1) / (2 * k))))  # (1 - x)^(-1/2)
    result: Float64 = np.eye(1, steps)[0]
    for r in decay:
        result = np.convolve(result, half * r ** np.arange(steps))[:steps]
    if np.any(np.diff(result) > _ROUNDING):
        raise _plan_error(
            "the square root of the workload increases",
            "a decay for which its coefficients never do, such as (1.0,) or (1.0, momentum)",
            "leave some of the decay out; the noise is then matched less well, and the guarantee holds",
        )
    return result


def inverse(coefficients: Float64) -> Float64:
    """First column of the inverse of the lower-triangular Toeplitz matrix whose first column is given ([n], both)."""
    result = np.empty_like(coefficients)
    result[0] = 1 / coefficients[0]
    for t in range(1, result.size):
        result[t] = -(coefficients[1 : t + 1] @ result[t - 1 :: -1]) / coefficients[0]
    return result


def sensitivity(correlation: Correlation, steps: int, participations: int, decay: Sequence[float] = (1.0,)) -> float:
    """What the noise of every step is multiplied by, so that one person costs one Gaussian of the part's multiplier.

    With f(j) the largest squared norm of the sum of j columns of C, it is sqrt(max_j (k / j) f(j)): a person who takes
    part in j of a block's steps moves C x by at most sqrt(j / k) of it, so that k participations cost one budget even
    if they are spread over several blocks with fresh noise, as those of a resumed run are.

    Args:
        correlation: which C.
        steps: n, the length of a block.
        participations: k, in how many steps a person may take part.
        decay: as for `coefficients`; only "toeplitz" uses it.

    Returns:
        At least sqrt(k).
    """
    most, steps = operator.index(participations), operator.index(steps)
    if most < 1 or steps < 1:
        raise _plan_error("there are no steps or participations", "both at least 1", "give the plan's own numbers")
    if correlation == "independent":
        return math.sqrt(most)
    if correlation == "tree":
        worst = _worst_leaves(steps, min(most, steps))[1:]
    elif correlation == "toeplitz":
        sums = np.cumsum(coefficients(steps, decay))
        worst = np.array([_column_sum_norm(sums, j) for j in range(1, min(most, steps) + 1)])
    else:
        raise _plan_error("there is no such correlation", "'independent', 'toeplitz' or 'tree'", "use one of these")
    return math.sqrt(float(np.max(most / np.arange(1, worst.size + 1) * worst)))


def deviation(correlation: Correlation, step: int, steps: int, decay: Sequence[float] = (1.0,)) -> float:
    """Standard deviation of row `step` of C^-1 Z: of a step's noise, over sensitivity times scale.

    Args:
        correlation, steps, decay: as for `sensitivity`.
        step: 0 .. steps - 1.
    """
    if correlation == "tree":  # the node that ends here, less those of all lower levels
        return math.sqrt(1 + _lowest_bit(step + 1))
    return math.hypot(*inverse(coefficients(steps, decay))[: step + 1]) if correlation == "toeplitz" else 1.0


class CorrelatedNoise:
    """The noise of one block of steps, drawn step by step: row t of sensitivity * scale * C^-1 Z.

    Args:
        correlation, steps, participations, decay: as for `sensitivity`.
        noise: where the independent Gaussians come from.

    Guarantee:
        If each of a person's at most `participations` contributions has norm at most c, and step t releases the sum
        plus `next(size, sigma * c)`, everything released is dominated by one Gaussian mechanism of noise multiplier
        sigma, however the contributions were chosen from earlier releases; several objects made with the same
        `participations` share one such budget. The scale may change with the clip, not without it.

    Edge cases:
        The Gaussians already drawn live in memory only, as float32 [steps, size] ("tree": log2(steps) of them), so a
        resumed run makes a new object. A forked child is refused. Stopping early costs and gains nothing.
    """

    def __init__(
        self, correlation: Correlation, steps: int, participations: int, decay: Sequence[float], noise: NoiseSource
    ) -> None:
        self._sensitivity = sensitivity(correlation, steps, participations, decay)
        self._correlation, self._steps = correlation, operator.index(steps)
        self._rows = inverse(coefficients(steps, decay)).astype(np.float32) if correlation == "toeplitz" else None
        self._noise = noise
        self._drawn: npt.NDArray[np.float32] | None = None
        self._step = 0
        self._pid, self._lock = os.getpid(), threading.Lock()

    @property
    def steps_left(self) -> int:
        """How many steps there is still noise for."""
        return self._steps - self._step

    def next_noise(self, size: int, scale: float) -> Float64:
        """The noise of the next step: [size] float64, its coordinates independent of each other."""
        # scale: standard deviation of the noise that one contribution of a person alone would need (sigma * clip)
        with self._lock:
            if os.getpid() != self._pid or self.steps_left == 0 or self._size(size) != size:
                what = "correlated noise cannot go on here"
                expected = f"at most {self._steps} steps of one size, in the process that began"
                remedy = "open a fresh block of noise"
                raise MechanismError(what, where="CorrelatedNoise.next_noise", expected=expected, remedy=remedy)
            factor = scale * self._sensitivity
            self._noise.gaussian(0, factor)  # refuses a bad scale before anything is drawn
            result = self._draw(size) * factor
            self._step += 1
            return result

    def _size(self, size: int) -> int:
        return size if self._drawn is None else self._drawn.shape[1]

    def _draw(self, size: int) -> Float64:
        if self._correlation == "independent":
            self._drawn = np.empty((0, size), np.float32)
            return self._noise.gaussian(size).astype(np.float64)
        if self._drawn is None:
            self._drawn = np.empty((self._steps if self._rows is not None else self._steps.bit_length(), size), "f4")
        if self._rows is not None:
            self._drawn[self._step] = self._noise.gaussian(size)
            return (self._rows[self._step :: -1] @ self._drawn[: self._step + 1]).astype(np.float64)
        level = _lowest_bit(self._step + 1)  # the node that ends here takes the place of those of all lower levels
        replaced = self._drawn[:level].sum(0, dtype=np.float64)
        self._drawn[level] = self._noise.gaussian(size)
        return np.asarray(self._drawn[level] - replaced, np.float64)

    def __repr__(self) -> str:
        return f"CorrelatedNoise({self._correlation!r}, steps={self._steps}, left={self.steps_left})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        what = "correlated noise cannot be pickled or copied"
        expected, remedy = "one live object in the process that draws", "open a fresh block of noise where it is needed"
        raise MechanismError(what, where="CorrelatedNoise", expected=expected, remedy=remedy)


def _column_sum_norm(sums: Float64, count: int) -> float:
    """Squared norm of the sum of the first `count` columns of C; `sums` [n] are running sums of its first column."""
    column = sums.copy()
    column[count:] -= sums[:-count]
    return float(column @ column)


def _worst_leaves(steps: int, limit: int) -> Float64:
    """[most + 1]: for each number of leaves the largest sum, over the nodes that hold them, of squared counts."""
    # Row t of a tree's C sums the 2^l steps that end with t (counted from 1), 2^l the largest power of two that divides
    # t. So of the intervals [i 2^l, (i + 1) 2^l) inside the n steps those with even i are rows.
    squares = np.arange(limit + 1) ** 2.0
    whole = np.array([0.0, 0.0])  # by number of leaves: the interval of this level that is no row, when it is complete
    rest = np.array([0.0])  # the incomplete interval at the right end
    for level in range(steps.bit_length()):
        row = whole + squares[: whole.size]
        if steps >> level & 1:
            rest = _join(row, rest, limit)
        whole = _join(row, whole, limit)
    return rest


def _join(left: Float64, right: Float64, limit: int) -> Float64:
    """The best split of a number of leaves over two intervals, for each number up to `most`."""
    result = np.full(min(left.size + right.size - 1, limit + 1), -np.inf)
    for count, value in enumerate(left):
        part = result[count : count + right.size]
        np.maximum(part, value + right[: part.size], out=part)
    return result


def _lowest_bit(number: int) -> int:
    return (number & -number).bit_length() - 1


def _plan_error(what: str, expected: str, remedy: str) -> PlanError:
    return PlanError(what, where="correlated noise", expected=expected, remedy=remedy)
