"""One step of a fixed-size sample without replacement under `replace_one`: its dominating pair, discretised twice.

Exactly b of n slots are drawn, q = b / n, and the sum of their contributions (norm at most 1 clip) gets noise of
standard deviation sigma clips. Replacing the records of one slot moves a sum that holds it by at most 2 clips. With
A = N(0, sigma^2), B = N(2, sigma^2) and M = (1 - q) A + q B the step's privacy profile is at most

    delta(epsilon) = H(M || A) for epsilon >= 0,    H(A || M) for epsilon < 0    (H at e^epsilon),

whichever of the two data sets comes first (Zhu, Dong & Wang, arXiv 2106.08567, Theorem 11; proof in
`proofs/fixed_size_sampling.md`). Both likelihood ratios are 1 at one clip. So the pair of distributions that has this
profile has the losses of (M, A) beyond one clip, those of (A, M) beyond one clip, and an atom at loss 0 of what is
left, (1 - q) (1 - 2 Phi(-1 / sigma)).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tacit.privacy.accounting import poisson
from tacit.privacy.accounting.peer import DensePLDPmf, PrivacyLossDistribution

Array = NDArray[np.float64]

_SIDE, _MOST_PANELS = 14.0, 20_000
"""Of `renyi`'s quadrature: standard deviations beyond the outermost centre, and panels of 24 points at most."""
_FAR = 10.0  # standard deviations of noise beyond which lies a mass of 1e-23


def pessimistic_pld(q: float, sigma: float, interval: float) -> Any:
    """The privacy loss distribution of one step on a grid of losses, its delta nowhere below the true one.

    Source: connect-the-dots (Doroshenko et al., arXiv 2207.04380), cell by cell rather than by second differences of
    delta, which would lose the masses of a fine grid in rounding: the mass of each cell of losses is split between its
    two ends so that both distributions of the pair keep theirs. What lies beyond the grid counts as infinite loss on
    the right and as the first grid value on the left.

    Args:
        q: the share of slots in a sample, in (0, 1).
        sigma: noise standard deviation / clip of one unit's contribution.
        interval: the grid's step.

    Returns:
        `dp_accounting`'s PrivacyLossDistribution, the same for both orders of the neighbours.
    """
    above, below = (math.ceil(loss / interval) for loss in _ends(q, sigma))
    probabilities = np.zeros(below + above + 1)
    probabilities[below] = (1 - q) * (1 - 2 * float(ndtr(-1 / sigma)))

    epsilon = interval * np.arange(above + 1, dtype=np.float64)
    absent, present, last_absent, last_present = _cells(q, sigma, epsilon)
    mass = (1 - q) * absent + q * present
    right = q * present - absent * (q + np.expm1(np.minimum(epsilon[:-1], 700.0)))  # absent is about 0 beyond
    right = np.clip(right / -math.expm1(-interval), 0.0, mass)
    probabilities[below + 1 :] += right
    probabilities[below:-1] += mass - right
    infinite = (1 - q) * last_absent + q * last_present

    epsilon = interval * np.arange(below + 1, dtype=np.float64)
    absent, present, last_absent, _ = _cells(q, sigma, epsilon)
    right = np.exp(-epsilon[1:]) * (absent * (q + np.expm1(epsilon[1:])) - q * present)
    right = np.clip(right / -math.expm1(-interval), 0.0, absent)  # towards loss 0
    probabilities[below:0:-1] += right
    probabilities[:below] += (absent - right)[::-1]
    probabilities[0] += last_absent
    return PrivacyLossDistribution(DensePLDPmf(interval, -below, probabilities, infinite, True))


def losses(q: float, sigma: float) -> tuple[Array, Array]:
    """Losses and masses of one step by quadrature over 2^15 cells of the noise's axis, centred: no bound."""
    x = np.linspace(1.0, 2 + 9.5 * sigma, 2**15 + 1)
    absent, present = _interval_masses(x / sigma), _interval_masses((x - 2) / sigma)
    loss = _loss(q, sigma, (x[1:] + x[:-1]) / 2)
    masses = np.concatenate([(1 - q) * absent + q * present, absent, [(1 - q) * (1 - 2 * ndtr(-1 / sigma))]])
    return np.concatenate([loss, -loss, [0.0]]), masses / masses.sum()


def renyi(q: float, sigma: float, order: float) -> float:
    """The Renyi divergence of the pair of one step at an order above 1, by quadrature beyond one clip."""
    # With r = M / A the moments of (M, A) and (A, M) beyond one clip, and the atom, add up to 1 + the integral of
    # A (r^a - 1 - a (r - 1)) + A (r^(1 - a) - 1 - (1 - a) (r - 1)): at a = 1 all of it is a distribution.
    end = 2 * order + _SIDE * sigma
    panels = 2 + math.ceil((end - 1) / (sigma * min(1.0, sigma)))
    if panels > _MOST_PANELS:
        return math.inf
    edges, (nodes, weights) = np.linspace(1.0, end, panels), np.polynomial.legendre.leggauss(24)
    half = (edges[1] - edges[0]) / 2
    x = (edges[:-1, None] + half * (1 + nodes)).ravel()
    log_base = -0.5 * (x / sigma) ** 2 + np.tile(np.log(weights * half), panels - 1)
    log_base -= math.log(sigma * math.sqrt(2 * math.pi))
    return poisson.log_moment(log_base, _loss(q, sigma, x), order, 1 - order) / (order - 1)


def loss_std(q: float, sigma: float) -> float:
    """Standard deviation of one step's loss."""
    values, masses = losses(q, sigma)
    return math.sqrt(float(np.dot(masses, values**2) - np.dot(masses, values) ** 2))


def width(q: float, sigma: float) -> float:
    """Width of the losses of one step, the last 1e-23 of their mass on either side aside."""
    return math.fsum(_ends(q, sigma))


def _ends(q: float, sigma: float) -> tuple[float, float]:
    """The largest losses of (M, A) and, negated, of (A, M) that the grid has to reach."""
    return float(_loss(q, sigma, 2 + _FAR * sigma)), float(_loss(q, sigma, max(1.0, _FAR * sigma)))


def _loss(q: float, sigma: float, x: Any) -> Any:
    """log(M(x) / A(x)) at x >= 1 clip."""
    return np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 2) / sigma**2)


def _cells(q: float, sigma: float, epsilon: Array) -> tuple[Array, Array, float, float]:
    """Masses under A and B between the points where log(M / A) is each epsilon >= 0, and beyond the last of them."""
    with np.errstate(over="ignore"):
        log_ratio = np.where(epsilon < 500, np.log1p(np.expm1(epsilon) / q), epsilon - math.log(q))
    x = 1 + sigma**2 / 2 * log_ratio
    absent, present = (_interval_masses((x - centre) / sigma) for centre in (0, 2))
    return absent, present, float(ndtr(-x[-1] / sigma)), float(ndtr((2 - x[-1]) / sigma))


def _interval_masses(z: Array) -> Array:
    """Masses of N(0, 1) between neighbouring points, each taken from the tail that it lies in."""
    return np.asarray(np.where(z[1:] < 0, np.diff(ndtr(z)), -np.diff(ndtr(-z))))
