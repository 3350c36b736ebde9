"""From a noisy histogram of (state, action) to a policy: what is known of the sums is imposed, and rows are shrunk.

Rows of the table are distributions over actions. They are estimated from coarse to fine: one row for all states, one
for each value of at home, then of stay x at home, of cells x stay x at home, and of time x cells x stay x at home. Each
row is shrunk towards its parent's by how much rows of its level differ beyond the known noise (a moment estimate), so
that no constant depends on the records and a level that is all noise costs nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.days import STAY
from tacit.methods.mobility.moves import ACTIONS_COUNT, DAY_SIZES, Weights
from tacit.methods.mobility.simulator import Layout

FloatArray = npt.NDArray[np.float64]

LEAST = 1e-4
"""Least probability of an action before rows are normalised."""
SURE = 2.0
"""A row whose released mass is below so many standard deviations of it is its parent's."""
LEAST_FACTOR = 0.02
"""Least common factor of clipped vectors that is believed."""


def unscaled(mean: FloatArray, noise: float, layout: Layout, weights: Weights) -> tuple[FloatArray, FloatArray]:
    """The released mean [d] without the scales of the coordinates, and the standard deviation of its noise [d]."""
    # noise: standard deviation of each coordinate's noise
    scale = weights.of(layout)
    return np.asarray(mean / scale), np.asarray(noise / scale)


def common_factor(values: FloatArray, sd: FloatArray, layout: Layout) -> float:
    """By which factor clipping has shrunk the mean: each histogram would add up to 1, so the weighted mean of the
    sums."""
    ends = np.cumsum([0, layout.size * ACTIONS_COUNT, *DAY_SIZES])
    ends = ends[ends <= len(values)]
    sums = np.add.reduceat(values, ends[:-1])
    precision = 1 / np.maximum(np.add.reduceat(sd**2, ends[:-1]), 1e-30)
    return max(float(np.sum(sums * precision) / np.sum(precision)), LEAST_FACTOR)


def table(values: FloatArray, sd: FloatArray, layout: Layout) -> FloatArray:
    """The policy [K, 5] of a released vector (`unscaled`): the histogram's own, without the days'."""
    factor, width = common_factor(values, sd, layout), layout.size * ACTIONS_COUNT
    masses = values[:width].reshape(layout.size, ACTIONS_COUNT) / factor
    variance = (sd[:ACTIONS_COUNT] / factor) ** 2
    return shrunk(imposed(masses, variance, layout), variance, layout)


def imposed(masses: FloatArray, variance: FloatArray, layout: Layout) -> FloatArray:
    """The masses [K, 5] with the public mass of each time block: the gap goes where the variance [5] is."""
    # With noise of different size the least squares correction of a known sum is in proportion to the variances.
    blocks = masses.reshape(layout.times, -1, ACTIONS_COUNT)
    gap = layout.block_shares - blocks.sum(axis=(1, 2))
    total = max(float(blocks.shape[1] * variance.sum()), 1e-300)
    noisy = variance if variance.sum() > 0 else np.eye(ACTIONS_COUNT)[STAY]
    total = total if variance.sum() > 0 else blocks.shape[1]
    return np.asarray((blocks + gap[:, None, None] * noisy / total).reshape(masses.shape))


def shrunk(masses: FloatArray, variance: FloatArray, layout: Layout) -> FloatArray:
    """The policy [K, 5] of joint masses [K, 5] whose noise has the variance [5] in each bucket."""
    times, counts, stays, homes = layout.shape
    joint = masses.reshape(times, counts, stays, homes, ACTIONS_COUNT)
    parent = np.maximum(joint.sum(axis=(0, 1, 2, 3)), LEAST)
    parent = parent / parent.sum()
    for axes in ((0, 1, 2), (0, 1), (0,), ()):
        added = int(np.prod([joint.shape[axis] for axis in axes]))
        parent = _level(joint.sum(axis=axes, keepdims=True), variance * added, parent)
    return np.asarray(np.broadcast_to(parent, joint.shape).reshape(masses.shape))


def _level(masses: FloatArray, variance: FloatArray, parent: FloatArray) -> FloatArray:
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
