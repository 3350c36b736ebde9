"""From an event to its certified privacy: a table of (event kind, relation) -> an upper bound and its check.

Guarantee: whatever `epsilon`, `delta`, `profile` and `mu_gdp` return is an upper bound for every pair of neighbours and
every adaptively chosen sequence of the event's steps. It comes from a pessimistic privacy loss distribution (for
mechanisms with proofs of their own, `EpsilonDeltaDpEvent`, and nothing else, from the closed form of `approximate`) and
is returned only when an independent computation agrees within 0.5 % and no looser theory contradicts it; anything else
raises `AccountingError`.

| edge case | result |
|---|---|
| `NonPrivateDpEvent` anywhere | epsilon = inf, delta = 1, mu = inf |
| a pair that is not in the table, such as a fixed-size sample under `add_or_remove` | `AccountingError` |
| delta below the one that every `EpsilonDeltaDpEvent` together leaves | `AccountingError`: nothing is promised there |
| delta below what float64 transforms resolve (about 2e-15 * steps) | `AccountingError` |
| epsilon above 500 | `AccountingError`: plan it as non-private |
| delta(0) already below delta | epsilon = 0 |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent
from scipy.optimize import brentq

from tacit.errors import AccountingError
from tacit.privacy import accountants, accounting_checks, accounting_refinement, approximate
from tacit.privacy.events import EpsilonDeltaDpEvent, Leaves, flatten
from tacit.units import Relation

Kind = Literal[
    "gaussian",
    "poisson_gaussian",
    "fixed_size_gaussian",
    "epsilon_delta",
    "epsilon_delta_gaussian",
    "epsilon_delta_poisson_gaussian",
    "epsilon_delta_fixed_size_gaussian",
]

MAX_EPSILON = 500.0
MIN_NOISE_MULTIPLIER, MAX_NOISE_MULTIPLIER = 0.02, 1e6
_ENOUGH = 100.0  # a mu whose delta at the largest epsilon is 1
PROFILE_DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)

PLD = "privacy loss distribution, pessimistic (dp-accounting)"
FOURIER = "privacy random variable, centred quadrature (tacit)"
CLOSED_FORM = "closed form of the Gaussian (tacit)"
OWN_PROOF = "closed form of randomised response (tacit)"
RESPONSE = "privacy loss distribution of randomised response (dp-accounting)"
MIXED = "closed form of randomised response over the other steps' profile (tacit)"
DEFINITION = "definition of a non-private event (tacit)"


@dataclass(frozen=True)
class Bound:
    """A certified epsilon and the figure that checked it, with the names of the accountants of both."""

    epsilon: float
    accountant: str
    check_epsilon: float
    check_accountant: str


@dataclass(frozen=True)
class _Row:
    check_accountant: str
    check: Callable[[Leaves, Relation, float], float]  # (leaves, relation, delta) -> epsilon


_TABLE: Mapping[tuple[Kind, Relation], _Row] = {
    ("gaussian", "add_or_remove"): _Row(CLOSED_FORM, accounting_checks.closed_form),
    ("gaussian", "replace_one"): _Row(CLOSED_FORM, accounting_checks.closed_form),
    ("poisson_gaussian", "add_or_remove"): _Row(FOURIER, accounting_checks.fourier),
    ("poisson_gaussian", "replace_one"): _Row(FOURIER, accounting_checks.fourier),
    ("fixed_size_gaussian", "replace_one"): _Row(FOURIER, accounting_checks.fourier),
    ("epsilon_delta", "add_or_remove"): _Row(RESPONSE, accounting_checks.response),
    ("epsilon_delta", "replace_one"): _Row(RESPONSE, accounting_checks.response),
    ("epsilon_delta_gaussian", "add_or_remove"): _Row(MIXED, accounting_checks.mixed),
    ("epsilon_delta_gaussian", "replace_one"): _Row(MIXED, accounting_checks.mixed),
    ("epsilon_delta_poisson_gaussian", "add_or_remove"): _Row(MIXED, accounting_checks.mixed),
    ("epsilon_delta_poisson_gaussian", "replace_one"): _Row(MIXED, accounting_checks.mixed),
    ("epsilon_delta_fixed_size_gaussian", "replace_one"): _Row(MIXED, accounting_checks.mixed),
}


def epsilon(event: DpEvent, *, delta: float, relation: Relation) -> Bound:
    """The certified epsilon of an event at delta, and the independent figure that it was checked against.

    Args:
        event: a whitelisted event (see `tacit.privacy.events`).
        delta: in (0, 1).
        relation: `add_or_remove` or `replace_one`; for the latter a Gaussian's neighbours are two clips apart.

    Raises:
        AccountingError: the event or the pair is unknown, delta is out of range or too small to be resolved, epsilon
            is above `MAX_EPSILON`, or the accountants disagree.
    """
    return _bound(flatten(event), delta, relation)


def delta(event: DpEvent, *, epsilon: float, relation: Relation) -> float:
    """The certified delta of an event at epsilon, at most 1 and, where float64 transforms are used, resolved by them.

    Args:
        event: a whitelisted event.
        epsilon: >= 0 and at most `MAX_EPSILON`.
        relation: the neighbouring relation.

    Raises:
        AccountingError: as for `epsilon`.
    """
    if not 0 <= epsilon <= MAX_EPSILON:
        raise AccountingError(
            "epsilon is out of range",
            where="accounting.delta",
            expected=f"0 <= epsilon <= {MAX_EPSILON:g}",
            remedy="ask for delta at another epsilon",
        )
    leaves = flatten(event)
    if not _private(leaves):
        return 1.0
    row = _row(leaves, relation)
    if _only_own(leaves):
        certified = float(approximate.delta(leaves, epsilon))
        least = _smallest_delta(leaves)
        if certified >= least:
            top = float(approximate.compose(leaves).losses[-1])
            accounting_refinement.agree(min(epsilon, top), row.check(leaves, relation, certified), math.inf)
        return max(certified, least)
    return accounting_refinement.delta(leaves, relation, epsilon, lambda delta: row.check(leaves, relation, delta))


def profile(event: DpEvent, relation: Relation) -> tuple[tuple[float, float], ...]:
    """The privacy profile as (delta, epsilon) pairs, for each power of ten of delta at which an epsilon is known.

    Raises:
        AccountingError: as for `epsilon`.
    """
    leaves = flatten(event)
    smallest = _smallest_delta(leaves) if _private(leaves) else 0.0
    return tuple((d, _bound(leaves, d, relation).epsilon) for d in PROFILE_DELTAS if smallest <= d)


def mu_gdp(event: DpEvent, relation: Relation, *, delta: float = 0.0) -> float:
    """A mu such that the event's privacy is at least that of a mu-GDP mechanism (Dong, Roth & Su, arXiv 1905.02383).

    Guarantee: delta_event(e) <= delta_mu(e) for every e in [0, epsilon(event, delta)]. Plain Gaussians are exactly
    mu-GDP, for every e, whatever `delta`. Sampled Gaussians are mu-GDP in the tails only for the useless mu
    that ignores the sampling, which `delta=0` returns; a positive `delta` gives the smallest mu over that range
    (between the 2,049 points of its grid, the profile is bounded by the next point's). Events of kind
    `EpsilonDeltaDpEvent` with delta 0 are mu-GDP for every e, with a delta only over a range: at `delta=0` mu is inf.

    Raises:
        AccountingError: as for `epsilon`.
    """
    return _mu(flatten(event), relation, delta)


def renyi(event: DpEvent, *, order: float, relation: Relation) -> float:
    """An upper bound on the event's Renyi divergence at one order, for ledgers that add plans by `RdpOrder`.

    Closed form for Gaussians and pure differential privacy, `dp_accounting`'s series for Poisson sampling (Mironov et
    al., arXiv:1908.10530) and for fixed-size samples (Wang, Balle & Kasiviswanathan, arXiv:1808.00087, Theorem 27).

    Raises:
        AccountingError: no bound is implemented for this event under this relation, or it is not finite.
    """
    leaves = flatten(event)
    value = math.inf
    if _private(leaves):
        value = accountants.renyi(leaves, relation, order)
    if not math.isfinite(value):
        raise AccountingError(
            "no finite Renyi bound exists for this event and relation",
            where=f"accounting.renyi(order={order:g})",
            expected="Gaussians, Poisson samples under add_or_remove, fixed-size ones under replace_one, or pure DP",
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
            return math.log(max(_row(leaves, relation).check(leaves, relation, delta), 1e-9) / goal)

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
    kind, _ = _pair(leaves, relation)
    _row(leaves, relation)
    own, gaussians = approximate.split(leaves)
    everywhere = math.hypot(approximate.mu(own), accountants.gaussian_mu(gaussians, relation))
    if kind == "gaussian" or delta == 0 or (kind == "epsilon_delta" and math.isfinite(everywhere)):
        return everywhere
    end = _bound(leaves, delta, relation).epsilon
    grid = np.linspace(0.0, end, 2049) if end > 0 else np.zeros(2)
    if kind == "epsilon_delta":
        needed = approximate.delta(leaves, grid[:-1])
    else:
        *_, distribution = _certified(leaves, relation, delta)
        with np.errstate(all="ignore"):
            needed = np.asarray(distribution.get_delta_for_epsilon(grid[:-1])) + accountants.float_slack(leaves)
    most = everywhere * 1.01 if math.isfinite(everywhere) else _ENOUGH
    return min(accountants.smallest_mu(grid, needed, most), everywhere)


@lru_cache(maxsize=512)
def _bound(leaves: Leaves, delta: float, relation: Relation) -> Bound:
    _check_delta(delta)
    if not _private(leaves):
        return Bound(math.inf, DEFINITION, math.inf, DEFINITION)
    row = _row(leaves, relation)
    accountant = PLD
    if _only_own(leaves):
        accountant = OWN_PROOF
        approximate.require(_smallest_delta(leaves), delta)
        certified, check = approximate.epsilon(leaves, delta), row.check(leaves, relation, delta)
    else:
        certified, check, _ = _certified(leaves, relation, delta)
    if certified > MAX_EPSILON:
        raise AccountingError(
            "the privacy loss is too large for the accountants to certify",
            where="accounting.epsilon",
            expected=f"epsilon <= {MAX_EPSILON:g}",
            remedy="add noise, or plan the mechanism as non-private",
        )
    with np.errstate(all="ignore"):
        ceiling = accountants.renyi_epsilon(leaves, relation, delta)
    accounting_refinement.agree(certified, check, ceiling)
    return Bound(certified, accountant, check, row.check_accountant)


def _certified(leaves: Leaves, relation: Relation, delta: float) -> tuple[float, float, Any]:
    """Certified epsilon, check epsilon and the distribution, on a grid refined until the two are close."""
    row = _row(leaves, relation)
    return accounting_refinement.epsilon(leaves, relation, delta, lambda delta: row.check(leaves, relation, delta))


def _private(leaves: Leaves) -> bool:
    return not any(isinstance(leaf, dp_event.NonPrivateDpEvent) for leaf, _ in leaves)


def _only_own(leaves: Leaves) -> bool:
    """Whether all mechanisms have proofs of their own."""
    return all(isinstance(leaf, EpsilonDeltaDpEvent) for leaf, _ in leaves)


def _smallest_delta(leaves: Leaves) -> float:
    """The smallest delta for which an epsilon can be certified: a single mechanism's own, else a little more."""
    if _only_own(leaves) and sum(count for _, count in leaves) == 1:
        return approximate.own_delta(leaves)
    return accounting_refinement.smallest_delta(leaves)


def _pair(leaves: Leaves, relation: Relation) -> tuple[Kind, Relation]:
    kinds = {type(leaf) for leaf, _ in leaves}
    if kinds == {EpsilonDeltaDpEvent}:
        return "epsilon_delta", relation
    mixed = EpsilonDeltaDpEvent in kinds
    if dp_event.SampledWithoutReplacementDpEvent in kinds:
        return "epsilon_delta_fixed_size_gaussian" if mixed else "fixed_size_gaussian", relation
    if dp_event.PoissonSampledDpEvent in kinds:
        return "epsilon_delta_poisson_gaussian" if mixed else "poisson_gaussian", relation
    return "epsilon_delta_gaussian" if mixed else "gaussian", relation


def _row(leaves: Leaves, relation: Relation) -> _Row:
    pair = _pair(leaves, relation)
    if not leaves or pair not in _TABLE:
        raise AccountingError(
            f"no certified bound exists for the pair {pair}" if leaves else "the event has no steps",
            where="accounting",
            expected="one of " + ", ".join(f"({kind}, {known})" for kind, known in _TABLE),
            remedy="describe the mechanism with events that the table knows",
        )
    return _TABLE[pair]


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
