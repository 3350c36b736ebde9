"""What one person adds to the release of movement, how she moves without where, and the policy in people's noisy mean.

The vector is the joint histogram of (bucket of state, action) over the steps of her days, `stay` coordinates scaled
down, beside three histograms of whole days: different cells, moves, and the motif. It is scaled to norm 1: at a given
noise that is the most she can say, whatever the number of her days, and there is no clip to choose. Where people sleep
and work does not enter: places have names by the order of their first visit in the day.

From the noisy mean of the histograms to a policy, what is known of the sums is imposed, and rows are shrunk. Rows are
distributions over actions, estimated from coarse to fine: one row for all states, one for each value of at home, then
of stay x at home, of cells x stay x at home, and of time x cells x stay x at home. Each row is shrunk towards its
parent's by how much rows of its level differ beyond the known noise (a moment estimate), so that no constant depends on
the records and a level that is all noise costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.days import (
    ACTIONS,
    SLOTS,
    STAY,
    actions,
    days_of,
    distinct_counts,
    motif_classes,
    move_counts,
    stay_lengths,
)
from tacit.methods.mobility.simulator import StateLayout
from tacit.validation import require_valid

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOVES_PART = "moves"
"""The part's name."""
CLIP = 1.0
"""The norm of what every person adds."""
ACTIONS_COUNT = len(ACTIONS)
CELLS = np.arange(1, 18)
"""Lower ends of the 17 bins of different cells a day."""
MOVES = np.array([0, 1, 2, 3, 4, 6, 8, 10, 13, 16, 19, 22, 25, 28, 32, 37])
"""Lower ends of the 16 bins of moves a day."""
MOTIFS = 25
"""Motifs with a class of their own: all with up to five stops (`days.motif`)."""
DAY_SIZES = (len(CELLS), len(MOVES), MOTIFS + 1)
DAY_SIZE = sum(DAY_SIZES)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Public scales of the vector's coordinates: how the noise is spread over what is asked.

    Args:
        stay: of the coordinates of the action `stay`, whose mass is large and smooth.
        day: of the histograms of whole days; 0 leaves them out.
    """

    stay: float = 0.2
    day: float = 0.2

    def __post_init__(self) -> None:
        require_valid("weights.stay", self.stay, 0 < self.stay <= 1, "a number in (0, 1]")
        require_valid("weights.day", self.day, 0 <= self.day <= 1, "a number in [0, 1]")

    def of(self, layout: StateLayout) -> FloatArray:
        """Scale of each coordinate of the vector, [size]."""
        table = np.ones((layout.size, ACTIONS_COUNT))
        table[:, STAY] = self.stay
        return np.concatenate([table.ravel(), np.full(DAY_SIZE if self.day else 0, self.day)])


def states(days: IntArray, layout: StateLayout) -> IntArray:
    """Bucket [D, 47] of the state before each step of days [D, 48]."""
    before = days[:, :-1]
    home = before == days[:, :1]
    return layout.buckets(np.arange(SLOTS - 1), distinct_counts(days)[:, :-1], stay_lengths(days)[:, :-1], home)


def day_bins(days: IntArray) -> IntArray:
    """Coordinates [D, 3] of each day in the three histograms of whole days, set side by side."""
    cells = np.searchsorted(CELLS, distinct_counts(days)[:, -1], side="right") - 1
    changes = np.searchsorted(MOVES, move_counts(days), side="right") - 1
    first, second, _ = DAY_SIZES
    return np.stack([cells, first + changes, first + second + motif_classes(days, classes=MOTIFS)], axis=1)


def histograms(
    days: IntArray, owner: IntArray, owners: int, layout: StateLayout, *, whole_days: bool = True
) -> FloatArray:
    """Histograms of each owner's days, [owners, 5 K (+ 59)], unscaled; zero for one without days."""
    # days: [D, 48]. owner: [D], 0 .. owners - 1
    width = layout.size * ACTIONS_COUNT
    size = width + (DAY_SIZE if whole_days else 0)
    count = np.maximum(np.bincount(owner, minlength=owners), 1)[:, None]
    cell = states(days, layout) * ACTIONS_COUNT + actions(days)
    total = np.bincount((owner[:, None] * size + cell).ravel(), minlength=owners * size) / (SLOTS - 1)
    if whole_days:
        total = total + np.bincount((owner[:, None] * size + width + day_bins(days)).ravel(), minlength=owners * size)
    return np.asarray(total.reshape(owners, size) / count)


@dataclass(frozen=True)
class MoveHistograms:
    """What is kept of each person: her vector, of norm 1, or 0 for a person without a whole day."""

    layout: StateLayout  # layout, weights: public
    weights: Weights

    @property
    def size(self) -> int:
        """d, its length."""
        return self.layout.size * ACTIONS_COUNT + (DAY_SIZE if self.weights.day else 0)

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]]) -> dict[str, FloatArray]:
        """Rows [U, L] -> "vector" [U, d]."""
        days, owner = days_of(rows)
        vectors = histograms(days, owner, len(rows["mask"]), self.layout, whole_days=self.weights.day > 0)
        vectors *= self.weights.of(self.layout)
        norms = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
        return {"vector": vectors / np.where(norms > 0, norms, 1.0)}


@dataclass(frozen=True)
class MoveContribution:
    """A person's vector, as a contribution to a noisy sum."""

    # what is kept of each person, from rows of U people to "vector" [U, d]: a `MoveHistograms`, for example
    summary: Callable[[Mapping[str, npt.NDArray[Any]]], dict[str, FloatArray]]

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], state: object = None) -> FloatArray:
        """[U, d]."""
        return np.asarray(rows["vector"], np.float64)


LEAST = 1e-4
"""Least probability of an action before rows are normalised."""
SURE = 2.0
"""A row whose released mass is below so many standard deviations of it is its parent's."""
LEAST_FACTOR = 0.02
"""Least common factor of clipped vectors that is believed."""


def unscale(mean: FloatArray, noise: float, layout: StateLayout, weights: Weights) -> tuple[FloatArray, FloatArray]:
    """The released mean [d] without the scales of the coordinates, and the standard deviation of its noise [d]."""
    # noise: standard deviation of each coordinate's noise
    scale = weights.of(layout)
    return np.asarray(mean / scale), np.asarray(noise / scale)


def common_factor(values: FloatArray, sd: FloatArray, layout: StateLayout) -> float:
    """By which factor clipping has shrunk the mean: each histogram would add up to 1, so the weighted mean of the
    sums."""
    ends = np.cumsum([0, layout.size * ACTIONS_COUNT, *DAY_SIZES])
    ends = ends[ends <= len(values)]
    sums = np.add.reduceat(values, ends[:-1])
    precision = 1 / np.maximum(np.add.reduceat(sd**2, ends[:-1]), 1e-30)
    return max(float(np.sum(sums * precision) / np.sum(precision)), LEAST_FACTOR)


def table(values: FloatArray, sd: FloatArray, layout: StateLayout) -> FloatArray:
    """The policy [K, 5] of a released vector (`unscale`): the histogram's own, without the days'."""
    factor, width = common_factor(values, sd, layout), layout.size * ACTIONS_COUNT
    masses = values[:width].reshape(layout.size, ACTIONS_COUNT) / factor
    variance = (sd[:ACTIONS_COUNT] / factor) ** 2
    return shrink_policy(impose_block_masses(masses, variance, layout), variance, layout)


def impose_block_masses(masses: FloatArray, variance: FloatArray, layout: StateLayout) -> FloatArray:
    """The masses [K, 5] with the public mass of each time block: the gap goes where the variance [5] is."""
    # With noise of different size the least squares correction of a known sum is in proportion to the variances.
    blocks = masses.reshape(layout.times, -1, ACTIONS_COUNT)
    gap = layout.block_shares - blocks.sum(axis=(1, 2))
    total = max(float(blocks.shape[1] * variance.sum()), 1e-300)
    noisy = variance if variance.sum() > 0 else np.eye(ACTIONS_COUNT)[STAY]
    total = total if variance.sum() > 0 else blocks.shape[1]
    return np.asarray((blocks + gap[:, None, None] * noisy / total).reshape(masses.shape))


def shrink_policy(masses: FloatArray, variance: FloatArray, layout: StateLayout) -> FloatArray:
    """The policy [K, 5] of joint masses [K, 5] whose noise has the variance [5] in each bucket."""
    times, counts, stays, homes = layout.shape
    joint = masses.reshape(times, counts, stays, homes, ACTIONS_COUNT)
    parent = np.maximum(joint.sum(axis=(0, 1, 2, 3)), LEAST)
    parent = parent / parent.sum()
    for axes in ((0, 1, 2), (0, 1), (0,), ()):
        added = int(np.prod([joint.shape[axis] for axis in axes]))
        parent = _shrink_level(joint.sum(axis=axes, keepdims=True), variance * added, parent)
    return np.asarray(np.broadcast_to(parent, joint.shape).reshape(masses.shape))


def _shrink_level(masses: FloatArray, variance: FloatArray, parent: FloatArray) -> FloatArray:
    """Rows of one level, shrunk towards `parent`; both broadcast, the last axis is the action."""
    parent = np.broadcast_to(parent, masses.shape)
    mass = masses.sum(axis=-1, keepdims=True)
    sure = mass > SURE * np.sqrt(variance.sum())
    safe = np.where(sure, mass, 1.0)
    row = np.where(sure, masses / safe, parent)
    # of m_a - p_a M, the part of a row's noise that moves its distribution
    noise = (variance * (1 - parent) ** 2 + parent**2 * (variance.sum() - variance)) / safe**2
    weight, axes = np.where(sure, mass, 0.0), tuple(range(masses.ndim - 1))
    excess = np.sum(((row - parent) ** 2 - noise) * weight, axis=axes) / max(float(weight.sum()), 1e-12)
    spread = np.maximum(excess, 1e-6)
    factor = np.where(sure, spread / (spread + noise), 0.0)
    estimate = np.maximum(parent + factor * (row - parent), LEAST)
    return np.asarray(estimate / estimate.sum(axis=-1, keepdims=True))
