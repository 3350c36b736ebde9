"""Bounding what one unit adds to a sum: per-unit L2 clipping.

Abadi et al., "Deep learning with differential privacy" (arXiv:1607.00133), Algorithm 1, without the division by the
batch size; non-finite contributions count as zero.

| input                               | result                                                             |
|-------------------------------------|--------------------------------------------------------------------|
| norm at most `clip * (1 - SLACK)`   | coefficient 1: the contribution is unchanged                       |
| norm 0                              | coefficient 1 (of a zero vector)                                   |
| norm above that                     | coefficient `clip * (1 - SLACK) / norm`                            |
| norm NaN, inf or negative           | coefficient 0; `clip_rows` returns exact zeros, never 0 * NaN      |
| coefficient below 2^-126            | coefficient 0: float32 would round it by more than the slack       |
| clip 0                              | every coefficient 0                                                |
| clip negative, NaN or inf           | `MechanismError`: without a finite bound there is no guarantee          |
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import numpy.typing as npt

from tacit.errors import MechanismError

if TYPE_CHECKING:
    import torch

Array = TypeVar("Array", npt.NDArray[np.float64], "torch.Tensor")

SLACK: Final = 1e-4
"""Contributions are clipped to `clip * (1 - SLACK)`, so that float32 rounding of norm and sum stays below `clip`."""

BLOCK: Final = 1024
"""Units whose clipped vectors are added up before their sum is added to that of the others."""

TINY: Final = 2.0**-126
"""Smallest normal float32: the most by which one flushed square can be missing from a float32 sum of squares."""


def require_clip(clip: float) -> float:
    """`clip`, if it is a finite bound."""
    if not (math.isfinite(clip) and clip >= 0):
        what, expected = f"clip is {clip}", "a finite bound of at least 0 on the norm of one unit's contribution"
        remedy = "declare a public clip; a large finite one hardly ever clips"
        raise MechanismError(what, where="clip", expected=expected, remedy=remedy)
    return float(clip)


def coefficients(norms: Array, clip: float) -> Array:
    """Factors that bring every unit's contribution within `clip`.

    Args:
        norms: [U] float64 (numpy or torch), the norm of each unit's contribution or an upper bound of it.
        clip: the bound of one unit's contribution, in the contribution's own unit.

    Returns:
        [U] of the same kind, in [0, 1].

    Guarantee: `coefficients * norms <= clip * (1 - SLACK)` wherever the norm is finite, and 0 elsewhere. Each
    coefficient depends on its own unit's norm alone.

    Raises:
        MechanismError: see `require_clip`.
    """
    bound = require_clip(clip) * (1.0 - SLACK)
    factors = (bound / norms.clip(min=bound or 1.0)).clip(max=1.0)
    factors[~(norms >= 0)] = 0.0
    factors[factors < TINY] = 0.0
    return factors


def clipped_sums(
    contributions: npt.ArrayLike,
    clip: float,
    replicate: npt.NDArray[np.int64],
    replicates: int,
    sums: npt.NDArray[np.float64] | None = None,
    residuals: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """The sum of each replicate's clipped contributions.

    Args:
        contributions: [U, d], one vector a unit, or [0, d].
        clip: the bound of each.
        replicate: [U], rising, from 0 to replicates - 1.
        replicates: R.
        sums, lost: [R, d], those of earlier units, which these are added to, and what was rounded away of them; None:
            zeros, and what is lost is added at the end.

    Returns:
        `sums`, float64, added up in the order of the units, blocks of `BLOCK` first (`proofs/floating_point.md`).

    Raises:
        MechanismError: as `clip_rows`.
    """
    vectors = _rows(contributions)
    factors = _factors(vectors, clip)
    if sums is None or residuals is None:
        sums, residuals = np.zeros((2, replicates, vectors.shape[1]))
        return clipped_sums(vectors, clip, replicate, replicates, sums, residuals) + residuals
    ends = np.searchsorted(replicate, np.arange(replicates + 1))
    for total, residual, (start, end) in zip(sums, residuals, itertools.pairwise(ends), strict=True):
        for first in range(start, end, BLOCK):
            block = slice(first, min(first + BLOCK, end))
            weights, added = factors[block], vectors[block]
            if not weights.all():  # 0 * NaN would be NaN
                added = np.where(weights[:, None] > 0, added, 0.0)
            add_compensated(total, residual, weights @ added)
    return sums


def add_compensated(
    total: npt.NDArray[np.float64], residual: npt.NDArray[np.float64], block: npt.NDArray[np.float64]
) -> None:
    """Add a block's sum [d] to a total [d], and to `lost` [d] exactly what is rounded away of it (Knuth's TwoSum)."""
    before = total.copy()
    total += block
    taken = total - before
    residual += (before - (total - taken)) + (block - taken)


def clip_rows(contributions: npt.ArrayLike, clip: float) -> npt.NDArray[np.float64]:
    """Clip each unit's vector to norm `clip`.

    Args:
        contributions: [U, d], one vector a unit.
        clip: the bound, in the contributions' own unit.

    Returns:
        [U, d] float64.

    Guarantee: every row has norm at most `clip`, whatever it held; it depends on its own unit's row alone. A row with
    a NaN, an infinity, or a norm whose square leaves float64 becomes zero.

    Raises:
        MechanismError: `contributions` is not [U, d], or see `require_clip`.
    """
    vectors = _rows(contributions)
    factors = _factors(vectors, clip)
    with np.errstate(invalid="ignore", under="ignore"):
        clipped: npt.NDArray[np.float64] = vectors * factors[:, None]
    clipped[factors == 0] = 0.0  # where 0 * NaN would be NaN
    return clipped


def _factors(vectors: npt.NDArray[np.float64], clip: float) -> npt.NDArray[np.float64]:
    """The coefficient of each vector, [U]."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors) + vectors.shape[1] * np.finfo(np.float64).tiny
        return coefficients(np.sqrt(squares), clip)


def _rows(contributions: npt.ArrayLike) -> npt.NDArray[np.float64]:
    vectors = np.asarray(contributions, np.float64)
    if vectors.ndim != 2:
        what, expected = f"contributions of shape {vectors.shape}", "[units, d]"
        raise MechanismError(what, where="clip_rows", expected=expected, remedy="return one vector a unit")
    return vectors
