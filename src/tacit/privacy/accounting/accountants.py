"""The accountants behind the table of `table.py`: from leaves to (epsilon, delta), in independent ways.

`pessimistic_pld` is the certified upper bound; the others, and `quadrature.estimate`, only check it. Every accountant
takes the canonical `(event, count)` leaves of `events.flatten` (no `NonPrivateEvent` among them) and a relation.
A step over a Poisson sample, or over everyone, is in `poisson.py`, one over a fixed-size sample without replacement in
`fixed_size.py`, one with Laplace noise in `laplace.py`;
`EpsilonDeltaEvent` and `RandomizedResponseEvent`, which only `pessimistic_pld` and the Renyi bounds take, in
`approximate.py`; `ZcdpEvent`, of which
only the Renyi bound at one order is here, in `concentrated.py`.

Dominating pairs. Let one unit's contribution have norm at most 1 and the noise standard deviation sigma. With
`add_or_remove` a step is dominated, in the two directions, by ((1-q) N(0) + q N(1), N(0)) and its swap; with
`replace_one`, both neighbours flipping the same coin for the replaced unit, by ((1-q) N(0) + q N(1),
(1-q) N(0) + q N(-1)). Proof: condition on the other units' coins (joint convexity), which leaves the centres 0, u, v
with |u|, |v| <= 1; for any test of size a under N(0) the Neyman-Pearson lemma bounds its power at u by that of the
threshold test on the line at +1, and likewise from below at v, and that one threshold test attains both. Dominating
pairs compose adaptively (Zhu, Dong & Wang, 2022, arXiv 2106.08567, Theorem 10).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from tacit.privacy.accounting import approximate, fixed_size, laplace, poisson
from tacit.privacy.accounting.concentrated import ROUNDING
from tacit.privacy.accounting.events import (
    GaussianEvent,
    LaplaceEvent,
    Leaf,
    Leaves,
    SampledWithoutReplacementEvent,
    SelectionEvent,
    ZcdpEvent,
    rho,
)
from tacit.privacy.accounting.peer import NeighboringRelation, RdpAccountant, compute_epsilon, dp_event
from tacit.privacy.accounting.steps import (
    MAX_GRID,
    loss_std,
    merge_gaussians,
    noise,
    parameters,
    pure_epsilon,
    sensitivity,
    spacing,
    width,
)
from tacit.roots import find_root
from tacit.units import Relation

Array = NDArray[np.float64]

_RELATIONS = {"add_or_remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace_one": NeighboringRelation.REPLACE_ONE}
_ORDERS = [*range(2, 65), 80, 96, 128, 192, 256, 512, 1024]  # whole: the series for fractional orders may not converge


def gaussian_mu(leaves: Leaves, relation: Relation) -> float:
    """The mu for which the composition is mu-GDP if all sampling is ignored: sqrt(sum count) * s / sigma."""
    # Exact for plain Gaussians (Dong, Roth & Su, arXiv 1905.02383, Corollary 3.3); for samples an upper bound, by joint
    # convexity over the draw.
    precision = sum(count / noise(leaf) ** 2 for leaf, count in leaves)
    return sensitivity(relation) * math.sqrt(precision)


def mu(leaves: Leaves, relation: Relation) -> float:
    """A mu for which the composition is mu-GDP at every epsilon, all sampling ignored; inf where there is none."""
    # Exact for plain Gaussians. For a `ZcdpEvent` or a selection none is known: Renyi curves say too little of the
    # smallest epsilons.
    epsilon_deltas, rest = approximate.split(leaves, relation)
    if any(isinstance(leaf, ZcdpEvent | SelectionEvent) for leaf, _ in rest):
        return math.inf
    gaussians = tuple(item for item in rest if not isinstance(item[0], LaplaceEvent))
    numbers = ((leaf, count) for leaf, count in rest if isinstance(leaf, LaplaceEvent))
    squares = math.fsum(count * laplace.mu(pure_epsilon(leaf, relation)) ** 2 for leaf, count in numbers)
    return math.hypot(approximate.mu(epsilon_deltas), gaussian_mu(gaussians, relation), math.sqrt(squares))


def gaussian_delta(epsilon: Array | float, mu: Array | float) -> Array:
    """delta(epsilon) of a mu-GDP mechanism (Balle & Wang, 2018, arXiv 1805.06530, Theorem 8), elementwise."""
    # mu: > 0, sensitivity / noise standard deviation
    ratio, half = np.asarray(epsilon / mu), np.asarray(mu / 2)
    lower = np.exp(np.minimum(epsilon + log_ndtr(-ratio - half), 0.0))
    return np.asarray(np.maximum(ndtr(half - ratio) - lower, 0.0))


def gaussian_epsilon(delta: float, mu: float) -> float:
    """The epsilon at which `gaussian_delta(epsilon, mu)` equals delta; 0 where delta(0) is already below."""
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))  # Gaussian tail bound: delta(high) <= delta
    return find_root(lambda e: float(gaussian_delta(e, mu)) - delta, 0.0, high, tolerance=1e-13)


def smallest_mu(grid: Array, target_deltas: Array, upper: float) -> float:
    """The smallest mu, at most `most`, whose delta at each point of a rising grid is what the last one needed."""
    # grid: [n + 1] epsilons >= 0; needed: [n] a falling curve of deltas at grid[:-1], as `mu`'s delta at grid[1:]
    # reaches them, it is above the curve between the points, too; most: > 0, a mu that is known to be enough
    low, high = np.zeros(len(target_deltas)), np.full(len(target_deltas), upper)
    for _ in range(60):
        middle = (low + high) / 2
        enough = gaussian_delta(grid[1:], middle) >= target_deltas
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return float(high.max())


def float_slack(leaves: Leaves) -> float:
    """An allowance on delta for rounding in the Fourier transforms, which grows with the steps."""
    # Against the closed form of composed Gaussians the error of delta stays below a quarter of 2^-52 * steps (tested).
    return 1e-13 + 2.0**-52 * sum(count for _, count in leaves)


def pessimistic_pld(leaves: Leaves, relation: Relation, *, spread: float) -> Any:
    """The privacy loss distribution of the composition, rounded so that its delta is an upper bound.

    Source: connect-the-dots discretisation (Doroshenko et al., 2022, arXiv 2207.04380) by `dp_accounting`.

    Args:
        leaves: canonical leaves; plain Gaussians are merged into one, which is exact.
        relation: the neighbouring relation.
        spread: twice how much of the loss's variance the grid may add; the relative excess of epsilon is about this
            (0.9e-3 measured for 1e-3 and 1.1e-4 for 1e-4). Over very many steps a fine grid may cost more than it
            saves: rounding in the discretisation adds mass there.

    Returns:
        `dp_accounting`'s PrivacyLossDistribution.
    """
    return _pessimistic_pld(merge_gaussians(leaves), relation, spread)


@lru_cache(maxsize=8)
def _pessimistic_pld(leaves: Leaves, relation: Relation, spread: float) -> Any:
    epsilon_deltas, gaussians = approximate.split(leaves, relation)
    variance = approximate.variance(epsilon_deltas) + sum(
        count * loss_std(leaf, relation) ** 2 for leaf, count in gaussians
    )
    interval = spacing(variance, sum(count for _, count in leaves), spread)
    largest_grid = MAX_GRID * min(1.0, math.sqrt(1e-4 / spread))
    widest = max(approximate.width(epsilon_deltas), max(width(leaf, relation) for leaf, _ in gaussians))
    interval = max(interval, widest / largest_grid)
    total = approximate.pessimistic_pld(epsilon_deltas, interval) if epsilon_deltas else None
    for leaf, count in gaussians:
        distribution = _step_pld(leaf, relation, interval)
        composed = distribution.self_compose(count) if count > 1 else distribution
        total = composed if total is None else total.compose(composed)
    return total


def deltas(distribution: Any, epsilons: Array) -> Array:
    """Delta at each of rising, finite epsilons, [N]: what `distribution.get_delta_for_epsilon` gives."""
    # It adds up the same numbers in the same order, in numpy where `dp_accounting` walks over the grid in Python.
    directions = {id(pmf): pmf for pmf in (distribution._pmf_remove, distribution._pmf_add)}
    return np.asarray(np.max([_hockey_sticks(pmf.to_dense_pmf(), epsilons) for pmf in directions.values()], axis=0))


def _hockey_sticks(pmf: Any, epsilons: Array) -> Array:
    losses = (np.arange(pmf.size) + pmf._lower_loss) * pmf._discretization
    above = pmf.size - np.searchsorted(losses, epsilons, side="right")
    upper = np.cumsum([pmf._infinity_mass, *pmf._probs[::-1]])[above]
    lower = np.cumsum([0.0, *(pmf._probs * np.exp(-losses))[::-1]])[above]
    return np.asarray(upper - np.exp(epsilons) * lower)


def _step_pld(leaf: Leaf, relation: Relation, interval: float) -> Any:
    if isinstance(leaf, LaplaceEvent):
        return laplace.pessimistic_pld(pure_epsilon(leaf, relation), interval)
    q, sigma = parameters(leaf)
    if isinstance(leaf, SampledWithoutReplacementEvent):
        return fixed_size.pessimistic_pld(q, sigma, interval)
    return poisson.pessimistic_pld(q, sigma, relation, interval)


def renyi_epsilon(leaves: Leaves, relation: Relation, delta: float) -> float:
    """A looser upper bound by Renyi DP, as a ceiling over the certified one; inf where none is implemented."""
    epsilon_deltas, gaussians = approximate.split(leaves, relation)
    losses = _renyi_curve(gaussians, epsilon_deltas, relation, tuple(_ORDERS))
    if losses is None:
        return math.inf
    return float(compute_epsilon(_ORDERS, losses, approximate.compose(epsilon_deltas)[0].conditional_delta(delta))[0])


def renyi(leaves: Leaves, relation: Relation, order: float) -> float:
    """An upper bound on the Renyi divergence of this order; inf where none is known."""
    own, rest = approximate.split(leaves, relation)
    if approximate.delta_floor(own) > 0:
        return math.inf
    exact = math.fsum(count * _step_renyi(leaf, relation, order) for leaf, count in rest)
    return (exact + approximate.renyi(own, order)) * (1 + ROUNDING)


def renyi_series(leaves: Leaves, relation: Relation, order: float) -> float:
    """The bound of `dp_accounting`'s series: exact at whole orders of Poisson samples; inf where it has none."""
    own, rest = approximate.split(leaves, relation)
    losses = _renyi_curve(rest, own, relation, (order,))
    return math.inf if losses is None or math.isnan(losses[0]) else float(losses[0])


@lru_cache(maxsize=16384)
def _step_renyi(leaf: Leaf, relation: Relation, order: float) -> float:
    if isinstance(leaf, LaplaceEvent):
        return float(laplace.renyi(pure_epsilon(leaf, relation), order))
    if isinstance(leaf, ZcdpEvent | GaussianEvent):
        return sensitivity(relation) ** 2 * rho(leaf) * order
    if isinstance(leaf, SampledWithoutReplacementEvent):
        return fixed_size.renyi(*parameters(leaf), order) if relation == "replace_one" else math.inf
    return poisson.renyi(*parameters(leaf), relation, order)


def _renyi_curve(
    gaussians: Leaves, epsilon_deltas: approximate.EpsilonDeltas, relation: Relation, orders: tuple[float, ...]
) -> Array | None:
    accountant = _renyi(gaussians, relation, orders)
    if accountant is None:
        return None
    return np.asarray(accountant.rdp) + [approximate.renyi(epsilon_deltas, order) for order in orders]


@lru_cache(maxsize=32)
def _renyi(leaves: Leaves, relation: Relation, orders: tuple[float, ...]) -> RdpAccountant | None:
    """`dp_accounting`'s Renyi accountant of the composition; None where it has no bound."""
    # It has Poisson samples under `add_or_remove` alone, fixed-size ones under `replace_one` alone. It takes the noise
    # multiplier of a Gaussian as relative to how far the neighbours are apart, so for `replace_one` that is halved
    # here.
    accountant = RdpAccountant(orders, _RELATIONS[relation])
    for leaf, count in leaves:
        if isinstance(leaf, LaplaceEvent):
            accountant.compose(dp_event.LaplaceDpEvent(leaf.noise_multiplier / sensitivity(relation)), count)
            continue
        if isinstance(leaf, ZcdpEvent):
            accountant.compose(dp_event.ZCDpEvent(leaf.rho * sensitivity(relation) ** 2), count)
            continue
        q, sigma = parameters(leaf)
        step = dp_event.GaussianDpEvent(sigma / sensitivity(relation))
        if isinstance(leaf, SampledWithoutReplacementEvent):
            if relation != "replace_one":
                return None
            step = dp_event.SampledWithoutReplacementDpEvent(leaf.population, leaf.batch, step)
        elif q < 1:
            if relation != "add_or_remove":
                return None
            step = dp_event.PoissonSampledDpEvent(q, step)
        accountant.compose(step, count)
    return accountant
