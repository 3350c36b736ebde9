"""Distributions of columns, and of figures of trajectories, as a report shows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.evaluation.fidelity import kolmogorov_smirnov

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Histogram:
    """One column's distribution.

    Attributes:
        column: its name ("x velocity").
        unit: its unit ("m/s"), or "" if it has none.
        edges: [B + 1] bin edges, from public bounds.
        synthetic: [B] shares of the synthetic rows.
        reference: [B] shares of the reference rows, or None.
        similarity: 1 - KS of the column, or None.
    """

    column: str
    unit: str
    edges: Array
    synthetic: Array
    reference: Array | None = None
    similarity: float | None = None


def histogram(
    column: str,
    unit: str,
    bounds: tuple[float, float],
    synthetic: Array,
    reference: Array | None = None,
    *,
    bins: int = 40,
) -> Histogram:
    """A `Histogram` of rows [T] (and reference rows [R]) over equal bins inside public bounds."""
    edges = np.linspace(*bounds, bins + 1)

    def shares(values: Array) -> Array:
        counts, _ = np.histogram(np.clip(values, *bounds), bins=edges)
        return counts / max(1, len(values))

    if reference is None:
        return Histogram(column, unit, edges, shares(synthetic))
    similarity = 1.0 - kolmogorov_smirnov(np.asarray(reference, np.float32), np.asarray(synthetic, np.float32))
    return Histogram(column, unit, edges, shares(synthetic), shares(reference), similarity)
