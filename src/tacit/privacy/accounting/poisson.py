"""One step of Gaussian noise on a sum over a Poisson sample, or over everyone: its privacy loss, discretised twice.

With mu = N(0, sigma^2) and rate q the step's dominating pairs are (`accountants`; mu(x + 1) has its centre at -1)

| neighbours | upper | lower |
|---|---|---|
| remove | (1 - q) mu(x) + q mu(x + 1) | mu(x) |
| add | mu(x) | (1 - q) mu(x) + q mu(x - 1) |
| replace | (1 - q) mu(x) + q mu(x + 1) | (1 - q) mu(x) + q mu(x - 1) |

Each loss log(upper / lower) falls in x. So it is at least epsilon up to one point x, and by the Neyman-Pearson lemma
delta(epsilon) = upper(-inf, x] - exp(epsilon) lower(-inf, x].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from tacit.privacy.accounting.peer import (
    AdjacencyType,
    GaussianPrivacyLoss,
    PLDPmf,
    PrivacyLossDistribution,
    create_pmf_pessimistic_connect_dots_fixed_gap,
)
from tacit.units import Relation

Array = NDArray[np.float64]

_SIDE, _POINTS, _MOST_POINTS = 14.0, 60, 400_000
"""Of `renyi`'s quadrature: how many standard deviations it goes beyond the outermost centre, points in each of them,
and how many at most."""


def pessimistic_pld(q: float, sigma: float, relation: Relation, interval: float) -> Any:
    """The privacy loss distribution of one step on a grid of losses, its delta nowhere below the true one.

    Source: connect-the-dots (Doroshenko et al., arXiv 2207.04380) by `dp_accounting`. It is its
    `from_gaussian_mechanism`, bit for bit, but for the deltas of the grid: they are computed in one pass, where that
    function solves for each x in Python.

    Args:
        q: rate of the sample, in (0, 1]; 1 is everyone.
        sigma: noise standard deviation / clip of one unit's contribution.
        relation: the neighbouring relation.
        interval: the grid's step.

    Returns:
        `dp_accounting`'s PrivacyLossDistribution.
    """
    if relation == "replace_one":
        directions = [AdjacencyType.REPLACE]
    else:
        directions = [AdjacencyType.REMOVE, AdjacencyType.ADD][: 2 if q < 1 else 1]
    return PrivacyLossDistribution(*(_discretise(q, sigma, direction, interval) for direction in directions))


def losses(q: float, sigma: float, relation: Relation, *, swapped: bool) -> tuple[Array, Array]:
    """Losses and masses of one step by quadrature over 2^15 cells of the noise's axis, centred: no bound."""
    # swapped: whether the unit is added rather than removed
    x = np.linspace(-1 - 9.5 * sigma, 1 + 9.5 * sigma, 2**15 + 1)
    present = 0.0 if swapped else q  # the outcome is drawn from N(0) when swapped, else from the mixture
    centres = ((0.0, 1 - present), (1.0, present))
    masses = np.diff(sum(share * ndtr((x - centre) / sigma) for centre, share in centres if share > 0))
    middle = (x[1:] + x[:-1]) / 2
    log_rest = math.log1p(-q) if q < 1 else -math.inf
    loss = np.logaddexp(log_rest, math.log(q) + (middle - 0.5) / sigma**2)
    if relation == "replace_one":
        loss = loss - np.logaddexp(log_rest, math.log(q) + (-middle - 0.5) / sigma**2)
    keep = masses > 0
    return (-loss if swapped else loss)[keep], masses[keep] / masses.sum()


def renyi(q: float, sigma: float, relation: Relation, order: float) -> float:
    """The Renyi divergence of one step at an order above 1, the larger of both directions; inf where it is too wide."""
    # For such integrands the trapezoid rule is exact to rounding. With the density b of the second neighbour and the
    # ratio r it integrates b (r^a - 1 - a (r - 1)), whose terms are never below 0, so that small divergences keep their
    # digits. The other direction is the power 1 - a; where a unit is replaced it is the mirror image.
    far = 2 * order - 1 if relation == "replace_one" else order
    ends = -far - _SIDE * sigma, far + _SIDE * sigma
    points = 2 + math.ceil(_POINTS * (ends[1] - ends[0]) / sigma)
    if points > _MOST_POINTS:
        return math.inf
    x = np.linspace(*ends, points)
    log_base = -0.5 * (x / sigma) ** 2 + math.log((x[1] - x[0]) / (sigma * math.sqrt(2 * math.pi)))
    log_ratio = _log_ratio(q, (x - 0.5) / sigma**2)
    if relation == "replace_one":
        mirrored = _log_ratio(q, (-x - 0.5) / sigma**2)
        return log_moment(log_base + mirrored, log_ratio - mirrored, order) / (order - 1)
    return max(log_moment(log_base, log_ratio, power) for power in (order, 1 - order)) / (order - 1)


def log_moment(log_base: Array, log_ratio: Array, *powers: float) -> float:
    """log(1 + sum over powers p of the sum of b (r^p - 1 - p (r - 1))), from log b and log r at the same points."""
    largest = max(float(np.max(log_base + p * log_ratio)) for p in powers)
    if largest > 600:  # beyond floats; what is left out would make it smaller
        return float(np.logaddexp(0.0, logsumexp([log_base + p * log_ratio for p in powers])))
    return math.log1p(math.fsum(float(_excess(log_base, log_ratio, p).sum()) for p in powers))


def _excess(log_base: Array, log_ratio: Array, p: float) -> Array:
    # b (r^p - 1 - p (r - 1)): near r = 1 by its series, near it by differences that keep their digits
    base, near = np.exp(log_base), np.abs(log_ratio) < 1
    away = np.exp(log_base + p * log_ratio) - p * np.exp(log_base + np.where(near, 0.0, log_ratio)) + (p - 1) * base
    log_near = np.where(near, log_ratio, 0.0)
    u = np.expm1(log_near)
    series = p * (p - 1) / 2 * u**2 * (1 + (p - 2) / 3 * u * (1 + (p - 3) / 4 * u * (1 + (p - 4) / 5 * u)))
    beside = np.where(np.abs(p * u) + np.abs(u) < 1e-3, series, np.expm1(np.minimum(p * log_near, 700.0)) - p * u)
    return np.asarray(np.where(near, base * beside, away))


def _log_ratio(q: float, exponent: Array) -> Array:
    # log(1 - q + q exp(exponent)), to as many digits of itself
    tilt = np.log1p(q * np.expm1(np.minimum(exponent, 30.0)))
    return np.asarray(np.where(exponent < 30, tilt, np.logaddexp(math.log1p(-q), math.log(q) + exponent)))


def _discretise(q: float, sigma: float, direction: AdjacencyType, interval: float) -> PLDPmf:
    pair = GaussianPrivacyLoss(sigma, sampling_prob=q, adjacency_type=direction)
    bounds = pair.connect_dots_bounds()
    low, high = math.floor(bounds.epsilon_lower / interval), math.ceil(bounds.epsilon_upper / interval)
    epsilon = np.arange(low, high + 1) * interval
    with np.errstate(all="ignore"):
        x = _largest_x(epsilon, q, sigma, direction)
        deltas = pair.mu_upper_cdf(x) - np.exp(epsilon + pair.mu_lower_log_cdf(x))
        deltas = np.where(x == math.inf, -np.expm1(epsilon), deltas)
    return create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, np.clip(deltas, 0.0, 1.0))


def _largest_x(epsilon: Array, q: float, sigma: float, direction: AdjacencyType) -> Array:
    """The last x at which the loss is at least each epsilon; -inf where it never is, inf where it always is."""
    if direction == AdjacencyType.ADD:
        return -0.5 + _unsampled_loss(-epsilon, q) * sigma**2 + 1
    if direction == AdjacencyType.REMOVE:
        return -0.5 - _unsampled_loss(epsilon, q) * sigma**2
    if q == 1:
        return -epsilon * sigma**2 / 2
    half = np.abs(epsilon) / 2
    log_sinh = half + np.log1p(-np.exp(-2 * half)) - math.log(2)
    log_sinh += 0.5 * (1 / sigma) ** 2 + math.log1p(-q) - math.log(q)
    asinh = np.logaddexp(0.5 * np.logaddexp(0, 2 * log_sinh), log_sinh)
    return np.asarray(sigma**2 * (np.sign(epsilon) * -asinh - epsilon / 2))


def _unsampled_loss(epsilon: Array, q: float) -> Array:
    """The loss without sampling, log(1 + (exp(epsilon) - 1) / q), where that with it is epsilon; -inf if nowhere."""
    if q == 1:
        return epsilon
    shifted = epsilon + np.log(1 / q)
    loss = shifted + np.log1p(-np.exp(np.log(1 / q - 1) - shifted))
    loss = np.where(epsilon == 0, np.log(1 / q + (1 - 1 / q)), loss)
    return np.where(np.isnan(loss), -math.inf, loss)
