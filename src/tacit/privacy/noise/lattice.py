"""What is released lies on a public lattice: a power of two between 1/256 and 1/128 of the noise's standard deviation.

Noise has finitely many digits, and so has a sum. Added, they leave a number whose last digits depend on the sum alone
wherever the noise is small: anyone who knows what one unit would add can look there (I. Mironov, CCS 2012). Rounding
the noisy sum to a lattice that depends on the plan's public numbers alone is post-processing, and drops those digits.
It adds at most 6e-6 of the noise's variance. Division by the public divisor comes after it. What this guarantees, and
what is left: `proofs/floating_point.md`.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from tacit.privacy.noise.box_muller import Float32

Float64 = npt.NDArray[np.float64]

BITS: Final = 8
"""The lattice's step is the power of two in (scale 2^-BITS, scale 2^(1-BITS)]."""


class NoiseSource(Protocol):
    """What a mechanism asks of its noise.

    A discrete Gaussian, or one that correlates successive calls (matrix factorisation), may stand in for `SecretNoise`.
    """

    @property
    def seeded(self) -> bool:
        """Whether someone could know the noise (tests only; voids the ledger)."""

    def gaussian(self, size: int, scale: float = 1.0, out: Float32 | None = None) -> Float32:
        """The next [size] float32 vector, each coordinate of standard deviation `scale`; written to `out` if given."""


def step(scale: float) -> float:
    """The lattice's step for noise of this standard deviation; 0, no lattice, without noise."""
    return 2.0 ** (math.frexp(scale)[1] - BITS) if scale > 0 else 0.0


def round_to_lattice(total: Float64, noise: Float32 | Float64, scale: float) -> Float64:
    """`total + noise` on the lattice of noise of at least this standard deviation; float64, of the total's shape.

    Guarantee: the multiple of the step that is nearest to the float64 sum. Dividing and multiplying by a power of two
    is exact, so that the addition alone rounds, by a relative 2^-53.
    """
    grid = step(scale)
    noisy = total + noise
    return np.asarray(np.rint(noisy / grid) * grid if grid else noisy, np.float64)


def add_noise(total: Float64, scale: float, noise: NoiseSource) -> Float64:
    """`total` plus N(0, scale^2) a coordinate, on the lattice; float64."""
    return round_to_lattice(total, noise.gaussian(total.size, scale).reshape(total.shape), scale)


SHARE_BITS: Final = 20
"""Shares of one sum are whole multiples of the lattice's step over 2^FINER."""


def share_unit(scale: float, clip: float) -> float:
    """What shares of a sum are counted in: the step over 2^FINER; without noise the clip takes the noise's place."""
    return step(scale or clip) * 2.0**-SHARE_BITS


def count_in_units(total: Float64, unit: float, out: npt.NDArray[np.int64]) -> None:
    """The multiple of `unit`, a power of two, that is nearest to each number; they must lie within 2^62 units."""
    # total: [n], overwritten; out: [n], for the multiples
    np.multiply(total, 1 / unit, out=total)
    out[:] = np.rint(total, out=total)


def combine_shares(numbers: npt.NDArray[np.int64], scale: float, clip: float) -> Float64:
    """The sum of everybody's `counted` shares, on the lattice of noise of this scale; without noise as it is."""
    # numbers: [n], a multiple of `share_unit` each, overwritten
    if scale:
        numbers += 2 ** (SHARE_BITS - 1)
        numbers >>= SHARE_BITS
    return np.multiply(numbers, step(scale) or share_unit(scale, clip), dtype=np.float64)
