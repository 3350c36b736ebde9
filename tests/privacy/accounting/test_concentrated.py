"""Concentrated events: their rows of the accounting table, exact discrete sums below their curve, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from test_accounting import RowContract, both, gaussian, poisson

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, concentrated
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import table as accounting_table
from tacit.privacy.accounting.events import (
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelfComposedEvent,
    ZcdpEvent,
    flatten,
)


def concentrated_steps(sigma: float, steps: int = 1) -> Event:
    return SelfComposedEvent(ZcdpEvent(0.5 / sigma**2), steps)


class CurveContract(RowContract):
    def test_delta_below_the_resolution_is_refused(self) -> None:
        """There is none: no transform is used."""
        tiny, small = (self.certified(4.0, delta) for delta in (1e-100, 1e-13))
        assert math.isfinite(tiny)
        assert tiny > small

    def test_mu_is_a_bound_over_its_range(self) -> None:
        event, delta = self.event(4.0), 1e-6
        mu = accounting.mu_gdp(event, self.relation, delta=delta)
        for epsilon in np.linspace(0, self.certified(4.0, delta), 7):
            truth = accounting.delta(event, epsilon=float(epsilon), relation=self.relation)
            assert truth <= float(accountants.gaussian_delta(float(epsilon), mu)) * (1 + 1e-9)
        assert accounting.mu_gdp(event, self.relation) == math.inf


class TestConcentratedAddOrRemove(CurveContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return concentrated_steps(sigma, steps)


class TestConcentratedReplaceOne(TestConcentratedAddOrRemove):
    relation = "replace_one"


class TestConcentratedAndGaussians(CurveContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return both(concentrated_steps(sigma, steps), gaussian(2 * sigma, steps), gaussian(4 * sigma, steps))


class TestConcentratedAndGaussiansReplaceOne(TestConcentratedAndGaussians):
    relation = "replace_one"


class TestConcentratedAndLaplace(CurveContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return both(concentrated_steps(sigma, steps), SelfComposedEvent(LaplaceEvent(2 * sigma), steps))


class TestConcentratedAndLaplaceReplaceOne(TestConcentratedAndLaplace):
    relation = "replace_one"


class TestAllThree(TestConcentratedAndLaplace):
    def event(self, sigma: float, steps: int = 20) -> Event:
        return both(super().event(sigma, steps), gaussian(sigma, steps))


class TestAllThreeReplaceOne(TestAllThree):
    relation = "replace_one"


def test_relations_and_composition_are_those_of_the_gaussian() -> None:
    """rho adds up, counts four times where one unit is replaced, and a Gaussian of noise s is a rho of 1 / (2 s^2)."""

    def at(event: Event, relation: str) -> float:
        return accounting.epsilon(event, delta=1e-6, relation=relation).epsilon  # type: ignore[arg-type]

    whole = at(ZcdpEvent(0.6), "add_or_remove")
    assert at(SelfComposedEvent(ZcdpEvent(0.2), 3), "add_or_remove") == pytest.approx(whole, rel=1e-9)
    assert at(ZcdpEvent(0.15), "replace_one") == pytest.approx(whole, rel=1e-9)
    assert at(both(ZcdpEvent(0.1), GaussianEvent(1.0)), "add_or_remove") == pytest.approx(whole, rel=1e-9)
    for relation, far in (("add_or_remove", 1.0), ("replace_one", 4.0)):
        mixed = both(ZcdpEvent(0.1), GaussianEvent(1.0))
        assert accounting.renyi(mixed, order=7.0, relation=relation) == pytest.approx(0.6 * 7 * far)  # type: ignore[arg-type]


@pytest.mark.parametrize("rho", [1e-3, 0.05, 0.5, 3.0, 60.0])
def test_between_the_gaussian_and_the_simple_conversion(rho: float) -> None:
    """A Gaussian is rho-zCDP, so no bound for all such mechanisms can be below its own epsilon."""
    for delta in (1e-3, 1e-5, 1e-9):
        found = accounting.epsilon(ZcdpEvent(rho), delta=delta, relation="add_or_remove")
        assert accountants.gaussian_epsilon(delta, math.sqrt(2 * rho)) < found.epsilon
        assert found.epsilon < rho + 2 * math.sqrt(rho * math.log(1 / delta))
        assert found.accountant == accounting_table.CONVERSION
        assert found.check_accountant == accounting_table.SOLVED


def law(variance: float, reach: int) -> np.ndarray:
    j = np.arange(-reach, reach + 1)
    masses = np.exp(-(j**2) / (2 * variance))
    return np.asarray(masses / masses.sum())


@pytest.mark.parametrize("variance", [0.3, 1.0, 6.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_a_discrete_gaussian_stays_below_its_curve_and_its_delta(variance: float, shift: int) -> None:
    """Whole shifts: Renyi divergence at most order shift^2 / (2 variance), and delta at most what is certified."""
    j = np.arange(-80, 81)
    logs, moved = -(j**2) / (2 * variance), -((j - shift) ** 2) / (2 * variance)
    norm = math.log(np.exp(logs).sum())
    for order in (1.5, 2.0, 5.0):
        divergence = (math.log(np.exp(order * logs + (1 - order) * moved).sum()) - norm) / (order - 1)
        assert divergence <= order * shift**2 / (2 * variance) * (1 + 1e-9)
    one, other = np.exp(logs - norm), np.exp(moved - norm)
    event = ZcdpEvent(shift**2 / (2 * variance))
    for epsilon in (0.1, 1.0, 3.0):
        exact = float(np.maximum(one - math.exp(epsilon) * other, 0).sum())
        assert exact <= accounting.delta(event, epsilon=epsilon, relation="add_or_remove")


def test_a_sum_of_shares_is_a_discrete_gaussian_but_for_the_stated_rest() -> None:
    """Ten shares of variance 1: the ratio of the masses is within exp(+-tau) of the proof page, 16-fold steps aside."""
    total = law(1.0, 40)
    for k in range(1, 10):
        total = np.convolve(total, law(1.0, 40))
        whole = law(k + 1.0, len(total) // 2)
        middle = np.abs(np.arange(len(total)) - len(total) // 2) <= 6
        ratio = np.abs(np.log(total[middle] / whole[middle])).max()
        tau = 10 * sum(math.exp(-2 * math.pi**2 * i / (i + 1)) for i in range(1, k + 1))
        assert ratio <= tau
    assert 10 * math.exp(-(math.pi**2) * 16**2) < 1e-300  # shares of 16 grid steps and more


def test_the_best_order_is_found_at_every_size() -> None:
    """Direct minimisation of the conversion's epsilon form, another formula than the check's."""
    for rho in (1e-6, 1e-2, 1.0, 400.0):

        def at(x: float, rho: float = rho) -> float:
            a = 1 + math.exp(x)
            return rho * a + math.log1p(-1 / a) - (math.log(1e-5) + math.log(a)) / (a - 1)

        best = min(float(minimize_scalar(at, bounds=(low, low + 2), method="bounded").fun) for low in range(-6, 14, 2))
        assert concentrated.epsilon(flatten(ZcdpEvent(rho)), "add_or_remove", 1e-5) == pytest.approx(best, rel=1e-4)


def test_hardly_any_loss_is_none() -> None:
    bound = accounting.epsilon(ZcdpEvent(1e-12), delta=1e-5, relation="add_or_remove")
    assert (bound.epsilon, bound.check_epsilon) == (0.0, 0.0)


def test_what_is_sampled_or_has_a_proof_of_its_own_does_not_mix() -> None:
    for other, kind in ((poisson(0.1, 2.0, 3), "zcdp_poisson"), (EpsilonDeltaEvent(1.0, 0.0), "zcdp_epsilon_delta")):
        for call in (
            lambda event: accounting.epsilon(event, delta=1e-6, relation="add_or_remove"),
            lambda event: accounting.mu_gdp(event, "add_or_remove", delta=1e-6),
            lambda event: accounting.profile(event, "add_or_remove"),
        ):
            with pytest.raises(AccountingError, match=kind):
                call(both(ZcdpEvent(0.1), other))
