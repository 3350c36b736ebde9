"""From scores to lower bounds: exact confidence, and what is assumed is said.

Bounds that assume nothing come from `measure.audit` (Clopper & Pearson) and `measure.one_run` (Steinke et al.). Where
all that leaves the doors are Gaussian sums, the whole trade-off curve is one of mu-GDP, and the rates of one test that
was fixed beforehand bound mu: far tighter, for a mechanism of that law.
"""

from __future__ import annotations

import math

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent
from dp_accounting.dp_event import ZCDpEvent
from numpy.typing import NDArray

from tacit.evaluation import audit as rates
from tacit.evaluation import one_run
from tacit.privacy.accounting.accountants import gaussian_epsilon
from tacit.privacy.accounting.events import flatten

Floats = NDArray[np.float64]
FEWEST = 16
"""Runs of each world below which no direction is learnt from shadow runs."""


def is_gaussian(event: DpEvent) -> bool:
    """Whether all of it is noise of a Gaussian (or, shared by devices, a discrete Gaussian) on sums over everybody."""
    return all(isinstance(leaf, GaussianDpEvent | ZCDpEvent) for leaf, _ in flatten(event))


def any_mechanism(without: Floats, having: Floats, *, delta: float, confidence: float) -> float:
    """The bound on epsilon that assumes nothing; half of the scores choose the threshold that the others are put to."""
    return rates.audit(without, having, delta=delta, confidence=confidence).epsilon


def if_gaussian(without: Floats, having: Floats, *, delta: float, confidence: float) -> float:
    """The bound on epsilon of a mu-GDP mechanism, from log-likelihood ratios and the threshold 0 for all of them."""
    counts = rates.Counts(int((without > 0).sum()), without.size, int((having > 0).sum()), having.size)
    mu = rates.mu_lower_bound(counts, confidence=confidence)
    return gaussian_epsilon(delta, mu) if mu else 0.0


def many(scores: Floats, present: NDArray[np.bool_], *, delta: float, confidence: float) -> float:
    """The bound from one run, or several joined ones, each canary a unit of one of them."""
    return one_run.audit(scores, present, delta=delta, confidence=confidence).epsilon


def shadowed(without: Floats, having: Floats) -> tuple[Floats, Floats] | None:
    """Scores of released numbers in a direction that shadow runs taught.

    The first half of the runs of each world are shadows: the difference of their means, over the variance of each
    number, is the direction; the others, untouched, are scored. That is what a model of independent Gaussian numbers
    (LiRA: Carlini et al., arXiv:2112.03570) makes of them.

    Args:
        without, having: [N, P] and [M, P], released numbers.

    Returns:
        Scores [N - N // 2] and [M - M // 2]; None where there are no numbers, or too few runs.
    """
    if not without.shape[1] or min(len(without), len(having)) < 2 * FEWEST:
        return None
    first = [world[: len(world) // 2] for world in (without, having)]
    mean = [world.mean(axis=0) for world in first]
    variance = (first[0].var(axis=0) + first[1].var(axis=0)) / 2
    floor = max(float(variance.max()) * 1e-9, math.ulp(1.0))
    direction = (mean[1] - mean[0]) / np.maximum(variance, floor)
    rest = [world[len(world) // 2 :] @ direction for world in (without, having)]
    return rest[0], rest[1]
