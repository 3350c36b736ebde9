"""Detectors of prices: what the accountants certify, against exact laws that are summed here."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy import stats

from tacit.privacy.accounting import accountants, approximate, certified, quadrature
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import EpsilonDeltaEvent, Event, SelectionEvent, flatten
from tacit.privacy.mechanisms.device_sums import DeviceSum
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


def price_of_a_selection(folder: Path) -> None:
    """Runs that are (1, 0)-private and say low, middle or high: middle is likelier by e, all above it less likely by e.

    Among many runs the best is seldom low or middle, and middle by nearly e^3 times as often.
    """
    run = EpsilonDeltaEvent(1.0, 0.0)
    told, other = np.array([0.0, 0.005 * math.e, 0.05]), np.array([0.0, 0.005, 0.05 * math.e])
    for stop, law, epsilon in ((1_000, "geometric", 2.5), (1_000, "logarithmic", 1.6)):
        event = SelectionEvent((flatten(run),), stop, law)  # type: ignore[arg-type]
        below = (1 - np.cumsum(some[::-1])[::-1] for some in (told, other))
        best = [np.diff(_generating(np.append(one, 1.0), stop, law), prepend=0.0) for one in below]
        exact, found = hockey_stick(best[0], best[1], epsilon), fresh_delta(event, epsilon)
        assert exact > 1e-6
        assert found >= exact, f"delta at {epsilon} is {exact:.3g}, and not {found:.3g}"


def _generating(z: np.ndarray, stop: int, law: str) -> np.ndarray:
    rest = 1 - 1 / stop
    return z / stop / (1 - rest * z) if law == "geometric" else np.log1p(-rest * z) / math.log(1 / stop)


def price_of_shared_noise(folder: Path) -> None:
    """The coarsest noise that devices may share: the exact law of one number on the grid."""
    part = DeviceSum(
        name="a", steps=1, devices=2, clip_norm=1.0, noise="shared", noise_multiplier=1 / 16, floor=1, bits=8
    )
    weights = np.exp(-(np.arange(-900, 901.0) ** 2) / (2 * part.variance))
    told, other = (np.pad(weights / weights.sum(), ends) for ends in ((256, 0), (0, 256)))
    mu = accountants.gaussian_mu(flatten(part.event), "add_or_remove")
    for epsilon in np.arange(0.5, 200):  # between the losses, which are whole numbers here
        exact, found = hockey_stick(told, other, epsilon), float(accountants.gaussian_delta(epsilon, mu))
        assert found >= exact * (1 - 1e-9) - 1e-15, f"delta at {epsilon:g} is {exact:.6g}, and not {found:.6g}"


PRICE_DETECTORS = (price_of_answers, price_of_a_selection, price_of_shared_noise)
