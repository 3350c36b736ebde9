"""Renyi bounds at one order, for ledgers that add Rényi bounds up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, fixed_size, poisson
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import (
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    ZcdpEvent,
    flatten,
)


def test_gaussian_is_order_over_two_sigma_squared() -> None:
    event = SelfComposedEvent(GaussianEvent(2.0), 3)
    assert accounting.renyi(event, order=8.0, relation="add_or_remove") == pytest.approx(3 * 8 / (2 * 4))
    assert accounting.renyi(event, order=8.0, relation="replace_one") == pytest.approx(3 * 8 * 4 / (2 * 4))


def test_sampled_gaussian_lies_below_the_unsampled_and_above_zero() -> None:
    sampled = accounting.renyi(PoissonSampledEvent(0.1, GaussianEvent(2.0)), order=8.0, relation="add_or_remove")
    assert 0 < sampled < 1.0


# Rate, noise, order: by mpmath's quadrature of the densities to 30 digits; added or removed, and replaced.
SAMPLED = [
    (0.1, 2.0, 1.1, 0.0015231703665297652, 0.005408126736043069),
    (0.1, 2.0, 1.01, 0.0013952877451329808, 0.004965277956437394),
    (0.01, 1.0, 4.5, 0.00041492706732523864, 0.0010417241319850856),
    (1e-6, 5.0, 1.5, 3.060808001122384e-14, 1.2003199756154079e-13),
    (1e-3, 0.6, 8.0, 3.216537751710355, 3.217538252043521),
    (0.3, 1.0, 30.5, 14.005214558239663, 14.361889502178375),
]


@pytest.mark.parametrize(("rate", "sigma", "order", "added", "replaced"), SAMPLED)
def test_samples_are_integrated_at_every_order(
    rate: float, sigma: float, order: float, added: float, replaced: float
) -> None:
    leaves = flatten(PoissonSampledEvent(rate, GaussianEvent(sigma)))
    for relation, exact in (("add_or_remove", added), ("replace_one", replaced)):
        found = accounting.renyi(PoissonSampledEvent(rate, GaussianEvent(sigma)), order=order, relation=relation)  # type: ignore[arg-type]
        assert exact * (1 - 1e-12) <= found <= exact * (1 + 2e-9)
    series = accountants.renyi_series(leaves, "add_or_remove", order)
    assert series == pytest.approx(added, rel=1e-6) if order > 8 or order == int(order) else series > added


@pytest.mark.parametrize("order", range(2, 65, 9))
@pytest.mark.parametrize(("rate", "sigma"), [(0.05, 1.2), (1e-4, 0.7), (0.5, 6.0)])
def test_at_whole_orders_they_are_those_of_the_series(rate: float, sigma: float, order: int) -> None:
    leaves = flatten(PoissonSampledEvent(rate, GaussianEvent(sigma)))
    found = accountants.renyi(leaves, "add_or_remove", order)
    assert found == pytest.approx(accountants.renyi_series(leaves, "add_or_remove", order), rel=2e-9, abs=1e-13)


# Rate, noise, order, the divergence of the dominating pair by mpmath, and dp-accounting's bound.
FIXED = [
    (0.01, 4.0, 8.0, 0.00015647306543483576, 0.0004684162610720203),
    (0.03, 1.5, 8.5, 3.5815160104848958, 3.7035893731066793),
    (0.1, 2.0, 1.1, 0.012117419343695065, 0.052939293727797626),
]


@pytest.mark.parametrize(("rate", "sigma", "order", "exact", "looser"), FIXED)
def test_a_fixed_size_sample_has_the_divergence_of_its_dominating_pair(
    rate: float, sigma: float, order: float, exact: float, looser: float
) -> None:
    event = SampledWithoutReplacementEvent(1_000, round(1_000 * rate), GaussianEvent(sigma))
    one = accounting.renyi(event, order=order, relation="replace_one")
    assert exact * (1 - 1e-12) <= one <= exact * (1 + 2e-9)
    assert accountants.renyi_series(flatten(event), "replace_one", order) == pytest.approx(looser, rel=1e-6)
    losses, masses = fixed_size.losses(rate, sigma)
    cells = math.log(float(masses @ np.exp((order - 1) * losses))) / (order - 1)
    assert cells * (1 - 1e-6) <= one <= order * 4 / (2 * sigma**2)
    x = np.linspace(-12 * sigma, 2 * order + 12 * sigma, 200_001)  # everybody at -C, and one unit at C instead
    absent, ratio = stats.norm.pdf(x / sigma) / sigma, 1 - rate + rate * np.exp((2 * x - 2) / sigma**2)
    attack = max(math.log(np.trapezoid(absent * ratio**power, x)) / (order - 1) for power in (order, 1 - order))
    assert 0.6 * one <= attack <= one * (1 + 1e-6)
    composed = accounting.renyi(SelfComposedEvent(event, 7), order=order, relation="replace_one")
    assert composed == pytest.approx(7 * one)


def test_a_bound_that_its_cells_contradict_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poisson, "log_moment", lambda *_: 1e-4)
    with pytest.raises(AccountingError, match="disagree"):
        accounting.renyi(PoissonSampledEvent(0.21, GaussianEvent(1.7)), order=2.5, relation="replace_one")


def test_pure_privacy_is_the_divergence_of_randomised_response() -> None:
    yes, no = math.e / (1 + math.e), 1 / (1 + math.e)
    for order in (2.0, 7.0, 300.0):
        found = accounting.renyi(EpsilonDeltaEvent(1.0, 0.0), order=order, relation="replace_one")
        direct = math.log(yes * (yes / no) ** (order - 1) + no * (no / yes) ** (order - 1)) / (order - 1)
        assert found == pytest.approx(direct, rel=1e-9)
        assert found <= min(1.0, order / 2)


def test_unknown_pairs_are_refused() -> None:
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
