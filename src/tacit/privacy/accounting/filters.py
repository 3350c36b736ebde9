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
from tacit.privacy.accounting import gaussian as gaussians

_SLACK = Fraction(1, 10**30)  # above every rounding error of the 60-digit logarithms in rdp_to_epsilon


MOST_ROOM = 1_000_000


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


@dataclass(frozen=True)
class Gdp:
    """Composition as one Gaussian: plans that are mu-GDP add their squared mus up, which loses nothing.

    Plans of which no such mu is known, sampled ones before all, share a part of the budget that is cut off when the
    ledger is made, and add their epsilons and deltas up within it.

    Args:
        sampled: that part of (epsilon, delta), from 0 (no such plan is admitted) to below 1.

    Raises:
        PlanError: the part is out of its range, or has more than the six digits that certificates write.
    """

    sampled: float

    def __post_init__(self) -> None:
        if not (0 <= self.sampled < 1 and float(f"{self.sampled:g}") == self.sampled):  # as certificates write it
            what, expected = (
                "the part for sampled plans is out of its range",
                "a number from 0 to below 1 of six digits",
            )
            remedy = "give 0 where no plan samples; where all of them do, let the ledger add up by a sum"
            raise PlanError(what, where="Gdp", expected=expected, remedy=remedy)
        object.__setattr__(self, "sampled", float(self.sampled))

    def cut(self, value: float) -> tuple[Fraction, Fraction]:
        """A budget's epsilon or delta in two: for the plans that are Gaussian, and for all others."""
        others = exact_decimal(self.sampled) * exact_decimal(value)
        return exact_decimal(value) - others, others


Composition = Literal["sum"] | RdpOrder | Gdp

_RENYI = "Renyi DP at order "
_GAUSSIAN = "one Gaussian beside a sum of share "


def describe_composition(composition: Composition) -> str:
    """How a certificate says that its ledger adds plans up."""
    if composition == "sum":
        return "sum"
    if isinstance(composition, Gdp):
        return f"{_GAUSSIAN}{composition.sampled:g}"
    return f"{_RENYI}{composition.order:g}"


def parse_composition(text: str) -> Composition | None:
    """The composition that a certificate states so; its number has six digits. None where no ledger has it."""
    if text == "sum":
        return "sum"
    try:
        if text.startswith(_GAUSSIAN):
            composition: Composition = Gdp(float(text.removeprefix(_GAUSSIAN)))
        else:
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
        mu: the plan is mu-GDP, at every epsilon; None where no mu is known that is worth adding up.

    Raises:
        PlanError: epsilon is below 0, delta is outside [0, 1), rdp is negative or not a number, or mu is negative or
            not finite.
    """

    epsilon: float
    delta: float
    rdp: float | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise _bad_charge("epsilon is below 0 or not a number", "epsilon >= 0 (math.inf without privacy)")
        if not 0 <= self.delta < 1:
            raise _bad_charge("delta is outside [0, 1)", "0 <= delta < 1 / population")
        if self.rdp is not None and not self.rdp >= 0:
            raise _bad_charge("rdp is negative or not a number", "rdp >= 0, the Rényi bound at the ledger's order")
        if self.mu is not None and not 0 <= self.mu < math.inf:
            raise _bad_charge("mu is negative or not a finite number", "a mu for which the plan is mu-GDP, or None")
        for name in ("epsilon", "delta", "rdp", "mu"):
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
        composition: "sum", the RdpOrder whose `rdp` values the charges carry, or Gdp.
        cost: of the finite charges, the sum of the epsilons ("sum"; Gdp: of those without a mu) or of the Rényi bounds
            (RdpOrder), as written.
        delta: of the same charges, the sum of the deltas, as written.
        finite, infinite: how many charges of each sort there are.
        squared: under Gdp, the sum of the squared mus, as written.

    Guarantee:
        After any `with_charge` or `without_charge`, equal to the total of the charges left, taken in any order.
    """

    composition: Composition
    cost: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    finite: int = 0
    infinite: int = 0
    squared: Fraction = Fraction(0)

    @classmethod
    def of(cls, charges: Iterable[Charge], composition: Composition) -> Total:
        """The total of these charges; errors as in `with_charge`."""
        return reduce(cls.with_charge, charges, cls(composition))

    def with_charge(self, charge: Charge, *, times: int = 1) -> Total:
        """The total with one charge more, or with so many of them.

        Raises:
            PlanError: the composition is an RdpOrder, and the finite charge has no finite rdp.
        """
        return self._changed(charge, times)

    def without_charge(self, charge: Charge) -> Total:
        """The total without one of its charges; errors as in `with_charge`."""
        return self._changed(charge, -1)

    def _changed(self, charge: Charge, times: int) -> Total:
        cost, delta, squared = _exact_cost(charge, self.composition)
        return Total(
            self.composition,
            self.cost + times * cost,
            self.delta + times * delta,
            self.finite + times * charge.finite,
            self.infinite + times * (not charge.finite),
            self.squared + times * squared,
        )


def spent(total: Total, delta: float) -> tuple[float, float]:
    """Total (epsilon, delta) of adaptively chosen plans, rounded up to floats.

    Args:
        total: the plans' costs.
        delta: of the ledger, at which an RdpOrder is converted, and the first part of which Gdp converts at.

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
    if isinstance(total.composition, Gdp):  # each filter within its own part, which nothing moves
        (own_epsilon, epsilon_left), (own_delta, delta_left) = (total.composition.cut(one) for one in (epsilon, delta))
        within = total.squared <= gaussians.mu_of(own_epsilon, own_delta) ** 2
        return within and total.cost <= epsilon_left and total.delta <= delta_left
    exact = _convert_total(total, delta)
    return exact[0] <= exact_decimal(epsilon) and exact[1] <= exact_decimal(delta)


def room(total: Total, charge: Charge, epsilon: float, delta: float) -> int:
    """How many more plans of this finite cost stay within the budget, at most `MOST_ROOM`."""
    low, high = 0, 1
    while high <= MOST_ROOM and admits(total.with_charge(charge, times=high), epsilon, delta):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = admits(total.with_charge(charge, times=middle), epsilon, delta)
        low, high = (middle, high) if fits else (low, middle)
    return min(low, MOST_ROOM)


def left(total: Total, epsilon: float, delta: float, *, gaussian: bool) -> tuple[float, float]:
    """(epsilon, delta) of the largest plan that is still admitted: under Gdp one that has a mu, or one that has none.

    A plan with a mu costs no delta of its own: its epsilon is said at the delta that all of them have together. Both
    numbers are rounded down.
    """
    if not isinstance(total.composition, Gdp):
        cost = _convert_total(total, delta)
        return _round_down(exact_decimal(epsilon) - cost[0]), _round_down(exact_decimal(delta) - cost[1])
    (own_epsilon, others), (own_delta, delta_others) = (total.composition.cut(one) for one in (epsilon, delta))
    if not gaussian:
        return _round_down(others - total.cost), _round_down(delta_others - total.delta)
    squared = max(gaussians.mu_of(own_epsilon, own_delta) ** 2 - total.squared, Fraction(0))
    # What is found has nine digits and is rounded up; its last digit is taken off.
    return _round_down(gaussians.epsilon_of(squared, own_delta) * (1 - Fraction(2, 10**8))), _round_down(own_delta)


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
    if isinstance(total.composition, Gdp):
        own = total.composition.cut(delta)[0] if total.squared else Fraction(0)
        return total.cost + gaussians.epsilon_of(total.squared, own), total.delta + own
    return rdp_to_epsilon(total.cost, total.composition.order, delta), exact_decimal(delta)


def _exact_cost(charge: Charge, composition: Composition) -> tuple[Fraction, Fraction, Fraction]:
    """What a charge adds to the sums of a total: cost, delta, squared mu."""
    nothing = Fraction(0)
    if not charge.finite:
        return nothing, nothing, nothing
    if isinstance(composition, Gdp) and charge.mu is not None:
        return nothing, nothing, exact_decimal(charge.mu) ** 2
    if composition == "sum" or isinstance(composition, Gdp):
        return exact_decimal(charge.epsilon), exact_decimal(charge.delta), nothing
    if charge.rdp is None or not math.isfinite(charge.rdp):
        expected = f"rdp= at order {composition.order!r}, because the ledger composes by RDP at that order"
        remedy = "pass the plan's Rényi bound, or use a ledger with composition='sum'"
        raise PlanError("the plan has no finite Rényi bound", where="Ledger.reserve", expected=expected, remedy=remedy)
    return exact_decimal(charge.rdp), exact_decimal(charge.delta), nothing


@lru_cache(maxsize=1024)
def exact_decimal(value: float) -> Fraction:
    """The number that a finite float stands for when it is printed: its shortest decimal, exactly."""
    return Fraction(repr(value))


def _round_down(value: Fraction) -> float:
    # A float that is at most this, and at least 0.
    nearest = float(max(value, Fraction(0)))
    return nearest if exact_decimal(nearest) <= max(value, Fraction(0)) else math.nextafter(nearest, 0.0)


def _round_up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if exact_decimal(nearest) >= value else math.nextafter(nearest, math.inf)


def _bad_charge(what: str, expected: str) -> PlanError:
    return PlanError(what, where="Ledger.reserve", expected=expected, remedy="compute the plan's cost by its event")
