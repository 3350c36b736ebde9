"""Detectors of prices: what the accountants certify, against exact laws that are summed here."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy import stats

from tacit.privacy.accounting import accountants, approximate, certified, quadrature
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import Event
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.units import Relation

CACHES = (
    *(certified.epsilon, certified.mu, approximate._compose, quadrature.estimate),
    accountants._pessimistic_pld,
)


def fresh_delta(event: Event, epsilon: float, relation: Relation = "add_or_remove") -> float:
    """The certified delta, from no figure of before a mistake, and without leaving one that a mistake made."""
    for cached in CACHES:
        cached.cache_clear()
    try:
        return accounting.delta(event, epsilon=epsilon, relation=relation)
    finally:
        for cached in CACHES:
            cached.cache_clear()


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The larger one of both directions."""
    return max(float(np.maximum(0, one - math.exp(epsilon) * two).sum()) for one, two in ((p, q), (q, p)))


def price_of_answers(folder: Path) -> None:
    """Who answers yes each time, against coins."""
    part = RandomizedResponses(name="a", steps=1, users=9, answers=5, noise_multiplier=0.625)
    kept, q = np.arange(6), part.flip_probability
    answered, coins = stats.binom.pmf(kept, 5, 1 - q), stats.binom.pmf(kept, 5, 0.5)
    for epsilon in (1.0, 3.0, 5.0):
        exact, found = hockey_stick(answered, coins, epsilon), fresh_delta(part.event, epsilon)
        assert found >= exact * (1 - 1e-9), f"delta at {epsilon} is {exact:.3g}, and not {found:.3g}"


PRICE_DETECTORS = (price_of_answers,)
