"""Weights of whole trajectories under which their rows agree with released histograms.

A trajectory lies in many cells at once, so that proportional fitting of rows does not apply. Its weights are those of
the maximum-entropy law with the right means (Csiszar 1975, doi:10.1214/aop/1176996454): exponential in its own mean
histograms, with a penalty that leaves them as far from the noisy ones as the noise is, and further where only a few
trajectories would be left.

The noisy histograms are means over people of the means of their rows. Who owns one trajectory shows its own mean; who
owns many shows the mean of all their rows, in which long ones count for more, by their lengths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from tacit.methods.synthesis.histograms import Floats, codes_of, effective, shrunk, simplex
from tacit.methods.synthesis.raking import Raking
from tacit.methods.synthesis.trajectories.stitching import Stitched
from tacit.privacy.parts import PoissonSum
from tacit.units import Unit

STEPS = 100
"""Of L-BFGS at most."""
LEAST_DEVIATION = 1e-4
"""Histograms need not agree better than this."""
FEWEST = 0.1
"""Share of the candidates that must be left, as effective trajectories: else a few of them are copied over and over."""


def weights_of(
    raking: Raking, released: Floats, part: PoissonSum, unit: Unit, stitched: Stitched, *, sums: int, several: bool
) -> Floats:
    """Weights [E], adding up to 1, of trajectories.

    Args:
        raking: the tables.
        released: [sum of `raking.sizes`], as of `Raking.weights`: means over units of the mean one-hot vectors of each
            unit's rows.
        part: the touch that they were released by; unit: whom it protects.
        stitched: E candidate trajectories.
        sums: of how many noisy sums `released` is the mean.
        several: whether a unit owns several trajectories; else each stands for a unit.
    """
    lengths = np.diff(stitched.episodes)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    tables, deviation = raking.shares(released, part, unit, sums=sums)
    own, goals, sizes = [], [], lengths.astype(np.float64) if several else np.ones(len(lengths))
    for code, size, table in zip(codes_of(raking.tables, stitched.columns), raking.sizes, tables, strict=True):
        flat = np.bincount(owners * size + code, 1 / lengths[owners], len(lengths) * size)
        own.append(flat.reshape(len(lengths), size).astype(np.float32))
        goals.append(simplex(shrunk(table, np.average(own[-1], axis=0, weights=sizes), deviation), 1.0))
    return spread(np.concatenate(own, axis=1), np.concatenate(goals), max(deviation, LEAST_DEVIATION), sizes)


def spread(own: NDArray[np.float32], goal: Floats, deviation: float, sizes: Floats) -> Floats:
    """`tilted`, with the deviation raised by steps until enough effective trajectories are left."""
    weights = tilted(own, goal, deviation, sizes)
    while effective(weights) < FEWEST * len(own):
        deviation *= 2**0.5
        weights = tilted(own, goal, deviation, sizes)
    return weights


def tilted(own: NDArray[np.float32], goal: Floats, deviation: float, sizes: Floats) -> Floats:
    """Weights [E] proportional to exp(own @ slopes), under which the mean of `own` [E, B] is `goal` [B] nearly.

    Args:
        own: histograms of each trajectory.
        goal: what their mean is to be.
        deviation: how far from it the mean may be, in each bin.
        sizes: [E] of each trajectory, by which, times its weight, it counts in the mean.
    """
    logs = np.log(sizes / sizes.sum())

    def dual(slopes: Floats) -> tuple[float, Floats]:
        scores = (own @ slopes.astype(np.float32)).astype(np.float64) + logs
        mean = softmax(scores).astype(np.float32) @ own
        value = logsumexp(scores) - slopes @ goal + (deviation * slopes) @ (deviation * slopes) / 2
        return float(value), np.asarray(mean - goal + deviation**2 * slopes, np.float64)

    found = minimize(dual, np.zeros(own.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return np.asarray(softmax((own @ found.x.astype(np.float32)).astype(np.float64)))


def picked(stitched: Stitched, chosen: NDArray[np.int64]) -> Stitched:
    """The trajectories with these numbers, in this order; a number may come again."""
    lengths = np.diff(stitched.episodes)[chosen]
    episodes = np.append(0, np.cumsum(lengths))
    rows = np.arange(episodes[-1]) + np.repeat(stitched.episodes[chosen] - episodes[:-1], lengths)
    columns = {name: column[rows] for name, column in stitched.columns.items()}
    return Stitched(columns, episodes, np.flatnonzero(np.isin(rows, stitched.seams)))
