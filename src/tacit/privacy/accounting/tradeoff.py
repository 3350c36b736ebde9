"""The trade-off curve of a release: the least share of true cases that a test misses, by its share of false alarms."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from tacit.errors import AccountingError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import Event, GaussianEvent, LaplaceEvent, event_from_json, flatten
from tacit.units import Relation

Array = NDArray[np.float64]

STATED_ALARMS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Where the curve is stated."""
_STEEPEST = 700.0
_POINTS = 49


def miss_rates(event: Event, relation: Relation, *, delta: float, false_alarms: Array) -> Array:
    """The least share [N] of true cases that any test misses which has these shares [N] of false alarms.

    Of every pair (e, d) that the event keeps follow two lines below the curve, 1 - d - exp(e) a and exp(-e) (1 - d - a)
    (Kairouz, Oh & Viswanath, arXiv:1311.0776), and together they are the curve (Dong, Roth & Su, arXiv:1905.02383,
    Proposition 2.12). Taken are 49 values of e from 0 to epsilon(delta), as far as they are certified, and the profile.
    Plain Gaussians are exactly mu-GDP: Phi(Phi^-1(1 - a) - mu), which is attained (Corollary 3.3); numbers with
    Laplace noise, alone or next to Gaussians, are no less private than that for `laplace.mu`.

    Args:
        event: the mechanism.
        relation: what neighbouring data sets differ in.
        delta: where the pairs end; not used for plain Gaussians.
        false_alarms: [N], in [0, 1].

    Guarantee: a lower bound of the trade-off function of every pair of neighbours.

    Edge cases: an event without privacy gives 0 everywhere.

    Raises:
        AccountingError: as for `accounting.epsilon`.
    """
    a, leaves = np.asarray(false_alarms, dtype=np.float64), flatten(event)
    curve = np.zeros_like(a)
    if leaves and all(isinstance(leaf, GaussianEvent | LaplaceEvent) for leaf, _ in leaves):
        curve = np.asarray(ndtr(-ndtri(a) - accounting.mu_gdp(event, relation)))
        if all(isinstance(leaf, GaussianEvent) for leaf, _ in leaves):
            return curve
    epsilon = accounting.epsilon(event, delta=delta, relation=relation).epsilon
    if not np.isfinite(epsilon):
        return np.zeros_like(a)
    losses = np.linspace(0.0, epsilon, _POINTS).tolist()
    pairs = [(epsilon, delta), *((e, d) for d, e in accounting.profile(event, relation))]
    for e in losses:
        with suppress(AccountingError):  # where the accountants disagree nothing is certified, and nothing needed
            pairs.append((e, accounting.delta(event, epsilon=e, relation=relation)))
    e, d = (np.array(column)[:, None] for column in zip(*pairs, strict=True))
    steep = np.where(a > 0, 0.0, 1 - d)  # where exp(e) is beyond a float, so is how fast the first line falls
    first = np.where(e > _STEEPEST, steep, 1 - d - np.exp(np.minimum(e, _STEEPEST)) * a)
    lines = np.maximum(first, np.exp(-e) * (1 - d - a)).max(axis=0)
    return np.asarray(np.clip(np.maximum(lines, curve), 0.0, 1.0))


def rows(record: Mapping[str, Any]) -> list[dict[str, float]]:
    """The curve of a certificate's JSON form at `STATED_ALARMS`, rounded down; 0 where nothing is promised."""
    shares = np.zeros(len(STATED_ALARMS))
    if record["private"]:
        event, relation = event_from_json(record["event"]), record["unit"]["relation"]
        shares = miss_rates(event, relation, delta=record["delta"], false_alarms=np.array(STATED_ALARMS))
    down = np.floor(shares * 1e6) / 1e6
    return [{"false_alarms": a, "missed_at_least": b} for a, b in zip(STATED_ALARMS, down.tolist(), strict=True)]
