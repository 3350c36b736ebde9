"""Renyi bounds at one order, for ledgers that add Rényi bounds up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import AccountingError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import fixed_size
from tacit.privacy.accounting.events import (
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    ZcdpEvent,
)


def test_gaussian_is_order_over_two_sigma_squared() -> None:
    event = SelfComposedEvent(GaussianEvent(2.0), 3)
    assert accounting.renyi(event, order=8.0, relation="add_or_remove") == pytest.approx(3 * 8 / (2 * 4))
    assert accounting.renyi(event, order=8.0, relation="replace_one") == pytest.approx(3 * 8 * 4 / (2 * 4))


def test_sampled_gaussian_lies_below_the_unsampled_and_above_zero() -> None:
    sampled = accounting.renyi(PoissonSampledEvent(0.1, GaussianEvent(2.0)), order=8.0, relation="add_or_remove")
    assert 0 < sampled < 1.0


@pytest.mark.parametrize("order", [2.0, 3.0, 8.5])
def test_a_fixed_size_sample_is_bounded_above_the_divergence_of_its_dominating_pair(order: float) -> None:
    event = SampledWithoutReplacementEvent(100, 3, GaussianEvent(1.5))
    losses, masses = fixed_size.losses(0.03, 1.5)
    pair = math.log(float(masses @ np.exp((order - 1) * losses))) / (order - 1)
    one = accounting.renyi(event, order=order, relation="replace_one")
    assert pair <= one <= order * 4 / (2 * 1.5**2)
    composed = accounting.renyi(SelfComposedEvent(event, 7), order=order, relation="replace_one")
    assert composed == pytest.approx(7 * one)


def test_pure_privacy_is_the_divergence_of_randomised_response() -> None:
    yes, no = math.e / (1 + math.e), 1 / (1 + math.e)
    for order in (2.0, 7.0, 300.0):
        found = accounting.renyi(EpsilonDeltaEvent(1.0, 0.0), order=order, relation="replace_one")
        direct = math.log(yes * (yes / no) ** (order - 1) + no * (no / yes) ** (order - 1)) / (order - 1)
        assert found == pytest.approx(direct, rel=1e-9)
        assert found <= min(1.0, order / 2)


def test_unknown_pairs_are_refused() -> None:
    with pytest.raises(AccountingError, match="no finite Renyi bound"):
        accounting.renyi(PoissonSampledEvent(0.1, GaussianEvent(2.0)), order=8.0, relation="replace_one")
    event = SampledWithoutReplacementEvent(100, 3, GaussianEvent(1.5))
    with pytest.raises(AccountingError, match="no finite Renyi bound"):
        accounting.renyi(event, order=8.0, relation="add_or_remove")
    with pytest.raises(AccountingError, match="no finite Renyi bound"):
        accounting.renyi(EpsilonDeltaEvent(1.0, 1e-9), order=8.0, relation="replace_one")


@pytest.mark.parametrize("order", [1.5, 4.0, 40.0])
def test_laplace_is_the_divergence_of_its_densities(order: float) -> None:
    """Integral of p^a q^(1-a) for centres 1 apart and a scale of 1.3, two numbers."""
    x = np.linspace(-60, 61, 2_000_001)
    log_integrand = -(order * np.abs(x) + (1 - order) * np.abs(x - 1)) / 1.3 - math.log(2.6)
    direct = math.log(np.trapezoid(np.exp(log_integrand), x)) / (order - 1)
    event = SelfComposedEvent(LaplaceEvent(1.3), 2)
    assert accounting.renyi(event, order=order, relation="add_or_remove") == pytest.approx(2 * direct, rel=1e-6)
    doubled = SelfComposedEvent(LaplaceEvent(2.6), 2)
    assert accounting.renyi(doubled, order=order, relation="replace_one") == pytest.approx(2 * direct, rel=1e-6)


def test_concentrated_is_rho_times_the_order() -> None:
    event = SelfComposedEvent(ZcdpEvent(0.2), 3)
    assert accounting.renyi(event, order=5.0, relation="add_or_remove") == pytest.approx(3.0)
    assert accounting.renyi(event, order=5.0, relation="replace_one") == pytest.approx(12.0)
