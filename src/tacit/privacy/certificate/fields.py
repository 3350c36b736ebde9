"""What a certificate derives from its primary fields: numbers by the accountants, and words from numbers.

`Certificate.build` writes these fields and `Certificate.verify` derives them again, so nobody can edit one alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from tacit.errors import AccountingError, CertificateError, PlanError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import (
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    Leaves,
    NonPrivateEvent,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacementEvent,
    SelectionEvent,
    ZcdpEvent,
    flatten,
    replaced_precision,
    rho,
)
from tacit.privacy.accounting.filters import (
    Charge,
    Composition,
    exact_decimal,
    parse_composition,
    rdp_to_epsilon,
)
from tacit.privacy.certificate import canonical
from tacit.privacy.ledger.folds import Balance, Fold, plan_folds, single_fold
from tacit.privacy.ledger.state import fits_gaussian
from tacit.privacy.mechanisms.base import Part, compose_parts
from tacit.privacy.mechanisms.kinds import part_from_json
from tacit.privacy.sentences import MuRange
from tacit.units import Relation, Unit

Fields = Mapping[str, Any]

DIGITS = 6
LEAST_CHARGE = 1e-9
"""What a ledger charges for a plan whose delta alone covers it (certified epsilon 0)."""
_UNIT = ("name", "relation", "population")
MOST_KINDS, MOST_DEAR = 64, 4
"""Different steps of an event, and those among them whose losses are composed on a grid: each costs half a second."""
_DEAR = PoissonSampledEvent | SampledWithoutReplacementEvent | LaplaceEvent


def figures(event: Event, relation: Relation, delta: float, *, sharp: bool = True) -> dict[str, Any]:
    """epsilon, delta, mu, its range and the profile, rounded up: what `markdown.missed` reads of a certificate."""
    epsilon = accounting.epsilon(event, delta=delta, relation=relation).epsilon
    return {
        "epsilon": _round_up(epsilon),
        "delta": delta,
        "mu": _round_up(accounting.mu_gdp(event, relation, delta=delta)),
        "mu_range": _mu_range(event, epsilon, sharp=sharp),
        "profile": [{"delta": d, "epsilon": _round_up(e)} for d, e in accounting.profile(event, relation)],
    }


def numbers(unit: Unit, event: Event, delta: float, fields: Fields) -> dict[str, Any]:
    """epsilon, mu, profile, relations, accountants and total, each rounded up to six significant digits."""
    bound = accounting.epsilon(event, delta=delta, relation=unit.relation)
    stated = figures(event, unit.relation, delta)
    versions = fields["versions"]
    rows = (("upper_bound", bound.accountant, bound.epsilon), ("check", bound.check_accountant, bound.check_epsilon))
    return {
        **{name: stated[name] for name in ("epsilon", "mu", "profile")},
        "relations": _relations(unit, event, delta),
        "accountants": [
            {
                "role": role,
                "name": name,
                "version": versions["dp-accounting" if "dp-accounting" in name else "tacit"],
                "epsilon": _round_up(value),
            }
            for role, name, value in rows
        ],
        "total": _total(fields),
    }


def require_few_kinds(leaves: Leaves) -> None:
    """Refuse an event that whoever verifies its certificate could not price in seconds."""
    for leaf, _ in leaves:
        for run in leaf.candidates if isinstance(leaf, SelectionEvent) else ():
            require_few_kinds(run)
    dear = [leaf for leaf, _ in leaves if isinstance(leaf, _DEAR)]
    if len(leaves) > MOST_KINDS or len(dear) > MOST_DEAR:
        what = f"an event with {len(dear)} kinds of sampled or Laplace steps, and {len(leaves)} in all"
        expected = f"at most {MOST_DEAR}, and {MOST_KINDS} in all"
        remedy = "give steps the same rate and the same noise"
        raise AccountingError(what, where="event", expected=expected, remedy=remedy)


def require_epsilon(unit: Unit, event: Event, fields: Fields) -> None:
    """Price the event once, before everything else is priced: an invented epsilon costs its reader no more."""
    bound = accounting.epsilon(event, delta=fields["delta"], relation=unit.relation)
    for path in differences(fields, {"epsilon": _round_up(bound.epsilon)}, ""):
        what, expected = f"the field {path!r} does not recompute", "a certificate that recomputes from its own event"
        remedy = "do not rely on it; ask its author for the original"
        raise CertificateError(what, where="Certificate.verify", expected=expected, remedy=remedy)


def charge(unit: Unit, event: Event, delta: float, composition: Composition, fold: Fold | None) -> Charge:
    """What a ledger of this composition is charged for an event on a fold: a public function of all three.

    Raises:
        AccountingError: the ledger would add the event's Rényi bound up, and there is none.
    """
    epsilon = accounting.epsilon(event, delta=delta, relation=unit.relation).epsilon
    rdp, mu = _added_up(event, unit.relation, delta, composition) if math.isfinite(epsilon) else (None, None)
    return Charge(max(epsilon, LEAST_CHARGE), delta, rdp, mu, _fold_diameter(event, unit.relation, fold))


def _fold_diameter(event: Event, relation: Relation, fold: Fold | None) -> float | None:
    # by how much a plan on one fold is dearer for a unit that stays there than for one that comes, rounded down
    leaves = flatten(event)
    if relation != "replace_one" or fold is None or not all(isinstance(leaf, GaussianEvent) for leaf, _ in leaves):
        return None
    squares = replaced_precision(leaves) / math.fsum(count * 2 * rho(leaf) for leaf, count in leaves)
    found = max(1.0, math.floor(math.sqrt(squares) * 1e12 - 1) / 1e12)
    return None if squares > 4 * (1 - 1e-11) else found


def _added_up(
    event: Event, relation: Relation, delta: float, composition: Composition
) -> tuple[float | None, float | None]:
    """The Rényi bound, or the mu, by which a ledger adds an event up; neither where it adds epsilons."""
    mu = accounting.additive_mu(event, relation, delta=delta) if composition.sampled < 1 else None
    if mu is not None or composition.order is None:
        return None, mu
    return accounting.renyi(event, order=composition.order, relation=relation), None


def find_balance(record: Fields) -> Balance:
    """What a certificate's releases cost either fold together; ValueError where it states no composition."""
    composition = parse_composition(record["total"]["composition"])
    if composition is None:
        raise ValueError("no composition")
    balance = Balance.empty(record["unit"]["relation"], composition)
    for row in record["releases"]:
        balance = balance.with_charge(_charge_of(row), row["fold"])
    return balance


def _charge_of(row: Fields) -> Charge:
    bounds = (None if row.get(name) is None else float(row[name]) for name in ("rdp", "mu", "diameter"))
    return Charge(float(row["epsilon"]), float(row["delta"]), *bounds)


def _total(record: Fields) -> dict[str, Any]:
    """The larger of what either fold is charged, epsilon and delta by themselves (`privacy.ledger.folds.Balance`)."""
    epsilon, delta = find_balance(record).spent(record["total"]["budget_delta"])
    return {"epsilon": _round_up(epsilon), "delta": delta}


def _relations(unit: Unit, event: Event, delta: float) -> list[dict[str, Any]]:
    """Epsilon under the unit's own relation and, where every step is proved for both, under the other too."""
    rows = []
    either = GaussianEvent | LaplaceEvent | ZcdpEvent | NonPrivateEvent | RandomizedResponseEvent
    all_either = all(isinstance(leaf, either) for leaf, _ in flatten(event))
    for relation in get_args(Relation):
        if all_either or relation == unit.relation:
            try:
                value = accounting.epsilon(event, delta=delta, relation=relation).epsilon
            except AccountingError:
                if relation == unit.relation:
                    raise
            else:
                rows.append({"relation": relation, "epsilon": _round_up(value)})
    return rows


def derive_status(unit: Unit, event: Event, fields: Fields) -> dict[str, Any]:
    """Whether a certificate may call itself private, and for which epsilons its mu holds."""
    epsilon = float(fields["epsilon"])
    parts = parts_from_json(fields["parts"])
    sharp = unit.relation == "add_or_remove" or all(part.sharp for part in parts)
    # Noise that devices share is a little better than the Gaussian that prices it.
    sharp = sharp and not any(part.trust == "Federated" for part in parts)
    return {
        "private": math.isfinite(epsilon) and fields["void_reason"] is None,
        "mu_range": _mu_range(event, epsilon, sharp=sharp),
    }


def parts_from_json(stated: Sequence[Fields]) -> list[Part]:
    """The parts that a certificate states, rebuilt."""
    parts = []
    for i, entry in enumerate(stated):
        try:
            parts.append(part_from_json(entry))
        except PlanError as error:
            what = f"the field 'parts[{i}]' states no part of tacit's: {error.what}"
            expected, remedy = error.expected, "do not rely on it; ask its author for the original"
            raise CertificateError(what, where="Certificate.verify", expected=expected, remedy=remedy) from error
    return parts


def parts_event(stated: Sequence[Fields], *, former: bool = False) -> Event:
    """The event that the parts, as the certificate states them, compose to; no noise multiplier is no noise."""
    # Parts with a "fold" run on one of two halves that share no unit, so the dearer half is what both cost.
    return compose_parts(parts_from_json(stated), former=former)


def differences(stated: Any, derived: Any, path: str) -> Iterator[str]:
    """Paths at which a stated JSON value is not the derived one; numbers may differ by one in the sixth digit."""
    if isinstance(derived, Mapping):
        if not isinstance(stated, Mapping) or derived.keys() - stated.keys():
            yield path
            return
        for name in derived:
            yield from differences(stated[name], derived[name], f"{path}.{name}".lstrip("."))
    elif isinstance(derived, list | tuple):
        if not isinstance(stated, list | tuple) or len(stated) != len(derived):
            yield path
            return
        for i, (stated_item, derived_item) in enumerate(zip(stated, derived, strict=True)):
            yield from differences(stated_item, derived_item, f"{path}[{i}]")
    elif isinstance(derived, float) and not isinstance(stated, str):
        if not math.isclose(stated, derived, rel_tol=1.01 * 10 ** (1 - DIGITS)):
            yield path
    elif stated != derived:
        yield path


def contradictions(record: Fields, event: Event) -> Iterator[tuple[str, str]]:
    """What is neither derived nor free: (field, what is wrong) wherever primary fields contradict each other."""
    epsilon, delta = float(record["epsilon"]), record["delta"]
    if record["plan_id"] != canonical.plan_id(record["method"], record["plan"], record["parts"]):
        yield "plan_id", "is not that of the plan"
    yield from (("plan", f"promises another {name}") for name in _promise_mismatches(record))
    charges = [row for row in record["releases"] if row["plan_id"] == record["plan_id"]]
    if len(charges) != 1:
        yield "releases", "does not hold this plan's own charge once"
    folds = plan_folds(record["parts"])
    for row in charges:
        if row["fold"] != single_fold(folds):
            yield "releases.fold", "is not where the parts lie"
        if row["method"] != record["method"]:
            yield "releases.method", "names another method for this plan"
        if not math.isclose(float(row["epsilon"]), max(epsilon, LEAST_CHARGE), rel_tol=1e-5):
            yield "releases.epsilon", "charges another epsilon"
        if row["delta"] != delta:
            yield "releases.delta", "charges another delta"
        if row.get("diameter") != _fold_diameter(event, record["unit"]["relation"], row["fold"]):
            yield "releases.diameter", "charges another one"
    if len({row["plan_id"] for row in record["releases"]}) != len(record["releases"]):
        yield "releases", "charges a plan twice"
    for row in record["releases"]:
        if row not in charges and not (float(row["epsilon"]) > 0 and float(row["delta"]) < 1):
            yield "releases", "holds a charge that no ledger admits"
        if row not in charges and math.isinf(float(row["epsilon"])) and record["void_reason"] is None:
            yield "releases", "holds a plan that promises nothing, which voids the ledger"
    yield from _budget_violations(record, event)
    if record["target_epsilon"] is not None and epsilon > float(record["target_epsilon"]) * (1 + 1e-5):
        yield "target_epsilon", "is below epsilon"
    if record["audit"] is not None and record["audit"]["lower_bound"] > epsilon:
        yield "audit.lower_bound", "is above the certified epsilon"
    yield from _contradictions(parts_from_json(record["parts"]), Unit(*(record["unit"][name] for name in _UNIT)))
    if record["tacit_version"] != record["versions"]["tacit"]:
        yield "tacit_version", "is not that of versions"
    try:
        datetime.strptime(record["date"], "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        yield "date", "is no date"


def _promise_mismatches(record: Fields) -> Iterator[str]:
    """What a plan's public fields say of its promise otherwise than the certificate; a plan may leave it out."""
    plan, unit = record["plan"], record["unit"]
    for name, stated in (("unit", unit), ("epsilon", record["target_epsilon"]), ("delta", record["delta"])):
        if plan.get(name, stated) not in (stated, None):
            yield name


def _budget_violations(record: Fields, event: Event) -> Iterator[tuple[str, str]]:
    """Where the ledger could not have admitted the releases, or charges this one otherwise."""
    total, relation = record["total"], record["unit"]["relation"]
    composition, budget = parse_composition(total["composition"]), float(total["budget_epsilon"])
    if composition is None:
        yield "total.composition", "is no composition that tacit's ledgers have"
        return
    ceiling, delta = float(total["ceiling_epsilon"]), float(total["budget_delta"])
    if not (0 < budget <= ceiling < math.inf and 0 < delta < 1 and fits_gaussian(budget, ceiling, delta, composition)):
        yield "total.ceiling_epsilon", "is below the budget, or above what a ledger has"
        return
    try:
        private = math.isfinite(float(record["epsilon"]))
        due = _added_up(event, relation, record["delta"], composition) if private else (None, None)
        balance = find_balance(record)
    except (AccountingError, PlanError, ArithmeticError, ValueError):
        yield "total.composition", "has no bound for a release"
        return
    for row in record["releases"]:
        row_charge = _charge_of(row)
        if row_charge != composition.charged(row_charge):
            yield "releases", "charges a release by what the ledger does not add up"
        # A sharper proof finds less than what was charged, or a mu of what was charged by its epsilon.
        by_epsilon = row["rdp"] is row["mu"] is None and composition.order is None
        own = row["plan_id"] == record["plan_id"] and not by_epsilon
        for name, value in zip(("rdp", "mu"), due, strict=True) if own else ():
            if (row[name] is None) != (value is None) or (row[name] or 0) < (value or 0) * (1 - 1e-9):
                yield f"releases.{name}", "charges another one"
        if not _covers(row_charge, composition.order):
            yield "releases", "charges a release by less than its own epsilon"
    # Each number is stated rounded up.
    if not balance.admits(budget * (1 + 1e-5), delta * (1 + 1e-9)):
        yield "total.budget_epsilon", "is below what the releases cost"


def _covers(charge: Charge, order: float | None) -> bool:
    """Whether a mu or a Rényi bound is as large as the epsilon beside it demands, to what two numerics differ by."""
    from tacit.privacy.accounting.accountants import gaussian_delta

    least, delta = 0.99 * charge.epsilon - 1e-6, max(charge.delta, 1e-300)
    if charge.mu is not None:
        return least <= 0 or (charge.mu > 0 and float(gaussian_delta(least, charge.mu)) >= delta)
    if charge.rdp is None or order is None:
        return True
    return float(rdp_to_epsilon(exact_decimal(charge.rdp), order, exact_decimal(delta))) >= least


def _contradictions(parts: Sequence[Part], unit: Unit) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) wherever the parts contradict the unit or read what another one keeps for itself."""
    for i, part in enumerate(parts):
        if unit.relation not in part.relations:
            yield f"parts[{i}].kind", f"is proved for the relation {' or '.join(part.relations)} alone"
        try:
            part.validate(unit)
        except PlanError as error:
            yield f"parts[{i}]", f"contradicts the unit: {error.what}, expected {error.expected}"
    publishers = [i for i, part in enumerate(parts) if part.publishes_logs]
    if len(publishers) > 1:
        yield f"parts[{publishers[1]}].source", "takes what another part holds out"
    for i, part in enumerate(parts):
        if publishers and i not in publishers and part.held_out < parts[publishers[0]].held_out:
            yield f"parts[{i}].held_out", "does not leave out what another part holds out"


def _mu_range(event: Event, epsilon: float, *, sharp: bool) -> MuRange:
    if math.isinf(epsilon):
        return "none"
    leaves = [leaf for leaf, _ in flatten(event)]
    if all(isinstance(leaf, GaussianEvent) for leaf in leaves):
        return "exact" if sharp else "upper_bound"
    pure = all(isinstance(leaf, EpsilonDeltaEvent | RandomizedResponseEvent) and leaf.delta == 0 for leaf in leaves)
    return "upper_bound" if pure else "up_to_epsilon"


def _round_up(value: float) -> float | str:
    """Rounded up to six significant digits; JSON has no infinity, so 'inf'."""
    return "inf" if math.isinf(value) else accounting.round_up(float(value), DIGITS)
