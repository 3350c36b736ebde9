"""What a promise means to an attacker: the most that any test for one unit can catch."""

from __future__ import annotations

import math

import numpy as np
from dp_accounting.dp_event import DpEvent, GaussianDpEvent, LaplaceDpEvent
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import flatten
from tacit.units import Relation

Array = NDArray[np.float64]

FALSE_ALARMS = 0.05
"""The rate of false alarms at which promises are put into words."""


def power(event: DpEvent, relation: Relation, epsilon: float, delta: float, false_alarms: Array) -> Array:
    """The largest share of true cases that any test catches, [N], given its share of false alarms [N].

    Plain Gaussians are exactly mu-GDP: 1 - Phi(Phi^-1(1 - a) - mu) at the rate a, which is attained (Dong, Roth & Su,
    arXiv:1905.02383, Corollary 3.3); numbers with Laplace noise, alone or next to Gaussians, are no less private than
    that for `laplace.mu`. For these and any other event at most e^epsilon a + delta and at most
    1 - e^-epsilon (1 - delta - a) (Kairouz, Oh & Viswanath, arXiv:1311.0776, Theorem 2.1).

    Args:
        event: the mechanism.
        relation: what neighbouring data sets differ in.
        epsilon, delta: a promise that the event keeps; not used for plain Gaussians.
        false_alarms: [N], in [0, 1].

    Guarantee: no test of the two hypotheses that neighbours make has more power, whatever it computes and knows.

    Edge cases: infinite epsilon gives 1 everywhere.

    Raises:
        AccountingError: the event is unknown.
    """
    leaves = flatten(event)
    curve = np.ones_like(false_alarms)
    if leaves and all(isinstance(leaf, GaussianDpEvent | LaplaceDpEvent) for leaf, _ in leaves):
        curve = np.asarray(ndtr(ndtri(false_alarms) + accounting.mu_gdp(event, relation)))
        if all(isinstance(leaf, GaussianDpEvent) for leaf, _ in leaves):
            return curve
    if epsilon > 700:
        return curve
    grown = math.exp(epsilon) * false_alarms + delta
    shrunk = 1.0 - math.exp(-epsilon) * (1.0 - delta - false_alarms)
    return np.asarray(np.minimum(curve, np.minimum(grown, shrunk)))


def caught(event: DpEvent, relation: Relation, epsilon: float, delta: float) -> float:
    """`power` at 5 % false alarms, in per cent, rounded up to four significant digits; the one figure to be printed."""
    share = float(power(event, relation, epsilon, delta, np.array([FALSE_ALARMS]))[0])
    return min(100.0, accounting.round_up(100 * share, 4))


def words(event: DpEvent, relation: Relation, epsilon: float, delta: float) -> str:
    """`caught` as a clause, for people."""
    share = caught(event, relation, epsilon, delta)
    return f"any test with {100 * FALSE_ALARMS:g} % false alarms catches at most {share:g} % of true cases"
