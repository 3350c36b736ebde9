"""What is released lies on a public lattice: a power of two near a thousandth of the noise's standard deviation.

Noise has finitely many digits, and so has a sum. Added, they leave a number whose last digits depend on the sum alone
wherever the noise is small: anyone who knows what one unit would add can look there (I. Mironov, CCS 2012). Rounding
the noisy sum to a lattice that depends on the plan's public numbers alone is post-processing, and drops those digits.
It adds at most 1e-7 of the noise's variance. Division by the public divisor comes after it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.privacy.noise.secret import NoiseSource

BITS = 11
"""The lattice's step is the power of two in (scale 2^-BITS, scale 2^(1-BITS)]."""


def step(scale: float) -> float:
    """The lattice's step for noise of this standard deviation; 0, no lattice, without noise."""
    return 2.0 ** (math.frexp(scale)[1] - BITS) if scale > 0 else 0.0


def rounded(noisy: npt.NDArray[np.float64], scale: float) -> npt.NDArray[np.float64]:
    """A noisy sum on the lattice, for noise of at least this standard deviation; float64."""
    grid = step(scale)
    return np.asarray(np.rint(noisy / grid) * grid if grid else noisy, np.float64)


def add_noise(total: npt.NDArray[np.float64], scale: float, noise: NoiseSource) -> npt.NDArray[np.float64]:
    """`total` plus N(0, scale^2) a coordinate, on the lattice; float64."""
    return rounded(total + noise.gaussian(total.size, scale).reshape(total.shape), scale)


def divided_(noisy: Tensor, scale: float, divisor: float) -> Tensor:
    """A noisy float32 sum on the lattice, then divided by the public divisor; in place.

    Guarantee: the result is a function of whole multiples of the lattice's step. Float32 holds a multiple of up to
    2^24 steps exactly; a sum beyond 2^13 standard deviations of its noise is on a coarser lattice already.
    """
    grid = step(scale)
    return noisy.div_(grid).round_().mul_(grid / divisor) if grid else noisy.div_(divisor)
