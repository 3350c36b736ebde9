"""The privacy readings of the paper on PateGAIL++ that do not hold, to compare; plans are never priced by them.

Notation: N people, T updates of B rewards each, Laplace noise of scale b on the mean of rewards in [0, 1]. One person
replaced moves every mean by up to 1 / N, so that each of the T B noisy rewards is 1 / (N b)-private, and together they
are worth what `Plan.paper(N, scale=b, starts="given").price(...)` says.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tacit.methods.mobility.pategail.allocation import LEAST
from tacit.validation import check

PUBLISHED = {
    "Radius": 0.0699,
    "DailyLoc": 0.1046,
    "Distance": 0.0130,
    "G-rank": 0.0256,
    "I-rank": 0.0176,
}
"""The five divergences on Geolife without noise, in nats, start and home cells of every day copied from real records.

The G-rank lies below that of the real training days against the real test days, 0.037."""


def one_query(scale: float) -> float:
    """1 / b: the epsilon of one reward as if one person could move the mean by 1, however many people there are."""
    check("scale", scale, 0 < scale < math.inf, "a finite number > 0")
    return 1.0 / scale


def one_mean(scale: float, people: int) -> float:
    """1 / (N b): the honest epsilon of one reward, which is that of a run only if nothing else is asked."""
    check("people", people, type(people) is int and people >= 1, "a whole number >= 1")
    return one_query(scale) / people


def pure(scale: float, people: int, queries: int) -> float:
    """T B / (N b): what basic composition says of all rewards of a run, an upper bound far above the honest figure."""
    check("queries", queries, type(queries) is int and queries >= 1, "a whole number >= 1")
    return queries * one_mean(scale, people)


def scales(epsilon: float, rewards: ArrayLike, *, sensitivity: float, least: float = LEAST) -> list[float]:
    """The paper's Laplace scales of a batch whose budget epsilon is split by w = 1 - R + delta'.

    Rewards that look real get less budget and more noise. Their mean is never below that of the uniform split, B
    sensitivity / epsilon (the arithmetic mean is at least the harmonic one): the split adds noise and moves it about.

    Args:
        epsilon: of the batch.
        rewards: pilot rewards R [B] in [0, 1].
        sensitivity: of one mean.
        least: delta'.

    Raises:
        PlanError: epsilon or delta' is not above 0, or a reward leaves its range.
    """
    given = np.asarray(rewards, np.float64)
    check("epsilon", epsilon, 0 < epsilon < math.inf, "a finite number > 0")
    check("least", least, 0 < least < math.inf, "a finite number > 0")
    inside = given.ndim == 1 and given.size > 0 and bool(((given >= 0) & (given <= 1)).all())
    check("rewards", given.shape, inside, "numbers [B] from 0 to 1")
    weight = 1.0 - given + least
    return [float(scale) for scale in sensitivity * weight.sum() / (epsilon * weight)]
