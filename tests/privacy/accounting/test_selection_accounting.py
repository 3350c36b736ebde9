"""The price of a selection against closed forms, `dp_accounting` and exact laws; the number of runs; its event."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from test_accounting import RowContract, both

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, approximate
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import (
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    Law,
    NonPrivateEvent,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SelectionEvent,
    SelfComposedEvent,
    event_from_json,
    event_to_json,
    flatten,
)
from tacit.privacy.accounting.selection import expected_runs, tighten
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.selection import draw_run_count

LAWS: tuple[Law, ...] = ("logarithmic", "geometric")
SAMPLED = SelfComposedEvent(PoissonSampledEvent(0.02, GaussianEvent(1.5)), 500)


def best_of(*events: Event, stop: int = 20, law: Law = "logarithmic") -> Event:
    return SelectionEvent(tuple(flatten(one) for one in events), stop, law)


def probability(k: np.ndarray, stop: int, law: Law) -> np.ndarray:
    """P[K = k]."""
    weights = (1 - 1 / stop) ** k
    return weights / (stop - 1) if law == "geometric" else weights / (k * math.log(stop))


def generating(z: float, stop: int, law: Law) -> float:
    """E[z^K]."""
    rest = 1 - 1 / stop
    return z / stop / (1 - rest * z) if law == "geometric" else math.log1p(-rest * z) / math.log(1 / stop)


class SelectionContract(RowContract):
    def test_nesting_carries_no_meaning(self) -> None:
        """Nor is there any nesting: a second selection is refused, as is anything beside one."""
        for event in (both(self.event(4.0, 5), self.event(4.0, 10)), SelfComposedEvent(self.event(4.0), 2)):
            with pytest.raises(AccountingError, match="several_selections"):
                accounting.epsilon(event, delta=1e-6, relation=self.relation)

    def test_mu_is_a_bound_over_its_range(self) -> None:
        event, delta = self.event(4.0), 1e-6
        mu = accounting.mu_gdp(event, self.relation, delta=delta)
        assert mu < 30
        end = self.certified(4.0, delta)
        assert accounting.delta(event, epsilon=end, relation=self.relation) <= float(
            accountants.gaussian_delta(end, mu)
        ) * (1 + 1e-9)
        assert accounting.mu_gdp(event, self.relation) == math.inf


class TestSelectionAddOrRemove(SelectionContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return best_of(SelfComposedEvent(GaussianEvent(6 * sigma), steps))


class TestSelectionReplaceOne(TestSelectionAddOrRemove):
    relation = "replace_one"


class TestSelectionOfSamples(SelectionContract):
    relation = "add_or_remove"

    def event(self, sigma: float, steps: int = 20) -> Event:
        sampled = SelfComposedEvent(PoissonSampledEvent(0.1, GaussianEvent(sigma)), steps)
        return best_of(both(sampled, GaussianEvent(9 * sigma)), law="geometric")


class TestSelectionOfReplacedSamples(TestSelectionOfSamples):
    relation = "replace_one"


class TestSelectionOfFixedSizes(SelectionContract):
    relation = "replace_one"

    def event(self, sigma: float, steps: int = 20) -> Event:
        return best_of(SelfComposedEvent(SampledWithoutReplacementEvent(50, 5, GaussianEvent(sigma)), steps))


class Asked(Exception):
    """So high are the integers that would be drawn next."""


def exact_law(stop: int, law: Law, blocks: int) -> Counter[int]:
    """The mass of each number of runs over all tosses of so many blocks, as far as no count is drawn again."""
    masses: Counter[int] = Counter()
    todo: list[tuple[Any, Fraction]] = [((), Fraction(1))]
    while todo:
        script, mass = todo.pop()
        given = iter(script)

        def integers(high: np.ndarray, given: Any = given) -> np.ndarray:
            for answer in given:
                return np.array(answer)
            raise Asked(high.tolist())

        try:
            masses[draw_run_count(stop, law, SimpleNamespace(integers=integers))] += mass  # type: ignore[arg-type]
        except Asked as asked:
            (high,) = asked.args
            if len(high) == 1 or (len(script) < blocks and all(len(answer) > 1 for answer in script)):
                todo += [((*script, one), mass / math.prod(high)) for one in itertools.product(*map(range, high))]
    return masses


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("stop", "blocks"), [(2, 3), (3, 1)])
def test_the_law_of_the_number_of_runs_is_exact(stop: int, blocks: int, law: Law) -> None:
    """Tosses come in blocks of twice `stop`. A logarithmic count k is accepted with probability 1 / k."""
    masses = exact_law(stop, law, blocks)
    k = np.arange(1, 2 * stop * blocks + 1)
    accepted = 1.0 if law == "geometric" else math.log(stop) / (stop - 1)
    assert set(masses) == set(k.tolist())
    expected = probability(k, stop, law) * accepted
    np.testing.assert_allclose([float(masses[i]) for i in k.tolist()], expected, rtol=1e-12)


@pytest.mark.parametrize(("stop", "law"), [(10, "logarithmic"), (10, "geometric"), (100, "geometric")])
def test_the_law_of_the_number_of_runs(stop: int, law: Law) -> None:
    noise, draws = SecretNoise.for_tests(1), 4_000
    counts = Counter(draw_run_count(stop, law, noise) for _ in range(draws))
    each = draws * probability(np.arange(1, 20_000), stop, law)
    most = 1 + int(np.argmax(np.cumsum(each[::-1])[::-1] < 8))
    expected = each[: most - 1]
    keep = expected >= 5
    seen = np.array([counts[k] for k in range(1, most)])
    rest = draws - seen[keep].sum(), draws - expected[keep].sum()
    assert stats.chisquare([*seen[keep], rest[0]], [*expected[keep], rest[1]]).pvalue > 1e-5
    assert sum(k * n for k, n in counts.items()) / draws == pytest.approx(expected_runs(stop, law), rel=0.1)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("stop", [2, 20, 200])
def test_the_mean_number_of_runs_is_that_of_the_law(stop: int, law: Law) -> None:
    k = np.arange(1, 20_000)
    assert (k * probability(k, stop, law)).sum() == pytest.approx(expected_runs(stop, law), rel=1e-6)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("inner", "theirs"),
    [
        (GaussianEvent(4.0), dp_event.GaussianDpEvent(4.0)),
        (
            SAMPLED,
            dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(1.5)), 500),
        ),
        (LaplaceEvent(3.0), dp_event.LaplaceDpEvent(3.0)),
    ],
    ids=["plain", "sampled", "laplace"],
)
def test_dp_accounting_says_the_same_of_its_curve_and_more_of_epsilon(
    inner: Event, theirs: dp_event.DpEvent, law: Law
) -> None:
    orders = [*(x / 10 for x in range(11, 160)), *np.geomspace(16, 1024, 160)]
    other = RdpAccountant(orders)
    shape = 1.0 if law == "geometric" else 0.0
    other.compose(dp_event.RepeatAndSelectDpEvent(theirs, expected_runs(20, law), shape))
    curve = dict(zip(orders, other.rdp, strict=True))
    event = best_of(inner, law=law)
    for order in (2.0, 3.0, 8.0):
        assert accounting.renyi(event, order=order, relation="add_or_remove") == pytest.approx(curve[order], rel=6e-3)
    found = accounting.epsilon(event, delta=1e-6, relation="add_or_remove").epsilon
    assert found < other.get_epsilon(1e-6)


# One run of epsilon 1 at delta 1e-5, or DP-SGD of 1.83; the best of them with stop 10.
GOLDEN: list[tuple[Event, Law, float]] = [
    (GaussianEvent(3.7304), "geometric", 1.6256),
    (GaussianEvent(3.7304), "logarithmic", 1.3280),
    (SelfComposedEvent(PoissonSampledEvent(0.01, GaussianEvent(1.0)), 1_000), "geometric", 2.8711),
    (SelfComposedEvent(PoissonSampledEvent(0.01, GaussianEvent(1.0)), 1_000), "logarithmic", 2.3786),
]


@pytest.mark.parametrize(("run", "law", "golden"), GOLDEN)
def test_golden_epsilons(run: Event, law: Law, golden: float) -> None:
    bound = accounting.epsilon(best_of(run, stop=10, law=law), delta=1e-5, relation="add_or_remove")
    assert (bound.epsilon, bound.check_epsilon) == pytest.approx((golden, golden), abs=3e-4)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("stop", [2, 10, 1_000])
@pytest.mark.parametrize("mu", [0.05, 0.27, 1.5])
def test_its_price_is_that_of_the_trade_off_curve_and_above_an_exact_law(mu: float, stop: int, law: Law) -> None:
    """A number with Gaussian noise that is its own score: E[K] of the profile, at what R to its power leaves."""
    gamma, mean, power = 1 / stop, expected_runs(stop, law), 2 if law == "geometric" else 1
    z = np.concatenate([np.linspace(0, 1, 20_001), np.geomspace(1e-12, 1, 20_001)])
    ratio = (gamma + (1 - gamma) * stats.norm.cdf(stats.norm.ppf(z) + mu)) / (gamma + (1 - gamma) * z)
    exact = accountants.gaussian_epsilon(1e-5 / mean, mu) + power * math.log(ratio.max())
    found = accounting.epsilon(best_of(GaussianEvent(1 / mu), stop=stop, law=law), delta=1e-5, relation="add_or_remove")
    assert found.epsilon == pytest.approx(exact, rel=1e-3)
    assert found.epsilon >= exact
    y = np.linspace(-12, 12 + mu, 100_001)

    def density(centre: float) -> np.ndarray:
        rest = (1 - (1 - gamma) * stats.norm.cdf(y - centre)) ** -power
        return np.asarray(stats.norm.pdf(y - centre) * rest / (stats.norm.pdf(y - centre) * rest).sum())

    moved, still = density(mu), density(0.0)
    attack = max(np.maximum(p - math.exp(found.epsilon) * q, 0).sum() for p, q in ((moved, still), (still, moved)))
    assert 0 < attack <= 1e-5
    less = max(np.maximum(p - math.exp(0.49 * exact) * q, 0).sum() for p, q in ((moved, still), (still, moved)))
    assert less > 1e-5  # the exact law costs from 49 % to 95 % of the bound


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("stop", [2, 20])
@pytest.mark.parametrize("pure", [0.1, 1.0])
def test_the_best_of_randomised_responses_stays_below_its_curve(pure: float, stop: int, law: Law) -> None:
    """Runs tell a bit with randomised response, and ones are better: the best is 0 with probability E[p^K]."""
    told = best_of(EpsilonDeltaEvent(pure, 0.0), stop=stop, law=law)
    truth = 1 / (1 + math.exp(-pure))
    zero = np.array([generating(share, stop, law) for share in (truth, 1 - truth)])
    for p, q in (zero, zero[::-1]):
        for order in (1.5, 2.0, 4.0, 16.0):
            exact = math.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) / (order - 1)
            assert exact <= accounting.renyi(told, order=order, relation="add_or_remove") + 1e-12
        for epsilon in (0.0, pure, 2 * pure):
            exact = max(0.0, p - math.exp(epsilon) * q) + max(0.0, (1 - p) - math.exp(epsilon) * (1 - q))
            assert exact <= accounting.delta(told, epsilon=epsilon, relation="add_or_remove") + 1e-12


def test_more_candidates_cost_nothing_and_the_dearest_counts() -> None:
    def price(*events: Event) -> float:
        return accounting.epsilon(best_of(*events), delta=1e-6, relation="add_or_remove").epsilon

    cheap, dear = GaussianEvent(8.0), GaussianEvent(4.0)
    assert price(dear, dear, cheap) == price(dear) > price(cheap)
    crossing = price(dear, SAMPLED)
    assert crossing >= max(price(dear), price(SAMPLED)) * (1 - 1e-9)


def test_it_costs_less_than_the_mean_number_of_runs() -> None:
    best = accounting.epsilon(best_of(SAMPLED, stop=50), delta=1e-6, relation="add_or_remove").epsilon
    twice = accounting.epsilon(SelfComposedEvent(SAMPLED, 12), delta=1e-6, relation="add_or_remove").epsilon
    single = accounting.epsilon(SAMPLED, delta=1e-6, relation="add_or_remove").epsilon
    assert single < best < 2.2 * single < twice


def test_smaller_epsilons_from_larger_ones() -> None:
    grid = np.array([0.0, 0.5, 1.0])
    found = tighten(grid, np.array([1.0, 0.3, 0.0]))
    pure = approximate.delta(flatten(EpsilonDeltaEvent(1.0, 0.0)), grid)
    assert found == pytest.approx(np.minimum(pure, [1.0, 0.3, 0.0]))


def test_the_event_keeps_its_form_and_forgets_order() -> None:
    one, other = GaussianEvent(2.0), SAMPLED
    event = best_of(one, other, one)
    assert flatten(event) == flatten(best_of(other, one))
    told = json.loads(json.dumps(event_to_json(event), allow_nan=False))
    assert flatten(event_from_json(told)) == flatten(event)
    assert flatten(best_of(one, NonPrivateEvent())) == ((NonPrivateEvent(), 1),)


BAD: dict[str, Any] = {
    "law": {"law": "poisson"},
    "no law": {"law": ["geometric"]},
    "stop": {"stop": 1},
    "half a stop": {"stop": 2.5},
    "no candidates": {"candidates": []},
    "no list": {"candidates": {}},
    "a selection": {"candidates": [event_to_json(best_of(GaussianEvent(1.0)))]},
    "nothing": {"candidates": [{"kind": "composed", "events": []}]},
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD.keys())
def test_other_selections_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(AccountingError):
        event_from_json(event_to_json(best_of(GaussianEvent(1.0))) | change)


@pytest.mark.parametrize(
    "event",
    [
        both(best_of(GaussianEvent(2.0)), GaussianEvent(2.0)),
        best_of(EpsilonDeltaEvent(1.0, 1e-6)),
        best_of(SampledWithoutReplacementEvent(100, 10, GaussianEvent(2.0))),
    ],
    ids=["beside another", "with a delta of its own that is too large", "of fixed-size samples"],
)
def test_what_has_no_profile_has_no_price(event: Event) -> None:
    with pytest.raises(AccountingError):
        accounting.epsilon(event, delta=1e-6, relation="add_or_remove")
