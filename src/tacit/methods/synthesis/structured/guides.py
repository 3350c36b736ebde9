"""Guides: the expected value of an action in fine cells of the observation, from a noisy table of three coarse bins.

A table of the action's own bins given the place, the velocity and so on has far more cells than rows. Its mean needs
three bins a cell: they are released, and means are drawn from coarse cells to fine ones, beginning with the means that
public rows have there. The action's own bins are then counted given its expected value alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.methods.synthesis.structured.columns import (
    SCREENING_ROWS,
    Bins,
    Floats,
    PublicWorld,
    Table,
    best_option,
)

GUIDE_BINS = (4, 12, 24)
"""Bins of an expected value as a parent, from coarse to fine."""
PARTS = 3
"""Coarse bins of the action."""
MOST_GUIDE_CELLS = 300_000
MOST_GUIDE_PARENTS = 4
LEAST_GAIN = 0.004
"""Of the variance that held-out rows have explained, for which a guide's cells are made finer."""
SURE = 2.0
"""Deviations of noise beyond which a cell's count tells anything."""


@dataclass(frozen=True)
class Guide:
    """What is expected of an action: the number of its column, and (column, ladder, level) of the cells' axes.

    `middles` are the means of public actions in each coarse bin.
    """

    column: int
    axes: tuple[tuple[int, int, int], ...]
    coarse: Bins
    middles: tuple[float, ...]

    def bins(self, table: Table) -> tuple[tuple[int, Bins], ...]:
        """Column and bins of each axis."""
        return tuple((i, table.columns[i].ladders[ladder][level]) for i, ladder, level in self.axes)

    def shape(self, table: Table) -> list[int]:
        """Bins of each axis."""
        return [bins.size for _, bins in self.bins(table)]

    def cells(self, table: Table, values: Sequence[Floats]) -> NDArray[np.int64]:
        """The cell [N] of rows."""
        cell = np.zeros(len(values[0]), np.int64)
        for i, bins in self.bins(table):
            cell = cell * bins.size + bins.encode(values[i])
        return cell

    def codes(self, table: Table, values: Sequence[Floats]) -> NDArray[np.int64]:
        """The cell and the coarse bin [N] of rows, as one code."""
        return self.cells(table, values) * PARTS + self.coarse.encode(values[self.column])

    def size(self, table: Table) -> int:
        """Cells of the table of coarse bins."""
        return math.prod(self.shape(table)) * PARTS


def shrink_means(counts: Floats, middles: Floats, root: Floats, shape: Sequence[int], deviation: float) -> Floats:
    """The mean of each cell, from coarse cells to fine ones, where noise and few rows let them differ.

    Args:
        counts: noisy, [cells, parts].
        middles: of each part.
        root: the mean that each cell has without these counts, [cells].
        shape: bins of each axis of the cells.
        deviation: of the noise of a count.

    Each level's difference to the coarser one is multiplied by V / (V + its own variance), where V is the variance of
    such differences beyond what noise and sampling explain (empirical Bayes, Morris 1983).
    """
    shape = list(shape)
    counted = counts.sum(axis=1)
    above = (counts * (middles - root[:, None])).sum(axis=1)
    noisy = np.square(middles - root[:, None]).sum(axis=1) * deviation**2
    share = np.maximum(counts.sum(axis=0), 1e-9)
    share = share / share.sum()
    within = float(share @ np.square(middles - share @ middles))
    top = math.ceil(math.log2(max(shape))) if shape and max(shape) > 1 else 0
    found = np.zeros(len(root))
    for level in range(top, -1, -1):
        code = np.array([0])
        for size in shape:
            code = (code[:, None] * -(-size // 2**level) + np.arange(size) // 2**level).ravel()
        cells = np.bincount(code)
        n, s, v = np.bincount(code, counted), np.bincount(code, above), np.bincount(code, noisy)
        sure = n > SURE * deviation * np.sqrt(PARTS * cells)
        rows, before = np.maximum(n, 1.0), np.zeros(len(n))
        before[code] = found  # all members of a cell have the same
        difference = np.clip(s / rows, middles[0] - middles[-1], middles[-1] - middles[0]) - before
        own = within / rows + v / rows**2
        weight = rows * sure
        extra = float((weight * (difference**2 - own)).sum() / max(weight.sum(), 1e-9))
        factor = np.where(sure, max(extra, 1e-6) / (max(extra, 1e-6) + own), 0.0)
        found = found + (factor * difference)[code]
    return np.clip(root + found, middles[0], middles[-1])


@dataclass(frozen=True, eq=False)
class GuideMeans:
    """A guide with the means that public rows have in its cells."""

    guide: Guide
    root: Floats  # [cells]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, guide: Guide, table: Table, worlds: Sequence[Floats]) -> GuideMeans:
        """Means by the counts of public worlds (`count_parts`), each of which counts alike."""
        shape, middles = guide.shape(table), np.asarray(guide.middles)
        most = max(counts.sum() for counts in worlds)
        counts = np.sum([counts * (most / counts.sum()) for counts in worlds], axis=0)
        start = np.full(len(counts), float(counts.sum(axis=0) @ middles / max(counts.sum(), 1)))
        return cls(guide, shrink_means(counts, middles, start, shape, 0.0), tuple(shape))

    def means(self, counts: Floats, deviation: float) -> Floats:
        """What is expected in each cell, by noisy counts [cells x parts]."""
        table = counts.reshape(-1, PARTS)
        return shrink_means(table, np.asarray(self.guide.middles), self.root, self.shape, deviation)


def fit_guide(
    table: Table,
    action: int,
    seen: Sequence[int],
    worlds: Sequence[PublicWorld],
    rows: int,
    deviation: float,
    noise: Floats,
) -> Guide:
    """The guide of an action whose cells explain most of its variance in held-out public rows, under noise.

    Args:
        table: the columns.
        action: the number of its column.
        seen: numbers of the observation's columns.
        worlds: public ones.
        rows: private rows that are expected.
        deviation: of a private count's noise.
        noise: simulated, of deviation 1, as much as the largest table needs.
    """
    own = table.columns[action].own
    coarse = Bins(tuple(np.linspace(own.edges[0], own.edges[-1], PARTS + 1).tolist()))
    everything = np.concatenate([world.values[action] for world in worlds])
    parts = np.bincount(coarse.encode(everything), everything, PARTS)
    often = np.bincount(coarse.encode(everything), minlength=PARTS)
    middles = np.where(often > 0, parts / np.maximum(often, 1), coarse.middles)
    guide, best = Guide(action, (), coarse, tuple(middles.tolist())), np.zeros(len(worlds))
    while True:
        options = [one for one in _finer(guide, table, seen) if one.size(table) <= MOST_GUIDE_CELLS]
        reached, finer = best_option(
            guide,
            options,
            best,
            lambda one: _screen(one, table, worlds[0], rows, deviation),
            lambda one: _explained(one, table, worlds, rows, deviation, noise),
        )
        for world in worlds:
            world.shared.clear()
        if reached.mean() < best.mean() + LEAST_GAIN:
            return guide
        best, guide = reached, finer


def _finer(guide: Guide, table: Table, seen: Sequence[int]) -> Iterator[Guide]:
    held = {axis[0] for axis in guide.axes}
    if len(held) < MOST_GUIDE_PARENTS:
        for i in seen:
            if i not in held:
                for ladder in range(len(table.columns[i].ladders)):
                    yield dataclasses.replace(guide, axes=(*guide.axes, (i, ladder, 0)))
    for k, (i, ladder, level) in enumerate(guide.axes):
        ladders = table.columns[i].ladders
        for other, levels in enumerate(ladders):
            more = [m for m, bins in enumerate(levels) if bins.size > ladders[ladder][level].size]
            for m in more[:1]:
                yield dataclasses.replace(guide, axes=(*guide.axes[:k], (i, other, m), *guide.axes[k + 1 :]))


def _screen(guide: Guide, table: Table, world: PublicWorld, rows: int, deviation: float) -> float:
    # the share of variance that cells explain in few rows, less what their number and noise take away
    count = min(SCREENING_ROWS, world.kept)
    cell, actions = world.cells(guide.bins(table), count), world.values[guide.column][:count]
    often = np.bincount(cell)
    sums = np.bincount(cell, actions - actions.mean())[often > 0]
    often, variance = often[often > 0], max(float(actions.var()), 1e-12)
    between = np.square(sums / often) - variance / often  # of means, beyond what few rows make of none
    private = often * (rows / count)
    own = variance / private + np.square(guide.middles).sum() * deviation**2 / private**2
    share = max(float(often @ between), 0.0) / count
    return float((often * (share / (share + own))).sum() / count * share / variance)


def _explained(
    guide: Guide, table: Table, worlds: Sequence[PublicWorld], rows: int, deviation: float, noise: Floats
) -> Floats:
    """In each world, the share of the action's variance in held-out rows that noisy means of the others explain."""
    found, middles, shape = list[float](), np.asarray(guide.middles), guide.shape(table)
    for world in worlds:
        cell = world.cells(guide.bins(table), world.count)
        part = world.codes(guide.column, guide.coarse, world.count)[: world.kept]
        counts = np.bincount(cell[: world.kept] * PARTS + part, minlength=guide.size(table)) * world.scale
        noisy = (counts + deviation * noise[: len(counts)]).reshape(-1, PARTS)
        start = np.full(len(noisy), float(middles @ counts.reshape(-1, PARTS).sum(axis=0) / counts.sum()))
        means = shrink_means(noisy, middles, start, shape, deviation)
        actions = world.values[guide.column][world.kept :]
        found.append(1 - np.square(actions - means[cell[world.kept :]]).mean() / max(actions.var(), 1e-12))
    return np.asarray(found)


def guide_public_rows(
    guide: Guide,
    table: Table,
    worlds: Sequence[PublicWorld],
    rows: int,
    deviation: float,
    noise: Floats,
) -> list[Floats]:
    """The guide in the rows of each public world as if it were the private one, with means of the others to begin."""
    found = []
    counts = [count_parts(guide, table, world.values) for world in worlds]
    for i, (world, own) in enumerate(zip(worlds, counts, strict=True)):
        others = [other for j, other in enumerate(counts) if j != i] or [own]
        noisy = own * (rows / world.count) + deviation * noise[: own.size].reshape(own.shape)
        means = GuideMeans.of(guide, table, others).means(noisy, deviation)
        found.append(means[world.cells(guide.bins(table), world.count)])
        world.shared.clear()
    return found


def count_parts(guide: Guide, table: Table, values: Sequence[Floats]) -> Floats:
    """Rows by cell and coarse bin, [cells, parts]."""
    return np.bincount(guide.codes(table, values), minlength=guide.size(table)).reshape(-1, PARTS).astype(np.float64)
