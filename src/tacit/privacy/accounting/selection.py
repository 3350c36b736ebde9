"""The price of the best of a random number of runs (`SelectionEvent`), by the privacy profile of one run.

Let every candidate, with its judgement, be (e, d(e))-private for every e, in both directions: d is the largest of their
profiles, and so that of one run, whose candidate is drawn uniformly and made known. For K of the truncated negative
binomial law of shape n (1 "geometric", 0 "logarithmic") with parameter gamma = 1 / stop, let h >= 0 be any number with
(stop - 1) d(h) <= exp(h) - 1. Then the best of K runs has at most the profile

    d'(e) = E[K] d(e - (1 + n) h)    for e >= (1 + n) h

(after Koskela, Redberg & Wang, 2024, arXiv 2402.06701; proof in `proofs/selection.md`). Any profile will do. A ledger
that adds Renyi bounds up has, for R(a) the largest of the candidates' Renyi divergences of order a,

    R'(a) <= R(a) + (1 + n) min over b >= 1 of { (1 - 1/b) R(b) + log(1/gamma) / b } + log E[K] / (a - 1)

(Papernot & Steinke, 2022, arXiv 2110.03620, Theorem 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants
from tacit.privacy.accounting.concentrated import ROUNDING
from tacit.privacy.accounting.events import Law, Leaves, SelectionEvent, expected_runs
from tacit.roots import find_root
from tacit.units import Relation

Array = NDArray[np.float64]
Run = Callable[[Leaves, float], float]
"""(a candidate, delta) -> epsilon of a run of it."""

_POWERS: dict[Law, int] = {"logarithmic": 1, "geometric": 2}
"""1 + n."""
_ORDERS = tuple(
    float(order)
    for order in (*(1 + np.geomspace(0.01, 0.98, 60)), *np.arange(2, 16, 0.1), *np.geomspace(16, 1024, 160))
)
_LEAST, _STEP, _UNKNOWN = math.log(1e-9), 1e-6, 1e3


def epsilon(leaves: Leaves, delta: float, run: Run) -> float:
    """Epsilon at delta, by the profiles of the candidates' runs."""
    selection = selection_of(leaves)
    mean = expected_runs(selection.stop, selection.law)
    priced = [(run(candidate, delta / mean), shift(leaves, run, candidate)) for candidate in selection.candidates]
    epsilons, shifts = zip(*priced, strict=True)
    return float(max(epsilons) + max(shifts))


def shift(leaves: Leaves, run: Run, candidate: Leaves) -> float:
    """(1 + n) h for one candidate, h as small as a search over delta finds."""
    # With delta = (exp(h) - 1) / (stop - 1) the condition is: epsilon of the run at delta is at most h. It holds at 1.
    selection = selection_of(leaves)

    def excess(log_delta: float) -> float:
        if log_delta >= 0:
            return -math.log(selection.stop)
        try:
            return run(candidate, math.exp(log_delta)) - math.log1p((selection.stop - 1) * math.exp(log_delta))
        except AccountingError:  # no epsilon is known there, so that the condition is not known to hold
            return _UNKNOWN

    found, step = _LEAST, _STEP
    if excess(_LEAST) > 0:
        found = find_root(excess, _LEAST, 0.0, tolerance=_STEP)
    while excess(found) > 0:
        found, step = min(found + step, 0.0), 2 * step
    return _POWERS[selection.law] * math.log1p((selection.stop - 1) * math.exp(found)) * (1 + ROUNDING)


def tighten(epsilon: Array, delta: Array) -> Array:
    """Smaller deltas, each at its own epsilon, for a rising grid [N]: what a larger epsilon says of smaller ones."""
    # An (e, d)-DP mechanism is (e', 1 - (1 - d) (1 + exp e') / (1 + exp e))-DP for every e' < e: its trade-off curve
    # lies above both lines of (e, d), which meet where both errors are (1 - d) / (1 + exp e).
    corners = (1 - delta) / (1 + np.exp(epsilon))
    return np.asarray(np.minimum(delta, 1 - np.maximum.accumulate(corners[::-1])[::-1] * (1 + np.exp(epsilon))))


def renyi(leaves: Leaves, relation: Relation, order: float) -> float:
    """Certified Renyi divergence of this order; inf where none is known."""
    total = 0.0
    for selection, count in leaves:
        assert isinstance(selection, SelectionEvent)  # the table has no other kinds beside it
        curve = {a: max(accountants.renyi(run, relation, a) for run in selection.candidates) for a in (*_ORDERS, order)}
        log_stop, log_mean = math.log(selection.stop), math.log(expected_runs(selection.stop, selection.law))
        least = min((1 - 1 / b) * value + log_stop / b for b, value in curve.items())
        more = _POWERS[selection.law] * min(least, log_stop)
        # a divergence rises with its order
        own = min(value + log_mean / (a - 1) for a, value in curve.items() if a >= order)
        total += count * (own + more) * (1 + ROUNDING)
    return total


def selection_of(leaves: Leaves) -> SelectionEvent:
    """The selection that an event is: the table has none beside anything else, and none twice."""
    ((selection, _),) = leaves
    assert isinstance(selection, SelectionEvent)
    return selection
