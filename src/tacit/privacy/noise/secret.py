"""Secret noise: an AES-256-CTR keystream keyed by the operating system, turned into Gaussians.

The same keystream serves the Poisson sampler, because amplification by sub-sampling needs secret randomness as
much as the noise does. Its state is never saved, copied, pickled or shown: a resumed run draws fresh noise.
"""

from __future__ import annotations

import builtins
import hashlib
import itertools
import math
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tacit.errors import MechanismError, PlanError
from tacit.privacy.noise.box_muller import (
    BoxMuller,
    Float32,
    Float64,
    Words,
    Words64,
    box_muller_compiled,
    box_muller_numpy,
    noisy_mean_compiled,
    rare_pairs,
)
from tacit.privacy.noise.discrete import discrete_gaussian, discrete_laplace
from tacit.privacy.noise.lattice import step

BYTES_PER_KEY: Final = 2**32
"""Keystream drawn under one key: 2^28 blocks, random but for an advantage below 2^-72 if AES is a PRP."""

CHUNK: Final = 2**15
"""Words drawn at a time (128 KiB: they stay in the second-level cache between the cipher, Box-Muller and the sum)."""

SMALLEST_SCALE: Final = 2.0**-40
LARGEST_SCALE: Final = 2.0**40

_SPARE: Final = 16  # bytes: some versions of `update_into` want a spare block
_ZEROS: Final = memoryview(bytes(4 * CHUNK))
_NO_WORDS: Final = np.zeros(0, np.uint64)
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class _Keystream(threading.local):
    """The calling thread's AES-256-CTR keystream: every thread has its own key, so none can meet another's words."""

    # A fresh key is taken in a forked child and after `BYTES_PER_KEY`; the counter starts at 0 because no key is used
    # twice.

    def __init__(self, new_key: Callable[[], bytes]) -> None:
        self._new_key = new_key
        self._buffer = np.empty(4 * CHUNK + _SPARE, np.uint8)
        self._rekey()

    def _rekey(self) -> None:
        self._process = (os.getpid(), _forks)
        self._encryptor = Cipher(algorithms.AES(self._new_key()), modes.CTR(bytes(16))).encryptor()
        self._left = BYTES_PER_KEY

    def words(self, count: int) -> Words:
        """The next `count` <= CHUNK uniform 32-bit words, in a buffer that the next call overwrites."""
        self._fill(self._buffer, 4 * count)
        return self._buffer[: 4 * count].view(np.uint32)

    def words64(self, count: int) -> Words64:
        """The next `count` uniform 64-bit words, in a new array."""
        result = np.empty(8 * count + _SPARE, np.uint8)
        for start in range(0, 8 * count, 4 * CHUNK):
            self._fill(result[start:], min(4 * CHUNK, 8 * count - start))
        return result[: 8 * count].view(np.uint64)

    def _fill(self, buffer: npt.NDArray[np.uint8], size: int) -> None:
        if self._process != (os.getpid(), _forks) or size > self._left:
            self._rekey()
        self._left -= size
        self._encryptor.update_into(_ZEROS[:size], buffer.data)


class SecretNoise:
    """Fresh randomness that nobody can know or draw again.

    Guarantee:
        Given that AES-256 is a pseudo-random permutation and `os.urandom` is secret, no efficient observer tells the
        words below from independent uniform bits (advantage below 2^-72 for each 4 GiB). From ideal words, `gaussian`
        follows the Box-Muller law on a lattice, independently from pair to pair: tail probabilities of a pair's radius
        are those of the continuous law to a relative 2^-16 as far as 11 standard deviations, and the support ends at
        11.6 (the continuous law has 2^-97 beyond). Float32 rounding moves a coordinate by at most 5e-7 of its pair's
        radius. What that leaves of a proof: `proofs/floating_point.md`.

    Edge cases:
        | case | what happens |
        |---|---|
        | a forked child, with `os.fork` or below Python | takes a fresh key before its next word |
        | several threads | each has its own key |
        | pickle, `copy`, `deepcopy` | MechanismError |
        | size 0 | an empty array |
        | scale 0 | zeros (a plan of infinite epsilon); negative, NaN or outside [2^-40, 2^40] -> PlanError |

    Args:
        box_muller: the kernel that turns words into Gaussians; the compiled one where there is one.
    """

    def __init__(self, box_muller: BoxMuller = box_muller_compiled or box_muller_numpy) -> None:
        self._box_muller = box_muller
        self._stream = _Keystream(_urandom_key)
        self._seeded = False

    @classmethod
    def for_tests(cls, seed: int, box_muller: BoxMuller = box_muller_compiled or box_muller_numpy) -> SecretNoise:
        """Noise that anyone who has `seed` can draw again: for tests; a vault that uses it voids its ledger."""
        noise = cls(box_muller)
        keys = (hashlib.sha256(f"tacit test noise {seed} {i}".encode()).digest() for i in itertools.count())
        noise._stream = _Keystream(keys.__next__)
        noise._seeded = True
        return noise

    @property
    def seeded(self) -> bool:
        """True for `SecretNoise.for_tests`, and for a kernel that is not one of tacit's."""
        return self._seeded or self._box_muller not in (box_muller_compiled, box_muller_numpy)

    def gaussian(self, size: int, scale: float = 1.0, out: Float32 | None = None) -> Float32:
        """Fresh independent N(0, scale^2) float32 numbers, never drawn again (the law: see the class).

        Args:
            size: how many.
            scale: standard deviation; rounded up to float32.
            out: [size] contiguous float32 array to overwrite, for instance `tensor.numpy()`.

        Returns:
            `out`, or a new [size] array.

        Raises:
            PlanError: the scale is negative, not finite or out of range.
            MechanismError: `out` has another shape, type or layout.
        """
        factor = _float32_scale(scale)
        if out is None:
            out = np.empty(size, np.float32)
        elif out.shape != (size,) or out.dtype != np.float32 or not out.flags.c_contiguous or not out.flags.writeable:
            what, expected = "out= cannot hold the noise", f"a writeable contiguous float32 array of shape ({size},)"
            remedy = "leave out= away or pass such an array"
            raise MechanismError(what, where="SecretNoise.gaussian", expected=expected, remedy=remedy)
        if factor == 0:
            out[:] = 0
            return out
        for start in range(0, size, CHUNK):
            part = out[start : start + CHUNK]
            if part.size % 2:
                part[:] = self._pairs(np.empty(part.size + 1, np.float32), factor)[:-1]
            else:
                self._pairs(part, factor)
        return out

    def _pairs(self, out: Float32, scale: float) -> Float32:
        words = self._stream.words(out.size)
        self._box_muller(words, self._extra(words), out, scale)
        return out

    def _extra(self, words: Words) -> Words64:
        rare = rare_pairs(words)
        return self._stream.words64(rare) if rare else _NO_WORDS

    def noisy_mean(self, total: Float32 | Float64, scale: float, divisor: float, out: Float32 | None = None) -> Float32:
        """`total` plus `gaussian`, on the lattice, over a public divisor: `lattice.add_noise` for large sums.

        Args:
            total: [P] contiguous.
            scale: standard deviation of the noise, as for `gaussian`.
            divisor: public.
            out: [P] contiguous, to be overwritten, which may be `total`; None: a new array.

        Returns:
            [P] float32: whole multiples of the lattice's step, each times step / divisor as float32.
        """
        out = np.empty(total.shape, np.float32) if out is None else out
        factor, grid = _float32_scale(scale), step(scale)
        fused = type(self).gaussian is _GAUSSIAN and self._box_muller is box_muller_compiled
        for start in range(0, total.size, CHUNK):
            part, into = total[start : start + CHUNK], out[start : start + CHUNK]
            if fused and grid and part.size % 2 == 0:
                assert noisy_mean_compiled is not None
                words = self._stream.words(part.size)
                noisy_mean_compiled(words, self._extra(words), part, into, factor, grid, divisor)
                continue
            noisy = part.astype(np.float64) + self.gaussian(part.size, scale)
            into[:] = np.rint(noisy / grid).astype(np.float32) * np.float32(grid / divisor) if grid else noisy / divisor
        return out

    def uniform(self, size: int) -> npt.NDArray[np.float64]:
        """[size] float64 numbers, uniform on the 2^52 midpoints (k + 1/2) / 2^52: inside (0, 1), multiples of 2^-53."""
        return np.asarray(((self._stream.words64(size) >> np.uint64(12)) + 0.5) * 2.0**-52, np.float64)

    def exponential(self, size: int) -> npt.NDArray[np.float64]:
        """[size] standard exponentials -ln u, u on the 2^64 midpoints of (0, 1), to a relative 2^-50 at both ends."""
        word = self._stream.words64(size)
        u, complement = (word + 0.5) * 2.0**-64, (~word + 0.5) * 2.0**-64
        return np.asarray(-np.where(u < 0.5, np.log(u), np.log1p(-np.minimum(complement, 0.5))), np.float64)

    def integers(self, high: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Independent integers, exactly uniform on 0 .. high - 1 (words that would bias the remainder are drawn again).

        Args:
            high: positive bounds, of any shape.

        Returns:
            An array of the shape of `high`.
        """
        bound = high.ravel().astype(np.uint64)
        result = np.empty(bound.size, np.int64)
        todo = np.arange(bound.size)
        while todo.size:
            word, limit = self._stream.words64(todo.size), bound[todo]
            biased = word > np.uint64(2**64 - 1) - (np.uint64(0) - limit) % limit  # 2^64 mod limit words too many
            result[todo] = word % limit
            todo = todo[biased]
        return result.reshape(high.shape)

    def discrete_laplace(self, size: int, scale: int) -> npt.NDArray[np.int64]:
        """[size] fresh independent integers j with probability proportional to exp(-|j| / scale), exactly.

        Raises:
            PlanError: the scale is not a whole number from 1 to 2^40.
        """
        return discrete_laplace(self.integers, size, scale)

    def discrete_gaussian(self, size: int, variance: int | Fraction) -> npt.NDArray[np.int64]:
        """[size] fresh independent integers j with probability proportional to exp(-j^2 / (2 variance)), exactly.

        Raises:
            PlanError: the variance is no fraction as `discrete_gaussian` takes it.
        """
        return discrete_gaussian(self.integers, size, variance)

    def bytes(self, count: int) -> builtins.bytes:
        """`count` secret bytes."""
        return self._stream.words64(-(-count // 8)).tobytes()[:count]

    def seed64(self) -> int:
        """A secret seed in 0 .. 2^64 - 1, for a generator that is used inside the vault only."""
        return int(self._stream.words64(1)[0])

    def __repr__(self) -> str:
        return f"SecretNoise(seeded={self._seeded})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        what = "secret noise cannot be pickled or copied"
        expected, remedy = "one live object in the process that draws", "make a new SecretNoise() where it is needed"
        raise MechanismError(what, where="SecretNoise", expected=expected, remedy=remedy)


_GAUSSIAN: Final = SecretNoise.gaussian  # a source that draws otherwise is asked for its own numbers


def _urandom_key() -> bytes:
    return os.urandom(32)


def _float32_scale(scale: float) -> float:
    if scale != 0 and not (math.isfinite(scale) and SMALLEST_SCALE <= scale <= LARGEST_SCALE):
        what = "the standard deviation of the noise is out of range"
        expected, remedy = "scale= 0, or a number from 2**-40 to 2**40", "check the clip and the noise multiplier"
        raise PlanError(what, where="SecretNoise.gaussian", expected=expected, remedy=remedy)
    rounded = np.float32(scale)
    return float(np.nextafter(rounded, np.float32(np.inf))) if float(rounded) < scale else float(rounded)


# Who takes part in a step: exact Poisson sampling of units, and of at most L rows inside each unit.


Int64 = npt.NDArray[np.int64]


_GAPS = 2**14
"""Gaps between drawn units that are made at a time."""


def poisson_sample(population: int, rate: float, noise: SecretNoise) -> Int64:
    """Each of `population` units is drawn independently with probability `rate`, in O(population * rate) work.

    The gaps between successive drawn units are geometric: floor(E / -ln(1 - rate)) units are passed over before each
    one, E a standard exponential (L. Devroye, "Non-Uniform Random Variate Generation", 1986, X.2). Drawing goes on
    until a gap passes the last unit.

    Guarantee:
        From ideal secret words every subset S has probability rate^|S| (1 - rate)^(population - |S|), up to float64:
        a gap of g units has its probability rate (1 - rate)^g to a relative (2^-63 e^E + 2^-48 (1 + E)) / rate with
        E = -g ln(1 - rate), that is 1e-13 / rate as far as g = 10 / rate.

    Edge cases:
        | case | what happens |
        |---|---|
        | rate 1 | everyone, without a draw |
        | rate so small that a gap overflows | the gap is cut at `population`: nobody |
        | population 0 | an empty sample |
        | an empty sample | returned as such; the mechanism still adds noise |

    Args:
        population: the number of units to draw from.
        rate: inclusion probability in (0, 1].
        noise: the secret generator that also makes the noise.

    Returns:
        Sorted indices in 0 .. population - 1, int64.

    Raises:
        PlanError: the rate is not in (0, 1].
    """
    if not 0 < rate <= 1:
        raise PlanError(
            f"the sampling rate is {'over 1' if rate > 1 else 'not above 0'}",
            where="poisson_sample",
            expected="0 < rate <= 1, the probability that one unit takes part in one step",
            remedy="use expected batch / population, with a batch that is no larger than the population",
        )
    if rate == 1 or population == 0:
        return np.arange(population)
    last, parts = np.int64(-1), []
    while last < population:
        expected = float(population - 1 - last) * rate
        draws = min(_GAPS, math.ceil(expected + 6 * math.sqrt(expected) + 16))
        with np.errstate(over="ignore"):
            passed_over = np.floor(noise.exponential(draws) / -math.log1p(-rate))
        parts.append(last + np.cumsum(np.minimum(passed_over, population).astype(np.int64) + 1))
        last = parts[-1][-1]
    drawn = np.concatenate(parts)
    assert drawn[-1] >= population, "the last gap must pass the last unit"
    return drawn[: np.searchsorted(drawn, population)]


def rows_within_units(
    offsets: Int64, units: Int64, rows_per_unit: int, noise: SecretNoise | None
) -> tuple[Int64, Int64]:
    """At most L rows of each unit, uniformly without replacement, each unit independently of the others.

    R. Floyd's subset sampling (J. Bentley, "A sample of brilliance", CACM 30 (1987) 754), for all units at once.

    Guarantee:
        Every subset of size min(L, n) of a unit's n rows has exactly the same probability, whatever the other units
        hold.

    Edge cases:
        | case | what happens |
        |---|---|
        | a unit with n <= L rows | all of them |
        | no noise | the first L rows of each unit |
        | no units | empty arrays |

    Args:
        offsets: [units + 1]; unit u owns positions offsets[u] .. offsets[u + 1] - 1 of the rows ordered by unit, at
            least one.
        units: [U] indices of units.
        rows_per_unit: L, at least 1.
        noise: the secret generator; None draws nothing.

    Returns:
        Positions [M] int64, unit after unit and sorted inside each, and how many each unit has, [U].

    Raises:
        PlanError: L is below 1.
    """
    if rows_per_unit < 1:
        what, expected = "rows_per_unit is below 1", "how many rows of one unit may enter one step"
        raise PlanError(what, where="rows_within_units", expected=expected, remedy="pass a whole number of at least 1")
    first = offsets[units]
    count = offsets[units + 1] - first
    kept = np.minimum(count, rows_per_unit)
    positions = np.repeat(first - np.cumsum(kept) + kept, kept) + np.arange(kept.sum())
    large = count > rows_per_unit
    if noise is not None and large.any():
        chosen = _subsets(count[large], rows_per_unit, noise) + first[large, None]
        positions[np.repeat(large, kept)] = chosen.ravel()
    return positions, kept


def pad_rows(positions: Int64, kept: Int64, rows_per_unit: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """What `rows_within_units` gave as [U, L], and the mask [U, L], True where a row counts."""
    # Guarantee: a row of one unit never stands in another's place: padding repeats the unit's own first row, masked
    # out.
    mask = np.arange(rows_per_unit) < kept[:, None]
    if len(positions) == mask.size:
        return positions.reshape(mask.shape), mask
    where = np.repeat(positions[np.cumsum(kept) - kept], rows_per_unit).reshape(mask.shape)
    where[mask] = positions
    return where, mask


def _subsets(counts: Int64, size: int, noise: SecretNoise) -> Int64:
    """For each of `counts` [U], above `size`, so many of the numbers below it, sorted, [U, size]."""
    subset = np.full((counts.size, size), -1, np.int64)
    for k in range(size):
        newest = counts - size + k
        candidate = noise.integers(newest + 1)
        taken = (subset[:, :k] == candidate[:, None]).any(axis=1)
        subset[:, k] = np.where(taken, newest, candidate)
    return np.sort(subset, axis=1)
