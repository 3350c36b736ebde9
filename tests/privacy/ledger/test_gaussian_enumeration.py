"""All outputs of adaptive analysts who interleave both filters of a Gaussian ledger, and the exact delta of the whole.

Each mechanism has few outputs, so that the laws of all sequences are written down under both of two neighbours. An
analyst chooses the next mechanism by what came before, tries others where it is refused, and goes on until none fits
or five have answered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Literal

import pytest

from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.bounds import round_up
from tacit.privacy.accounting.filters import Charge, Composition, Total
from tacit.privacy.ledger.folds import Balance, Fold
from tacit.units import Relation

NORMAL = NormalDist()
EPSILON, DELTA = 1.0, 1e-2
MOST = 5  # mechanisms that release anything, on one path
Law = tuple[tuple[float, float], ...]
"""Of each output, its probability under the one and the other of two neighbours."""
Pair = Literal["in fold 0", "in fold 1", "moves"]
"""Who differs: somebody of a fold, or (under replace_one alone) one of either fold for one of the other."""


@dataclass(frozen=True)
class Mechanism:
    """A mechanism with its law for the neighbours that it is charged for, and for those at half of that distance."""

    law: Law
    halved: Law
    charge: Charge
    fold: Fold | None = None

    def law_for(self, pair: Pair) -> Law:
        if self.fold is None or pair == f"in fold {self.fold}":
            return self.law
        return self.halved if pair == "moves" else ((1.0, 1.0),)


def mu_of_law(law: Law) -> float:
    """The smallest mu of twelve digits whose trade-off curve lies below that of the law: at each of its corners."""
    outputs = sorted((one for one in law if max(one) > 0), key=lambda one: one[0] / max(one[1], 1e-300))
    corners = []
    for i in range(1, len(outputs)):  # the most powerful tests reject what speaks against the first the most
        first, second = zip(*outputs, strict=True)
        corners.append(_normal(first[i:], first[:i]) - _normal(second[i:], second[:i]))
    found = max(corners)
    return round_up(found * (1 + 1e-12), 12)


def _normal(kept: Sequence[float], others: Sequence[float]) -> float:
    """The quantile of the sum of what is kept, by the smaller of the two sums."""
    within, beyond = math.fsum(kept), math.fsum(others)
    return NORMAL.inv_cdf(within) if within < beyond else -NORMAL.inv_cdf(beyond)


def rounded_gaussian(mu: float, cuts: Sequence[float], fold: Fold | None = None) -> Mechanism:
    """Which of the intervals between the cuts a normal variable falls in, whose mean is 0 or mu."""

    def law(shift: float) -> Law:
        edges = [-math.inf, *sorted(cuts), math.inf]
        return tuple(
            (_between(low, high), _between(low - shift, high - shift)) for low, high in itertools.pairwise(edges)
        )

    return Mechanism(law(mu), law(mu / 2), Charge(1.0, 0.0, mu=mu_of_law(law(mu))), fold)


def _between(low: float, high: float) -> float:
    """Of a normal variable, with the precision of its nearer tail."""
    if low > 0:
        low, high = -high, -low
    return NORMAL.cdf(high) - NORMAL.cdf(low)


def truth(probability: float, fold: Fold | None = None) -> Mechanism:
    """Randomised response, which says the truth with this probability; charged by its mu."""
    return rounded_gaussian(mu := 2 * NORMAL.inv_cdf(probability), [mu / 2], fold)


def of_law(*law: tuple[float, float]) -> Mechanism:
    """One of a given law, which everybody meets; charged by its mu."""
    return Mechanism(law, law, Charge(1.0, 0.0, mu=mu_of_law(law)))


def response(epsilon: float, delta: float = 0.0, fold: Fold | None = None) -> Mechanism:
    """Randomised response of this epsilon that tells all with probability delta; charged to the other part."""

    def law(epsilon: float) -> Law:
        p = 1 / (1 + math.exp(-epsilon))
        honest = (((1 - delta) * p, (1 - delta) * (1 - p)), ((1 - delta) * (1 - p), (1 - delta) * p))
        return (*honest, (delta, 0.0), (0.0, delta)) if delta else honest

    return Mechanism(law(epsilon), law(epsilon / 2), Charge(epsilon, delta), fold)


@dataclass(frozen=True)
class Situation:
    """What an analyst knows: what was charged, the loss of the outputs so far, and how many there are."""

    balance: Balance
    loss: float
    done: int

    def mu_left(self, stretch: Fraction) -> float:
        """Of the Gaussian part, so many times as large, in the fuller fold; a little less."""
        rule = self.balance.totals[0].composition
        limit = stretch * gaussian.mu_of(rule.cut(EPSILON)[0], rule.cut(DELTA)[0]) ** 2
        rest = limit - max(total.squared for total in self.balance.totals)
        return math.sqrt(max(0.0, float(rest))) * (1 - 1e-10)


Analyst = Callable[[Situation], Iterator[Mechanism]]


def quantiles(mu: float, count: int) -> list[float]:
    return [mu / 2 + NORMAL.inv_cdf((i + 1) / count) for i in range(count - 1)]


def gamble(now: Situation, stretch: Fraction) -> Iterator[Mechanism]:
    if (mu := now.mu_left(stretch)) <= 1e-4 or abs(now.loss) > 20:
        return
    if now.done < 2 or (now.loss < 0.3 and now.done < MOST - 2):
        yield rounded_gaussian(0.45 * mu, quantiles(0.45 * mu, 8))
    # The loss of all outputs together passes x where the normal variable passes mu / 2 + (loss - x) / mu.
    yield rounded_gaussian(mu, [mu / 2 + (now.loss - x) / mu for x in (-EPSILON, EPSILON)])


def gambler(now: Situation) -> Iterator[Mechanism]:
    """Small questions until the loss is large, then all that is left, cut where the loss passes the promise."""
    return gamble(now, Fraction(1))


def mixer(now: Situation) -> Iterator[Mechanism]:
    """Goes between the parts by the sign of the loss, with responses of any size while they fit."""
    if now.done % 2 == 0 or now.loss > 0.05:
        yield response(0.06, 1e-3 if now.loss > 0 else 0.0)
        yield of_law((0.5, 0.46), (0.3, 0.3), (0.2, 0.24))
    yield truth(0.55 if now.loss > 0 else 0.58)
    yield response(0.04)
    yield truth(0.52)
    yield response(0.03, 5e-4)


def spender(now: Situation) -> Iterator[Mechanism]:
    """The whole of the other part first, with its delta, then as the gambler, around what the others left."""
    yield response(0.2, 2e-3)
    yield from gambler(now)


def traveller(now: Situation) -> Iterator[Mechanism]:
    """Asks the folds in turn, the one that fits where the other is full, and everybody at the end."""
    fold: Fold = 1 if (now.loss > 0) == (now.done % 2 == 0) else 0
    other: Fold = 0 if fold else 1
    for at in (fold, other):
        yield rounded_gaussian(0.28, quantiles(0.28, 4), at)
        yield response(0.08, 2e-4, at)
    yield truth(0.53)
    yield response(0.02)


def promised(balance: Balance) -> bool:
    return balance.admits(EPSILON, DELTA)


def sequences(
    analyst: Analyst, pair: Pair, balance: Balance, admits: Callable[[Balance], bool] = promised
) -> Iterator[tuple[float, float]]:
    """The probabilities of each sequence of outputs under both neighbours."""
    waiting = [(1.0, 1.0, balance, 0)]
    while waiting:
        p, q, balance, done = waiting.pop()
        loss = math.log(p / q) if min(p, q) > 0 else math.copysign(50.0, p - q)
        asked = analyst(Situation(balance, loss, done)) if done < MOST else iter(())
        for one in asked:
            more = balance.with_charge(one.charge, one.fold)
            if admits(more):
                waiting += [(p * a, q * b, more, done + 1) for a, b in one.law_for(pair) if max(a, b) > 0]
                break
        else:
            yield p, q


def deltas(all_of_them: Sequence[tuple[float, float]], epsilon: float) -> tuple[float, float]:
    """Exact deltas at epsilon of the first neighbour against the second, and of the second against the first."""
    factor = math.exp(epsilon)
    one = math.fsum(max(0.0, p - factor * q) for p, q in all_of_them)
    return one, math.fsum(max(0.0, q - factor * p) for p, q in all_of_them)


CASES = [(relation, pair) for relation, pair in [
    ("add_or_remove", "in fold 0"), ("add_or_remove", "in fold 1"),
    ("replace_one", "in fold 0"), ("replace_one", "in fold 1"), ("replace_one", "moves"),
]]  # fmt: skip


@pytest.mark.parametrize(("relation", "pair"), CASES)
@pytest.mark.parametrize("analyst", [gambler, mixer, spender, traveller])
@pytest.mark.parametrize("sampled", [0.0, 0.2])
def test_no_analyst_gets_more_than_the_promise(
    analyst: Analyst, sampled: float, relation: Relation, pair: Pair
) -> None:
    laws = list(sequences(analyst, pair, Balance.empty(relation, Composition(sampled))))
    assert len(laws) >= 16
    assert [math.fsum(one) for one in zip(*laws, strict=True)] == pytest.approx([1.0, 1.0], abs=1e-12)
    assert max(deltas(laws, EPSILON)) <= DELTA


def test_the_promise_is_nearly_used_up_and_a_tenth_more_would_break_it() -> None:
    """The same analyst against a filter whose Gaussian part is a tenth larger: enumeration would tell."""

    stretch = Fraction(11, 10)

    def generous(balance: Balance) -> bool:
        first, second = (Total(one.composition, squared=one.squared / stretch) for one in balance.totals)
        return promised(Balance(balance.relation, (first, second)))

    def greedy(now: Situation) -> Iterator[Mechanism]:
        return gamble(now, stretch)

    empty = Balance.empty("add_or_remove", Composition(0))
    kept = max(deltas(list(sequences(gambler, "in fold 0", empty)), EPSILON))
    broken = max(deltas(list(sequences(greedy, "in fold 0", empty, generous)), EPSILON))
    assert 0.9 * DELTA < kept <= DELTA < 1.05 * DELTA < broken


def test_a_filter_that_adds_squares_to_an_unsquared_budget_would_be_seen() -> None:
    def unsquared(balance: Balance) -> bool:
        limit = gaussian.mu_of(Fraction(1), Fraction(1, 100))
        return all(total.squared <= limit for total in balance.totals)

    def steady(now: Situation) -> Iterator[Mechanism]:
        yield rounded_gaussian(0.36, quantiles(0.36, 4))

    laws = list(sequences(steady, "in fold 0", Balance.empty("add_or_remove", Composition(0)), unsquared))
    assert max(deltas(laws, EPSILON)) > 2 * DELTA


def test_the_mu_of_a_law_is_that_of_its_corners() -> None:
    assert truth(0.6).charge.mu == pytest.approx(2 * NORMAL.inv_cdf(0.6), rel=1e-11)
    assert rounded_gaussian(0.7, [-0.5, 0.1, 0.9]).charge.mu == pytest.approx(0.7, rel=1e-11)
    law = of_law((0.5, 0.46), (0.3, 0.3), (0.2, 0.24))
    corners = [NORMAL.inv_cdf(0.8) - NORMAL.inv_cdf(0.76), NORMAL.inv_cdf(0.5) - NORMAL.inv_cdf(0.46)]
    assert law.charge.mu == pytest.approx(max(corners), rel=1e-11)
    for mechanism in (truth(0.6), law, rounded_gaussian(0.7, [-0.5, 0.1, 0.9])):
        mu = mechanism.charge.mu or 0.0
        for epsilon in (0.0, 0.05, 0.2, 0.5):
            bound = NORMAL.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * NORMAL.cdf(-mu / 2 - epsilon / mu)
            assert max(deltas(mechanism.law, epsilon)) <= bound + 1e-15
