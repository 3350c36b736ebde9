"""Laws of a child given its parents, from one noisy table: coarse cells first, finer ones as far as noise lets them.

Axes of parents are halved level by level. Each row of a level is drawn towards its coarser row by as much as its noise
explains of their difference (James & Stein 1961), cells below two standard deviations are cut where a child has many
values, and what is left is the nearest point of the simplex.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SMALL = 8
"""Values of a child up to which no cell is cut."""
SEEN = 3.0
"""Standard deviations of noise above which a value is one that somebody has."""
CUT = 2.0
"""Standard deviations of noise below which a cell is cut."""


def estimate_laws(noisy: Floats, shape: Sequence[int], deviation: float, ordinal: Sequence[bool]) -> Floats:
    """The child's law in each cell of its parents, [cells, values], rows on the simplex.

    Args:
        noisy: counts, [cells of the parents x values].
        shape: values of each parent.
        deviation: of the noise of a count.
        ordinal: of each parent, whether its values have an order, so that neighbours are merged.
    """
    shape, ordinal = list(shape) or [1], list(ordinal) or [True]
    values = noisy.size // int(np.prod(shape))
    table, axes = noisy.reshape(*shape, values), range(len(shape))
    least = CUT if values > SMALL else 0.0
    law, blocks_before, sizes_before = (
        np.full((1,) * len(shape) + (values,), 1 / values),
        [0] * len(shape),
        [1] * len(shape),
    )
    top = int(np.ceil(np.log2(max(shape)))) if max(shape) > 1 else 0
    for level in range(top, -1, -1):
        blocks = [2**level if ordinal[i] else (1 if level <= (1 if shape[i] > 2 else 0) else shape[i]) for i in axes]
        sizes = [-(-n // block) for n, block in zip(shape, blocks, strict=True)]
        if sizes == sizes_before and level < top:
            continue
        merged, merged_cells, base = table, np.ones(sizes), law
        for i in axes:
            if blocks[i] > 1:
                starts = np.arange(0, shape[i], blocks[i])
                merged = np.add.reduceat(merged, starts, axis=i)
                width = np.diff(np.append(starts, shape[i]))
                merged_cells = merged_cells * width.reshape([-1 if j == i else 1 for j in axes])
            coarser = np.arange(sizes[i]) * blocks[i] // blocks_before[i] if level < top else np.zeros(sizes[i], int)
            base = np.take(base, np.minimum(coarser, sizes_before[i] - 1), axis=i)
        base = np.broadcast_to(base, (*sizes, values)).reshape(-1, values)
        law = _refine(merged.reshape(-1, values), base, (deviation * np.sqrt(merged_cells)).reshape(-1, 1), least)
        law, blocks_before, sizes_before = law.reshape(*sizes, values), blocks, sizes
    return law.reshape(-1, values)


def forget_unseen(noisy: Floats, values: int, deviation: float) -> Floats:
    """A table in which values of the child that the noise alone explains have no counts, such as second episodes."""
    table = noisy.reshape(-1, values)
    seen = table.sum(axis=0) > SEEN * deviation * np.sqrt(len(table))
    return np.where(seen, table, np.minimum(table, -SEEN * deviation)).ravel()


def forget_tail(noisy: Floats, deviation: float) -> Floats:
    """Counts [n] of which the last ones are 0: those that noise alone explains together, such as very long stays."""
    above = np.cumsum(noisy[::-1])[::-1]
    told = above > SEEN * deviation * np.sqrt(np.arange(len(noisy), 0, -1))
    return np.asarray(np.where(np.arange(len(noisy)) <= np.flatnonzero(told).max(initial=0), noisy, 0.0))


def _refine(counts: Floats, base: Floats, deviation: Floats, least: float) -> Floats:
    """Rows of noisy counts as laws, drawn towards their coarser ones."""
    values, total = counts.shape[1], counts.sum(axis=1, keepdims=True)
    sure = np.maximum(total, 2 * deviation * np.sqrt(values) + 1e-12)  # without noise, a cell can be empty
    own = np.where(counts < least * deviation, 0.0, counts)
    kept = own.sum(axis=1, keepdims=True)
    own = np.where(kept > 0, own / np.maximum(kept, 1e-9), base)
    squares = np.square(counts / sure - base).sum(axis=1, keepdims=True)
    weight = np.clip(1 - values * np.square(deviation / sure) / np.maximum(squares, 1e-30), 0, 1)
    weight = weight * (total > 0) * np.clip(total / sure, 0, 1)
    rows: Floats = base + weight * (own - base)
    if least:
        return rows  # where cells are cut, no share is negative
    # the law is the nearest point of the simplex
    highest = -np.sort(-rows, axis=1)
    levels = (np.cumsum(highest, axis=1) - 1) / np.arange(1, values + 1)
    last = (highest > levels).sum(axis=1) - 1
    return np.asarray(np.maximum(rows - levels[np.arange(len(rows)), last][:, None], 0))


def draw(law: Floats, cells: Integers, rng: np.random.Generator) -> Integers:
    """A value of the child for each cell [V] of its parents."""
    heights = np.cumsum(law, axis=1)
    heights /= np.maximum(heights[:, -1:], 1e-12)
    return np.asarray(np.minimum((heights[cells] < rng.random(len(cells))[:, None]).sum(axis=1), law.shape[1] - 1))
