"""The accountants behind the table of `accounting.py`: four independent ways from leaves to (epsilon, delta).

`pessimistic` is the certified upper bound; the others only check it. Every accountant takes the canonical
`(event, count)` leaves of `events.flatten` (no `NonPrivateDpEvent` among them) and a neighbouring relation. A step over
a fixed-size sample without replacement is in `fixed_size.py`, one with Laplace noise in `laplace.py`;
`EpsilonDeltaDpEvent`, which only `pessimistic` and the Renyi bounds take, in `approximate.py`; `ZCDpEvent`, of which
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
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.dp_event import LaplaceDpEvent, ZCDpEvent
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant, compute_epsilon
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr

from tacit.privacy import approximate, fixed_size, laplace
from tacit.privacy.events import Leaves
from tacit.units import Relation

Array = NDArray[np.float64]

_RELATIONS = {
    "add_or_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace_one": NeighboringRelation.REPLACE_ONE,
}
_MAX_GRID = 2**20
_MOST = 700.0  # exp of it is a float64
_ORDERS = [*range(2, 65), 80, 96, 128, 192, 256, 512, 1024]  # whole: the series for fractional orders may not converge


def sensitivity(relation: Relation) -> float:
    """How far one neighbour's centre of the noise is from the other's, in clips: 1 to add or remove, 2 to replace."""
    return 1.0 if relation == "add_or_remove" else 2.0


def gaussian_mu(leaves: Leaves, relation: Relation) -> float:
    """The mu for which the composition is mu-GDP if all sampling is ignored: sqrt(sum count) * s / sigma.

    Exact for plain Gaussians (Dong, Roth & Su, arXiv 1905.02383, Corollary 3.3); for samples an upper bound, by joint
    convexity over the draw.
    """
    precision = sum(count / _noise(leaf) ** 2 for leaf, count in leaves)
    return sensitivity(relation) * math.sqrt(precision)


def mu(leaves: Leaves, relation: Relation) -> float:
    """A mu for which the composition is mu-GDP at every epsilon, all sampling ignored; inf where there is none.

    Exact for plain Gaussians. For a `ZCDpEvent` none is known: Renyi curves say too little of the smallest epsilons.
    """
    own, rest = approximate.split(leaves)
    if any(isinstance(leaf, ZCDpEvent) for leaf, _ in rest):
        return math.inf
    numbers = tuple(item for item in rest if isinstance(item[0], LaplaceDpEvent))
    others = tuple(item for item in rest if item not in numbers)
    squares = math.fsum(count * laplace.mu(_pure(leaf, relation)) ** 2 for leaf, count in numbers)
    return math.hypot(approximate.mu(own), gaussian_mu(others, relation), math.sqrt(squares))


def gaussian_delta(epsilon: Array | float, mu: Array | float) -> Array:
    """delta(epsilon) of a mu-GDP mechanism (Balle & Wang, 2018, arXiv 1805.06530, Theorem 8), elementwise.

    Args:
        epsilon: >= 0.
        mu: > 0; sensitivity / noise standard deviation.
    """
    ratio, half = np.asarray(epsilon / mu), np.asarray(mu / 2)
    lower = np.exp(np.minimum(epsilon + log_ndtr(-ratio - half), 0.0))
    return np.asarray(np.maximum(ndtr(half - ratio) - lower, 0.0))


def gaussian_epsilon(delta: float, mu: float) -> float:
    """The epsilon at which `gaussian_delta(epsilon, mu)` equals delta; 0 where delta(0) is already below."""
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))  # Gaussian tail bound: delta(high) <= delta
    return float(brentq(lambda e: float(gaussian_delta(e, mu)) - delta, 0.0, high, xtol=1e-13, rtol=1e-14))


def smallest_mu(grid: Array, needed: Array, most: float) -> float:
    """The smallest mu (at most `most`) whose delta at each point of a rising grid of epsilons is what the last needed.

    Args:
        grid: [n + 1] epsilons >= 0.
        needed: [n] a falling curve of deltas at grid[:-1]; as `mu`'s delta at grid[1:] reaches them, it is above the
            curve between the points, too.
        most: > 0; a mu that is known to be enough.
    """
    low, high = np.zeros(len(needed)), np.full(len(needed), most)
    for _ in range(60):
        middle = (low + high) / 2
        enough = gaussian_delta(grid[1:], middle) >= needed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return float(high.max())


def float_slack(leaves: Leaves) -> float:
    """An allowance on delta for rounding in the Fourier transforms, which grows with the steps.

    Against the closed form of composed Gaussians the error of delta stays below a quarter of 2^-52 * steps (tested).
    """
    return 1e-13 + 2.0**-52 * sum(count for _, count in leaves)


def pessimistic(leaves: Leaves, relation: Relation, *, spread: float) -> Any:
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
    return _pessimistic(_merged(leaves), relation, spread)


@lru_cache(maxsize=8)
def _pessimistic(leaves: Leaves, relation: Relation, spread: float) -> Any:
    own, gaussians = approximate.split(leaves)
    variance = approximate.variance(own) + sum(count * _loss_std(leaf, relation) ** 2 for leaf, count in gaussians)
    interval = _interval(variance, sum(count for _, count in leaves), spread)
    largest_grid = _MAX_GRID * min(1.0, math.sqrt(1e-4 / spread))
    widest = max(approximate.width(own), max(_width(leaf, relation) for leaf, _ in gaussians))
    interval = max(interval, widest / largest_grid)
    total = approximate.pessimistic(own, interval) if own else None
    for leaf, count in gaussians:
        one = _one_pessimistic(leaf, relation, interval)
        composed = one.self_compose(count) if count > 1 else one
        total = composed if total is None else total.compose(composed)
    return total


def _one_pessimistic(leaf: Any, relation: Relation, interval: float) -> Any:
    if isinstance(leaf, LaplaceDpEvent):
        return laplace.pessimistic(_pure(leaf, relation), interval)
    q, sigma = _parameters(leaf)
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return fixed_size.pessimistic(q, sigma, interval)
    return privacy_loss_distribution.from_gaussian_mechanism(
        sigma,
        value_discretization_interval=interval,
        sampling_prob=q,
        neighboring_relation=_RELATIONS[relation],
    )


def _interval(variance: float, steps: int, spread: float) -> float:
    """Grid interval h: splitting each loss between two grid values adds about h^2/6 to the variance of each step."""
    return min(math.sqrt(12 * spread / steps), 1e-3) * math.sqrt(variance)


def renyi_epsilon(leaves: Leaves, relation: Relation, delta: float) -> float:
    """A looser upper bound by Renyi DP, as a ceiling over the certified one; inf where none is implemented."""
    own, gaussians = approximate.split(leaves)
    accountant = _renyi(gaussians, relation, tuple(_ORDERS))
    if accountant is None:
        return math.inf
    losses = [loss + approximate.renyi(own, order) for order, loss in zip(_ORDERS, accountant.rdp, strict=True)]
    return float(compute_epsilon(_ORDERS, losses, approximate.compose(own).share(delta))[0])


def renyi(leaves: Leaves, relation: Relation, order: float) -> float:
    """An upper bound on the Renyi divergence of this order; inf where none is implemented."""
    own, gaussians = approximate.split(leaves)
    if approximate.own_delta(own) > 0:
        return math.inf
    accountant = _renyi(gaussians, relation, (order,))
    return float(accountant.rdp[0]) + approximate.renyi(own, order) if accountant else math.inf


@lru_cache(maxsize=32)
def _renyi(leaves: Leaves, relation: Relation, orders: tuple[float, ...]) -> RdpAccountant | None:
    """`dp_accounting`'s Renyi accountant of the composition; None where it has no bound.

    It has Poisson samples under `add_or_remove` alone, fixed-size ones under `replace_one` alone. It takes the noise
    multiplier of a Gaussian as relative to how far the neighbours are apart, so for `replace_one` that is halved here.
    """
    accountant = RdpAccountant(orders, _RELATIONS[relation])
    for leaf, count in leaves:
        if isinstance(leaf, LaplaceDpEvent):
            accountant.compose(LaplaceDpEvent(leaf.noise_multiplier / sensitivity(relation)), count)
            continue
        if isinstance(leaf, ZCDpEvent):
            accountant.compose(ZCDpEvent(leaf.rho * sensitivity(relation) ** 2), count)
            continue
        q, sigma = _parameters(leaf)
        step = dp_event.GaussianDpEvent(sigma / sensitivity(relation))
        if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
            if relation != "replace_one":
                return None
            step = dp_event.SampledWithoutReplacementDpEvent(leaf.source_dataset_size, leaf.sample_size, step)
        elif q < 1:
            if relation != "add_or_remove":
                return None
            step = dp_event.PoissonSampledDpEvent(q, step)
        accountant.compose(step, count)
    return accountant


@dataclass(frozen=True)
class LossGrid:
    """An estimate (not a bound) of the composed privacy loss in one direction: masses on an equal grid of losses."""

    losses: Array
    masses: Array

    def delta(self, epsilon: float) -> float:
        """E[(1 - exp(epsilon - L))+]."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        return float(np.dot(self.masses[start:], -np.expm1(epsilon - self.losses[start:])))

    def profile(self, epsilon: Array) -> Array:
        """delta at each epsilon, of either sign, from sums that are taken once."""
        above, below = self._sums
        start = np.searchsorted(self.losses, epsilon, side="right")
        return np.asarray(above[start] - np.exp(np.maximum(epsilon, -_MOST)) * below[start])

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        """Sums from the right, [N + 1], of the masses and of the masses times exp(-losses)."""
        tilted = self.masses * np.exp(np.minimum(-self.losses, _MOST))
        above, below = (np.append(np.cumsum(values[::-1])[::-1], 0.0) for values in (self.masses, tilted))
        return above, below

    def epsilon(self, delta: float) -> float:
        """The epsilon >= 0 at which delta(epsilon) equals delta."""
        if self.delta(0.0) <= delta:
            return 0.0
        return float(brentq(lambda e: self.delta(e) - delta, 0.0, float(self.losses[-1]), xtol=1e-9))


@lru_cache(maxsize=8)
def estimate(leaves: Leaves, relation: Relation) -> tuple[LossGrid, ...]:
    """The composed privacy loss by quadrature and the Fourier transform, one grid for each direction.

    Source: the privacy random variable accountant of Gopi, Lee & Wutschitz (2021, arXiv 2106.02848), written anew
    here: the loss is discretised by splitting each cell of the noise's axis between two neighbouring loss values so
    that its mean is kept, hence centred rather than rounded up.
    """
    merged = _merged(leaves)
    one_sided = relation == "replace_one" or all(
        isinstance(leaf, LaplaceDpEvent) or _parameters(leaf)[0] == 1 for leaf, _ in merged
    )
    directions = (False,) if one_sided else (False, True)
    return tuple(_compose(merged, relation, swapped) for swapped in directions)


def _compose(leaves: Leaves, relation: Relation, swapped: bool) -> LossGrid:
    steps = [(*_step(leaf, relation, swapped), count) for leaf, count in leaves]
    variance = sum(count * _variance(losses, masses) for losses, masses, count in steps)
    low, high = _range(steps, math.sqrt(variance))
    interval = _interval(variance, sum(count for *_, count in steps), 1e-4)
    size = min(1 << max(10, math.ceil(math.log2((high - low) / interval))), _MAX_GRID)
    width = (high - low) / size
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for losses, masses, count in steps:
        cells = losses / width
        left = np.floor(cells)
        right_share = cells - left
        grid = np.bincount(np.mod(left, size).astype(np.int64), masses * (1 - right_share), size)
        grid += np.bincount(np.mod(left + 1, size).astype(np.int64), masses * right_share, size)
        spectrum *= np.fft.rfft(grid) ** count
    start = math.floor(low / width)
    total = np.roll(np.fft.irfft(spectrum, size), -(start % size))
    return LossGrid((start + np.arange(size, dtype=np.float64)) * width, np.asarray(total, np.float64))


def _step(leaf: Any, relation: Relation, swapped: bool) -> tuple[Array, Array]:
    """Losses and masses of one step."""
    if isinstance(leaf, LaplaceDpEvent):
        return laplace.losses(_pure(leaf, relation))
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return fixed_size.losses(*_parameters(leaf))
    return _single_step(*_parameters(leaf), relation, swapped)


def _single_step(q: float, sigma: float, relation: Relation, swapped: bool) -> tuple[Array, Array]:
    """Losses and masses of one Gaussian or Poisson step, on 2^15 cells of the noise's axis."""
    x = np.linspace(-1 - 9.5 * sigma, 1 + 9.5 * sigma, 2**15 + 1)
    present = 0.0 if swapped else q  # the outcome is drawn from N(0) when swapped, else from the mixture
    masses = np.diff((1 - present) * ndtr(x / sigma) + present * ndtr((x - 1) / sigma))
    middle = (x[1:] + x[:-1]) / 2
    log_rest = math.log1p(-q) if q < 1 else -math.inf
    losses = np.logaddexp(log_rest, math.log(q) + (middle - 0.5) / sigma**2)
    if relation == "replace_one":
        losses = losses - np.logaddexp(log_rest, math.log(q) + (-middle - 0.5) / sigma**2)
    keep = masses > 0
    return (-losses if swapped else losses)[keep], masses[keep] / masses.sum()


def _range(steps: list[tuple[Array, Array, int]], std: float) -> tuple[float, float]:
    """Where all but 1e-15 of the composed loss lies, by Chernoff bounds over a grid of exponents."""
    mean = sum(count * float(np.dot(losses, masses)) for losses, masses, count in steps)
    bounds = []
    for sign in (-1, 1):
        best = math.inf
        for exponent in np.geomspace(0.02, 20, 40) / std:
            tilted = sum(c * float(logsumexp(sign * exponent * losses, b=masses)) for losses, masses, c in steps)
            best = min(best, (tilted + 35) / exponent)
        bounds.append(sign * best)
    return min(bounds[0], mean - std), max(bounds[1], mean + std)


def _variance(losses: Array, masses: Array) -> float:
    mean = float(np.dot(losses, masses))
    return float(np.dot((losses - mean) ** 2, masses))


def _loss_std(leaf: Any, relation: Relation) -> float:
    """Standard deviation of one step's loss; for small rates q sqrt(exp(1/sigma^2) - 1), at most the Gaussian's."""
    if isinstance(leaf, LaplaceDpEvent):
        return laplace.loss_std(_pure(leaf, relation))
    q, sigma = _parameters(leaf)
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return fixed_size.loss_std(q, sigma)
    sigma = sigma / sensitivity(relation)
    exponent = min(1 / sigma**2, 80.0)
    return min(q * math.sqrt(math.expm1(exponent)), 1 / sigma)


def _width(leaf: Any, relation: Relation) -> float:
    """Width of the losses of one step over ten standard deviations of noise on either side."""
    if isinstance(leaf, LaplaceDpEvent):
        return 2 * _pure(leaf, relation)
    q, sigma = _parameters(leaf)
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return fixed_size.width(q, sigma)
    sigma = sigma / sensitivity(relation)
    tilt = math.log(q) + 10 / sigma + 0.5 / sigma**2
    return 2 * float(np.logaddexp(0.0, tilt)) if q < 1 else 20 / sigma + 1 / sigma**2


def _merged(leaves: Leaves) -> Leaves:
    """Leaves with all plain Gaussians merged into the one Gaussian that they exactly compose to."""
    plain = tuple(item for item in leaves if isinstance(item[0], dp_event.GaussianDpEvent))
    rest = tuple(item for item in leaves if item not in plain)
    if not plain:
        return rest
    precision = sum(count / leaf.noise_multiplier**2 for leaf, count in plain)
    return ((dp_event.GaussianDpEvent(1 / math.sqrt(precision)), 1), *rest)


def _parameters(leaf: Any) -> tuple[float, float]:
    """(rate, noise multiplier) of a leaf."""
    if isinstance(leaf, dp_event.GaussianDpEvent):
        return 1.0, float(leaf.noise_multiplier)
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return leaf.sample_size / leaf.source_dataset_size, float(leaf.event.noise_multiplier)
    return float(leaf.sampling_probability), float(leaf.event.noise_multiplier)


def _pure(leaf: LaplaceDpEvent, relation: Relation) -> float:
    """The epsilon of pure differential privacy of one number with Laplace noise."""
    return sensitivity(relation) / float(leaf.noise_multiplier)


def _noise(leaf: Any) -> float:
    return _parameters(leaf)[1]
