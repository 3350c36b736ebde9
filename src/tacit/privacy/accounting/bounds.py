"""From an event to its certified privacy: a table of (event kind, relation) -> an upper bound and its check.

Guarantee: whatever `epsilon`, `delta`, `profile` and `mu_gdp` return is an upper bound for every pair of neighbours and
every adaptively chosen sequence of the event's steps. It comes from a pessimistic privacy loss distribution, but for
mechanisms with proofs of their own, `EpsilonDeltaDpEvent`, and nothing else, from the closed form of `approximate`, for
all that holds a `ZCDpEvent` from the Renyi curve of the whole, in `concentrated`, and for a selection from its own, in
`selection_accounting`. It is returned only when an independent computation agrees within 0.5 % and no looser theory
contradicts it; anything else raises `AccountingError`.

| edge case | result |
|---|---|
| `NonPrivateDpEvent` anywhere | epsilon = inf, delta = 1, mu = inf |
| a pair that is not in the table, such as a fixed-size sample under `add_or_remove` | `AccountingError` |
| delta below the one that every `EpsilonDeltaDpEvent` together leaves | `AccountingError`: nothing is promised there |
| delta below what float64 transforms resolve (about 2e-15 * steps) | `AccountingError` |
| epsilon above 500 (Laplace noise, also with Gaussians: 6,000) | `AccountingError`: plan it as non-private |
| delta(0) already below delta | epsilon = 0 |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent
from numpy.typing import NDArray
from scipy.optimize import brentq

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, approximate, concentrated
from tacit.privacy.accounting import selection as selection_accounting
from tacit.privacy.accounting.events import Leaves, SelectionDpEvent, flatten
from tacit.privacy.accounting.table import MAX_EPSILON as MAX_EPSILON
from tacit.privacy.accounting.table import MAX_LAPLACE_EPSILON, Family, row
from tacit.units import Relation

MIN_NOISE_MULTIPLIER, MAX_NOISE_MULTIPLIER = 0.02, 1e6
_ENOUGH = 100.0  # a mu whose delta at the largest epsilon is 1
PROFILE_DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)

DEFINITION = "definition of a non-private event (tacit)"


class _Curves(Protocol):
    """A module that accounts for events by their Renyi curves."""

    def epsilon(self, leaves: Leaves, relation: Relation, delta: float) -> float: ...

    def delta(self, leaves: Leaves, relation: Relation, epsilon: NDArray[np.float64]) -> NDArray[np.float64]: ...

    def ceiling(self, leaves: Leaves, relation: Relation, delta: float) -> float: ...


_CURVES: Mapping[Family, _Curves] = {"curve": concentrated, "selection": selection_accounting}


@dataclass(frozen=True)
class Bound:
    """A certified epsilon and the figure that checked it, with the names of the accountants of both."""

    epsilon: float
    accountant: str
    check_epsilon: float
    check_accountant: str


def epsilon(event: DpEvent, *, delta: float, relation: Relation) -> Bound:
    """The certified epsilon of an event at delta, and the independent figure that it was checked against.

    Args:
        event: a whitelisted event (see `tacit.privacy.accounting.events`).
        delta: in (0, 1).
        relation: `add_or_remove` or `replace_one`; for the latter a Gaussian's neighbours are two clips apart.

    Raises:
        AccountingError: the event or the pair is unknown, delta is out of range or too small to be resolved, epsilon
            is above the largest that the table certifies, or the accountants disagree.
    """
    return _bound(flatten(event), delta, relation)


def delta(event: DpEvent, *, epsilon: float, relation: Relation) -> float:
    """The certified delta of an event at epsilon, at most 1 and, where float64 transforms are used, resolved by them.

    Args:
        event: a whitelisted event.
        epsilon: >= 0 and at most the largest that the table certifies.
        relation: the neighbouring relation.

    Raises:
        AccountingError: as for `epsilon`.
    """
    leaves = flatten(event)
    rule = row(leaves, relation) if _private(leaves) else None
    largest = rule.largest if rule else MAX_LAPLACE_EPSILON
    if not 0 <= epsilon <= largest:
        raise AccountingError(
            "epsilon is out of range",
            where="accounting.delta",
            expected=f"0 <= epsilon <= {largest:g}",
            remedy="ask for delta at another epsilon",
        )
    if rule is None:
        return 1.0
    if rule.family == "own":
        certified = float(approximate.delta(leaves, epsilon))
        least = _smallest_delta(leaves, relation)
        if certified >= least:
            top = float(approximate.compose(leaves).losses[-1])
            agree(min(epsilon, top), rule.check(leaves, relation, certified), math.inf)
        return max(certified, least)
    if rule.family in _CURVES:
        certified = float(_CURVES[rule.family].delta(leaves, relation, np.array([epsilon]))[0])
        if epsilon > 0 and 0 < certified < 1:
            agree(epsilon, rule.check(leaves, relation, certified), math.inf)
        return certified
    return refined_delta(leaves, relation, epsilon, lambda delta: rule.check(leaves, relation, delta))


def profile(event: DpEvent, relation: Relation) -> tuple[tuple[float, float], ...]:
    """The privacy profile as (delta, epsilon) pairs, for each power of ten of delta at which an epsilon is known.

    Raises:
        AccountingError: as for `epsilon`.
    """
    leaves = flatten(event)
    smallest = _smallest_delta(leaves, relation) if _private(leaves) else 0.0
    return tuple((d, _bound(leaves, d, relation).epsilon) for d in PROFILE_DELTAS if smallest <= d)


def mu_gdp(event: DpEvent, relation: Relation, *, delta: float = 0.0) -> float:
    """A mu such that the event's privacy is at least that of a mu-GDP mechanism (Dong, Roth & Su, arXiv 1905.02383).

    Guarantee: delta_event(e) <= delta_mu(e) for every e in [0, epsilon(event, delta)]. Plain Gaussians are exactly
    mu-GDP, for every e, whatever `delta`, and sums with Laplace noise are mu-GDP for a mu that is a little larger than
    need be over any range. Sampled Gaussians are mu-GDP in the tails only for the useless mu
    that ignores the sampling, which `delta=0` returns; a positive `delta` gives the smallest mu over that range
    (between the 2,049 points of its grid, the profile is bounded by the next point's). Events of kind
    `EpsilonDeltaDpEvent` with delta 0 are mu-GDP for every e; with a delta, and next to a `ZCDpEvent`, only over a
    range: at `delta=0` mu is inf.

    Raises:
        AccountingError: as for `epsilon`.
    """
    return _mu(flatten(event), relation, delta)


def renyi(event: DpEvent, *, order: float, relation: Relation) -> float:
    """An upper bound on the event's Renyi divergence at one order, for ledgers that add plans by `RdpOrder`.

    Closed form for Gaussians, Laplace noise, `ZCDpEvent` and pure differential privacy, `dp_accounting`'s series for
    Poisson sampling (Mironov et al., arXiv:1908.10530) and for fixed-size samples (Wang, Balle & Kasiviswanathan,
    arXiv:1808.00087, Theorem 27).

    Raises:
        AccountingError: no bound is implemented for this event under this relation, or it is not finite.
    """
    leaves = flatten(event)
    value = math.inf
    if _private(leaves):
        selected = any(isinstance(leaf, SelectionDpEvent) for leaf, _ in leaves)
        value = (selection_accounting if selected else accountants).renyi(leaves, relation, order)
    if not math.isfinite(value):
        raise AccountingError(
            "no finite Renyi bound exists for this event and relation",
            where=f"accounting.renyi(order={order:g})",
            expected="Gaussians, Poisson samples under add_or_remove, fixed-size ones under replace_one, "
            "Laplace noise, concentrated or pure DP",
            remedy='use a ledger with composition="sum"',
        )
    return value


def calibrate(make_event: Callable[[float], DpEvent], *, epsilon: float, delta: float, relation: Relation) -> float:
    """The smallest noise multiplier, rounded up to 5 significant digits, whose certified epsilon meets the target.

    Args:
        make_event: noise multiplier -> event, less private for less noise.
        epsilon: the target, in (0, `MAX_EPSILON`].
        delta: in (0, 1).
        relation: the neighbouring relation.

    Guarantee: `epsilon(make_event(result), delta=delta, relation=relation).epsilon <= epsilon`.

    Raises:
        AccountingError: the target is out of range, or no multiplier between 0.02 and 1e6 meets it.
    """
    _check_delta(delta)
    if not 0 < epsilon <= MAX_EPSILON:
        raise AccountingError(
            "the target epsilon is out of range",
            where="accounting.calibrate",
            expected=f"0 < epsilon <= {MAX_EPSILON:g}",
            remedy="choose another target",
        )

    def excess(log_sigma: float, goal: float) -> float:
        leaves = flatten(make_event(math.exp(log_sigma)))
        if not _private(leaves):
            return math.inf
        with np.errstate(all="ignore"):
            return math.log(max(row(leaves, relation).check(leaves, relation, delta), 1e-9) / goal)

    low = high = 0.0
    while excess(high, epsilon) > 0:
        low, high = high, high + math.log(2)
        if high > math.log(MAX_NOISE_MULTIPLIER):
            raise _no_multiplier("even the largest noise multiplier misses the target", "raise epsilon or delta")
    while low == high or excess(low, epsilon) <= 0:
        low, high = low - math.log(2), low
        if low < math.log(MIN_NOISE_MULTIPLIER):
            raise _no_multiplier("even the smallest noise multiplier meets the target", "lower epsilon")
    goal = epsilon
    while True:  # the check guides the search, the certified bound decides
        log_sigma = brentq(excess, low, high, args=(goal,), xtol=5e-6)
        sigma = round_up(math.exp(log_sigma), 5)
        certified = _bound(flatten(make_event(sigma)), delta, relation).epsilon
        if certified <= epsilon:
            return sigma
        goal *= (1 - 1e-5) * epsilon / certified
        low, high = log_sigma - 1e-5, log_sigma + max(0.05, 2 * math.log(certified / epsilon))


def round_up(value: float, digits: int) -> float:
    """The smallest decimal of so many significant digits that is at least value (>= 0); inf stays inf."""
    if value == 0 or math.isinf(value):
        return value
    exact = Decimal(value)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_CEILING))


@lru_cache(maxsize=512)
def _mu(leaves: Leaves, relation: Relation, delta: float) -> float:
    if not _private(leaves):
        return math.inf
    family = row(leaves, relation).family
    everywhere = accountants.mu(leaves, relation)
    exact = all(isinstance(leaf, dp_event.GaussianDpEvent) for leaf, _ in leaves)
    if exact or delta == 0 or (family == "own" and math.isfinite(everywhere)):
        return everywhere
    end = _bound(leaves, delta, relation).epsilon
    grid = np.linspace(0.0, end, 2049) if end > 0 else np.zeros(2)
    if family == "own":
        needed = approximate.delta(leaves, grid[:-1])
    elif family in _CURVES:
        needed = _CURVES[family].delta(leaves, relation, grid[:-1])
        needed = selection_accounting.tightened(grid[:-1], needed) if family == "selection" else needed
    else:
        *_, distribution = _certified(leaves, relation, delta)
        with np.errstate(all="ignore"):
            needed = accountants.deltas(distribution, grid[:-1]) + accountants.float_slack(leaves)
    most = everywhere * 1.01 if math.isfinite(everywhere) else _ENOUGH
    return min(accountants.smallest_mu(grid, needed, most), everywhere)


@lru_cache(maxsize=512)
def _bound(leaves: Leaves, delta: float, relation: Relation) -> Bound:
    _check_delta(delta)
    if not _private(leaves):
        return Bound(math.inf, DEFINITION, math.inf, DEFINITION)
    rule = row(leaves, relation)
    if rule.family == "own":
        approximate.require(_smallest_delta(leaves, relation), delta)
        certified, check = approximate.epsilon(leaves, delta), rule.check(leaves, relation, delta)
    elif rule.family in _CURVES:
        certified, check = _CURVES[rule.family].epsilon(leaves, relation, delta), rule.check(leaves, relation, delta)
    else:
        certified, check, _ = _certified(leaves, relation, delta)
    if certified > rule.largest:
        raise AccountingError(
            "the privacy loss is too large for the accountants to certify",
            where="accounting.epsilon",
            expected=f"epsilon <= {rule.largest:g}",
            remedy="add noise, or plan the mechanism as non-private",
        )
    with np.errstate(all="ignore"):
        looser = _CURVES[rule.family].ceiling if rule.family in _CURVES else accountants.renyi_epsilon
        ceiling = looser(leaves, relation, delta)
    agree(certified, check, ceiling)
    return Bound(certified, rule.accountant, check, rule.check_accountant)


def _certified(leaves: Leaves, relation: Relation, delta: float) -> tuple[float, float, Any]:
    """Certified epsilon, check epsilon and the distribution, on a grid refined until the two are close."""
    rule = row(leaves, relation)
    return refined_epsilon(leaves, relation, delta, lambda delta: rule.check(leaves, relation, delta))


def _private(leaves: Leaves) -> bool:
    return not any(isinstance(leaf, dp_event.NonPrivateDpEvent) for leaf, _ in leaves)


def _smallest_delta(leaves: Leaves, relation: Relation) -> float:
    """The smallest delta for which an epsilon can be certified: a single mechanism's own, else a little more."""
    family = row(leaves, relation).family
    if family in _CURVES:
        return 0.0
    if family == "own" and sum(count for _, count in leaves) == 1:
        return approximate.own_delta(leaves)
    return smallest_delta(leaves)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise AccountingError(
            "delta is out of range",
            where="accounting",
            expected="0 < delta < 1",
            remedy="choose delta well below 1 / population",
        )


def _no_multiplier(what: str, remedy: str) -> AccountingError:
    return AccountingError(
        what,
        where="accounting.calibrate",
        expected=f"a multiplier between {MIN_NOISE_MULTIPLIER:g} and {MAX_NOISE_MULTIPLIER:g}",
        remedy=remedy,
    )


# Certified figures from a pessimistic grid, refined until an independent computation agrees; else a refusal.


Check = Callable[[float], float]
"""delta -> epsilon, by another way than the pessimistic grid."""

_SPREADS = (1e-2, 1e-3, 3e-4, 1e-4)


def refined_epsilon(leaves: Leaves, relation: Relation, delta: float, check_at: Check) -> tuple[float, float, Any]:
    """Certified epsilon, check epsilon and the distribution, on a grid refined until the two are close.

    Raises:
        AccountingError: delta is too small to be resolved, or float64 breaks down.
    """
    slack = accountants.float_slack(leaves)
    approximate.require(approximate.own_delta(leaves), delta)
    if delta < smallest_delta(leaves):
        raise AccountingError(
            "delta is smaller than float64 transforms resolve for so many steps",
            where="accounting",
            expected=f"delta >= {smallest_delta(leaves):.1e}",
            remedy="choose a larger delta or fewer steps",
        )
    best = (math.inf, None)
    try:
        with np.errstate(all="ignore"):
            check = check_at(delta)
            for spread in _SPREADS:
                distribution = accountants.pessimistic(leaves, relation, spread=spread)
                certified = float(distribution.get_epsilon_for_delta(delta - slack))
                best = min(best, (certified, distribution), key=lambda pair: pair[0])
                if _tight(best[0], check):
                    break
    except (ArithmeticError, ValueError) as error:
        raise AccountingError(
            f"float64 arithmetic breaks down ({type(error).__name__})",
            where="accounting",
            expected="a mechanism whose privacy loss is moderate",
            remedy="add noise, or plan the mechanism as non-private",
        ) from error
    return best[0], check, best[1]


def refined_delta(leaves: Leaves, relation: Relation, epsilon: float, check_at: Check) -> float:
    """Certified delta at epsilon, at most 1 and at least what float64 transforms resolve.

    Raises:
        AccountingError: the accountants disagree.
    """
    certified, least = 1.0, smallest_delta(leaves)
    with np.errstate(all="ignore"):
        for spread in _SPREADS:
            raw = float(accountants.pessimistic(leaves, relation, spread=spread).get_delta_for_epsilon(epsilon))
            certified = min(max(raw + accountants.float_slack(leaves), least), certified)
            if not least < certified < 1:
                return certified
            check = check_at(certified)
            if _tight(epsilon, check):
                break
    agree(epsilon, check, math.inf)
    return certified


def smallest_delta(leaves: Leaves) -> float:
    """The smallest delta that the float64 transforms of these steps resolve, above the mechanisms' own."""
    return approximate.own_delta(leaves) + 10 * accountants.float_slack(leaves)


def agree(certified: float, check: float, ceiling: float) -> None:
    """Refuse a certified epsilon that its check or a looser theory contradicts.

    Raises:
        AccountingError: the certified figure is below the check, or more than 0.5 % above it or the ceiling.
    """
    below, above = 1e-3 * certified + 1e-4, 5e-3 * certified + 5e-4
    if not (check - below <= certified <= min(check, ceiling) + above):
        raise AccountingError(
            f"the accountants disagree (certified {certified:.5g}, check {check:.5g}, ceiling {ceiling:.5g})",
            where="accounting",
            expected="agreement within 0.5 %",
            remedy="change the noise, the rate or delta: no figure is certified here",
        )


def _tight(certified: float, check: float) -> bool:
    return certified <= check * (1 + 4e-4) + 5e-5
