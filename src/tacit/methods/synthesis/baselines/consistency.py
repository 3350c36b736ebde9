"""Noisy marginals that agree with one another: weighted averages of what they share, and no negative counts.

Source: PrivSyn (arXiv:2012.15128), section 4.3, after CALM (Zhang et al. 2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tacit.methods.synthesis.baselines.counts import Measured, records
from tacit.methods.synthesis.baselines.tree import Array, Clique
from tacit.methods.synthesis.histograms import simplex

_ROUNDS = 3


def consistent(measured: Sequence[Measured]) -> dict[Clique, Array]:
    """Counts of every measured marginal that add up to one total, nowhere negative, and nearly agree where they meet.

    Args:
        measured: one measurement a marginal.
    """
    total = records(measured)
    counts = {one.axes: one.counts for one in measured}
    for _ in range(_ROUNDS):
        for shared in _shared([one.axes for one in measured]):
            counts |= _agreeing(shared, [one for one in measured if set(shared) <= set(one.axes)], counts)
        counts = {axes: simplex(values, total) for axes, values in counts.items()}
    return counts


def _shared(cliques: Sequence[Clique]) -> list[Clique]:
    """The sets of columns in which two marginals meet, small ones first."""
    meets = {tuple(sorted(set(a) & set(b))) for a, b in combinations(cliques, 2)}
    return sorted(meets - {()}, key=lambda clique: (len(clique), clique))


def _agreeing(shared: Clique, holders: Sequence[Measured], counts: dict[Clique, Array]) -> dict[Clique, Array]:
    """The holders' counts after each took over the average of their sums over `shared`, weighted by precision."""
    sums, spreads = [], []
    for one in holders:
        others = tuple(i for i, column in enumerate(one.axes) if column not in shared)
        sums.append(counts[one.axes].sum(axis=others))
        spreads.append(math.prod(one.counts.shape[i] for i in others))
    weights = np.array([one.precision / spread for one, spread in zip(holders, spreads, strict=True)])
    mean = np.tensordot(weights / weights.sum(), np.stack(sums), 1)
    result = {}
    for one, own, cells in zip(holders, sums, spreads, strict=True):
        sizes = [n if column in shared else 1 for column, n in zip(one.axes, one.counts.shape, strict=True)]
        result[one.axes] = counts[one.axes] + ((mean - own) / cells).reshape(sizes)
    return result
