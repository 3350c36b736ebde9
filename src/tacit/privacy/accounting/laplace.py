"""The Laplace mechanism on one number: its privacy loss, which no accountant has to look for in tails.

With e = shift / scale the loss of an outcome, log of the ratio of the densities, is within [-e, e]: e with probability
1/2, -e with probability exp(-e)/2, and in between it has the density exp((l - e) / 2) / 4. Under the other neighbour as
the truth it has the same law: the pair is its own mirror image.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit.privacy.accounting.peer import privacy_loss_distribution

Array = NDArray[np.float64]

_CELLS = 2**13


def pessimistic_pld(epsilon: float, interval: float) -> Any:
    """`dp_accounting`'s privacy loss distribution of one number, rounded so that its delta is an upper bound."""
    return privacy_loss_distribution.from_laplace_mechanism(1 / epsilon, value_discretization_interval=interval)


def losses(epsilon: float) -> tuple[Array, Array]:
    """Losses and masses: the two ends, and the mean loss of each of 2^13 cells between them."""
    edges = np.linspace(-epsilon, epsilon, _CELLS + 1)
    width = 2 * epsilon / _CELLS
    inner = 0.5 * np.exp((edges[:-1] - epsilon) / 2) * np.expm1(width / 2)
    # the mean of a density exp(l/2) on [0, w] is w - 2 + w / (exp(w/2) - 1), for small w its series
    within = width - 2 + width / math.expm1(width / 2) if width > 1e-2 else width / 2 + width**2 / 24
    masses = np.concatenate([[0.5 * math.exp(-epsilon)], inner, [0.5]])
    return np.concatenate([[-epsilon], edges[:-1] + within, [epsilon]]), masses / masses.sum()


def loss_std(epsilon: float) -> float:
    """Standard deviation of the loss of one number."""
    values, masses = losses(epsilon)
    mean = float(masses @ values)
    return math.sqrt(float(masses @ (values - mean) ** 2))


def renyi(epsilon: float, order: Array | float) -> Array:
    """Renyi divergence at orders above 1 (Mironov, 2017, arXiv 1702.07476, Table II), elementwise."""
    a = np.asarray(order, np.float64)
    ends = np.log(a / (2 * a - 1)) + (a - 1) * epsilon, np.log((a - 1) / (2 * a - 1)) - a * epsilon
    return np.asarray(np.maximum(np.logaddexp(*ends), 0.0) / (a - 1))


def mu(epsilon: float) -> float:
    """The smallest mu for which one number is mu-GDP, at every epsilon: -2 Phi^-1(exp(-e/2) / 2).

    The mechanism's trade-off curve is the line from (0, 1) to (exp(-e)/2, 1/2), then exp(-e) / (4 a), then the mirror
    image of the line. The Gaussian's G meets it at their common point on the diagonal. a G(a) = Phi(t) Phi(-t - mu) is
    log-concave in t and symmetric about t = -mu/2, the diagonal, so it is largest there: G is below exp(-e) / (4 a).
    So it is at the lines' ends, and being convex below the lines.
    """
    return -2 * float(ndtri(0.5 * math.exp(-epsilon / 2)))
