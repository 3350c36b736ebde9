"""The price of the best of a random number of runs (`SelectionEvent`), by its Renyi curve.

Let every candidate, with its judgement, have Renyi divergence at most R(a) of order a > 1, in both directions: R is the
largest of their curves, and so that of one run, whose candidate is drawn uniformly and made known. For K of the
truncated negative binomial law of shape n (1 "geometric", 0 "logarithmic") with parameter gamma, the best of K runs has

    R'(a) <= R(a) + (1 + n) min over b >= 1 of { (1 - 1/b) R(b) + log(1/gamma) / b } + log E[K] / (a - 1)

(Papernot & Steinke, 2022, arXiv 2110.03620, Theorem 2; `proofs/selection.md`). It turns into (epsilon, delta) as in
`concentrated`. The curve of a sampled Gaussian is integrated: for such integrands the trapezoid rule is exact to
rounding (a series, as `dp_accounting` has, is exact at whole orders alone). Certified are figures over listed orders;
the check searches for a and b continuously, and compares the curves with `dp_accounting`'s next to where it found them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from dp_accounting.rdp import compute_epsilon
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from tacit.privacy.accounting import accountants, approximate, laplace
from tacit.privacy.accounting.concentrated import ROUNDING, log_delta
from tacit.privacy.accounting.events import (
    GaussianEvent,
    LaplaceEvent,
    Law,
    Leaf,
    Leaves,
    PoissonSampledEvent,
    SelectionEvent,
    ZcdpEvent,
    expected_runs,
    rho,
)
from tacit.privacy.accounting.steps import parameters, sensitivity
from tacit.units import Relation

Array = NDArray[np.float64]
Curve = Callable[[float], float]

_SHAPES: dict[Law, int] = {"logarithmic": 0, "geometric": 1}
_ORDERS = tuple(
    float(order)
    for order in (*(1 + np.geomspace(0.01, 0.98, 60)), *np.arange(2, 16, 0.1), *np.geomspace(16, 1024, 160))
)
_WHOLE = tuple(float(order) for order in (*range(2, 65), 80, 96, 128, 192, 256, 512, 1024))
_SIDE, _POINTS, _MOST_POINTS = 14.0, 60, 400_000
"""Of the quadrature: how many standard deviations it goes beyond the outermost centre, points in each of them, and how
many at most; an order that needs more is left out."""


def epsilon(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Certified epsilon at delta."""
    least = float(compute_epsilon(_ORDERS, _certified_curve(leaves, relation, _ORDERS), delta)[0])
    return max(least, 0.0) * (1 + ROUNDING)


def delta(leaves: Leaves, relation: Relation, epsilon: Array) -> Array:
    """Certified delta at each epsilon >= 0; at most 1."""
    curve = _certified_curve(leaves, relation, _ORDERS)
    held = np.isfinite(curve)
    exponents = log_delta(np.array(_ORDERS)[held], curve[held], epsilon[:, None])
    return np.asarray(np.exp(np.minimum(exponents.min(axis=1, initial=0.0), 0.0)))


def tighten(epsilon: Array, delta: Array) -> Array:
    """Smaller deltas, each at its own epsilon, for a rising grid [N]: what a larger epsilon says of smaller ones."""
    # An (e, d)-DP mechanism is (e', 1 - (1 - d) (1 + exp e') / (1 + exp e))-DP for every e' < e: its trade-off curve
    # lies above both lines of (e, d), which meet where both errors are (1 - d) / (1 + exp e).
    corners = (1 - delta) / (1 + np.exp(epsilon))
    return np.asarray(np.minimum(delta, 1 - np.maximum.accumulate(corners[::-1])[::-1] * (1 + np.exp(epsilon))))


def renyi(leaves: Leaves, relation: Relation, order: float) -> float:
    """Certified Renyi divergence of this order; inf where none is implemented."""
    return float(_certified_curve(leaves, relation, (order,))[0])


def ceiling(leaves: Leaves, relation: Relation, delta: float) -> float:
    """A looser theory's epsilon: b = a, at whole orders, by `dp_accounting`'s curves."""
    # It is turned by epsilon = R'(a) + log(1/delta) / (a - 1) (Mironov, 2017, arXiv 1702.07476, Proposition 3).
    orders, total = np.array(_WHOLE), np.zeros(len(_WHOLE))
    for leaf, count in leaves:
        selection = _selection(leaf)
        n, mean = _SHAPES[selection.law], expected_runs(selection.stop, selection.law)
        single = np.max([accountants.renyi_curve(run, relation, _WHOLE) for run in selection.candidates], axis=0)
        surcharge = (1 + n) * ((1 - 1 / orders) * single + math.log(selection.stop) / orders)
        total = total + count * (single + surcharge + math.log(mean) / (orders - 1))
    return float(np.min(total + math.log(1 / delta) / (orders - 1)))


def solve_epsilon(leaves: Leaves, relation: Relation, delta: float) -> float:
    """The check: epsilon at delta, the orders searched continuously; inf if `dp_accounting` knows another curve."""
    # Its series are exact at whole orders: there, next to the orders that were found, the curves have to be the same.
    terms, minima = [], []
    for leaf, count in leaves:
        selection = _selection(leaf)
        single = functools.partial(_run_renyi, selection, relation)
        log_stop = math.log(selection.stop)
        least, other = _minimise(functools.partial(_run_count_term, single, log_stop))
        more = (1 + _SHAPES[selection.law]) * min(log_stop, least)
        terms.append((count, single, more, math.log(expected_runs(selection.stop, selection.law))))
        minima.append((selection, other))

    def curve_epsilon(order: float) -> float:
        curve = math.fsum(
            count * (single(order) + more + log_mean / (order - 1)) for count, single, more, log_mean in terms
        )
        return curve + (order * math.log1p(-1 / order) - math.log(order - 1) - math.log(delta)) / (order - 1)

    smallest, best = _minimise(curve_epsilon)
    agrees = all(_is_known_curve(selection, relation, order) for selection, other in minima for order in (best, other))
    return max(smallest, 0.0) if agrees else math.inf


def _selection(leaf: Leaf) -> SelectionEvent:
    assert isinstance(leaf, SelectionEvent)  # the table has no other kinds beside it
    return leaf


@lru_cache(maxsize=64)
def _certified_curve(leaves: Leaves, relation: Relation, orders: tuple[float, ...]) -> Array:
    total = np.zeros(len(orders))
    for leaf, count in leaves:
        selection = _selection(leaf)
        single = _worst_curve(selection, relation, _ORDERS)
        all_orders = np.array(_ORDERS)
        held = np.isfinite(single)
        log_stop = math.log(selection.stop)
        least = float(np.min((1 - 1 / all_orders[held]) * single[held] + log_stop / all_orders[held], initial=log_stop))
        surcharge = (1 + _SHAPES[selection.law]) * least
        log_mean = math.log(expected_runs(selection.stop, selection.law))
        curve = _worst_curve(selection, relation, orders) + surcharge + log_mean / (np.array(orders) - 1)
        total += count * curve * (1 + ROUNDING)
    return total


def _worst_curve(selection: SelectionEvent, relation: Relation, orders: tuple[float, ...]) -> Array:
    """The largest of the candidates' curves at each order; inf where one has none."""
    return np.array([_run_renyi(selection, relation, order) for order in orders]) * (1 + ROUNDING)


def _is_known_curve(selection: SelectionEvent, relation: Relation, order: float) -> bool:
    """Whether `dp_accounting` knows the same curve, at the whole order next to this one."""
    near = float(max(2, round(order)))
    curve = max(float(accountants.renyi_curve(run, relation, (near,))[0]) for run in selection.candidates)
    return math.isclose(curve, _run_renyi(selection, relation, near), rel_tol=1e-3)


def _run_count_term(single: Curve, log_stop: float, order: float) -> float:
    return (1 - 1 / order) * single(order) + log_stop / order


def _minimise(curve: Curve) -> tuple[float, float]:
    """The smallest value over all orders from 1.005 to 1024, searched on a grid and then between its points; where."""
    coarse = np.linspace(math.log(0.005), math.log(1023), 60)
    values = [curve(1 + math.exp(x)) for x in coarse]
    best = int(np.argmin(values))
    bounds = coarse[max(best - 1, 0)], coarse[min(best + 1, len(coarse) - 1)]
    near = minimize_scalar(lambda x: curve(1 + math.exp(x)), bounds=bounds, method="bounded", options={"xatol": 1e-4})
    value, where = min((float(values[best]), float(coarse[best])), (float(near.fun), float(near.x)))
    return value, 1 + math.exp(where)


def _run_renyi(selection: SelectionEvent, relation: Relation, order: float) -> float:
    """The largest of the candidates' Renyi divergences of an order; inf where one has none."""
    return max(math.fsum(count * _leaf(leaf, relation, order) for leaf, count in run) for run in selection.candidates)


@lru_cache(maxsize=16384)
def _leaf(leaf: Leaf, relation: Relation, order: float) -> float:
    shift = sensitivity(relation)
    if isinstance(leaf, LaplaceEvent):
        return float(laplace.renyi(shift / leaf.noise_multiplier, order))
    if isinstance(leaf, ZcdpEvent | GaussianEvent):
        return shift**2 * rho(leaf) * order
    if isinstance(leaf, PoissonSampledEvent) and relation == "add_or_remove":
        return _sampled_renyi(*parameters(leaf), order)
    epsilon_deltas, rest = approximate.split(((leaf, 1),), relation)
    return math.inf if rest or approximate.delta_floor(epsilon_deltas) > 0 else approximate.renyi(epsilon_deltas, order)


def _sampled_renyi(q: float, sigma: float, order: float) -> float:
    """The larger of both directions' Renyi divergences between N(0, sigma^2) and (1 - q) of it and q N(1, sigma^2)."""
    ends = min(0.0, 1 - order) - _SIDE * sigma, max(1.0, order) + _SIDE * sigma
    points = 2 + math.ceil(_POINTS * (ends[1] - ends[0]) / sigma)
    if points > _MOST_POINTS:
        return math.inf
    x = np.linspace(*ends, points)
    log_base = -0.5 * (x / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
    log_ratio = np.logaddexp(math.log1p(-q), math.log(q) + (x - 0.5) / sigma**2)
    step = math.log(x[1] - x[0])
    both = (logsumexp(log_base + power * log_ratio) + step for power in (order, 1 - order))
    return max(max(float(log) for log in both) / (order - 1), 0.0)
