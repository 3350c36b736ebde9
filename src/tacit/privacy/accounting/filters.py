"""Privacy filters: may one more plan be admitted, when it was chosen after seeing what earlier plans released?

Every number is taken as it is written: the float 0.1 stands for 1/10, the shortest decimal that denotes it,
which is what certificates and ledgers print. Sums are exact fractions, so that ten plans of 0.1 fill a budget of
1.0 and not a hair more. The proof is in `proofs/ledger.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Literal

from tacit.errors import PlanError

_SLACK = Fraction(1, 10**30)  # above every rounding error of the 60-digit logarithms in rdp_to_epsilon


@dataclass(frozen=True)
class RdpOrder:
    """Composition by Rényi differential privacy at one order, fixed before the first plan.

    Args:
        order: the Rényi order alpha, finite and above 1.

    Raises:
        PlanError: the order is not a finite number above 1.
    """

    order: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.order) and self.order > 1):
            what, expected = "the Rényi order is not a finite number above 1", "an order such as 16.0"
            remedy = "choose the order for which the planned releases convert to the smallest epsilon"
            raise PlanError(what, where="RdpOrder", expected=expected, remedy=remedy)
        object.__setattr__(self, "order", float(self.order))


Composition = Literal["sum"] | RdpOrder

_RENYI = "Renyi DP at order "


def describe_composition(composition: Composition) -> str:
    """How a certificate says that its ledger adds plans up."""
    return "sum" if composition == "sum" else f"{_RENYI}{composition.order:g}"


def parse_composition(text: str) -> Composition | None:
    """The composition that a certificate states so; its order has six digits. None where no ledger has it."""
    if text == "sum":
        return "sum"
    try:
        composition = RdpOrder(float(text.removeprefix(_RENYI)))
    except (ValueError, PlanError):
        return None
    return composition if describe_composition(composition) == text else None


@dataclass(frozen=True)
class Charge:
    """What one plan costs in total.

    Args:
        epsilon, delta: the plan's certified (epsilon, delta); epsilon may be infinite (a plan without privacy), and
            is 0 where a plan costs a fold its delta alone.
        rdp: the plan's certified Rényi divergence bound at the ledger's order (no delta), or None.

    Raises:
        PlanError: epsilon is below 0, delta is outside [0, 1), or rdp is negative or not a number.
    """

    epsilon: float
    delta: float
    rdp: float | None = None

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise _bad_charge("epsilon is below 0 or not a number", "epsilon >= 0 (math.inf without privacy)")
        if not 0 <= self.delta < 1:
            raise _bad_charge("delta is outside [0, 1)", "0 <= delta < 1 / population")
        if self.rdp is not None and not self.rdp >= 0:
            raise _bad_charge("rdp is negative or not a number", "rdp >= 0, the Rényi bound at the ledger's order")
        for name in ("epsilon", "delta", "rdp"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def finite(self) -> bool:
        """Whether the plan promises anything at all."""
        return math.isfinite(self.epsilon)


@dataclass(frozen=True)
class Total:
    """Exact sums of what plans cost; one plan more or less takes the same time however many there are.

    Args:
        composition: "sum", or the RdpOrder whose `rdp` values the charges carry.
        cost: of the finite charges, the sum of the epsilons ("sum") or of the Rényi bounds (RdpOrder), as written.
        delta: of the finite charges, the sum of the deltas, as written.
        finite, infinite: how many charges of each sort there are.

    Guarantee:
        After any `with_charge` or `without_charge`, equal to the total of the charges left, taken in any order.
    """

    composition: Composition
    cost: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    finite: int = 0
    infinite: int = 0

    @classmethod
    def of(cls, charges: Iterable[Charge], composition: Composition) -> Total:
        """The total of these charges; errors as in `with_charge`."""
        return reduce(cls.with_charge, charges, cls(composition))

    def with_charge(self, charge: Charge) -> Total:
        """The total with one charge more.

        Raises:
            PlanError: the composition is an RdpOrder, and the finite charge has no finite rdp.
        """
        cost, delta = _exact_cost(charge, self.composition)
        finite, infinite = self.finite + charge.finite, self.infinite + (not charge.finite)
        return Total(self.composition, self.cost + cost, self.delta + delta, finite, infinite)

    def without_charge(self, charge: Charge) -> Total:
        """The total without one of its charges; errors as in `with_charge`."""
        cost, delta = _exact_cost(charge, self.composition)
        finite, infinite = self.finite - charge.finite, self.infinite - (not charge.finite)
        return Total(self.composition, self.cost - cost, self.delta - delta, finite, infinite)


def spent(total: Total, delta: float) -> tuple[float, float]:
    """Total (epsilon, delta) of adaptively chosen plans, rounded up to floats.

    Args:
        total: the plans' costs.
        delta: the delta at which an RdpOrder is converted (unused by "sum").

    Returns:
        (epsilon, delta); (inf, ...) as soon as one plan is infinite, (0, 0) for no plans.

    Guarantee:
        If every charge is a valid bound for its plan, whatever came before it, the interaction is (epsilon, delta)-DP.
    """
    exact = _convert_total(total, delta)
    return (math.inf if total.infinite else _round_up(exact[0])), _round_up(exact[1])


def admits(total: Total, epsilon: float, delta: float) -> bool:
    """Whether plans with this total stay within the budget (epsilon, delta).

    Infinite charges are left out: they void the ledger and no filter speaks about them.

    Guarantee:
        Exact: True only if the sums of the numbers as written do not exceed the budget as written.
    """
    exact = _convert_total(total, delta)
    return exact[0] <= exact_decimal(epsilon) and exact[1] <= exact_decimal(delta)


def rdp_to_epsilon(rdp: Fraction, order: float, delta: float) -> Fraction:
    """Smallest epsilon of the standard conversion, rounded up: (order, rdp)-RDP implies (epsilon, delta)-DP.

    epsilon = rdp + log((a - 1) / a) - (log delta + log a) / (a - 1) for the order a: arXiv:2004.00010, Proposition 12
    (equivalently arXiv:1905.09982, Theorem 21), at least 0.

    Guarantee:
        Never below the exact value: the logarithms carry 60 digits, and 1e-30 is added on top.
    """
    return max(Fraction(0), rdp + _offset(order, delta) + _SLACK)


@lru_cache(maxsize=64)
def _offset(order: float, delta: float) -> Fraction:
    """What the conversion adds to the Rényi bound, to 60 digits."""
    with localcontext(Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        a, d = Decimal(repr(order)), Decimal(repr(delta))
        return Fraction(((a - 1) / a).ln() - (d.ln() + a.ln()) / (a - 1))


def _convert_total(total: Total, delta: float) -> tuple[Fraction, Fraction]:
    """Exact (epsilon, delta) of the finite charges."""
    if total.finite == 0:
        return Fraction(0), Fraction(0)
    if total.composition == "sum":
        return total.cost, total.delta
    return rdp_to_epsilon(total.cost, total.composition.order, delta), exact_decimal(delta)


def _exact_cost(charge: Charge, composition: Composition) -> tuple[Fraction, Fraction]:
    """What a charge adds to the sums of a total."""
    if not charge.finite:
        return Fraction(0), Fraction(0)
    if composition == "sum":
        return exact_decimal(charge.epsilon), exact_decimal(charge.delta)
    if charge.rdp is None or not math.isfinite(charge.rdp):
        expected = f"rdp= at order {composition.order!r}, because the ledger composes by RDP at that order"
        remedy = "pass the plan's Rényi bound, or use a ledger with composition='sum'"
        raise PlanError("the plan has no finite Rényi bound", where="Ledger.reserve", expected=expected, remedy=remedy)
    return exact_decimal(charge.rdp), exact_decimal(charge.delta)


@lru_cache(maxsize=1024)
def exact_decimal(value: float) -> Fraction:
    """The number that a finite float stands for when it is printed: its shortest decimal, exactly."""
    return Fraction(repr(value))


def _round_up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if exact_decimal(nearest) >= value else math.nextafter(nearest, math.inf)


def _bad_charge(what: str, expected: str) -> PlanError:
    return PlanError(what, where="Ledger.reserve", expected=expected, remedy="compute the plan's cost by its event")
