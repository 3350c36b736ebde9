"""What one step of an event is to every accountant: how far neighbours are apart, and how its loss is spread."""

from __future__ import annotations

import math

import numpy as np

from tacit.privacy.accounting import fixed_size, laplace
from tacit.privacy.accounting.events import (
    GaussianEvent,
    LaplaceEvent,
    Leaf,
    Leaves,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
)
from tacit.units import Relation

MAX_GRID = 2**20


def sensitivity(relation: Relation) -> float:
    """How far one neighbour's centre of the noise is from the other's, in clips: 1 to add or remove, 2 to replace."""
    return 1.0 if relation == "add_or_remove" else 2.0


def spacing(variance: float, steps: int, spread: float) -> float:
    """Grid interval h: splitting each loss between two grid values adds about h^2/6 to the variance of each step."""
    return min(math.sqrt(12 * spread / steps), 1e-3) * math.sqrt(variance)


def loss_std(leaf: Leaf, relation: Relation) -> float:
    """Standard deviation of one step's loss; for small rates q sqrt(exp(1/sigma^2) - 1), at most the Gaussian's."""
    if isinstance(leaf, LaplaceEvent):
        return laplace.loss_std(pure_epsilon(leaf, relation))
    q, sigma = parameters(leaf)
    if isinstance(leaf, SampledWithoutReplacementEvent):
        return fixed_size.loss_std(q, sigma)
    sigma = sigma / sensitivity(relation)
    exponent = min(1 / sigma**2, 80.0)
    return min(q * math.sqrt(math.expm1(exponent)), 1 / sigma)


def width(leaf: Leaf, relation: Relation) -> float:
    """Width of the losses of one step over ten standard deviations of noise on either side."""
    if isinstance(leaf, LaplaceEvent):
        return 2 * pure_epsilon(leaf, relation)
    q, sigma = parameters(leaf)
    if isinstance(leaf, SampledWithoutReplacementEvent):
        return fixed_size.width(q, sigma)
    sigma = sigma / sensitivity(relation)
    tilt = math.log(q) + 10 / sigma + 0.5 / sigma**2
    return 2 * float(np.logaddexp(0.0, tilt)) if q < 1 else 20 / sigma + 1 / sigma**2


def merge_gaussians(leaves: Leaves) -> Leaves:
    """Leaves with all plain Gaussians merged into the one Gaussian that they exactly compose to."""
    precision = sum(count / leaf.noise_multiplier**2 for leaf, count in leaves if isinstance(leaf, GaussianEvent))
    rest = tuple(item for item in leaves if not isinstance(item[0], GaussianEvent))
    return ((GaussianEvent(1 / math.sqrt(precision)), 1), *rest) if precision else rest


def parameters(leaf: Leaf) -> tuple[float, float]:
    """(rate, noise multiplier) of a Gaussian leaf, sampled or not."""
    if isinstance(leaf, GaussianEvent):
        return 1.0, float(leaf.noise_multiplier)
    if isinstance(leaf, SampledWithoutReplacementEvent):
        return leaf.batch / leaf.population, float(leaf.event.noise_multiplier)
    assert isinstance(leaf, PoissonSampledEvent)  # the table has no other kinds of Gaussians
    return float(leaf.rate), float(leaf.event.noise_multiplier)


def pure_epsilon(leaf: LaplaceEvent, relation: Relation) -> float:
    """The epsilon of pure differential privacy of one number with Laplace noise."""
    return sensitivity(relation) / float(leaf.noise_multiplier)


def noise(leaf: Leaf) -> float:
    return parameters(leaf)[1]
