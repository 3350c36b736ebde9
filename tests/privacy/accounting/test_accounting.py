"""The accounting table: contract tests that every row passes, closed forms, and refusals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.integrate import quad
from scipy.stats import norm

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, certified
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import poisson as poisson_step
from tacit.privacy.accounting import table as accounting_table
from tacit.privacy.accounting.events import (
    ComposedEvent,
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    flatten,
)
from tacit.units import Relation


def gaussian(sigma: float, steps: int = 1) -> Event:
    return SelfComposedEvent(GaussianEvent(sigma), steps)


def poisson(rate: float, sigma: float, steps: int) -> Event:
    step = PoissonSampledEvent(rate, GaussianEvent(sigma))
    return SelfComposedEvent(step, steps)


def fixed_size(population: int, batch: int, sigma: float, steps: int = 1) -> Event:
    step = SampledWithoutReplacementEvent(population, batch, GaussianEvent(sigma))
    return SelfComposedEvent(step, steps)


def both(*events: Event) -> Event:
    return ComposedEvent(list(events))


@pytest.fixture
def uncached() -> Iterator[None]:
    """Neither bounds from before a patch, nor bounds from under it."""
    certified.epsilon.cache_clear()
    certified.mu.cache_clear()
    yield
    certified.epsilon.cache_clear()
    certified.mu.cache_clear()


class RowContract:
    """What every row of the table must do; a row is an event maker and a relation."""

    relation: ClassVar[Relation]

    def event(self, sigma: float, steps: int = 20) -> Event:
        raise AssertionError("a row says what its event is")

    def certified(self, sigma: float, delta: float = 1e-6, steps: int = 20) -> float:
        return accounting.epsilon(self.event(sigma, steps), delta=delta, relation=self.relation).epsilon

    def test_falls_with_sigma_and_delta_and_grows_with_steps(self) -> None:
        least = self.certified(8.0)
        for more in (self.certified(4.0), self.certified(8.0, 1e-9), self.certified(8.0, steps=100)):
            assert 0 < least < more
        assert least > self.certified(8.0, steps=1)

    def test_nothing_and_non_private(self) -> None:
        for event in (NonPrivateEvent(), both(self.event(2.0), NonPrivateEvent())):
            assert accounting.epsilon(event, delta=1e-6, relation=self.relation).epsilon == math.inf
            assert accounting.delta(event, epsilon=1.0, relation=self.relation) == 1.0
            assert accounting.mu_gdp(event, self.relation) == math.inf
            assert {e for _, e in accounting.profile(event, self.relation)} == {math.inf}
        with pytest.raises(AccountingError, match="no steps"):
            accounting.epsilon(both(), delta=1e-6, relation=self.relation)

    def test_nesting_carries_no_meaning(self) -> None:
        nested = both(both(self.event(4.0, 5), self.event(4.0, 10)), self.event(4.0, 5))
        assert accounting.epsilon(nested, delta=1e-6, relation=self.relation).epsilon == self.certified(4.0, steps=20)

    def test_certified_is_above_the_truth_and_close_to_the_check(self) -> None:
        bound = accounting.epsilon(self.event(4.0), delta=1e-6, relation=self.relation)
        assert bound.check_epsilon * (1 - 1e-4) <= bound.epsilon <= bound.check_epsilon * (1 + 5e-3)
        assert bound.accountant != bound.check_accountant

    def test_delta_inverts_epsilon(self) -> None:
        epsilon = self.certified(4.0, 1e-6)
        found = accounting.delta(self.event(4.0), epsilon=epsilon, relation=self.relation)
        assert 1e-6 * (1 - 1e-6) <= found <= 1.02e-6

    def test_calibrate_never_exceeds_the_target(self) -> None:
        """At one target a row: `tests/golden/test_epsilons.py` has those from 0.1 to 10."""
        sigma = accounting.calibrate(self.event, epsilon=1.0, delta=1e-6, relation=self.relation)
        assert 0.995 <= self.certified(sigma) <= 1.0
        assert float(f"{sigma:.5g}") == sigma

    def test_mu_is_a_bound_over_its_range(self) -> None:
        event, delta = self.event(4.0), 1e-6
        mu = accounting.mu_gdp(event, self.relation, delta=delta)
        end = self.certified(4.0, delta)
        for epsilon in np.linspace(0, end, 7):
            truth = accounting.delta(event, epsilon=float(epsilon), relation=self.relation)
            assert truth <= float(accountants.gaussian_delta(float(epsilon), mu)) * 1.02
        assert mu <= accounting.mu_gdp(event, self.relation) * (1 + 1e-9)

    def test_an_absurd_loss_is_refused(self) -> None:
        with pytest.raises(AccountingError, match=r"too large|disagree|breaks down"):
            accounting.epsilon(self.event(0.002), delta=1e-6, relation=self.relation)

    def test_delta_below_the_resolution_is_refused(self) -> None:
        with pytest.raises(AccountingError, match="delta is smaller"):
            accounting.epsilon(self.event(4.0), delta=1e-13, relation=self.relation)


class TestGaussianAddOrRemove(RowContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return gaussian(sigma, steps)


class TestGaussianReplaceOne(TestGaussianAddOrRemove):
    relation = "replace_one"


class TestPoissonAddOrRemove(RowContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return poisson(0.2, sigma, steps)


class TestPoissonReplaceOne(TestPoissonAddOrRemove):
    relation = "replace_one"


class TestFixedSizeReplaceOne(RowContract):
    relation = "replace_one"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return fixed_size(10, 2, sigma, steps)


class TestFixedSizeMixedReplaceOne(RowContract):
    relation = "replace_one"

    def event(self, sigma: float, steps: int = 20) -> Event:
        other = both(poisson(0.1, sigma, steps), gaussian(10 * sigma, steps), fixed_size(50, 1, sigma / 2, steps))
        return both(fixed_size(10, 2, sigma, steps), other)


class TestMixedAddOrRemove(RowContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return both(poisson(0.1, sigma, steps), gaussian(10 * sigma, steps), poisson(0.02, sigma / 2, steps))


class TestMixedReplaceOne(TestMixedAddOrRemove):
    relation = "replace_one"


class TestResponsesAndGaussians(RowContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        own = [SelfComposedEvent(EpsilonDeltaEvent(e, 0.0), steps) for e in (0.01, 0.004)]
        return both(gaussian(sigma, steps), *own)


class TestResponsesAndGaussiansReplaceOne(TestResponsesAndGaussians):
    relation = "replace_one"


class TestResponsesAndPoisson(TestResponsesAndGaussians):
    def event(self, sigma: float, steps: int = 20) -> Event:
        return both(super().event(10 * sigma, steps), poisson(0.2, sigma, steps))


class TestResponsesAndPoissonReplaceOne(TestResponsesAndPoisson):
    relation = "replace_one"


class TestResponsesAndFixedSize(RowContract):
    relation = "replace_one"

    def event(self, sigma: float, steps: int = 20) -> Event:
        own = SelfComposedEvent(EpsilonDeltaEvent(0.01, 0.0), steps)
        return both(own, fixed_size(10, 2, sigma, steps))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 30.0])
@pytest.mark.parametrize("steps", [1, 100])
def test_gaussians_meet_their_closed_form_under_both_relations(sigma: float, steps: int) -> None:
    for relation, far in (("add_or_remove", 1.0), ("replace_one", 2.0)):
        mu = far * math.sqrt(steps) / (sigma * 10)
        event = gaussian(sigma * 10, steps)
        found = accounting.epsilon(event, delta=1e-5, relation=relation).epsilon
        profile = norm.cdf(-found / mu + mu / 2) - math.exp(found) * norm.cdf(-found / mu - mu / 2)
        assert profile == pytest.approx(1e-5, rel=5e-3)
        assert profile <= 1e-5 * (1 + 1e-6)
        assert accounting.mu_gdp(event, relation) == pytest.approx(mu, rel=1e-12)


def test_replacing_costs_as_much_as_half_the_noise() -> None:
    replaced = accounting.epsilon(gaussian(2.0, 3), delta=1e-6, relation="replace_one").epsilon
    assert replaced == pytest.approx(accounting.epsilon(gaussian(1.0, 3), delta=1e-6, relation="add_or_remove").epsilon)


@pytest.mark.parametrize(("q", "sigma"), [(0.01, 1.0), (0.3, 0.7), (0.9, 2.0)])
def test_one_step_is_the_hockey_stick_integral(q: float, sigma: float) -> None:
    def p(x: float, centre: float) -> float:
        away, near = (math.exp(-(((x - at) / sigma) ** 2) / 2) for at in (0.0, centre))
        return ((1 - q) * away + q * near) / (sigma * math.sqrt(2 * math.pi))

    for relation, pairs in (
        ("add_or_remove", [(1.0, 0.0), (0.0, 1.0)]),
        ("replace_one", [(1.0, -1.0)]),
    ):
        for epsilon in (0.1, 0.7):
            exact = max(
                quad(
                    lambda x, a=a, b=b, e=epsilon: max(p(x, a) - math.exp(e) * p(x, b), 0.0),
                    -12 * sigma,
                    12 * sigma,
                    limit=200,
                    points=[0.0, 1.0],
                )[0]
                for a, b in pairs
            )
            found = accounting.delta(poisson(q, sigma, 1), epsilon=epsilon, relation=relation)  # type: ignore[arg-type]
            assert exact * (1 - 1e-6) <= found <= exact * 1.01 + 1e-9


def test_replace_one_dominates_every_pair_of_contributions() -> None:
    """Two contributions inside the unit disc, not on the line of the dominating pair, are no worse (Monte Carlo)."""
    rng, q, sigma, epsilon = np.random.default_rng(0), 0.3, 0.8, 0.5
    bound = accounting.delta(poisson(q, sigma, 1), epsilon=epsilon, relation="replace_one")
    for angle, far in ((0.5, 1.0), (2.0, 1.0), (math.pi, 0.5), (math.pi, 1.0)):
        u, v = np.array([1.0, 0.0]), far * np.array([math.cos(angle), math.sin(angle)])
        x = rng.normal(0, sigma, (200_000, 2)) + (rng.random(200_000) < q)[:, None] * u

        def density(centre: np.ndarray, x: np.ndarray = x) -> np.ndarray:
            kernel = np.exp(-((x - centre) ** 2).sum(1) / (2 * sigma**2))
            return (1 - q) * np.exp(-(x**2).sum(1) / (2 * sigma**2)) + q * kernel  # type: ignore[no-any-return]

        estimate = np.maximum(1 - math.exp(epsilon) * density(v) / density(u), 0).mean()
        assert estimate <= bound + 4 * 0.5 / math.sqrt(200_000)


def test_every_renyi_order_bounds_the_certified_epsilon() -> None:
    event = poisson(0.02, 1.3, 400)
    certified = accounting.epsilon(event, delta=1e-6, relation="add_or_remove").epsilon
    for order in (4, 12, 32):
        loss = accounting.renyi(event, order=order, relation="add_or_remove")
        assert certified < loss + math.log1p(-1 / order) - (math.log(1e-6) + math.log(order)) / (order - 1)


def test_the_float_slack_covers_the_rounding_of_long_compositions() -> None:
    for steps in (100, 10_000, 100_000):
        sigma = math.sqrt(steps)
        one = privacy_loss_distribution.from_gaussian_mechanism(sigma, value_discretization_interval=0.035 / sigma)
        for target in (1e-8, 1e-10):
            epsilon = accountants.gaussian_epsilon(target, 1.0)
            error = target - one.self_compose(steps).get_delta_for_epsilon(epsilon)
            assert error <= accountants.float_slack(((GaussianEvent(1.0), steps),)) / 2


@pytest.mark.usefixtures("uncached")
def test_disagreeing_accountants_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    event = poisson(0.2, 2.0, 20)
    honest = accounting.epsilon(event, delta=1e-6, relation="add_or_remove").epsilon
    for wrong in (0.97 * honest, 1.03 * honest):
        certified.epsilon.cache_clear()
        row = accounting_table.AccountingRule("liar", lambda leaves, relation, delta, wrong=wrong: wrong)
        monkeypatch.setitem(accounting_table.TABLE, ("poisson_gaussian", "add_or_remove"), row)  # type: ignore[arg-type]
        with pytest.raises(AccountingError, match="disagree"):
            accounting.epsilon(event, delta=1e-6, relation="add_or_remove")
    monkeypatch.undo()
    certified.epsilon.cache_clear()
    monkeypatch.setattr(accountants, "renyi_epsilon", lambda *_: 0.9 * honest)
    with pytest.raises(AccountingError, match="disagree"):
        accounting.epsilon(event, delta=1e-6, relation="add_or_remove")


@pytest.mark.usefixtures("uncached")
def test_a_pair_that_is_not_in_the_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(accounting_table.TABLE, ("poisson_gaussian", "replace_one"))  # type: ignore[arg-type]
    for one in (
        fixed_size(10, 2, 2.0, 5),
        both(fixed_size(10, 2, 2.0), gaussian(2.0), poisson(0.1, 2.0, 3)),
        both(fixed_size(10, 2, 2.0), EpsilonDeltaEvent(1.0, 1e-7)),
    ):
        with pytest.raises(AccountingError, match="no certified bound exists"):
            accounting.epsilon(one, delta=1e-6, relation="add_or_remove")
    for call in (
        lambda: accounting.epsilon(poisson(0.1, 2.0, 5), delta=1e-6, relation="replace_one"),
        lambda: accounting.delta(poisson(0.1, 2.0, 5), epsilon=1.0, relation="replace_one"),
        lambda: accounting.profile(poisson(0.1, 2.0, 5), "replace_one"),
        lambda: accounting.mu_gdp(poisson(0.1, 2.0, 5), "replace_one", delta=1e-6),
    ):
        with pytest.raises(AccountingError, match="no certified bound exists"):
            call()
    with pytest.raises(AccountingError, match="no certified bound exists"):
        accounting.epsilon(gaussian(2.0), delta=1e-6, relation="edit_distance")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-6, math.nan, 2.0])
def test_bad_deltas_are_refused(bad: float) -> None:
    with pytest.raises(AccountingError, match="delta is out of range"):
        accounting.epsilon(gaussian(2.0), delta=bad, relation="add_or_remove")


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 501.0])
def test_bad_targets_are_refused(bad: float) -> None:
    with pytest.raises(AccountingError, match="target epsilon"):
        accounting.calibrate(gaussian, epsilon=bad, delta=1e-6, relation="add_or_remove")


def test_unreachable_targets_are_refused_with_a_remedy() -> None:
    def fixed(_: float) -> Event:
        return gaussian(1.0)

    with pytest.raises(AccountingError, match="even the largest noise multiplier misses"):
        accounting.calibrate(fixed, epsilon=1.0, delta=1e-6, relation="add_or_remove")
    with pytest.raises(AccountingError, match="even the smallest noise multiplier meets"):
        accounting.calibrate(fixed, epsilon=50.0, delta=1e-6, relation="add_or_remove")
    with pytest.raises(AccountingError, match="misses"):
        accounting.calibrate(lambda _: NonPrivateEvent(), epsilon=1.0, delta=1e-6, relation="add_or_remove")


def test_epsilon_is_monotone_in_the_rate() -> None:
    chain = [
        accounting.epsilon(poisson(q, 1.0, 10), delta=1e-6, relation="add_or_remove").epsilon
        for q in (0.001, 0.01, 0.1, 0.5, 0.9, 1.0)
    ]
    assert all(small < large for small, large in pairwise(chain))
    assert chain[-1] == pytest.approx(
        accounting.epsilon(gaussian(1.0, 10), delta=1e-6, relation="add_or_remove").epsilon
    )


def test_zero_epsilon_where_the_loss_is_below_delta() -> None:
    bound = accounting.epsilon(gaussian(1e6), delta=1e-3, relation="add_or_remove")
    assert (bound.epsilon, bound.check_epsilon) == (0.0, 0.0)


def test_the_profile_is_a_falling_table_of_resolved_deltas() -> None:
    table = accounting.profile(poisson(0.01, 1.0, 1000), "add_or_remove")
    assert [d for d, _ in table] == list(accounting.PROFILE_DELTAS)
    assert all(a < b for (_, a), (_, b) in pairwise(table))
    long = accounting.profile(poisson(1e-3, 3.0, 600_000), "add_or_remove")
    assert [d for d, _ in long] == list(accounting.PROFILE_DELTAS[:-1])


@pytest.mark.parametrize(
    ("value", "up"), [(0.371521, 0.37153), (1.0, 1.0), (99999.1, 100000.0), (1.23451e-7, 1.2346e-7)]
)
def test_round_up_never_rounds_down(value: float, up: float) -> None:
    assert accounting.round_up(value, 5) == up >= value
    assert accounting.round_up(0.0, 5) == 0.0
    assert accounting.round_up(math.inf, 5) == math.inf


def test_leaves_are_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    real = poisson_step.pessimistic_pld
    monkeypatch.setattr(poisson_step, "pessimistic_pld", lambda *a: (calls.append(a), real(*a))[1])
    step = PoissonSampledEvent(0.0123, GaussianEvent(3.21))
    leaves = flatten(both(*[step] * 500))
    accountants.pessimistic_pld(leaves, "add_or_remove", spread=1e-2)
    assert len(calls) == 1
