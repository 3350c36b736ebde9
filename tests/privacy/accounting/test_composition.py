"""How plans add up: the range of a composition, its words, and its two parts against formulas in floats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import tacit
from tacit.errors import PlanError
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.filters import (
    SUM,
    Charge,
    Composition,
    Total,
    admits,
    left,
    parse_composition,
    room,
    spent,
)

SHARES = {0.0: "0", 0.25: "0.25", 0.1: "0.1", 1e-5: "1e-05", 0.333333: "0.333333", 0.999999: "0.999999", 1.0: "1"}
ORDERS = {None: "", 1.5: "1.5", 2.0: "2", 16.0: "16", 1234.5: "1234.5", 1e4: "10000", 33.3333: "33.3333"}


# -- what there is, and how it is said ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sampled", [-1e-9, -1.0, 1.0000001, 2.0, 0.1234567, 1 / 3, math.inf, -math.inf, math.nan])
def test_shares_outside_their_range_or_of_seven_digits_are_refused(sampled: float) -> None:
    for order in (None, 16.0):
        with pytest.raises(PlanError, match="the part for sampled plans is out of its range"):
            Composition(sampled, order)


@pytest.mark.parametrize("order", [1.0, 0.5, 0.0, -16.0, math.inf, math.nan])
def test_orders_outside_their_range_are_refused(order: float) -> None:
    for sampled in (0.25, 1.0):
        with pytest.raises(PlanError, match="Rényi order is not a finite number above 1"):
            Composition(sampled, order)


def test_an_order_without_a_part_is_refused() -> None:
    with pytest.raises(PlanError, match="no part of the budget that is added up by it"):
        Composition(0, 16.0)


def test_a_composition_is_what_its_numbers_are() -> None:
    assert tacit.Composition is Composition
    assert Composition(1) == SUM == Composition(1.0, None) != Composition(1.0, 2.0)
    for whole in (Composition(0), Composition(1), Composition(1, 16)):
        assert type(whole.sampled) is float
        assert whole.order is None or type(whole.order) is float
    assert len({Composition(0.25), Composition(0.25, 16), Composition(0.25, 16.0), Composition(0.5)}) == 3


def test_every_composition_is_said_in_its_own_words_and_read_again() -> None:
    seen = {}
    for share, words in SHARES.items():
        for order, digits in ORDERS.items():
            if not share and order is not None:
                continue
            rule = Composition(share, order)
            rest = f"Renyi DP at order {digits}" if digits else "a sum"
            if share == 1:
                expected = f"Renyi DP at order {digits}" if digits else "sum"
            else:
                expected = f"one Gaussian beside {rest} of share {words}" if share else "one Gaussian"
            assert str(rule) == expected
            assert parse_composition(expected) == rule
            seen[expected] = rule
    assert len(seen) == len(set(seen.values())) == 6 * 7 + 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a sum",
        "Sum",
        " sum",
        "sum\n",
        "sum of share 0.5",
        "sum of share 1",
        "sum at order 16",
        "Gaussian",
        "one Gaussian of share 0.25",
        "one Gaussian at order 16",
        "one Gaussian beside sum of share .5",
        "one Gaussian beside sum of share 0.5",
        "one Gaussian beside a sum",
        "one Gaussian beside a sum of share 0",
        "one Gaussian beside a sum of share 1",
        "one Gaussian beside a sum of share .5",
        "one Gaussian beside a sum of share 0.250",
        "one Gaussian beside a sum of share 0.1234567",
        "one Gaussian beside a sum of share -0.25",
        "one Gaussian beside a sum of share 0.25 ",
        "one Gaussian beside a sum of share 0.25 of share 0.25",
        "one Gaussian beside a sum of share nan",
        "one Gaussian beside a sum of share a",
        "one Gaussian beside Renyi DP at order 16",
        "one Gaussian beside Renyi DP at order 16 of share 0",
        "one Gaussian beside Renyi DP at order 16 of share 1",
        "one Gaussian beside Renyi DP at order 1 of share 0.25",
        "one Gaussian beside Renyi DP of share 0.25",
        "one Gaussian beside a Renyi DP at order 16 of share 0.25",
        "one Gaussian beside Renyi DP of share 0.25 at order 16",
        "Renyi DP",
        "Renyi DP at order 16 of share 0.5",
        "Renyi DP at order 16 of share 1",
        "Renyi DP at order 1",
        "Renyi DP at order 16.0",
        "Renyi DP at order 016",
        "Renyi DP at order 1_6",
        "Renyi DP at order \u0661\u0666",
        "Renyi DP at order 16.00001",
        "Renyi DP at order inf",
        "Renyi DP at order nan",
        "Renyi DP at order ",
        "two Gaussians",
    ],
)
def test_no_other_words_are_read(text: str) -> None:
    assert parse_composition(text) is None


@given(st.integers(0, 999_999), st.none() | st.integers(1_001, 999_999))
def test_all_of_six_digits_are_read_again(millionths: int, thousandths: int | None) -> None:
    order = None if thousandths is None or not millionths else thousandths / 1_000
    rule = Composition(float(f"{millionths / 1e6:g}"), order)
    assert parse_composition(str(rule)) == rule


# -- squared mus in the first part, Renyi bounds in the second ---------------------------------------------------------


def hockey_stick(mu: float, epsilon: float) -> float:
    """The delta of a Gaussian at this distance."""
    below, above = (0.5 * math.erfc(-x / math.sqrt(2)) for x in (mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu))
    return below - math.exp(epsilon) * above


def converted(rdp: float, order: float, delta: float) -> float:
    """The epsilon of a Rényi bound."""
    return max(0.0, rdp + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1))


def gaussian_plan(mu: float) -> Charge:
    """Its epsilon, delta and Rényi bound are not read."""
    return Charge(50.0, 1e-4, rdp=900.0, mu=mu)


def sampled_plan(rdp: float) -> Charge:
    """Its epsilon and delta are not read."""
    return Charge(50.0, 1e-4, rdp=rdp)


def test_plans_go_to_their_own_part() -> None:
    rule = Composition(0.25, 16.0)
    total = Total.of([gaussian_plan(0.5), sampled_plan(0.25), gaussian_plan(0.3), sampled_plan(0.1)], rule)
    assert total == Total(rule, squared=Fraction("0.34"), cost=Fraction("0.35"), delta=Fraction("2e-4"), others=2)
    assert total.without_charge(gaussian_plan(0.3)).squared == Fraction(1, 4)
    assert total.without_charge(sampled_plan(0.1)).cost == Fraction(1, 4)
    whole = Total.of([gaussian_plan(0.5), sampled_plan(0.25)], Composition(1.0, 16.0))  # nothing is charged by a mu
    assert (whole.squared, whole.cost, whole.others) == (0, Fraction("900.25"), 2)
    with pytest.raises(PlanError, match="no finite Rényi bound"):
        total.with_charge(Charge(0.1, 0.0))


def test_both_parts_admit_as_the_formulas_do() -> None:
    generator = np.random.default_rng(11)
    answers = []
    for _ in range(150):
        share, order = float(generator.choice([0.1, 0.25, 0.5, 0.9])), float(generator.choice([16.0, 64.0, 256.0]))
        epsilon, delta = float(generator.uniform(3.0, 9.0)), float(10 ** generator.uniform(-9, -3))
        own, other = (1 - share) * epsilon, share * epsilon
        full = brentq(lambda mu, e=own, d=(1 - share) * delta: hockey_stick(mu, e) - d, 1e-3, 50.0)
        mus = full * generator.uniform(0.6, 1.4) * np.sqrt(generator.dirichlet([1.0] * 4))
        rdps = other * generator.uniform(0.0, 1.4) * generator.dirichlet([1.0] * 3)
        gap = hockey_stick(math.hypot(*mus), own) / ((1 - share) * delta) - 1
        rest = converted(math.fsum(rdps), order, share * delta) - other
        assert min(abs(gap), abs(rest)) > 1e-7
        charges = [*map(gaussian_plan, mus.tolist()), *map(sampled_plan, rdps.tolist())]
        total = Total.of(charges, Composition(share, order))
        assert admits(total, epsilon, delta) == (gap <= 0 and rest <= 0), (share, order, epsilon, delta, mus, rdps)
        answers.append((gap <= 0, rest <= 0))
    assert all(answers.count(one) > 15 for one in ((True, True), (True, False), (False, True), (False, False)))


def test_neither_part_takes_what_the_other_left() -> None:
    rule, offset = Composition(0.25, 64.0), converted(0.0, 64.0, 2.5e-6)
    assert offset == pytest.approx(0.122987, abs=1e-6)
    full = brentq(lambda mu: hockey_stick(mu, 0.75) - 7.5e-6, 0.01, 1.0, xtol=1e-14)
    for others in ([], [sampled_plan(0.25 - offset - 1e-9)]):
        assert admits(Total.of([gaussian_plan(full * (1 - 1e-8)), *others], rule), 1.0, 1e-5)
        assert not admits(Total.of([gaussian_plan(full * (1 + 1e-8)), *others], rule), 1.0, 1e-5)
    for mus in ([], [gaussian_plan(full / 2)]):
        assert admits(Total.of([sampled_plan(0.25 - offset - 1e-9), *mus], rule), 1.0, 1e-5)
        assert not admits(Total.of([sampled_plan(0.25 - offset + 1e-9), *mus], rule), 1.0, 1e-5)


def test_what_is_spent_is_the_sum_of_both_parts_and_a_part_without_plans_costs_no_delta() -> None:
    rule = Composition(0.25, 64.0)
    mus = brentq(lambda epsilon: hockey_stick(0.15, epsilon) - 7.5e-6, 0.1, 2.0, xtol=1e-14)
    others = converted(0.09, 64.0, 2.5e-6)
    for charges, epsilon, delta in (
        ([], 0.0, 0.0),
        ([gaussian_plan(0.09), gaussian_plan(0.12)], mus, 7.5e-6),
        ([sampled_plan(0.04), sampled_plan(0.05)], others, 2.5e-6),
        ([gaussian_plan(0.09), sampled_plan(0.09), gaussian_plan(0.12)], mus + others, 1e-5),
    ):
        found = spent(Total.of(charges, rule), 1e-5)
        assert epsilon <= found[0] <= epsilon * (1 + 2e-8)
        assert found[1] == delta
    assert spent(Total.of([Charge(math.inf, 0.0), sampled_plan(0.09)], rule), 1e-5) == (math.inf, 2.5e-6)


def test_a_part_that_was_emptied_costs_nothing_again() -> None:
    total = Total.of([gaussian_plan(0.1), sampled_plan(0.05)], Composition(0.25, 64.0))
    mus = total.without_charge(sampled_plan(0.05))
    assert mus == Total.of([gaussian_plan(0.1)], total.composition)
    assert spent(mus, 1e-5)[1] == 7.5e-6
    assert left(mus, 1.0, 1e-5, gaussian=False) == (0.25, 2.5e-6)


def test_what_is_left_is_the_largest_plan_of_either_part() -> None:
    total = Total.of([gaussian_plan(0.1), sampled_plan(0.05)], Composition(0.25, 64.0))
    others = 0.25 - converted(0.05, 64.0, 2.5e-6)
    epsilon, delta = left(total, 1.0, 1e-5, gaussian=False)
    assert others * (1 - 1e-12) <= epsilon <= others * (1 + 1e-12)
    assert delta == 2.5e-6  # of the one conversion, which all share
    assert admits(total.with_charge(sampled_plan(others * (1 - 1e-9))), 1.0, 1e-5)
    assert not admits(total.with_charge(sampled_plan(others * (1 + 1e-9))), 1.0, 1e-5)
    epsilon, delta = left(total, 1.0, 1e-5, gaussian=True)
    assert delta == 7.5e-6
    full = brentq(lambda mu: hockey_stick(mu, 0.75) - 7.5e-6, 0.01, 1.0, xtol=1e-14)
    assert hockey_stick(math.sqrt(full**2 - 0.01), epsilon) == pytest.approx(7.5e-6, rel=1e-6)


def test_the_room_of_either_part_is_how_many_more_fit() -> None:
    rule = Composition(0.25, 64.0)
    fit = int((0.25 - converted(0.0, 64.0, 2.5e-6)) / 0.01)
    assert fit == 12
    for done in (0, 5, 12, 15):
        total = Total.of([gaussian_plan(0.1), *[sampled_plan(0.01)] * done], rule)
        assert room(total, sampled_plan(0.01), 1.0, 1e-5) == max(0, 12 - done)
    own = float(gaussian.mu_of(Fraction(3, 4), Fraction(75, 10**7)))
    assert own == pytest.approx(brentq(lambda mu: hockey_stick(mu, 0.75) - 7.5e-6, 0.01, 1.0), rel=1e-8)
    total = Total.of([gaussian_plan(0.1), sampled_plan(0.1)], rule)
    assert room(total, gaussian_plan(0.02), 1.0, 1e-5) == int((own**2 - 0.01) / 0.0004)
