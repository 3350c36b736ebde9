"""From an event to its certified privacy: a table of (event kind, relation) -> an upper bound and its check.

Guarantee: whatever `epsilon`, `delta`, `profile` and `mu_gdp` return is an upper bound for every pair of neighbours and
every adaptively chosen sequence of the event's steps. It comes from a pessimistic privacy loss distribution, but for
mechanisms with proofs of their own, `EpsilonDeltaEvent`, and nothing else, from the closed form of `approximate`, for
all that holds a `ZcdpEvent` from the Renyi curve of the whole, in `concentrated`, and for a selection from the profiles
of its runs, in `selection`. It is returned only when an independent computation agrees within 0.5 % and no looser
theory contradicts it; anything else raises `AccountingError`.

| edge case | result |
|---|---|
| `NonPrivateEvent` anywhere | epsilon = inf, delta = 1, mu = inf |
| a pair that is not in the table, such as a fixed-size sample under `add_or_remove` | `AccountingError` |
| delta below the one that every `EpsilonDeltaEvent` together leaves | `AccountingError`: nothing is promised there |
| delta below what float64 transforms resolve (about 2e-15 * steps) | `AccountingError` |
| epsilon above 500 (Laplace noise, also with Gaussians: 6,000) | `AccountingError`: plan it as non-private |
| delta(0) already below delta | epsilon = 0 |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import partial

from tacit.errors import AccountingError
from tacit.privacy.accounting.events import MAX_EPSILON as MAX_EPSILON
from tacit.privacy.accounting.events import Event, leaves_under
from tacit.roots import find_root
from tacit.units import Relation

# `certified` is imported where something is priced: it loads `dp_accounting` and SciPy, which takes a second.

MIN_NOISE_MULTIPLIER, MAX_NOISE_MULTIPLIER = 0.02, 1e6
PROFILE_DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)


@dataclass(frozen=True)
class Bound:
    """A certified epsilon and the figure that checked it, with the names of the accountants of both."""

    epsilon: float
    accountant: str
    check_epsilon: float
    check_accountant: str


def epsilon(event: Event, *, delta: float, relation: Relation) -> Bound:
    """The certified epsilon of an event at delta, and the independent figure that it was checked against.

    Args:
        event: a whitelisted event (see `tacit.privacy.accounting.events`).
        delta: in (0, 1).
        relation: `add_or_remove` or `replace_one`; for the latter a Gaussian's neighbours are its diameter apart.

    Raises:
        AccountingError: the event or the pair is unknown, delta is out of range or too small to be resolved, epsilon
            is above the largest that the table certifies, or the accountants disagree.
    """
    from tacit.privacy.accounting import certified

    return Bound(*certified.epsilon(leaves_under(event, relation), relation, delta))


def delta(event: Event, *, epsilon: float, relation: Relation) -> float:
    """The certified delta of an event at epsilon, at most 1 and, where float64 transforms are used, resolved by them.

    Args:
        event: a whitelisted event.
        epsilon: >= 0 and at most the largest that the table certifies.
        relation: the neighbouring relation.

    Raises:
        AccountingError: as for `epsilon`.
    """
    from tacit.privacy.accounting import certified

    return certified.delta(leaves_under(event, relation), relation, epsilon)


def profile(event: Event, relation: Relation) -> tuple[tuple[float, float], ...]:
    """The privacy profile as (delta, epsilon) pairs, for each power of ten of delta at which an epsilon is known.

    Raises:
        AccountingError: as for `epsilon`.
    """
    from tacit.privacy.accounting import certified

    leaves = leaves_under(event, relation)
    smallest = certified.smallest_certified_delta(leaves, relation)
    return tuple((d, certified.epsilon(leaves, relation, d)[0]) for d in PROFILE_DELTAS if smallest <= d)


def mu_gdp(event: Event, relation: Relation, *, delta: float = 0.0) -> float:
    """A mu such that the event's privacy is at least that of a mu-GDP mechanism (Dong, Roth & Su, arXiv 1905.02383).

    Guarantee: delta_event(e) <= delta_mu(e) for every e in [0, epsilon(event, delta)]. Plain Gaussians are exactly
    mu-GDP, for every e, whatever `delta`, and sums with Laplace noise are mu-GDP for a mu that is a little larger than
    need be over any range. Sampled Gaussians are mu-GDP in the tails only for the useless mu
    that ignores the sampling, which `delta=0` returns; a positive `delta` gives the smallest mu over that range
    (between the 2,049 points of its grid, the profile is bounded by the next point's). Events of kind
    `EpsilonDeltaEvent` with delta 0 are mu-GDP for every e; with a delta, and next to a `ZcdpEvent`, only over a
    range: at `delta=0` mu is inf.

    Raises:
        AccountingError: as for `epsilon`.
    """
    from tacit.privacy.accounting import certified

    return certified.mu(leaves_under(event, relation), relation, delta)


def additive_mu(event: Event, relation: Relation, *, delta: float) -> float | None:
    """The mu that a ledger adds up (`Composition`), or None for an event that it charges by epsilon and delta.

    The event is mu-GDP at every epsilon. Sampled events have such a mu, too, which ignores the sampling; it is None
    where a Gaussian of that mu costs over a quarter more epsilon at delta than the event.

    Args:
        delta: of the plan, in (0, 1); public, so that what a plan is charged depends on no record.

    Raises:
        AccountingError: as for `epsilon`.
    """
    from tacit.privacy.accounting import certified

    found = certified.additive_mu(leaves_under(event, relation), relation, delta)
    return None if found is None else round_up(found, 12)


def renyi(event: Event, *, order: float, relation: Relation) -> float:
    """An upper bound on the event's Renyi divergence at one order, for ledgers whose composition has that order.

    Closed form for Gaussians, Laplace noise, `ZcdpEvent` and pure differential privacy; quadrature of the dominating
    pair for Poisson samples, under both relations, and for fixed-size ones (`proofs/fixed_size_sampling.md`), to 1e-9
    of itself. `dp_accounting`'s series are above it between whole orders (Mironov et al., arXiv:1908.10530), and for
    fixed-size samples everywhere (Wang, Balle & Kasiviswanathan, arXiv:1808.00087, Theorem 27).

    Raises:
        AccountingError: no bound is implemented for this event under this relation, it is not finite, or it is below
            what the cells of `quadrature` say.
    """
    from tacit.privacy.accounting import certified

    return certified.renyi(leaves_under(event, relation), relation, order)


def calibrate(make_event: Callable[[float], Event], *, epsilon: float, delta: float, relation: Relation) -> float:
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
    from tacit.privacy.accounting import certified

    certified.require_delta(delta)
    if not 0 < epsilon <= MAX_EPSILON:
        what, expected = "the target epsilon is out of range", f"0 < epsilon <= {MAX_EPSILON:g}"
        raise AccountingError(what, where="accounting.calibrate", expected=expected, remedy="choose another target")

    def excess(log_sigma: float, goal: float) -> float:
        leaves = leaves_under(make_event(math.exp(log_sigma)), relation)
        return math.log(max(certified.check_epsilon(leaves, relation, delta), 1e-9) / goal)

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
        log_sigma = find_root(partial(excess, goal=goal), low, high, tolerance=5e-6)
        sigma = round_up(math.exp(log_sigma), 5)
        bound = certified.epsilon(leaves_under(make_event(sigma), relation), relation, delta)[0]
        if bound <= epsilon:
            return sigma
        goal *= (1 - 1e-5) * epsilon / bound
        low, high = log_sigma - 1e-5, log_sigma + max(0.05, 2 * math.log(bound / epsilon))


def round_up(value: float, digits: int) -> float:
    """The smallest decimal of so many significant digits that is at least value (>= 0); inf stays inf."""
    if value == 0 or math.isinf(value):
        return value
    exact = Decimal(value)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_CEILING))


def _no_multiplier(what: str, remedy: str) -> AccountingError:
    expected = f"a multiplier between {MIN_NOISE_MULTIPLIER:g} and {MAX_NOISE_MULTIPLIER:g}"
    return AccountingError(what, where="accounting.calibrate", expected=expected, remedy=remedy)
