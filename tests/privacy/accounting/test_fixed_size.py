"""Fixed-size samples: every pair of neighbours that can be enumerated lies below the certified curve, the worst on it.

Everybody contributes -1 clip, or other values, to a sum over `batch` of `population` slots; one slot's contribution
is replaced. Each of the two output distributions is then a mixture of Gaussians over all equally likely samples.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from scipy.special import ndtr
from scipy.stats import norm

from tacit.privacy.accounting import accountants, fixed_size
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import (
    Event,
    GaussianEvent,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    flatten,
)

Array = np.ndarray


def event(population: int, batch: int, sigma: float, steps: int = 1) -> Event:
    step = SampledWithoutReplacementEvent(population, batch, GaussianEvent(sigma))
    return SelfComposedEvent(step, steps)


def mixture(values: Array, batch: int, sigma: float, x: Array) -> Array:
    """Density at x of the noisy sum over a uniform sample of `batch` of the values."""
    centres = [sum(chosen) for chosen in itertools.combinations(values, batch)]
    return np.mean([norm.pdf(x, centre, sigma) for centre in centres], axis=0)  # type: ignore[no-any-return]


def hockey_stick(p: Array, q: Array, epsilon: float, cell: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell)


def certified(population: int, batch: int, sigma: float, epsilon: float, steps: int = 1) -> float:
    return accounting.delta(event(population, batch, sigma, steps), epsilon=epsilon, relation="replace_one")


@pytest.mark.parametrize(("population", "batch", "sigma"), [(4, 1, 1.0), (5, 2, 0.7), (6, 5, 2.0), (3, 2, 0.4)])
def test_the_worst_pair_is_on_the_curve_of_one_step(population: int, batch: int, sigma: float) -> None:
    x = np.linspace(-batch - 9 * sigma, 2 - batch + 9 * sigma, 20_001)
    others = [-1.0] * (population - 1)
    p, q = (mixture(np.array([*others, mine]), batch, sigma, x) for mine in (1.0, -1.0))
    for epsilon in (0.1, 0.5, 1.0):
        reached = max(hockey_stick(p, q, epsilon, x[1] - x[0]), hockey_stick(q, p, epsilon, x[1] - x[0]))
        bound = certified(population, batch, sigma, epsilon)
        assert reached * (1 - 1e-6) <= bound <= reached * 1.01 + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_no_other_pair_is_above_the_curve(seed: int) -> None:
    rng = np.random.default_rng(seed)
    population, sigma = int(rng.integers(3, 7)), float(rng.uniform(0.4, 2))
    batch = int(rng.integers(1, population))
    bounds = {epsilon: certified(population, batch, sigma, epsilon) for epsilon in (0.05, 0.4, 1.2)}
    x = np.linspace(-batch - 9 * sigma, batch + 9 * sigma, 4_001)
    for trial in range(60):
        values = rng.choice([-1.0, 1.0], population) if trial % 2 else rng.uniform(-1, 1, population)
        other = np.array([*values[:-1], -values[-1] if trial % 3 else rng.uniform(-1, 1)])
        p, q = (mixture(one, batch, sigma, x) for one in (values, other))
        for epsilon, bound in bounds.items():
            assert hockey_stick(p, q, epsilon, x[1] - x[0]) <= bound + 2e-6  # the quadrature's error


@pytest.mark.parametrize("swapped", [False, True])
def test_three_steps_of_the_worst_pair_stay_below_the_curve_and_close(swapped: bool) -> None:
    """Losses of the pair rounded down to a grid, convolved: a lower bound on the true delta."""
    population, batch, sigma, width = 4, 1, 1.5, 2e-3
    x = np.linspace(-1 - 9 * sigma, 1 + 9 * sigma, 200_001)
    others = [-1.0] * (population - 1)
    p, q = (mixture(np.array([*others, mine]), batch, sigma, x) for mine in (1.0, -1.0))
    p, q = (q, p) if swapped else (p, q)
    cells = np.floor(np.log(p / q) / width).astype(int)
    one = np.bincount(cells - cells.min(), p * (x[1] - x[0]))
    total = np.convolve(np.convolve(one, one), one)
    losses = (3 * cells.min() + np.arange(len(total))) * width
    for epsilon in (0.2, 0.8, 1.6):
        reached = float(total @ np.maximum(-np.expm1(epsilon - losses), 0))
        bound = certified(population, batch, sigma, epsilon, steps=3)
        assert reached <= bound * (1 + 1e-6)
        assert swapped or bound <= 1.25 * reached + 1e-6


def test_the_pair_has_the_stated_profile_and_is_a_distribution() -> None:
    q, sigma, interval = 0.1, 0.9, 0.01
    losses, masses = fixed_size.losses(q, sigma)
    assert masses.sum() == pytest.approx(1, abs=1e-12)
    assert masses[losses == 0].sum() == pytest.approx(0.9 * (1 - 2 * ndtr(-1 / 0.9)), rel=1e-9)
    assert masses @ np.exp(-losses) == pytest.approx(1, abs=1e-6)
    for epsilon in (-1.0, -0.2, 0.0, 0.3, 2.0):
        x = np.linspace(-9 * sigma, 2 + 9 * sigma, 200_001)
        absent = norm.pdf(x, 0, sigma)
        present = 0.9 * absent + 0.1 * norm.pdf(x, 2, sigma)
        p, other = (present, absent) if epsilon >= 0 else (absent, present)
        stated = hockey_stick(p, other, epsilon, x[1] - x[0])
        assert masses @ np.maximum(-np.expm1(epsilon - losses), 0) == pytest.approx(stated, rel=1e-4, abs=1e-9)
        found = fixed_size.pessimistic_pld(q, sigma, interval).get_delta_for_epsilon(epsilon)
        assert stated - 1e-9 <= found <= stated * 1.001 + 1e-6


@pytest.mark.parametrize(("q", "sigma", "interval"), [(1e-3, 1.0, 1e-2), (0.3, 0.5, 0.05), (0.9, 3.0, 2e-3)])
def test_the_grid_is_that_of_connect_the_dots(q: float, sigma: float, interval: float) -> None:
    """The published algorithm takes second differences of delta; splitting each cell gives the same masses."""
    found = fixed_size.pessimistic_pld(q, sigma, interval)._pmf_remove
    epsilon = (found._lower_loss + np.arange(found.size)) * interval
    size = np.expm1(np.abs(epsilon))
    x = 1 + sigma**2 / 2 * np.log1p(size / q)
    deltas = q * ndtr((2 - x) / sigma) - (size + q) * ndtr(-x / sigma)
    deltas = np.where(epsilon < 0, -np.expm1(epsilon) + np.exp(epsilon) * deltas, deltas)
    dots = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        interval, found._lower_loss, found._lower_loss + found.size - 1, np.maximum(deltas, 0)
    ).to_dense_pmf()
    assert np.abs(found._probs - dots._probs).max() < 1e-11
    assert found._probs.sum() + found._infinity_mass == pytest.approx(1, abs=1e-14)
    assert found._infinity_mass < 1e-22


def test_a_sample_of_nearly_all_slots_costs_nearly_the_full_batch() -> None:
    full = accounting.epsilon(event(10**6, 10**6, 5.0), delta=1e-6, relation="replace_one").epsilon
    nearly = accounting.epsilon(event(10**6, 10**6 - 1, 5.0), delta=1e-6, relation="replace_one").epsilon
    assert full == pytest.approx(accountants.gaussian_epsilon(1e-6, 0.4), rel=5e-4)
    assert nearly == pytest.approx(full, rel=1e-3)


def test_only_the_rate_matters_and_more_slots_cost_less() -> None:
    def epsilon(population: int, batch: int) -> float:
        return accounting.epsilon(event(population, batch, 2.0, 30), delta=1e-6, relation="replace_one").epsilon

    assert epsilon(10, 1) == epsilon(1_000, 100)
    assert epsilon(10, 1) < epsilon(10, 2) < epsilon(10, 9) < epsilon(10, 10)


def test_little_noise_breaks_nothing() -> None:
    """A step that is missed with probability 0.999: above that, delta is met at any noise; the losses are enormous."""
    tiny = event(1_000, 1, 0.03)
    assert accounting.epsilon(tiny, delta=1.5e-3, relation="replace_one").epsilon < 1e-3
    assert accountants.renyi_epsilon(flatten(tiny), "replace_one", 1e-6) > 100


@pytest.mark.parametrize(
    ("rate", "steps", "sigma", "fixed", "attacked", "poisson"),
    [
        (0.01, 1_000, 2.0, 2.199, 1.828, 1.205),
        (0.1, 100, 5.0, 1.874, 1.743, 1.553),
        (0.2, 50, 4.0, 3.694, 3.488, 2.933),
    ],
)
def test_poisson_samples_cost_less_than_an_attack_on_fixed_ones_finds(
    rate: float, steps: int, sigma: float, fixed: float, attacked: float, poisson: float
) -> None:
    """Under `replace_one`. The attack: everybody gives -1 clip, and one unit -1 or 1, at twice the distance."""

    def sampled(noise: float) -> Event:
        step = PoissonSampledEvent(rate, GaussianEvent(noise))
        return SelfComposedEvent(step, steps)

    found = (
        accounting.epsilon(event(1_000, round(1_000 * rate), sigma, steps), delta=1e-5, relation="replace_one"),
        accounting.epsilon(sampled(sigma / 2), delta=1e-5, relation="add_or_remove"),
        accounting.epsilon(sampled(sigma), delta=1e-5, relation="replace_one"),
    )
    assert [bound.epsilon for bound in found] == pytest.approx([fixed, attacked, poisson], abs=1e-3)
