"""Certified figures of an event's canonical leaves: upper bounds that an independent computation agrees with."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, approximate, concentrated, quadrature
from tacit.privacy.accounting import selection as selection_accounting
from tacit.privacy.accounting.events import (
    GaussianEvent,
    Leaves,
    NonPrivateEvent,
    SelectionEvent,
    expected_runs,
)
from tacit.privacy.accounting.table import MAX_LAPLACE_EPSILON, find_row
from tacit.units import Relation

DEAR = 1.25
"""How many times the epsilon of an event a Gaussian that dominates it may cost for its mu to be added up."""

_ENOUGH = 100.0  # a mu whose delta at the largest epsilon is 1
DEFINITION = "definition of a non-private event (tacit)"


@lru_cache(maxsize=512)
def epsilon(leaves: Leaves, relation: Relation, delta: float) -> tuple[float, str, float, str]:
    """A certified epsilon, its accountant, the epsilon that checked it, and that one's accountant."""
    require_delta(delta)
    if not _is_private(leaves):
        return math.inf, DEFINITION, math.inf, DEFINITION
    rule = find_row(leaves, relation)
    if rule.family == "own":
        approximate.require(smallest_certified_delta(leaves, relation), delta)
        certified = approximate.epsilon(approximate.split(leaves, relation)[0], delta)
        check = rule.check(leaves, relation, delta)
    elif rule.family == "curve":
        certified, check = concentrated.epsilon(leaves, relation, delta), rule.check(leaves, relation, delta)
    elif rule.family == "selection":
        certified = selection_accounting.epsilon(leaves, delta, _run_epsilon(relation))
        check = rule.check(leaves, relation, delta)
    else:
        certified, check, _ = _certify_losses(leaves, relation, delta)
    if certified > rule.largest_epsilon:
        what = "the privacy loss is too large for the accountants to certify"
        expected, remedy = f"epsilon <= {rule.largest_epsilon:g}", "add noise, or plan the mechanism as non-private"
        raise AccountingError(what, where="accounting.epsilon", expected=expected, remedy=remedy)
    with np.errstate(all="ignore"):
        looser = concentrated.ceiling if rule.family == "curve" else accountants.renyi_epsilon
        ceiling = math.inf if rule.family == "selection" else looser(leaves, relation, delta)
    require_agreement(certified, check, ceiling)
    return certified, rule.accountant, check, rule.check_accountant


def delta(leaves: Leaves, relation: Relation, epsilon: float) -> float:
    """The certified delta at epsilon."""
    rule = find_row(leaves, relation) if _is_private(leaves) else None
    largest = rule.largest_epsilon if rule else MAX_LAPLACE_EPSILON
    if not 0 <= epsilon <= largest:
        expected, remedy = f"0 <= epsilon <= {largest:g}", "ask for delta at another epsilon"
        raise AccountingError("epsilon is out of range", where="accounting.delta", expected=expected, remedy=remedy)
    if rule is None:
        return 1.0
    if rule.family == "own":
        own, _ = approximate.split(leaves, relation)
        certified, least = float(approximate.delta(own, epsilon)), smallest_certified_delta(leaves, relation)
        if certified >= least:
            top = max(float(responses.losses[-1]) for responses in approximate.compose(own))
            require_agreement(min(epsilon, top), rule.check(leaves, relation, certified), math.inf)
        return max(certified, least)
    if rule.family in ("curve", "selection"):
        certified = float(_deltas(leaves, relation, None, np.array([epsilon]))[0])
        if epsilon > 0 and smallest_certified_delta(leaves, relation) * (1 + 1e-9) < certified < 1:
            require_agreement(epsilon, rule.check(leaves, relation, certified), math.inf)
        return certified
    return refined_delta(leaves, relation, epsilon, lambda delta: rule.check(leaves, relation, delta))


def renyi(leaves: Leaves, relation: Relation, order: float) -> float:
    """A finite bound on the Renyi divergence of one order."""
    value = math.inf
    if _is_private(leaves) and any(isinstance(leaf, SelectionEvent) for leaf, _ in leaves):
        value = selection_accounting.renyi(leaves, relation, order)
    elif _is_private(leaves):
        value = accountants.renyi(leaves, relation, order)
        with np.errstate(all="ignore"):
            least = quadrature.renyi(leaves, relation, order) if math.isfinite(value) else 0.0
            if math.isfinite(value) and order == int(order):
                # The series that ledgers charged by before is exact there, without allowance: they go on as they began.
                series = accountants.renyi_series(leaves, relation, order)
                value = series if math.isclose(series, value, rel_tol=2e-9) else value
        if value < least * (1 - 1e-3):
            what = f"the accountants disagree on a Renyi bound ({value:.5g}, at least {least:.5g})"
            expected, remedy = "bounds that agree", "use another order: no figure is certified here"
            raise AccountingError(what, where="accounting.renyi", expected=expected, remedy=remedy)
    if not math.isfinite(value):
        raise AccountingError(
            "no finite Renyi bound exists for this event and relation",
            where=f"accounting.renyi(order={order:g})",
            expected="Gaussians, Poisson samples, fixed-size ones under replace_one, "
            "Laplace noise, concentrated or pure DP",
            remedy="use a ledger whose composition has no order",
        )
    return value


@lru_cache(maxsize=512)
def mu(leaves: Leaves, relation: Relation, delta: float) -> float:
    """The smallest mu that is known, from the profile down to delta (0: everywhere)."""
    if not _is_private(leaves):
        return math.inf
    family = find_row(leaves, relation).family
    everywhere = accountants.mu(leaves, relation)
    exact = all(isinstance(leaf, GaussianEvent) for leaf, _ in leaves)
    if exact or delta == 0 or (family == "own" and math.isfinite(everywhere)):
        return everywhere
    end = epsilon(leaves, relation, delta)[0]
    grid = np.linspace(0.0, end, 2049) if end > 0 else np.zeros(2)
    target_deltas = _deltas(leaves, relation, delta, grid[:-1])
    upper = everywhere * 1.01 if math.isfinite(everywhere) else _ENOUGH
    return min(accountants.smallest_mu(grid, target_deltas, upper), everywhere)


def _deltas(leaves: Leaves, relation: Relation, at: float | None, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    # Certified deltas at rising epsilons: where a grid of losses is needed, on that which is fine enough for the delta
    # `at`; None asks for each epsilon by itself.
    family = find_row(leaves, relation).family
    if family == "own":
        return approximate.delta(approximate.split(leaves, relation)[0], grid)
    if family == "curve":
        return concentrated.delta(leaves, relation, grid)
    if family == "losses":
        if at is None:
            return np.array([delta(leaves, relation, float(epsilon)) for epsilon in grid])
        *_, distribution = _certify_losses(leaves, relation, at)
        with np.errstate(all="ignore"):
            return np.asarray(accountants.deltas(distribution, grid) + accountants.float_slack(leaves))
    selection = selection_accounting.selection_of(leaves)
    mean, run = expected_runs(selection.stop, selection.law), _run_epsilon(relation)
    moved = grid - max(selection_accounting.shift(leaves, run, candidate) for candidate in selection.candidates)
    within = None if at is None else at / mean
    single = np.max([_deltas(one, relation, within, moved.clip(min=0.0)) for one in selection.candidates], axis=0)
    return selection_accounting.tighten(grid, np.where(moved < 0, 1.0, np.minimum(mean * single, 1.0)))


def _run_epsilon(relation: Relation) -> selection_accounting.Run:
    return lambda candidate, delta: epsilon(candidate, relation, delta)[0]


def additive_mu(leaves: Leaves, relation: Relation, delta: float) -> float | None:
    """A mu that holds everywhere; None where its Gaussian is much dearer at delta than what is certified."""
    found = accountants.mu(leaves, relation) if _is_private(leaves) else math.inf
    if math.isinf(found) or accountants.gaussian_epsilon(delta, found) > DEAR * epsilon(leaves, relation, delta)[0]:
        return None
    return found


def check_epsilon(leaves: Leaves, relation: Relation, delta: float) -> float:
    """The figure that would check an epsilon at delta: what a search for noise is guided by."""
    if not _is_private(leaves):
        return math.inf
    with np.errstate(all="ignore"):
        return find_row(leaves, relation).check(leaves, relation, delta)


def _certify_losses(leaves: Leaves, relation: Relation, delta: float) -> tuple[float, float, Any]:
    """Certified epsilon, check epsilon and the distribution, on a grid refined until the two are close."""
    rule = find_row(leaves, relation)
    return refined_epsilon(leaves, relation, delta, lambda delta: rule.check(leaves, relation, delta))


def _is_private(leaves: Leaves) -> bool:
    return not any(isinstance(leaf, NonPrivateEvent) for leaf, _ in leaves)


def smallest_certified_delta(leaves: Leaves, relation: Relation) -> float:
    """The smallest delta for which an epsilon can be certified: a single mechanism's own, else a little more."""
    if not _is_private(leaves):
        return 0.0
    family = find_row(leaves, relation).family
    if family == "curve":
        return 0.0
    if family == "selection":
        selection = selection_accounting.selection_of(leaves)
        least = max(smallest_certified_delta(candidate, relation) for candidate in selection.candidates)
        return least * expected_runs(selection.stop, selection.law)
    if family == "own" and sum(count for _, count in leaves) == 1:
        return approximate.delta_floor(leaves)
    return smallest_delta(leaves)


def require_delta(delta: float) -> None:
    if not 0 < delta < 1:
        expected, remedy = "0 < delta < 1", "choose delta well below 1 / population"
        raise AccountingError("delta is out of range", where="accounting", expected=expected, remedy=remedy)


# Certified figures from a pessimistic grid, refined until an independent computation agrees; else a refusal.


Check = Callable[[float], float]
"""delta -> epsilon, by another way than the pessimistic grid."""

_SPREADS = (1e-2, 1e-3, 3e-4, 1e-4)


def refined_epsilon(leaves: Leaves, relation: Relation, delta: float, check_at: Check) -> tuple[float, float, Any]:
    """Certified epsilon, check epsilon and the distribution, on a grid refined until the two are close."""
    slack = accountants.float_slack(leaves)
    approximate.require(approximate.delta_floor(leaves), delta)
    if delta < smallest_delta(leaves):
        what = "delta is smaller than float64 transforms resolve for so many steps"
        expected, remedy = f"delta >= {smallest_delta(leaves):.1e}", "choose a larger delta or fewer steps"
        raise AccountingError(what, where="accounting", expected=expected, remedy=remedy)
    best = (math.inf, None)
    try:
        with np.errstate(all="ignore"):
            check = check_at(delta)
            for spread in _SPREADS:
                distribution = accountants.pessimistic_pld(leaves, relation, spread=spread)
                certified = float(distribution.get_epsilon_for_delta(delta - slack))
                best = min(best, (certified, distribution), key=lambda pair: pair[0])
                if _is_tight(best[0], check):
                    break
    except (ArithmeticError, ValueError) as error:
        what = f"float64 arithmetic breaks down ({type(error).__name__})"
        expected = "a mechanism whose privacy loss is moderate"
        remedy = "add noise, or plan the mechanism as non-private"
        raise AccountingError(what, where="accounting", expected=expected, remedy=remedy) from error
    return best[0], check, best[1]


def refined_delta(leaves: Leaves, relation: Relation, epsilon: float, check_at: Check) -> float:
    """Certified delta at epsilon, at most 1 and at least what float64 transforms resolve."""
    certified, least = 1.0, smallest_delta(leaves)
    with np.errstate(all="ignore"):
        for spread in _SPREADS:
            raw = float(accountants.pessimistic_pld(leaves, relation, spread=spread).get_delta_for_epsilon(epsilon))
            certified = min(max(raw + accountants.float_slack(leaves), least), certified)
            if not least < certified < 1:
                return certified
            check = check_at(certified)
            if _is_tight(epsilon, check):
                break
    require_agreement(epsilon, check, math.inf)
    return certified


def smallest_delta(leaves: Leaves) -> float:
    """The smallest delta that the float64 transforms of these steps resolve, above the mechanisms' own."""
    return approximate.delta_floor(leaves) + 10 * accountants.float_slack(leaves)


def require_agreement(certified: float, check: float, ceiling: float) -> None:
    """Refuse a certified epsilon that its check or a looser theory contradicts."""
    below, above = 1e-3 * certified + 1e-4, 5e-3 * certified + 5e-4
    if not (check - below <= certified <= min(check, ceiling) + above):
        what = f"the accountants disagree (certified {certified:.5g}, check {check:.5g}, ceiling {ceiling:.5g})"
        expected, remedy = "agreement within 0.5 %", "change the noise, the rate or delta: no figure is certified here"
        raise AccountingError(what, where="accounting", expected=expected, remedy=remedy)


def _is_tight(certified: float, check: float) -> bool:
    return certified <= check * (1 + 4e-4) + 5e-5
