"""A first-order Markov chain over coarse blocks of the grid, released as people's mean shares of transitions.

The blocks are those of largest weight in the release of where days start, so that no list of visited places is taken
from records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.data.days import SLOTS, Days
from tacit.data.grids import Grid
from tacit.methods.imitation.baselines.people import Floats, Ints

CLIP = 0.5
"""The largest norm of one person's shares of transitions: half of all steps within one block, and others."""
THRESHOLD = 2.0
"""Shares below so many standard deviations of the noise are read as none."""


@dataclass(frozen=True)
class Transitions:
    """Shares of a day's 47 steps that lead from one block to another, of those within the vocabulary.

    Args:
        grid: the public grid.
        factor: cells along the side of a block.
        vocabulary: the K blocks, public.
    """

    grid: Grid
    factor: int
    vocabulary: tuple[int, ...]

    @property
    def size(self) -> int:
        """K^2."""
        return len(self.vocabulary) ** 2

    def __call__(self, days: Ints) -> Floats:
        """Cells [n, 48] -> [n, K^2], rows by where a step begins."""
        blocks = self.grid.coarsen(days, self.factor)
        order = np.argsort(self.vocabulary)
        known = np.asarray(self.vocabulary)[order]
        place = np.minimum(np.searchsorted(known, blocks), len(known) - 1)
        names = np.where(known[place] == blocks, order[place], -1)
        here, there = names[:, :-1], names[:, 1:]
        day, step = np.nonzero((here >= 0) & (there >= 0))
        cell = day * self.size + here[day, step] * len(known) + there[day, step]
        return np.bincount(cell, minlength=len(days) * self.size).reshape(-1, self.size) / (SLOTS - 1)


@dataclass(frozen=True, eq=False)
class BlockChain:
    """The simulator: days of blocks, each block a uniform cell of it that is drawn anew for every day.

    Args:
        grid, factor, vocabulary: as for `Transitions`.
        starts: [K] probabilities of the first block.
        matrix: [K, K] probabilities of the next block.
    """

    grid: Grid
    factor: int
    vocabulary: tuple[int, ...]
    starts: Floats
    matrix: Floats

    def generate(self, days: int, *, seed: int = 0) -> Days:
        """So many days, each of a person of its own."""
        rng = np.random.default_rng(seed)
        upto = np.cumsum(self.matrix, axis=1)
        upto[:, -1] = 1.0
        visited = np.empty((days, SLOTS), np.int64)
        visited[:, 0] = rng.choice(len(self.starts), size=days, p=self.starts)
        for slot in range(1, SLOTS):
            visited[:, slot] = (rng.random(days)[:, None] >= upto[visited[:, slot - 1]]).sum(axis=1)
        blocks = np.tile(np.asarray(self.vocabulary), days)
        cells = self.grid.draw_within(blocks, self.factor, rng).reshape(days, -1)
        return Days(np.take_along_axis(cells, visited, axis=1), np.arange(days), self.grid)


def simulator(statistic: Transitions, starts: Floats, noisy: Floats, noise: float) -> BlockChain:
    """The chain of noisy mean shares [K^2] with this much noise, and of the blocks' released weights [K].

    From a block that no share is left of, nobody leaves.
    """
    size = len(statistic.vocabulary)
    shares = np.where(noisy > THRESHOLD * noise, noisy, 0.0).reshape(size, size)
    total = shares.sum(axis=1, keepdims=True)
    matrix = np.where(total > 0, shares / np.where(total > 0, total, 1.0), np.eye(size))
    weights = np.maximum(starts, 0.0) + 1e-12
    return BlockChain(statistic.grid, statistic.factor, statistic.vocabulary, weights / weights.sum(), matrix)
