"""Noise that devices share: exact profiles of discrete Gaussians against the Gaussian that prices them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.privacy.accounting import accountants
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import (
    ComposedEvent,
    GaussianEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    flatten,
)
from tacit.privacy.mechanisms.device_sums import ROUNDED, DeviceSum
from tacit.units import Relation


def part(noise_multiplier: float, *, steps: int = 1, bits: int = 8, floor: int = 1) -> DeviceSum:
    return DeviceSum(
        name="sum",
        steps=steps,
        devices=max(floor, 2),
        clip_norm=1.0,
        noise="shared",
        noise_multiplier=noise_multiplier,
        floor=floor,
        bits=bits,
    )


def masses(variance: float, j: np.ndarray) -> np.ndarray:
    """Of a discrete Gaussian at whole numbers j from its centre."""
    weights = np.exp(-(j**2) / (2 * variance))
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("centre", [0, 3])
@pytest.mark.parametrize("variance", [6.0, 40.0])
def test_it_is_a_gaussian_that_is_rounded_at_random(variance: float, centre: int) -> None:
    """N(x, V - 4), then a whole number near y with weights exp(-(j - y)^2 / 8), is the discrete Gaussian at x."""
    j, y = np.arange(-80, 81.0), np.linspace(-80, 80, 64_001)
    density = np.exp(-((y - centre) ** 2) / (2 * (variance - ROUNDED)))
    kernel = np.exp(-((j[:, None] - y) ** 2) / (2 * ROUNDED))
    rounded = (kernel / kernel.sum(axis=0)) @ (density / density.sum())
    assert rounded == pytest.approx(masses(variance, j - centre), rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("noise", [1 / 16, 0.1, 1.0])
def test_one_sum_is_no_dearer_than_its_gaussian_and_hardly_cheaper(noise: float, relation: Relation) -> None:
    variance, shift = part(noise).variance, 256 if relation == "add_or_remove" else 512
    j = np.arange(-40 * int(variance**0.5) - 600, 40 * int(variance**0.5) + 600.0)
    own, moved = masses(variance, j), masses(variance, j - shift)
    mu, spread = accountants.gaussian_mu(flatten(part(noise).event), relation), shift / variance**0.5
    for epsilon in np.linspace(0, spread**2 / 2 + 5 * spread, 41):
        exact = float(np.maximum(moved - np.exp(epsilon) * own, 0).sum())
        bound = float(accountants.gaussian_delta(epsilon, mu))
        assert exact <= bound * (1 + 1e-9) + 1e-15
        assert bound < 1e-10 or noise < 1 or exact >= 0.998 * bound


def test_a_sum_of_shares_in_two_numbers_is_no_dearer() -> None:
    """Four shares of variance 256 each, one person's vector along and across the numbers."""
    shared = part(math.sqrt(1024) / 256, floor=4)
    share = masses(256.0, np.arange(-200, 201.0))
    four = np.convolve(np.convolve(share, share), np.convolve(share, share))[400:-400]
    mu = accountants.gaussian_mu(flatten(shared.event), "add_or_remove")
    for across in ((256, 0), (181, 181), (240, 89)):
        q = np.multiply.outer(*(np.pad(four, (0, d)) for d in across))
        p = np.multiply.outer(*(np.pad(four, (d, 0)) for d in across))
        for epsilon in (0.0, 20.0, 40.0, 60.0):
            exact = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
            assert exact <= float(accountants.gaussian_delta(epsilon, mu)) * (1 + 1e-9) + 1e-15


# Target, the noise multiplier of today and that of the concentrated bound, delta 1e-5.
GOLDEN = [(0.5, 7.032, 7.667), (1.0, 3.7307, 4.045), (4.0, 1.0813, 1.1576), (8.0, 0.6002, 0.638)]


@pytest.mark.parametrize(("epsilon", "sigma", "former"), GOLDEN)
def test_golden_noise_multipliers(epsilon: float, sigma: float, former: float) -> None:
    found = accounting.calibrate(lambda m: part(m).event, epsilon=epsilon, delta=1e-5, relation="add_or_remove")
    assert found == pytest.approx(sigma, rel=3e-4)
    before = accounting.calibrate(lambda m: part(m).former_event, epsilon=epsilon, delta=1e-5, relation="add_or_remove")
    assert before == pytest.approx(former, rel=5e-3)
    assert before / found > 1.05


def test_it_stands_beside_sampled_sums() -> None:
    sampled = SelfComposedEvent(PoissonSampledEvent(0.1, GaussianEvent(2.0)), 10)
    both = ComposedEvent([part(2.0, steps=3).event, sampled])
    bound = accounting.epsilon(both, delta=1e-5, relation="add_or_remove")
    plain = ComposedEvent([SelfComposedEvent(GaussianEvent(2.0), 3), sampled])
    exact = accounting.epsilon(plain, delta=1e-5, relation="add_or_remove")
    assert bound.epsilon == pytest.approx(exact.epsilon, rel=1e-4)
