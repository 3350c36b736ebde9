"""Privacy filters: may one more plan be admitted, when it was chosen after seeing what earlier plans released?

Every number is taken as it is written: the float 0.1 stands for 1/10, the shortest decimal that denotes it,
which is what certificates and ledgers print. Sums are exact fractions, so that ten plans of 0.1 fill a budget of
1.0 and not a hair more. The proof is in `proofs/ledger.md`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, reduce

from tacit.errors import PlanError
from tacit.privacy.accounting import gaussian as gaussians

_SLACK = Fraction(1, 10**30)  # above every rounding error of the 60-digit logarithms in rdp_to_epsilon


MOST_ROOM, MOST_ORDER = 1_000_000, 10_000


@dataclass(frozen=True)
class Composition:
    """How the plans of a ledger add up, fixed before the first one.

    Plans that are mu-GDP add their squared mus up, as one Gaussian, which loses nothing. Plans of which no such mu is
    known, sampled ones before all, share a part of the budget that is cut off when the ledger is made. They add their
    epsilons and deltas up within it, or their Rényi bounds at one order.

    Args:
        sampled: that part of (epsilon, delta): from 0 (no such plan is admitted) to 1 (there is no other part, and all
            plans share this one).
        order: the Rényi order alpha, above 1 and at most `MOST_ORDER`; None adds epsilons and deltas up.

    Raises:
        PlanError: the part or the order is out of its range, or has more than the six digits that certificates write.
    """

    sampled: float
    order: float | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.sampled <= 1 and float(f"{self.sampled:g}") == self.sampled):  # as certificates write it
            what, expected = "the part for sampled plans is out of its range", "a number from 0 to 1 of six digits"
            remedy = "give 0 where no plan samples, 1 where all do, else the part of the budget that is for them"
            raise PlanError(what, where="Composition", expected=expected, remedy=remedy)
        if self.order is not None and not (1 < self.order <= MOST_ORDER and float(f"{self.order:g}") == self.order):
            what, expected = (
                "the Rényi order is not a finite number above 1 of six digits",
                "at most 10,000, such as 16.0",
            )
            remedy = "choose the order for which the planned releases convert to the smallest epsilon"
            raise PlanError(what, where="Composition", expected=expected, remedy=remedy)
        if self.order is not None and not self.sampled:
            what, expected = "a Rényi order, and no part of the budget that is added up by it", "a part above 0"
            raise PlanError(what, where="Composition", expected=expected, remedy="leave the order out, or give a part")
        object.__setattr__(self, "sampled", float(self.sampled))
        object.__setattr__(self, "order", None if self.order is None else float(self.order))

    def cut(self, value: float) -> tuple[Fraction, Fraction]:
        """A budget's epsilon or delta in two: for the plans that are Gaussian, and for all others."""
        return _cut(self.sampled, value)

    def takes_mu(self, charge: Charge) -> bool:
        """Whether a plan is charged by its squared mu."""
        return charge.finite and charge.mu is not None and self.sampled < 1

    def charged(self, charge: Charge) -> Charge:
        """The charge by what is added up for it, without what is not."""
        mu = charge.mu if self.takes_mu(charge) else None
        rdp = charge.rdp if self.order is not None and mu is None and charge.finite else None
        return replace(charge, rdp=rdp, mu=mu)

    def __str__(self) -> str:
        """How a certificate says it."""
        rest = "a sum" if self.order is None else f"Renyi DP at order {self.order:g}"
        if self.sampled == 1:
            return rest.removeprefix("a ")
        return "one Gaussian" + (f" beside {rest} of share {self.sampled:g}" if self.sampled else "")


SUM = Composition(1.0)
"""All plans add their epsilons and deltas up."""

_STATED = re.compile(r".*?(?: at order (\S+?))?(?: of share (\S+))?")


def parse_composition(text: str) -> Composition | None:
    """The composition that a certificate states so; its numbers have six digits. None where no ledger has it."""
    match = _STATED.fullmatch(text)
    if match is None:
        return None
    order, share = match.groups()
    whole = "0" if text == "one Gaussian" else "1"
    try:
        composition = Composition(float(share or whole), None if order is None else float(order))
    except (ValueError, PlanError):
        return None
    return composition if str(composition) == text else None


@dataclass(frozen=True)
class Charge:
    """What one plan costs in total.

    Args:
        epsilon, delta: the plan's certified (epsilon, delta); epsilon may be infinite (a plan without privacy), and
            is 0 where a plan costs a fold its delta alone.
        rdp: the plan's certified Rényi divergence bound at the ledger's order (no delta), or None.
        mu: the plan is mu-GDP, at every epsilon; None where no mu is known that is worth adding up.
        diameter: of a plan of plain Gaussians, how much farther apart two neighbours are whose unit was replaced than
            two of which one has a unit more, from 1 to 2; None is 2. It counts for plans on one fold.

    Raises:
        PlanError: epsilon is below 0, delta is outside [0, 1), rdp is negative or not a number, mu is negative or not
            finite, or the diameter is not from 1 to 2.
    """

    epsilon: float
    delta: float
    rdp: float | None = None
    mu: float | None = None
    diameter: float | None = None

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise _bad_charge("epsilon is below 0 or not a number", "epsilon >= 0 (math.inf without privacy)")
        if not 0 <= self.delta < 1:
            raise _bad_charge("delta is outside [0, 1)", "0 <= delta < 1 / population")
        if self.rdp is not None and not self.rdp >= 0:
            raise _bad_charge("rdp is negative or not a number", "rdp >= 0, the Rényi bound at the ledger's order")
        if self.mu is not None and not 0 <= self.mu < math.inf:
            raise _bad_charge("mu is negative or not a finite number", "a mu for which the plan is mu-GDP, or None")
        if self.diameter is not None and not 1 <= self.diameter <= 2:
            raise _bad_charge("the diameter is out of its range", "a number from 1 to 2, or None")
        for name in ("epsilon", "delta", "rdp", "mu", "diameter"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def moved(self) -> Charge:
        """What the plan costs a replaced unit that was on its fold, or is now, where the other version is on the other.

        Each of its Gaussians then sees one unit come or go: it is displaced by its share 1 / d of what was charged for,
        so that mu and, by a lemma in `proofs/ledger.md`, epsilon are divided by d, and a Rényi bound by d^2.
        """
        d = exact_decimal(self.diameter or 2.0)
        rdp, mu = (None if x is None else exact_decimal(x) / k for x, k in ((self.rdp, d * d), (self.mu, d)))
        rounded = (None if x is None else _round_up(x) for x in (rdp, mu))
        return Charge(_round_up(exact_decimal(self.epsilon) / d), self.delta, *rounded)

    @property
    def finite(self) -> bool:
        """Whether the plan promises anything at all."""
        return math.isfinite(self.epsilon)


@dataclass(frozen=True)
class Total:
    """Exact sums of what plans cost; one plan more or less takes the same time however many there are.

    Args:
        composition: how they add up.
        squared: of the plans that are charged by their mu, the sum of the squared mus, as written.
        cost: of the other finite plans, the sum of the epsilons or, at an order, of the Rényi bounds, as written.
        delta: of the same plans, the sum of the deltas, as written.
        others: how many of these there are.
        infinite: how many plans promise nothing.

    Guarantee:
        After any `with_charge` or `without_charge`, equal to the total of the charges left, taken in any order.
    """

    composition: Composition
    squared: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    others: int = 0
    infinite: int = 0

    @classmethod
    def of(cls, charges: Iterable[Charge], composition: Composition) -> Total:
        """The total of these charges; errors as in `with_charge`."""
        return reduce(cls.with_charge, charges, cls(composition))

    def with_charge(self, charge: Charge, *, times: int = 1) -> Total:
        """The total with one charge more, or with so many of them.

        Raises:
            PlanError: the plan would add its Rényi bound up, and has no finite one.
        """
        return self._changed(charge, times)

    def without_charge(self, charge: Charge) -> Total:
        """The total without one of its charges; errors as in `with_charge`."""
        return self._changed(charge, -1)

    def _changed(self, charge: Charge, times: int) -> Total:
        if not charge.finite:
            return replace(self, infinite=self.infinite + times)
        if charge.mu is not None and self.composition.takes_mu(charge):
            return replace(self, squared=self.squared + times * exact_decimal(charge.mu) ** 2)
        cost = charge.epsilon if self.composition.order is None else charge.rdp
        if cost is None or not math.isfinite(cost):
            what = "the plan has no finite Rényi bound"
            expected = f"rdp= at order {self.composition.order!r}, at which the ledger adds Rényi bounds up"
            remedy = "pass the plan's Rényi bound, or use a ledger whose composition has no order"
            raise PlanError(what, where="Ledger.reserve", expected=expected, remedy=remedy)
        return replace(
            self,
            cost=self.cost + times * exact_decimal(cost),
            delta=self.delta + times * exact_decimal(charge.delta),
            others=self.others + times,
        )

    def convert_others(self, delta: float) -> tuple[Fraction, Fraction]:
        """Exact (epsilon, delta) of the finite plans that are not charged by a mu, in a ledger of this delta."""
        if self.composition.order is None or not self.others:
            return self.cost, self.delta
        part = self.composition.cut(delta)[1]  # of which the first plan takes all: there is one conversion
        return rdp_to_epsilon(self.cost, self.composition.order, part), part


def spent(total: Total, delta: float) -> tuple[float, float]:
    """Total (epsilon, delta) of adaptively chosen plans, rounded up to floats.

    Args:
        total: the plans' costs.
        delta: of the ledger, at which mus and Rényi bounds are converted.

    Returns:
        (epsilon, delta); (inf, ...) as soon as one plan is infinite, (0, 0) for no plans.

    Guarantee:
        If every charge is a valid bound for its plan, whatever came before it, the interaction is (epsilon, delta)-DP.
    """
    epsilon, rest = total.convert_others(delta)
    own = total.composition.cut(delta)[0] if total.squared else Fraction(0)
    epsilon += gaussians.epsilon_of(total.squared, own)
    return (math.inf if total.infinite else _round_up(epsilon)), _round_up(own + rest)


def admits(total: Total, epsilon: float, delta: float) -> bool:
    """Whether plans with this total stay within the budget (epsilon, delta): each filter in its own part of it.

    Infinite charges are left out: they void the ledger and no filter speaks about them.

    Guarantee:
        Exact: True only if the sums of the numbers as written do not exceed the budget as written.
    """
    (own_epsilon, epsilon_left), (own_delta, delta_left) = (total.composition.cut(one) for one in (epsilon, delta))
    if total.squared and total.squared > gaussians.mu_of(own_epsilon, own_delta) ** 2:
        return False
    cost, rest = total.convert_others(delta)
    return cost <= epsilon_left and rest <= delta_left


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
    """(epsilon, delta) of the largest plan that is still admitted: one that has a mu, or one that has none.

    A plan with a mu costs no delta of its own: its epsilon is said at the delta that all of them have together. Both
    numbers are rounded down.
    """
    (own_epsilon, others), (own_delta, delta_others) = (total.composition.cut(one) for one in (epsilon, delta))
    if not gaussian or not own_epsilon:
        cost, rest = total.convert_others(delta)
        if total.composition.order is not None:
            rest = Fraction(0)  # all share the delta of the one conversion
        return _round_down(others - cost), _round_down(delta_others - rest)
    squared = max(gaussians.mu_of(own_epsilon, own_delta) ** 2 - total.squared, Fraction(0))
    # What is found has nine digits and is rounded up; its last digit is taken off.
    return _round_down(gaussians.epsilon_of(squared, own_delta) * (1 - Fraction(2, 10**8))), _round_down(own_delta)


def rdp_to_epsilon(rdp: Fraction, order: float, delta: Fraction) -> Fraction:
    """Smallest epsilon of the standard conversion, rounded up: (order, rdp)-RDP implies (epsilon, delta)-DP.

    epsilon = rdp + log((a - 1) / a) - (log delta + log a) / (a - 1) for the order a: arXiv:2004.00010, Proposition 12
    (equivalently arXiv:1905.09982, Theorem 21), at least 0.

    Guarantee:
        Never below the exact value: the logarithms carry 60 digits, and 1e-30 is added on top.
    """
    return max(Fraction(0), rdp + _offset(order, delta) + _SLACK)


@lru_cache(maxsize=64)
def _offset(order: float, delta: Fraction) -> Fraction:
    """What the conversion adds to the Rényi bound, to 60 digits."""
    with localcontext(Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        a, d = Decimal(repr(order)), Decimal(delta.numerator) / Decimal(delta.denominator)
        return Fraction(((a - 1) / a).ln() - (d.ln() + a.ln()) / (a - 1))


@lru_cache(maxsize=64)
def _cut(share: float, value: float) -> tuple[Fraction, Fraction]:
    others = exact_decimal(share) * exact_decimal(value)
    return exact_decimal(value) - others, others


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
