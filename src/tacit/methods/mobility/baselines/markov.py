"""A first-order Markov chain over coarse blocks of the grid, released as people's mean shares of transitions.

The blocks are those of largest weight in the release of where days start, so that no list of visited places is taken
from records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.data.days import SLOTS, Days
from tacit.data.grids import Grid
from tacit.methods.mobility.baselines.people import Floats, Ints

CLIP = 0.25
"""The largest norm of one person's shares of transitions."""
STAY = 0.3
"""What steps within a block count: they are by far the most, and one person's take up room for what else there is."""
THRESHOLD = 3.0
"""Shares below so many standard deviations of the noise may be noise."""


@dataclass(frozen=True)
class Transitions:
    """Shares of a day's 47 steps that lead from one block to another, of those within the vocabulary; those that stay
    in a block count `STAY` each. The first number is the share of all that lead to another block.

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
        """1 + K^2."""
        return 1 + len(self.vocabulary) ** 2

    def __call__(self, days: Ints) -> Floats:
        """Cells [n, 48] -> [n, 1 + K^2], rows by where a step begins."""
        blocks, size = self.grid.coarsen(days, self.factor), len(self.vocabulary)
        order = np.argsort(self.vocabulary)
        known = np.asarray(self.vocabulary)[order]
        place = np.minimum(np.searchsorted(known, blocks), size - 1)
        names = np.where(known[place] == blocks, order[place], -1)
        here, there = names[:, :-1], names[:, 1:]
        day, step = np.nonzero((here >= 0) & (there >= 0))
        cell = day * size**2 + here[day, step] * size + there[day, step]
        counts = np.bincount(cell, minlength=len(days) * size**2).reshape(len(days), size, size) / (SLOTS - 1)
        moving = counts.sum(axis=(1, 2)) - np.trace(counts, axis1=1, axis2=2)
        counts = counts * (1 - (1 - STAY) * np.eye(size))
        return np.concatenate([moving[:, None], counts.reshape(len(days), size**2)], axis=1)


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
    """The chain of noisy mean shares [1 + K^2] with this much noise, and of the blocks' released weights [K].

    Shares that may be noise are left out. As much weight as one of them could have goes to a common law instead: to
    stay as often as everybody does, and else to go to a block by its weight.
    """
    size = len(statistic.vocabulary)
    weights = np.maximum(starts, 0.0) + 1e-12
    weights /= weights.sum()
    scale, doubt = 1 - (1 - STAY) * np.eye(size), max(THRESHOLD * noise, 1e-12)
    released = noisy[1:].reshape(size, size)
    staying = max(float(np.trace(released)) / STAY, 1e-3)
    common = staying * np.eye(size) + max(float(noisy[0]), 1e-3) * weights
    common /= common.sum(axis=1, keepdims=True)
    shares = np.where(released > doubt, released, 0.0) / scale
    matrix = (shares + doubt * common) / (shares.sum(axis=1, keepdims=True) + doubt)
    return BlockChain(statistic.grid, statistic.factor, statistic.vocabulary, weights, matrix)
