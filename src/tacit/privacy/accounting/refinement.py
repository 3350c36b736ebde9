"""Certified figures from a pessimistic grid, refined until an independent computation agrees; else a refusal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, approximate
from tacit.privacy.accounting.events import Leaves
from tacit.units import Relation

Check = Callable[[float], float]
"""delta -> epsilon, by another way than the pessimistic grid."""

_SPREADS = (1e-2, 1e-3, 3e-4, 1e-4)


def epsilon(leaves: Leaves, relation: Relation, delta: float, check_at: Check) -> tuple[float, float, Any]:
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


def delta(leaves: Leaves, relation: Relation, epsilon: float, check_at: Check) -> float:
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
