"""What one step of an event is to every accountant: how far neighbours are apart, and how its loss is spread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.dp_event import LaplaceDpEvent

from tacit.privacy.accounting import fixed_size, laplace
from tacit.privacy.accounting.events import Leaves
from tacit.units import Relation

MAX_GRID = 2**20


def sensitivity(relation: Relation) -> float:
    """How far one neighbour's centre of the noise is from the other's, in clips: 1 to add or remove, 2 to replace."""
    return 1.0 if relation == "add_or_remove" else 2.0


def spacing(variance: float, steps: int, spread: float) -> float:
    """Grid interval h: splitting each loss between two grid values adds about h^2/6 to the variance of each step."""
    return min(math.sqrt(12 * spread / steps), 1e-3) * math.sqrt(variance)


def loss_std(leaf: Any, relation: Relation) -> float:
    """Standard deviation of one step's loss; for small rates q sqrt(exp(1/sigma^2) - 1), at most the Gaussian's."""
    if isinstance(leaf, LaplaceDpEvent):
        return laplace.loss_std(pure(leaf, relation))
    q, sigma = parameters(leaf)
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return fixed_size.loss_std(q, sigma)
    sigma = sigma / sensitivity(relation)
    exponent = min(1 / sigma**2, 80.0)
    return min(q * math.sqrt(math.expm1(exponent)), 1 / sigma)


def width(leaf: Any, relation: Relation) -> float:
    """Width of the losses of one step over ten standard deviations of noise on either side."""
    if isinstance(leaf, LaplaceDpEvent):
        return 2 * pure(leaf, relation)
    q, sigma = parameters(leaf)
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return fixed_size.width(q, sigma)
    sigma = sigma / sensitivity(relation)
    tilt = math.log(q) + 10 / sigma + 0.5 / sigma**2
    return 2 * float(np.logaddexp(0.0, tilt)) if q < 1 else 20 / sigma + 1 / sigma**2


def merged(leaves: Leaves) -> Leaves:
    """Leaves with all plain Gaussians merged into the one Gaussian that they exactly compose to."""
    plain = tuple(item for item in leaves if isinstance(item[0], dp_event.GaussianDpEvent))
    rest = tuple(item for item in leaves if item not in plain)
    if not plain:
        return rest
    precision = sum(count / leaf.noise_multiplier**2 for leaf, count in plain)
    return ((dp_event.GaussianDpEvent(1 / math.sqrt(precision)), 1), *rest)


def parameters(leaf: Any) -> tuple[float, float]:
    """(rate, noise multiplier) of a leaf."""
    if isinstance(leaf, dp_event.GaussianDpEvent):
        return 1.0, float(leaf.noise_multiplier)
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return leaf.sample_size / leaf.source_dataset_size, float(leaf.event.noise_multiplier)
    return float(leaf.sampling_probability), float(leaf.event.noise_multiplier)


def pure(leaf: LaplaceDpEvent, relation: Relation) -> float:
    """The epsilon of pure differential privacy of one number with Laplace noise."""
    return sensitivity(relation) / float(leaf.noise_multiplier)


def noise(leaf: Any) -> float:
    return parameters(leaf)[1]
