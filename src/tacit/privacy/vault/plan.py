"""Plans: public parameters, fixed before any record is read, that know their own privacy event.

A method's plan is a frozen dataclass (`synthesis.TransitionsPlan`, ...) that satisfies the protocol
`mechanisms.base.Plan`: it lists the parts through which it will touch records, and carries the unit, epsilon and delta
that it was calibrated for. All that the guarantee depends on is a field of the plan or of one of its parts; nothing
that depends on the records is.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar, cast

from tacit import notebook
from tacit.data.spec import PublicSpec
from tacit.errors import AccountingError, CertificateError, MechanismError, PlanError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import Event, flatten
from tacit.privacy.accounting.filters import Charge, Composition
from tacit.privacy.certificate import canonical as certificate_json
from tacit.privacy.certificate.fields import charge, figures, require_few_kinds
from tacit.privacy.certificate.markdown import attack
from tacit.privacy.certificate.plan import certified_names, name_problem, place_of_plan, registry_problem
from tacit.privacy.ledger.folds import JUDGING, plan_folds, single_fold
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.base import Part, Plan, any_publishes_logs, certificate_parts, compose_parts
from tacit.privacy.mechanisms.kinds import PARTS, PrivateSelection, part_from_json
from tacit.privacy.mechanisms.sums import UserSum
from tacit.privacy.sentences import knowledge_exception, neighbours, protected_policies
from tacit.serialization import INLINE, from_json, to_json
from tacit.units import Promise, Unit, require_delta
from tacit.validation import require_valid

SMALLEST_DELTA = min(accounting.PROFILE_DELTAS)
_SAFE_MU = 25.0  # even a Gaussian of this mu has epsilon 462 at the smallest delta

AnyPlan = TypeVar("AnyPlan", bound=Plan)


@dataclass(frozen=True, kw_only=True)
class PrivatePlan:
    """What methods' plans do alike: frozen dataclasses with a promise, and most with a `noise_multiplier`."""

    promise: Promise | None = field(default=None, metadata={INLINE: Promise})
    """to whom what is promised; None until the plan is calibrated."""

    def __init_subclass__(cls) -> None:
        overridden = {"promise", "unit", "epsilon", "delta"} & {*vars(cls), *vars(cls).get("__annotations__", {})}
        if overridden:  # another promise than the one that the ledger pays for
            expected = "the one promise of a plan, which `calibrate` and `account` set"
            what, remedy = f"the plan has a {min(overridden)} of its own", f"leave {min(overridden)} out of the class"
            raise PlanError(what, where=cls.__name__, expected=expected, remedy=remedy)

    @property
    def unit(self) -> Unit:
        """Whom the plan protects; asking an uncalibrated plan raises a PlanError."""
        return self._require_promise().unit

    @property
    def epsilon(self) -> float:
        """The promised epsilon; asking an uncalibrated plan raises a PlanError."""
        return self._require_promise().epsilon

    @property
    def delta(self) -> float:
        """The promised delta; asking an uncalibrated plan raises a PlanError."""
        return self._require_promise().delta

    def _require_promise(self) -> Promise:
        if self.promise is None:
            method: str = getattr(self, "method", type(self).__name__)
            expected, remedy = "a unit, an epsilon and a delta", "call plan.calibrate(unit=..., epsilon=..., delta=...)"
            raise PlanError("the plan is not calibrated", where=f"{method} plan", expected=expected, remedy=remedy)
        return self.promise

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The plan that `public_fields` wrote.

        Raises:
            PlanError: a field is missing, unknown or of another type, or a value is out of range.
        """
        return from_json(cls, fields)

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> Self:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (see `calibrate`).

        Raises:
            PlanError: epsilon or delta is out of range.
        """
        plan: Any = self
        return cast(Self, calibrate(plan, unit=unit, epsilon=epsilon, delta=delta))

    def account(self, *, unit: Unit, delta: float) -> Self:
        """The plan at its own noise multiplier, with the epsilon that this honestly costs (infinite without noise)."""
        plan: Any = self
        return cast(Self, account(plan, unit=unit, delta=delta))

    def __str__(self) -> str:
        """The promise in plain words."""
        plan: Any = self
        return guarantee(plan)

    def _repr_html_(self) -> str:
        """The promise in plain words, and the public parameters, for notebooks."""
        plan: Any = self
        return notebook.table(plan.method, [("promise", guarantee(plan))], more=public_fields(plan))


def event(plan: Plan) -> Event:
    """The whole plan as one event."""
    return compose_parts(plan.parts())


def calibrate(plan: AnyPlan, *, unit: Unit, epsilon: float, delta: float) -> AnyPlan:
    """The plan with the smallest noise multiplier whose certified epsilon is at most `epsilon` at `delta`.

    Guarantee: `accounting.epsilon(event(result), ...) <= epsilon` under the unit's relation.

    Raises:
        PlanError: epsilon or delta is out of range, or delta >= 1 / population, or epsilon is so large that no
            certificate could state it at smaller deltas.
        AccountingError: no certified bound exists for the plan's events, or the target is out of reach.
    """
    require_valid("epsilon", epsilon, math.isfinite(epsilon) and epsilon > 0, "a finite number > 0")
    require_delta(delta, unit)
    plan = with_promise(plan, Promise(unit, epsilon, delta))
    _require_proof(plan, unit, plan.parts())

    def at(sigma: float) -> Event:
        return event(dataclasses.replace(plan, noise_multiplier=sigma))  # type: ignore[type-var]

    sigma = accounting.calibrate(at, epsilon=epsilon, delta=delta, relation=unit.relation)
    _require_profile(at(sigma), unit)
    return dataclasses.replace(plan, noise_multiplier=sigma)  # type: ignore[type-var]


def account(plan: AnyPlan, *, unit: Unit, delta: float) -> AnyPlan:
    """The plan at its own noise multiplier, with the epsilon that this honestly costs (infinite without noise)."""
    plan = with_promise(plan, Promise(unit, math.inf, delta))  # its parts may follow from the unit
    _require_proof(plan, unit, plan.parts())
    bound = accounting.epsilon(event(plan), delta=delta, relation=unit.relation)
    return with_promise(plan, Promise(unit, bound.epsilon, delta))


def with_promise(plan: AnyPlan, promise: Promise | None) -> AnyPlan:
    """The plan with another promise, or none; whether it keeps it is what `bound` finds out."""
    return dataclasses.replace(plan, promise=promise)  # type: ignore[type-var]


def certified_bound(plan: Plan, parts: Sequence[Part] | None = None) -> accounting.Bound:
    """The plan's certified epsilon at its delta, recomputed from its parts, or from those that it gave before.

    Raises:
        PlanError: the plan is not calibrated, its epsilon field promises less than its parts cost, two of its parts
            share a name (the ledger counts steps by name) or are of a kind of their own, or no certificate could state
            it: nothing is charged for what could not be released.
    """
    unit, delta = plan.unit, plan.delta
    parts = plan.parts() if parts is None else parts
    _require_proof(plan, unit, parts)
    for part in parts:
        part.validate(unit)
    whole = compose_parts(parts)
    result = accounting.epsilon(whole, delta=delta, relation=unit.relation)
    if not result.epsilon <= plan.epsilon:
        what = f"the plan was edited after calibration: it costs epsilon {result.epsilon:.4g}, not {plan.epsilon:.4g}"
        expected, remedy = "an epsilon that its own parts keep", "calibrate the edited plan again"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)
    _require_profile(whole, unit)
    return result


def public_fields(plan: Plan) -> dict[str, Any]:
    """The plan's fields as plain JSON values (`serialization.to_json`); plans inside it stand with their methods."""
    fields: dict[str, Any] = to_json(plan)
    nested = {name: _nested_fields(value) for name, value in vars(plan).items()}
    return fields | {name: value for name, value in nested.items() if value is not None}


def require_statable(plan: Plan) -> None:
    """Raise a PlanError unless a certificate could state the plan: before it is paid for, not when it has run."""
    misnamed = None if plan.method in certified_names() else name_problem(plan.method)
    wrong = misnamed or registry_problem(plan)
    problem = wrong and f"the name of its method {wrong}"
    try:
        certificate_json.require_plain({"plan": public_fields(plan), "source": plan.source})
        require_few_kinds(flatten(event(plan)))
    except (AccountingError, CertificateError) as error:
        problem = problem or error.what
    if problem:
        what = f"a certificate cannot state the plan: {problem}"
        expected = "a method named in printable ASCII, plain texts in its fields, few kinds of steps"
        remedy = "choose other names, or the same rate and noise for several parts"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)


def _nested_fields(value: Any) -> Any:
    """The fields of a plan, or of several, that another plan holds, each with its method; None for anything else."""
    if isinstance(value, tuple) and value and all(_is_plan(plan) for plan in value):
        return [_nested_fields(plan) for plan in value]
    return {"method": value.method, "plan": public_fields(value)} if _is_plan(value) else None


def _is_plan(value: object) -> bool:
    return dataclasses.is_dataclass(value) and hasattr(value, "method") and hasattr(value, "parts")


def plan_id(plan: Plan) -> str:
    """A short identifier of everything in the plan (SHA-256 of its canonical JSON, 16 hex digits)."""
    return certificate_json.plan_id(plan.method, public_fields(plan), certificate_parts(plan.parts()))


def guarantee(plan: Plan) -> str:
    """What the plan promises, in plain words, before any record is read."""
    if plan.promise is None:
        return f"{plan.method}: not calibrated yet, so nothing is promised"
    unit, delta, whole = plan.unit, plan.delta, event(plan)
    certified = accounting.epsilon(whole, delta=delta, relation=unit.relation).epsilon
    if math.isinf(certified):
        nothing = f"{plan.method} promises NOTHING to any {unit.noun}: its epsilon is infinite, for want of noise."
        return "\n".join([nothing, *(f"  {part.name}: {part.describe(unit)}" for part in plan.parts())])
    logs = any_publishes_logs(plan.parts())
    apart, pair = knowledge_exception(logs=logs), neighbours(unit.name, unit.relation, logs=logs)
    lines = [
        f"{plan.method} promises ({plan.epsilon:.4g}, {delta:.3g})-differential privacy to every {unit.noun}.",
        f"How well anybody who sees the result, however much else they know{apart}, could tell {pair}:",
        f"  {attack(figures(whole, unit.relation, delta))}.",
        f"Public population: {unit.size:,}.",
    ]
    if logs:
        lines.insert(1, protected_policies(unit.name))
    for part in plan.parts():
        lines.append(f"  {part.name}: {part.describe(unit)}")
    return "\n".join(lines)


def price(plan: Plan, composition: Composition, parts: Sequence[Part] | None = None) -> Charge:
    """What a ledger of this composition is charged for a plan; errors as in `certificate.fields.charge`."""
    parts = plan.parts() if parts is None else parts
    certified_bound(plan, parts)
    fold = single_fold(plan_folds(certificate_parts(parts)))
    return charge(plan.unit, compose_parts(parts), plan.delta, composition, fold)


def _require_proof(plan: Plan, unit: Unit, parts: Sequence[Part]) -> None:
    """Raise a PlanError if parts share a name, or one is not of tacit's kinds or unproved under the unit's relation."""
    runs = [run for part in parts if isinstance(part, PrivateSelection) for run in part.runs()]
    every = [*parts, *(part for run in runs for part in run.parts())]
    if len({part.name for part in parts}) != len(parts) or any(type(part) not in PARTS for part in every):
        what = "two parts share a name, or a part is of a kind of its own"
        expected, remedy = "parts of tacit's own kinds, each with a name of its own, for the ledger", "rename the parts"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)
    for part in parts:
        proved = " or ".join(part.relations)
        allowed = unit.relation in part.relations
        require_valid("relation", unit.relation, allowed, f"{proved}, for which alone {part.name!r} has a proof")


def _require_profile(event: Event, unit: Unit) -> None:
    """Raise a PlanError if an epsilon of the certificate's profile is beyond the accountants."""
    if accounting.mu_gdp(event, unit.relation) <= _SAFE_MU:
        return
    try:
        accounting.profile(event, unit.relation)
    except AccountingError as error:
        what = f"epsilon is too large for a certificate, which also states it at deltas down to {SMALLEST_DELTA:g}"
        expected = f"an epsilon of at most {accounting.MAX_EPSILON:g} at each of them"
        raise PlanError(what, where="plan", expected=expected, remedy="choose a smaller epsilon") from error


def describe(plan: Plan) -> dict[str, Any]:
    """What the ledger records of a plan: its method, every public field, its parts, and whether it may `evaluate`."""
    # The parts follow from the fields, but for a plan of a caller's own or another version's: a plan that is reopened
    # has to have the parts that were charged.
    parts = certificate_parts(plan.parts())
    evaluates = {"evaluates": True} if may_evaluate(plan) else {}
    return {"method": plan.method, "source": plan.source, "plan": public_fields(plan), "parts": parts} | evaluates


def may_evaluate(plan: Any) -> bool:
    """Whether a plan may say how good a policy is: any but those of tacit's own methods that learn and do not judge."""
    module, name = place_of_plan(plan.method)
    is_library = type(plan) is getattr(sys.modules.get(module), name, None)
    fields = [getattr(plan, field.name) for field in dataclasses.fields(plan)]
    members = [one for value in fields for one in (value if isinstance(value, tuple) else (value,))]
    judges = module.startswith("tacit.methods.off_policy_evaluation.")
    # people of fold 1, whom no ledger knows to have a half of their own, may be anybody: all over counts as judging
    judges |= any(isinstance(part, UserSum) and part.fold == JUDGING for part in plan.parts())
    return not is_library or judges or any(map(may_evaluate, filter(_is_plan, members)))


# Which plans may share records with a release of prefixes: held-out trajectories are used for nothing else.
#
# The guarantee of `AboveThreshold` with the source "logs" is about the experts' policies; the trajectories are its own
# randomness. A second look at them, by whatever plan, would share that randomness, and the two would not compose
# (`proofs/experts.md`).


def require_fresh_holdouts(plan: Plan, ledger: Ledger) -> None:
    """Raise a PlanError if, with the plans that the ledger has admitted, held-out trajectories would be read twice."""
    identity = plan_id(plan)
    parts = [*(part_from_json(stated) for stated in admitted_parts(ledger, identity)), *plan.parts()]
    publishers = [part for part in parts if part.publishes_logs]
    if not publishers:
        return
    largest = max(part.held_out for part in publishers)
    if len(publishers) > 1 or any(part.held_out < largest for part in parts if not part.publishes_logs):
        what = "held-out trajectories of the experts would be used twice"
        expected = f"one release of prefixes from logs for a dataset, and held_out >= {largest} in every other part"
        remedy = 'use the source "clones", or give the other parts that held_out'
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)


def require_answerable(part: AboveThreshold, spec: PublicSpec, *, asked: bool) -> None:
    """Raise a PlanError unless a release of prefixes fits what is public of the vault."""
    actions = getattr(spec.action, "n", None)
    if part.actions != actions:
        what = f"the plan counts on {part.actions} actions"
        raise _prefix_error(what, f"the records' {actions}", "the number of actions")
    if part.source == "logs" and not asked:
        ways = 'clones: clone= of a plan, or source="clones" of a part'
        raise _prefix_error("there are no policies that can be asked", "Vault(data, ledger, experts=...)", ways)


def too_few_error(part: AboveThreshold, unit: Unit) -> MechanismError:
    """The error where there are fewer experts than a release of prefixes takes for granted."""
    least = f", each with {part.held_out} trajectories or more" if part.held_out else ""
    return MechanismError(
        f"there are fewer {unit.noun}s than the plan takes for granted: nothing was released, and the ledger is void, "
        "because this error tells something about the records",
        where=f"part {part.name!r}",
        expected=f"at least {part.experts:,}{least}: a number that is known without the records",
        remedy="plan with a number that is sure to be there",
    )


def admitted_parts(ledger: Ledger, identity: str) -> Iterable[Mapping[str, Any]]:
    """The parts of all plans that the ledger holds beside this one, as they were written when they were reserved."""
    held = {plan.id for plan in ledger.plans()} - {identity}
    for payload in (entry.payload for entry in ledger.entries() if entry.kind == "reserve"):
        if payload["plan"] in held:
            yield from payload["description"].get("parts", ())


def _prefix_error(what: str, expected: str, remedy: str) -> PlanError:
    return PlanError(what, where="AboveThreshold", expected=expected, remedy=f"use {remedy}")
