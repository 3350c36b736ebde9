"""Laplace noise: its row of the accounting table, its loss by integration, its trade-off curve, its grid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace as law
from scipy.stats import norm
from test_accounting import RowContract, both, gaussian, poisson

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, laplace, tradeoff
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import table as accounting_table
from tacit.privacy.accounting.events import (
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
)


def numbers(scale: float, steps: int = 1) -> Event:
    return SelfComposedEvent(LaplaceEvent(scale), steps)


class TestLaplaceAddOrRemove(RowContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return numbers(sigma, steps)


class TestLaplaceReplaceOne(TestLaplaceAddOrRemove):
    relation = "replace_one"


class TestLaplaceAndGaussians(RowContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return both(numbers(2 * sigma, steps), numbers(5 * sigma, steps), gaussian(3 * sigma, steps))


class TestLaplaceAndGaussiansReplaceOne(TestLaplaceAndGaussians):
    relation = "replace_one"


class TestLaplaceAndPoisson(RowContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return both(numbers(2 * sigma, steps), gaussian(3 * sigma, steps), poisson(0.1, sigma, steps))


class TestLaplaceAndPoissonReplaceOne(TestLaplaceAndPoisson):
    relation = "replace_one"


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_one_number_meets_its_closed_form_under_both_relations(scale: float) -> None:
    """delta(e) = 1 - exp((e - e0) / 2) for one number, e0 = clips apart / scale."""
    for relation, far in (("add_or_remove", 1.0), ("replace_one", 2.0)):
        top = far / scale
        for share in (0.1, 0.5, 0.9):
            found = accounting.delta(numbers(scale), epsilon=share * top, relation=relation)  # type: ignore[arg-type]
            assert found == pytest.approx(-math.expm1((share - 1) * top / 2), rel=2e-3)
        assert accounting.renyi(numbers(scale, 3), order=1e6, relation=relation) == pytest.approx(3 * top, rel=1e-4)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_two_numbers_are_the_hockey_stick_of_the_plane(epsilon: float) -> None:
    """E[(1 - exp(e - L1 - L2))+] by integrating one number's closed profile over the other's loss."""
    top = 1.6

    def rest(e: float) -> float:
        if e >= top:
            return 0.0
        return -math.expm1((e - top) / 2) if e > -top else 1 - math.exp(e)

    inner = quad(lambda x: math.exp((x - top) / 2) / 4 * rest(epsilon - x), -top, top, points=[epsilon - top])[0]
    exact = 0.5 * rest(epsilon - top) + 0.5 * math.exp(-top) * rest(epsilon + top) + inner
    found = accounting.delta(numbers(1 / top, 2), epsilon=epsilon, relation="add_or_remove")
    assert exact * (1 - 1e-6) <= found <= exact * 1.01 + 1e-9


def test_many_small_numbers_are_a_gaussian() -> None:
    """Central limit: n numbers of epsilon e tend to mu-GDP with mu = e sqrt(n)."""
    found = accounting.epsilon(numbers(300.0, 90_000), delta=1e-5, relation="add_or_remove")
    assert found.epsilon == pytest.approx(accountants.gaussian_epsilon(1e-5, 1.0), rel=5e-3)


def test_replacing_costs_as_much_as_half_the_noise() -> None:
    replaced = accounting.epsilon(numbers(4.0, 30), delta=1e-6, relation="replace_one").epsilon
    added = accounting.epsilon(numbers(2.0, 30), delta=1e-6, relation="add_or_remove").epsilon
    assert replaced == pytest.approx(added, rel=1e-9)


def test_losses_are_a_pair_of_distributions() -> None:
    for epsilon in (1e-4, 0.3, 2.0, 9.0):
        values, masses = laplace.losses(epsilon)
        assert np.all(np.diff(values) > 0)
        assert float(masses @ np.exp(-values)) == pytest.approx(1, rel=1e-6)
        assert float(masses @ values) == pytest.approx(epsilon + math.expm1(-epsilon), rel=1e-6)  # the divergence
        drawn = law.rvs(size=200_000, random_state=np.random.default_rng(1)) / epsilon
        losses = epsilon * (np.abs(drawn - 1) - np.abs(drawn))
        assert laplace.loss_std(epsilon) == pytest.approx(losses.std(), rel=0.01)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 3.0, 12.0])
def test_mu_is_the_smallest_whose_curve_is_below(epsilon: float) -> None:
    """Trade-off curves over a grid of false alarms; a mu of 1 % less crosses."""

    def curve(alarms: np.ndarray) -> np.ndarray:
        missed = np.where(alarms < 0.5, 1 - math.exp(epsilon) * alarms, math.exp(-epsilon) * (1 - alarms))
        inside = (alarms >= math.exp(-epsilon) / 2) & (alarms <= 0.5)
        return np.where(inside, math.exp(-epsilon) / (4 * alarms), missed)

    alarms = np.geomspace(1e-9, 1 - 1e-9, 200_001)
    mu = laplace.mu(epsilon)
    gaussian_curve = norm.cdf(norm.ppf(1 - alarms) - mu)
    assert np.all(gaussian_curve <= curve(alarms) + 1e-12)
    centre = math.exp(-epsilon / 2) / 2
    assert norm.cdf(norm.ppf(1 - centre) - 0.99 * mu) > curve(np.array([centre]))[0]


def test_a_mu_for_every_epsilon_and_a_test_that_it_bounds() -> None:
    event = both(numbers(8.3, 100), GaussianEvent(1.0))
    mu = accounting.mu_gdp(event, "add_or_remove")
    assert mu == pytest.approx(math.hypot(1, 10 * laplace.mu(1 / 8.3)))
    assert accounting.mu_gdp(event, "add_or_remove", delta=1e-5) <= mu
    missed = float(tradeoff.miss_rates(event, "add_or_remove", delta=1e-5, false_alarms=np.array([0.05]))[0])
    assert norm.sf(norm.ppf(0.05) + mu) <= missed < 0.54
    weak = float(tradeoff.miss_rates(numbers(0.1), "add_or_remove", delta=1e-5, false_alarms=np.array([1e-6]))[0])
    assert weak == pytest.approx(1 - 1e-6 * math.exp(10), abs=1e-4)


@pytest.mark.parametrize(("scale", "shift"), [(1, 1), (1, 4), (3, 2), (7, 50)])
def test_whole_numbers_are_dominated_by_the_continuous_law(scale: int, shift: int) -> None:
    """The exact profile of discrete Laplace noise is at most that of a shift by 1 / (4 scale) more, and not of 9/10."""
    j = np.arange(-60 * scale - shift, 60 * scale + shift + 1)
    a = math.exp(-1 / scale)
    one, other = ((1 - a) / (1 + a) * a ** np.abs(j - centre) for centre in (0, shift))

    def excess(epsilon: float, extra: float) -> float:
        exact = float(np.maximum(one - math.exp(epsilon) * other, 0).sum())
        return exact - max(-math.expm1((epsilon - (shift + extra) / scale) / 2), 0.0)

    grid = np.linspace(0, shift / scale, 999)
    assert max(excess(float(e), 1 / (4 * scale)) for e in grid) <= 1e-12
    assert excess((shift - 1) / scale, 0.9 / (4 * scale)) > 0


def test_a_large_epsilon_is_told_and_not_promised() -> None:
    bound = accounting.epsilon(numbers(0.83, 7050), delta=1e-5, relation="add_or_remove")
    assert bound.epsilon > accounting.MAX_EPSILON
    found = accounting.delta(numbers(0.83, 7050), epsilon=bound.epsilon, relation="add_or_remove")
    assert found == pytest.approx(1e-5, rel=0.1)
    with pytest.raises(AccountingError, match="too large"):
        accounting.epsilon(numbers(0.083, 7050), delta=1e-5, relation="add_or_remove")
    with pytest.raises(AccountingError, match="target epsilon"):
        accounting.calibrate(lambda s: numbers(s, 7050), epsilon=501.0, delta=1e-5, relation="add_or_remove")


def test_the_accountants_are_named_and_mechanisms_with_proofs_of_their_own_are_refused() -> None:
    bound = accounting.epsilon(numbers(3.0), delta=1e-5, relation="add_or_remove")
    assert (bound.accountant, bound.check_accountant) == (accounting_table.PLD, accounting_table.FOURIER)
    with pytest.raises(AccountingError, match="epsilon_delta_laplace"):
        accounting.epsilon(both(numbers(3.0), EpsilonDeltaEvent(1.0, 0.0)), delta=1e-5, relation="add_or_remove")
    fixed = SampledWithoutReplacementEvent(10, 2, GaussianEvent(1.0))
    with pytest.raises(AccountingError, match="laplace_fixed_size"):
        accounting.epsilon(both(numbers(3.0), fixed), delta=1e-5, relation="replace_one")
