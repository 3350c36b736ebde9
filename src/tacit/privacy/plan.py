"""Plans: public parameters, fixed before any record is read, that know their own privacy event.

A method's plan is a frozen dataclass (`synthesis.Plan`, ...) that satisfies the `Plan` protocol below: it lists the
parts through which it will touch records, and carries the unit, epsilon and delta that it was calibrated for. All that
the guarantee depends on is a field of the plan or of one of its parts; nothing that depends on the records is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from tacit.errors import PlanError
from tacit.privacy import accounting
from tacit.units import Unit


@dataclass(frozen=True, kw_only=True)
class PoissonSum:
    """T noisy sums of clipped contributions, each over a fresh Poisson sample of units.

    Args:
        name: the part's name inside its plan.
        steps: T, how many sums may ever be released.
        rate: q, each unit's probability of taking part in a step, independently of everything else.
        clip: C, the largest L2 norm of one unit's contribution to one sum.
        noise_multiplier: sigma; the sum gets noise N(0, (sigma C)^2) per coordinate. None until calibrated.
        rows_per_unit: L, how many of a unit's rows are drawn (inside the unit) for one contribution.

    Raises:
        PlanError: a parameter is outside its range.
    """

    name: str
    steps: int
    rate: float
    clip: float
    noise_multiplier: float | None = None
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        check(
            f"{self.name}.steps", self.steps, self.steps >= 1 and self.steps == int(self.steps), "a whole number >= 1"
        )
        check(f"{self.name}.rate", self.rate, 0 < self.rate <= 1, "a probability in (0, 1]")
        check(f"{self.name}.clip", self.clip, math.isfinite(self.clip) and self.clip > 0, "a finite number > 0")
        sigma = self.noise_multiplier
        valid = sigma is None or (math.isfinite(sigma) and sigma >= 0)
        check(f"{self.name}.noise_multiplier", sigma, valid, "a finite number >= 0, or None until calibrated")
        scale = self.clip * (sigma or 1.0)
        check(
            f"{self.name}.clip times noise",
            scale,
            2.0**-40 <= scale <= 2.0**40,
            "a scale of the noise that float32 holds",
        )
        check(f"{self.name}.rows_per_unit", self.rows_per_unit, self.rows_per_unit >= 1, "a whole number >= 1")

    @property
    def event(self) -> DpEvent:
        """The part as a `dp_accounting` event (Poisson-sampled Gaussian, composed T times)."""
        gaussian = GaussianDpEvent(_calibrated(self.noise_multiplier, self.name))
        step = gaussian if self.rate == 1 else PoissonSampledDpEvent(self.rate, gaussian)
        return SelfComposedDpEvent(step, self.steps)

    def certified(self) -> dict[str, Any]:
        """The part's parameters as the certificate states them."""
        sampler = "every unit, every step" if self.rate == 1 else "Poisson: each unit independently, fresh every step"
        return {"kind": "poisson_sum", "sampler": sampler, **dataclasses.asdict(self)}


class Mechanism(Protocol):
    """A single release with a proof page: a frozen dataclass of `tacit.privacy.mechanisms`."""

    name: str

    @property
    def event(self) -> DpEvent:
        """The release as a `dp_accounting` event."""

    def certified(self) -> dict[str, Any]:
        """The parameters as the certificate states them."""


@dataclass(frozen=True, kw_only=True)
class Once:
    """One release of a mechanism from `tacit.privacy.mechanisms`, through the door `release_once`."""

    mechanism: Mechanism
    steps: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """The mechanism's name inside its plan."""
        return self.mechanism.name

    @property
    def event(self) -> DpEvent:
        """The mechanism's event."""
        return self.mechanism.event

    def certified(self) -> dict[str, Any]:
        """The mechanism's parameters as the certificate states them."""
        return self.mechanism.certified()


Part = PoissonSum | Once


class Plan(Protocol):
    """What every method's plan offers to the vault."""

    method: ClassVar[str]
    source: ClassVar[str]

    @property
    def unit(self) -> Unit | None:
        """Whom the plan protects; None until calibrated."""

    @property
    def epsilon(self) -> float | None:
        """The promised epsilon; None until calibrated."""

    @property
    def delta(self) -> float | None:
        """The promised delta; None until calibrated."""

    def parts(self) -> tuple[Part, ...]:
        """Every touch of records that the plan allows, in any order; charged as a whole."""


AnyPlan = TypeVar("AnyPlan", bound=Plan)


def event(plan: Plan) -> DpEvent:
    """The whole plan as one event: the composition of its parts."""
    return ComposedDpEvent([part.event for part in plan.parts()])


def calibrate(plan: AnyPlan, *, unit: Unit, epsilon: float, delta: float) -> AnyPlan:
    """The plan with the smallest noise multiplier whose certified epsilon is at most `epsilon` at `delta`.

    Guarantee: `accounting.epsilon(event(result), ...) <= epsilon` under the unit's relation.

    Raises:
        PlanError: epsilon or delta is out of range, or delta >= 1 / population.
        AccountingError: no certified bound exists for the plan's events, or the target is out of reach.
    """
    check("epsilon", epsilon, math.isfinite(epsilon) and epsilon > 0, "a finite number > 0")
    check_delta(delta, unit)
    assert unit.relation is not None

    def at(sigma: float) -> DpEvent:
        return event(dataclasses.replace(plan, noise_multiplier=sigma))  # type: ignore[type-var]

    sigma = accounting.calibrate(at, epsilon=epsilon, delta=delta, relation=unit.relation)
    return dataclasses.replace(plan, unit=unit, epsilon=epsilon, delta=delta, noise_multiplier=sigma)  # type: ignore[type-var]


def price(plan: AnyPlan, *, unit: Unit, delta: float) -> AnyPlan:
    """The plan at its own noise multiplier, with the epsilon that this honestly costs (infinite without noise)."""
    check_delta(delta, unit)
    assert unit.relation is not None
    bound = accounting.epsilon(event(plan), delta=delta, relation=unit.relation)
    return dataclasses.replace(plan, unit=unit, epsilon=bound.epsilon, delta=delta)  # type: ignore[type-var]


def bound(plan: Plan) -> accounting.Bound:
    """The plan's certified epsilon at its delta, recomputed from its parts.

    Raises:
        PlanError: the plan is not calibrated, its epsilon field promises less than its parts cost, or two of its parts
            share a name (the ledger counts steps by name) or are of a kind of their own.
    """
    unit, delta = plan.unit, plan.delta
    if unit is None or delta is None or plan.epsilon is None:
        raise PlanError(
            "the plan is not calibrated",
            where=f"{plan.method} plan",
            expected="a unit, an epsilon and a delta",
            remedy="call plan.calibrate(unit=..., epsilon=..., delta=...)",
        )
    check_delta(delta, unit)
    parts = plan.parts()
    if len({part.name for part in parts}) != len(parts) or any(type(part) not in (PoissonSum, Once) for part in parts):
        raise PlanError(
            "two parts share a name, or a part is neither a PoissonSum nor a Once",
            where=f"{plan.method} plan",
            expected="parts of these two kinds, each with a name of its own: the ledger counts steps by name",
            remedy="rename the parts",
        )
    assert unit.relation is not None
    result = accounting.epsilon(event(plan), delta=delta, relation=unit.relation)
    if not result.epsilon <= plan.epsilon:
        raise PlanError(
            f"the plan was edited after calibration: it costs epsilon {result.epsilon:.4g}, not {plan.epsilon:.4g}",
            where=f"{plan.method} plan",
            expected="an epsilon that its own parts keep",
            remedy="calibrate the edited plan again",
        )
    return result


def public_fields(plan: Plan) -> dict[str, Any]:
    """The plan's fields as plain JSON values (dataclasses nested, tuples as lists)."""
    assert dataclasses.is_dataclass(plan)
    assert not isinstance(plan, type)
    fields: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(plan), default=str))
    return fields


def plan_id(plan: Plan) -> str:
    """A short identifier of everything in the plan (SHA-256 of its canonical JSON, 16 hex digits)."""
    text = json.dumps({"method": plan.method, **public_fields(plan)}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def promise(plan: Plan) -> str:
    """What the plan promises, in plain words, before any record is read."""
    if plan.unit is None or plan.epsilon is None or plan.delta is None:
        return f"{plan.method}: not calibrated yet, so nothing is promised"
    unit, power = plan.unit, 100 * _power(plan.epsilon, plan.delta)
    lines = [
        f"{plan.method} promises ({plan.epsilon:.4g}, {plan.delta:.3g})-differential privacy to every {unit.name}.",
        f"Nobody who sees the result, however much else they know, can tell well {unit.words()}:",
        f"  any test with 5 % false alarms catches at most {power:.5g} % of true cases.",
        f"Public population: {unit.size:,}.",
    ]
    for part in plan.parts():
        lines.append(f"  {part.name}: {_words(part, unit)}")
    return "\n".join(lines)


def check(name: str, value: object, ok: bool, expected: str) -> None:
    """Raise a PlanError that names a public parameter unless `ok`."""
    if not ok:
        raise PlanError(f"{name} is {value!r}", where="plan", expected=expected, remedy=f"choose another {name}")


def check_delta(delta: float, unit: Unit) -> None:
    """Raise a PlanError unless 0 < delta < 1 / population."""
    check("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    if delta >= 1 / unit.size:
        raise PlanError(
            f"delta {delta:.3g} is not below 1 / population = {1 / unit.size:.3g}",
            where="plan",
            expected=f"delta < {1 / unit.size:.3g}, better a tenth of it",
            remedy=f"choose delta={0.1 / unit.size:.1g}",
        )


def _words(part: Part, unit: Unit) -> str:
    if isinstance(part, Once):
        return "one release"
    return (
        f"{part.steps:,} noisy sums over Poisson samples at rate {part.rate:.4g} (about {part.rate * unit.size:,.0f} "
        f"of {unit.size:,}), each {unit.name} bounded to norm {part.clip:g} with {part.rows_per_unit} row(s) a step, "
        f"noise multiplier {_calibrated(part.noise_multiplier, part.name):.4g}"
    )


def _power(epsilon: float, delta: float, false_alarms: float = 0.05) -> float:
    """Largest power of a test at this false-alarm rate under (epsilon, delta)-DP (Kairouz et al., arXiv:1311.0776)."""
    if math.isinf(epsilon) or epsilon > 700:
        return 1.0
    return min(1.0, math.exp(epsilon) * false_alarms + delta, 1 - math.exp(-epsilon) * (1 - delta - false_alarms))


def _calibrated(sigma: float | None, name: str) -> float:
    if sigma is None:
        raise PlanError(
            f"{name} has no noise multiplier yet",
            where="plan",
            expected="a calibrated plan",
            remedy="call plan.calibrate(unit=..., epsilon=..., delta=...)",
        )
    return sigma


def describe(plan: Plan) -> dict[str, Any]:
    """What the ledger records about a plan: its method and every public field."""
    return {"method": plan.method, "source": plan.source, "plan": public_fields(plan)}
