"""Which of many candidate trajectories are taken so that their rows agree with released histograms.

A trajectory lies in many cells at once, so that proportional fitting of rows does not apply. Each candidate is taken
with a probability of its own, and none twice: copies would be no new people. The probabilities are those of the
maximum-entropy design with the right means (Chen, Dempster and Liu 1994, doi:10.1093/biomet/81.3.457): logistic in a
trajectory's own mean histograms, with a penalty that leaves the means as far from the noisy ones as the noise is.

The noisy histograms are means over people of the means of their rows. Who owns one trajectory shows its own mean; who
owns several shows the mean of all their rows, in which one of them counts as much as its share of these.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit

from tacit.methods.synthesis.histograms import Floats, codes_of, shrunk, simplex
from tacit.methods.synthesis.raking import Raking
from tacit.methods.synthesis.trajectories.stitching import Stitched
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.units import Unit

STEPS = 300
"""Of L-BFGS at most."""
LEAST_DEVIATION = 1e-4
"""Histograms need not agree better than this."""


def weights_of(
    raking: Raking,
    released: Floats,
    part: PoissonSum,
    unit: Unit,
    stitched: Stitched,
    *,
    count: int,
    sums: int,
    episodes: int,
) -> Floats:
    """Probabilities [E], adding up to `count`, with which each trajectory is one of so many that are taken.

    Args:
        raking: the tables.
        released: [sum of `raking.sizes`], as of `Raking.weights`: means over units of the mean one-hot vectors of each
            unit's rows.
        part: the touch that they were released by; unit: whom it protects.
        stitched: E candidate trajectories, more than `count`.
        count: how many are to be taken.
        sums: of how many noisy sums `released` is the mean.
        episodes: public usual number of trajectories that a unit owns.
    """
    lengths = np.diff(stitched.episodes)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    tables, deviation = raking.shares(released, part, unit, sums=sums)
    own, goals, sizes = [], [], counted(lengths, episodes)
    for code, size, table in zip(codes_of(raking.tables, stitched.columns), raking.sizes, tables, strict=True):
        flat = np.bincount(owners * size + code, 1 / lengths[owners], len(lengths) * size)
        own.append(flat.reshape(len(lengths), size).astype(np.float32))
        goals.append(simplex(shrunk(table, np.average(own[-1], axis=0, weights=sizes), deviation), 1.0))
    deviation = max(deviation, LEAST_DEVIATION)
    return inclusion(np.concatenate(own, axis=1), np.concatenate(goals), deviation, sizes, count)


def counted(lengths: NDArray[np.int64], episodes: int) -> Floats:
    """[E] how much each trajectory counts in its owner's mean: its share of the rows, beside others of mean length.

    Args:
        lengths: [E] its rows.
        episodes: so many trajectories has an owner.
    """
    return np.asarray(lengths / (lengths + (episodes - 1) * lengths.mean()), np.float64)


def inclusion(own: NDArray[np.float32], goal: Floats, deviation: float, sizes: Floats, count: int) -> Floats:
    """Probabilities [E], adding up to `count`, under which the mean of `own` [E, B] over those taken is `goal` nearly.

    The logit of each is linear in how far its own histograms are from the goal.

    Args:
        own: histograms of each trajectory.
        goal: [B] what their mean is to be.
        deviation: how far from it the mean may be, in each bin.
        sizes: [E] of each trajectory, by which it counts in the mean.
        count: how many are taken; fewer than E.
    """
    sizes = sizes / sizes.mean()

    def scores(slopes: Floats) -> Floats:
        along = (own @ slopes.astype(np.float32)).astype(np.float64)
        return np.asarray(sizes * (along - goal @ slopes))

    def dual(point: Floats) -> tuple[float, Floats]:
        slopes, level = point[:-1], point[-1]
        logits = scores(slopes) + level
        taken = expit(logits)
        counted = taken * sizes
        value = np.logaddexp(0.0, logits).sum() / count - level + (deviation * slopes) @ (deviation * slopes) / 2
        apart = (counted.astype(np.float32) @ own - counted.sum() * goal) / count
        return float(value), np.append(apart + deviation**2 * slopes, taken.sum() / count - 1)

    begin = np.append(np.zeros(own.shape[1]), logit(count / len(own)))
    found = minimize(dual, begin, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    final = scores(found.x[:-1])
    most = float(np.abs(final).max()) + 50.0
    level = brentq(lambda one: float(expit(final + one).sum()) - count, -most, most)
    return np.asarray(expit(final + level))


def picked(stitched: Stitched, chosen: NDArray[np.int64]) -> Stitched:
    """The trajectories with these numbers, in this order; a number may come again."""
    lengths = np.diff(stitched.episodes)[chosen]
    episodes = np.append(0, np.cumsum(lengths))
    rows = np.arange(episodes[-1]) + np.repeat(stitched.episodes[chosen] - episodes[:-1], lengths)
    columns = {name: column[rows] for name, column in stitched.columns.items()}
    return Stitched(columns, episodes, np.flatnonzero(np.isin(rows, stitched.seams)))
