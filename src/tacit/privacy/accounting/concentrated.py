"""Events of which a Renyi curve alone is known (`ZcdpEvent`), and whatever is composed with them: no loss distribution.

An event tree that holds one is accounted for by the sum of the Renyi divergences R(a) of all its leaves at each order
a > 1, which adaptive composition keeps (Mironov, 2017, arXiv 1702.07476): rho a for `ZcdpEvent`, a / (2 sigma^2) for a
Gaussian, the closed form for Laplace, shifts doubled (rho four times) under `replace_one`. It is then
(epsilon, delta)-DP with, for every order (Canonne, Kamath & Steinke, 2020, arXiv 2004.00010, Proposition 12),

    delta = exp((a - 1) (R(a) - epsilon)) (1 - 1/a)^a / (a - 1).

Certified are `dp_accounting`'s conversions at many orders, each of them a bound; the check solves the formula above for
epsilon over orders that are searched continuously.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting import laplace
from tacit.privacy.accounting.events import LaplaceEvent, Leaves, rho
from tacit.privacy.accounting.peer import RdpAccountant, dp_event
from tacit.roots import find_root
from tacit.units import Relation

Array = NDArray[np.float64]

_ORDERS = 1 + np.geomspace(0.0101, 1e7, 3000)
ROUNDING = 1e-9
"""Relative allowance for float64, and for the rest of sums of many discrete Gaussians (`proofs/federated_sums.md`)."""


def epsilon(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Certified epsilon at delta."""
    return float(_accountant(leaves, relation).get_epsilon(delta)) * (1 + ROUNDING)


def delta(leaves: Leaves, relation: Relation, epsilon: Array) -> Array:
    """Certified delta at each epsilon >= 0; at most 1."""
    exponents = log_delta(_ORDERS, np.asarray(_accountant(leaves, relation).rdp) * (1 + ROUNDING), epsilon[:, None])
    return np.asarray(np.exp(np.minimum(exponents.min(axis=1), 0.0)))


def solve_epsilon(leaves: Leaves, relation: Relation, delta: float) -> float:
    """The check: where the smallest delta over all orders, searched continuously, equals delta."""
    goal = math.log(delta)

    from scipy.optimize import minimize_scalar  # slow to import, and most ledgers have no such plan

    def excess(epsilon: float) -> float:
        def at(log_order: float) -> float:
            order = 1 + math.exp(log_order)
            return float(log_delta(order, _curve(leaves, relation, order), epsilon))

        coarse = np.linspace(math.log(0.01), math.log(1e7), 60)
        best = int(np.argmin([at(x) for x in coarse]))
        low, high = coarse[max(best - 1, 0)], coarse[min(best + 1, 59)]
        return min(at(float(coarse[best])), float(minimize_scalar(at, bounds=(low, high), method="bounded").fun)) - goal

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return find_root(excess, 0.0, high, tolerance=1e-9)


def ceiling(leaves: Leaves, relation: Relation, delta: float) -> float:
    """A looser theory's epsilon: rho + 2 sqrt(rho log(1/delta)) (Bun & Steinke, 2016, arXiv 1605.02065)."""
    # A Laplace mechanism that is e-DP is e^2/2-zCDP there.
    shift = 1.0 if relation == "add_or_remove" else 2.0
    total = shift**2 * math.fsum(
        count * (0.5 / leaf.noise_multiplier**2 if isinstance(leaf, LaplaceEvent) else rho(leaf))
        for leaf, count in leaves
    )
    return total + 2 * math.sqrt(total * math.log(1 / delta))


def log_delta(order: Array | float, curve: Array | float, epsilon: Array | float) -> Array:
    """The logarithm of the delta that a Renyi divergence of this order gives at epsilon (see the module)."""
    order = np.asarray(order)
    return np.asarray((order - 1) * (curve - epsilon) + order * np.log1p(-1 / order) - np.log(order - 1))


def _curve(leaves: Leaves, relation: Relation, order: float) -> float:
    shift = 1.0 if relation == "add_or_remove" else 2.0
    total = 0.0
    for leaf, count in leaves:
        if isinstance(leaf, LaplaceEvent):
            total += count * float(laplace.renyi(shift / leaf.noise_multiplier, order))
        else:
            total += count * shift**2 * rho(leaf) * order
    return total


@lru_cache(maxsize=8)
def _accountant(leaves: Leaves, relation: Relation) -> RdpAccountant:
    shift = 1.0 if relation == "add_or_remove" else 2.0
    accountant = RdpAccountant(_ORDERS)
    for leaf, count in leaves:
        if isinstance(leaf, LaplaceEvent):
            accountant.compose(dp_event.LaplaceDpEvent(leaf.noise_multiplier / shift), count)
        else:
            accountant.compose(dp_event.ZCDpEvent(shift**2 * rho(leaf)), count)
    return accountant
