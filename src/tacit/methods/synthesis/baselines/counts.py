"""Noisy counts: what is known of one marginal, averages of repeated measurements, and counts that can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.methods.synthesis.baselines.tree import Array, Clique


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy counts of one marginal.

    Args:
        axes: its columns, increasing.
        counts: [bins of the columns].
        deviation: standard deviation of the noise of a count, >= 0.
    """

    axes: Clique
    counts: Array
    deviation: float

    @property
    def precision(self) -> float:
        """Inverse variance of a count."""
        return float(max(self.deviation, 1e-6) ** -2.0)


def pooled(measured: Sequence[Measured]) -> list[Measured]:
    """One measurement a marginal: repeated ones are averaged by their precision, which loses nothing."""
    groups: dict[Clique, list[Measured]] = {}
    for one in measured:
        groups.setdefault(one.axes, []).append(one)
    result = []
    for axes, ones in groups.items():
        precisions = np.array([one.precision for one in ones])
        counts = np.tensordot(precisions / precisions.sum(), np.stack([one.counts for one in ones]), 1)
        result.append(Measured(axes, counts, float(precisions.sum() ** -0.5)))
    return result


def records(measured: Sequence[Measured]) -> float:
    """The number of records by the sums of all measurements, with the least variance; at least 1."""
    weights = [one.precision / one.counts.size for one in measured]
    return max(1.0, float(np.average([one.counts.sum() for one in measured], weights=weights)))
