"""What a certificate derives from its primary fields: numbers by the accountants, and words from numbers.

`Certificate.build` writes these fields and `Certificate.verify` derives them again, so nobody can edit one alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent

from tacit.errors import AccountingError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import EpsilonDeltaDpEvent, fixed_size_sampler, flatten, met, parallel
from tacit.privacy.certificate import canonical as certificate_json
from tacit.privacy.certificate import consensus as certificate_consensus
from tacit.privacy.certificate import devices as certificate_devices
from tacit.privacy.certificate import selection as certificate_selection
from tacit.privacy.mechanisms import marginals, votes
from tacit.units import Relation, Unit

Fields = Mapping[str, Any]

DIGITS = 6
DEPLOYMENT = {
    "model": "central",
    "trusted": "the curator who holds the records and runs the vault; nobody who sees a release has to be trusted",
}
STANDARD_ASSUMPTIONS = (
    "noise and sampling come from a keyed stream cipher (AES-256-CTR) seeded by the operating system; "
    "they are secret and never replayed",
    "arithmetic is in floating point: attacks on the low-order bits of the noise are outside the proof",
    "timing, memory and power are not observed by the adversary",
    "each unit's records carry that unit's id and no other; one person under two ids counts as two units",
    "the declared public population, bounds and pre-training data owe nothing to the private records",
    "the ledger file was not rolled back together with every checkpoint and certificate, "
    "and the same records were not registered in a second ledger",
    "the run happened as stated: neither a digest nor a signature proves that",
)
EVERY_UNIT = ("every unit, every step", "every unit, once")
POISSON = "Poisson: each unit independently, fresh every step"
OWN_PROOF = ("smooth_sensitivity", "noisy_max")
"""Kinds of part that are (epsilon, delta)-differentially private by a proof page of their own."""
PREFIXES = certificate_consensus.KIND
_WHOLE = {"marginals": marginals.EVERY, "teacher_votes": votes.DEALT}


def numbers(unit: Unit, event: DpEvent, delta: float, fields: Fields) -> dict[str, Any]:
    """epsilon, mu, profile, relations, accountants and total, each rounded up to six significant digits.

    Args:
        unit: whom the promise is made to.
        event: the mechanism as run.
        delta: at which epsilon is stated.
        fields: the certificate's `versions`, `releases`, `budget` and `composition`.

    Raises:
        AccountingError: as for `accounting.epsilon`.
    """
    assert unit.relation is not None
    bound = accounting.epsilon(event, delta=delta, relation=unit.relation)
    pairs = accounting.profile(event, unit.relation)
    versions = fields["versions"]
    rows = (
        ("certified upper bound", bound.accountant, bound.epsilon),
        ("independent check", bound.check_accountant, bound.check_epsilon),
    )
    return {
        "epsilon": _up(bound.epsilon),
        "mu": _up(accounting.mu_gdp(event, unit.relation, delta=delta)),
        "profile": [{"delta": d, "epsilon": _up(e)} for d, e in pairs],
        "relations": _relations(unit, event, delta),
        "accountants": [
            {
                "role": role,
                "name": name,
                "version": versions["dp-accounting" if "dp-accounting" in name else "tacit"],
                "epsilon": _up(value),
            }
            for role, name, value in rows
        ],
        "total": {
            "epsilon": _up(math.fsum(float(row["epsilon"]) for row in fields["releases"])),
            "delta": math.fsum(float(row["delta"]) for row in fields["releases"]),
        },
    }


def _relations(unit: Unit, event: DpEvent, delta: float) -> list[dict[str, Any]]:
    """Epsilon under the unit's own relation and, where every step is noise on a bounded sum, under the other too."""
    rows = []
    sums = dp_event.GaussianDpEvent | dp_event.LaplaceDpEvent | dp_event.ZCDpEvent | dp_event.NonPrivateDpEvent
    plain = all(isinstance(leaf, sums) for leaf, _ in flatten(event))
    for relation in get_args(Relation):
        if plain or relation == unit.relation:
            try:
                value = accounting.epsilon(event, delta=delta, relation=relation).epsilon
            except AccountingError:
                if relation == unit.relation:
                    raise
            else:
                rows.append({"relation": relation, "epsilon": _up(value)})
    return rows


def words(unit: Unit, event: DpEvent, fields: Fields) -> dict[str, Any]:
    """Everything a certificate says in words about its own numbers, and whether it may call itself private."""
    epsilon, delta = float(fields["epsilon"]), float(fields["delta"])
    reasons = []
    if math.isinf(epsilon):
        reasons.append("the mechanism as run has no finite epsilon")
    if fields["void_reason"] is not None:
        reasons.append(f"the ledger is void: {fields['void_reason']}")
    return {
        "private": not reasons,
        "reasons": reasons,
        "sentence": _sentence(unit, epsilon, delta, reasons, fields),
        "mu_range": _mu_range(event, epsilon, delta, sharp=unit.relation == "add_or_remove" or not _loose(fields)),
        "unit": {
            "name": unit.name,
            "relation": unit.relation,
            "population": unit.size,
            "words": certificate_consensus.neighbours(fields["parts"], unit),
        },
        "deployment": DEPLOYMENT,
        "contribution": [_contribution(part, unit) for part in fields["parts"]],
    }


def parts_event(parts: Sequence[Fields]) -> DpEvent:
    """The event that the parts, as the certificate states them, compose to; no noise multiplier is no noise.

    Parts with a "fold" run on one of two halves that share no unit, so the dearer half is what both cost.

    Raises:
        AccountingError: a part with a fold is sampled or of another kind than a Gaussian sum.
    """
    events = [_part_event(part) for part in parts if part.get("fold") is None]
    halves = [[_part_event(part) for part in parts if part.get("fold") == fold] for fold in (0, 1)]
    if any(halves):
        events.append(parallel([dp_event.ComposedDpEvent(half) for half in halves if half]))
    return dp_event.ComposedDpEvent(events)


def part_assumptions(parts: Sequence[Fields]) -> list[str]:
    """What single parts take for granted, beyond the standing assumptions."""
    found = [one for part in parts if part["kind"] == PREFIXES for one in certificate_consensus.assumptions(part)]
    devices = [part for part in parts if part["kind"] in certificate_devices.KINDS]
    found += dict.fromkeys(one for part in devices for one in certificate_devices.assumptions(part))
    selects = any(part["kind"] == certificate_selection.KIND for part in parts)
    return [*found, certificate_selection.ASSUMPTION] if selects else found


def part_not_protected(parts: Sequence[Fields]) -> list[str]:
    """What single parts do not protect, although a reader could believe it."""
    return [one for part in parts if part["kind"] == PREFIXES for one in certificate_consensus.not_protected(part)]


def _part_event(part: Fields) -> DpEvent:
    if part["kind"] == PREFIXES:
        return certificate_consensus.event(part)
    if part["kind"] in certificate_devices.KINDS:
        return certificate_devices.event(part)
    if part["kind"] == certificate_selection.KIND:
        return certificate_selection.event(part, parts_event)
    if part["kind"] in OWN_PROOF:
        own = EpsilonDeltaDpEvent(float(part["epsilon"]), float(part["delta"]))
        return dp_event.SelfComposedDpEvent(own, int(part["steps"]))
    if part["kind"] == "marginals":
        return marginals.marginals_event(float(part["noise_multiplier"] or 0), int(part["steps"]), part["choices"])
    step = dp_event.GaussianDpEvent(float(part["noise_multiplier"] or 0))
    if part["kind"] == "user_sum":
        return step
    if part["kind"] == "fixed_size_sum":
        step = dp_event.SampledWithoutReplacementDpEvent(int(part["population"]), int(part["batch"]), step)
    elif part["kind"] != "teacher_votes":
        step = dp_event.PoissonSampledDpEvent(float(part["rate"]), step)
    return dp_event.SelfComposedDpEvent(step, int(part["steps"]))


def differences(stated: Any, derived: Any, path: str) -> Iterator[str]:
    """Paths at which a stated JSON value is not the derived one; numbers may differ by one in the sixth digit."""
    if isinstance(derived, Mapping):
        for name in derived:
            yield from differences(stated[name], derived[name], f"{path}.{name}".lstrip("."))
    elif isinstance(derived, list | tuple):
        if len(stated) != len(derived):
            yield path
        for i, (one, other) in enumerate(zip(stated, derived, strict=False)):
            yield from differences(one, other, f"{path}[{i}]")
    elif isinstance(derived, float) and not isinstance(stated, str):
        if not math.isclose(stated, derived, rel_tol=1.01 * 10 ** (1 - DIGITS)):
            yield path
    elif stated != derived:
        yield path


def contradictions(record: Fields) -> Iterator[tuple[str, str]]:
    """What is neither derived nor free: (field, what is wrong) wherever primary fields contradict each other."""
    epsilon, delta = float(record["epsilon"]), record["delta"]
    if record["plan_id"] != certificate_json.plan_id(record["method"], record["plan"]):
        yield "plan_id", "is not that of the plan"
    own = [row for row in record["releases"] if row["plan_id"] == record["plan_id"]]
    if len(own) != 1:
        yield "releases", "does not hold this plan's own charge once"
    for row in own:
        if row["method"] != record["method"]:
            yield "releases.method", "names another method for this plan"
        if float(row["epsilon"]) < epsilon * (1 - 1e-5):
            yield "releases.epsilon", "charges less than epsilon"
        if row["delta"] < delta:
            yield "releases.delta", "charges less than delta"
    total = record["total"]
    if record["private"] and total["composition"] == "sum":
        if float(total["epsilon"]) > float(total["budget_epsilon"]) * (1 + 1e-5):
            yield "total.epsilon", "is above the ledger's budget"
        if total["delta"] > total["budget_delta"] * (1 + 1e-9):
            yield "total.delta", "is above the ledger's budget"
    if record["target_epsilon"] is not None and epsilon > float(record["target_epsilon"]) * (1 + 1e-5):
        yield "target_epsilon", "is below epsilon"
    if record["audit"] is not None and record["audit"]["lower_bound"] > epsilon:
        yield "audit.lower_bound", "is above the certified epsilon"
    yield from certificate_consensus.shared(record["parts"])
    for i, part in enumerate(record["parts"]):
        for field, what in _contradictions(part, record["unit"]):
            yield f"parts[{i}].{field}", what
    if not {*STANDARD_ASSUMPTIONS, *part_assumptions(record["parts"])} <= set(record["assumptions"]):
        yield "assumptions", "lacks a standing assumption"
    if not set(part_not_protected(record["parts"])) <= set(record["not_protected"]):
        yield "not_protected", "lacks what a part does not protect"
    if record["tacit_version"] != record["versions"]["tacit"]:
        yield "tacit_version", "is not that of versions"
    try:
        datetime.strptime(record["date"], "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        yield "date", "is no date"


def _contradictions(part: Fields, unit: Fields) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) wherever the numbers of a part contradict each other or the unit."""
    if part["kind"] == PREFIXES:
        yield from certificate_consensus.contradictions(part, unit)
        return
    if part["kind"] in certificate_devices.KINDS:
        yield from certificate_devices.contradictions(part, unit)
        return
    if part["kind"] == certificate_selection.KIND:
        yield from certificate_selection.contradictions(part, lambda inner: _contradictions(inner, unit))
        return
    if part["sampler"] not in _samplers(part):
        yield "sampler", "does not describe the numbers"
    if part.get("population", unit["population"]) != unit["population"]:
        yield "population", "is not the unit's"
    if part["kind"] in OWN_PROOF and part["steps"] != 1:
        yield "steps", "is not 1"
    if part.get("fold") is not None and part["kind"] != "poisson_sum":
        yield "fold", "belongs to sums alone"
    if "horizon" in part and (part["kind"] not in ("poisson_sum", "fixed_size_sum") or part.get("rows") == "first"):
        yield "horizon", "belongs to sums of drawn rows alone"
    if part.get("fold") is not None and part.get("reserve"):
        yield "reserve", "is not left out by halves"


def _samplers(part: Fields) -> tuple[str, ...]:
    """How the sampler of a part may be worded."""
    if part["kind"] == "fixed_size_sum":
        return (fixed_size_sampler(part["batch"], part["population"]),)
    if part["kind"] == "user_sum":
        return (met(part["participations"]),)
    if part["kind"] in _WHOLE:
        return (_WHOLE[part["kind"]],)
    return (POISSON,) if part["kind"] not in OWN_PROOF and part["rate"] < 1 else EVERY_UNIT


def _loose(fields: Fields) -> bool:
    """Whether a part has units that move an answer by less than twice its bound when one replaces another."""
    return any(part["kind"] in _WHOLE for part in fields["parts"])


def _mu_range(event: DpEvent, epsilon: float, delta: float, *, sharp: bool) -> str:
    if math.isinf(epsilon):
        return "none: epsilon is infinite"
    leaves = [leaf for leaf, _ in flatten(event)]
    if all(isinstance(leaf, dp_event.GaussianDpEvent) for leaf in leaves):
        return "exact, for every epsilon" if sharp else "upper bound, for every epsilon"
    if all(isinstance(leaf, EpsilonDeltaDpEvent) and leaf.delta == 0 for leaf in leaves):
        return "upper bound, for every epsilon"
    return f"upper bound, for every epsilon from 0 to {epsilon:.6g}, that is for every delta down to {delta:.3g}"


def _sentence(unit: Unit, epsilon: float, delta: float, reasons: Sequence[str], fields: Fields) -> str:
    invented = " The records are declared simulated: no person is behind them." if fields["simulated"] else ""
    if reasons:
        return f"NOT PRIVATE, because {' and '.join(reasons)}: nothing is promised to any {unit.name}.{invented}"
    factor = f"{accounting.round_up(math.exp(epsilon), 4):.4g}" if epsilon < 50 else f"exp({epsilon:.4g})"
    told = certificate_consensus.neighbours(fields["parts"], unit)
    if certificate_consensus.from_logs(fields["parts"]):
        invented = (
            f" The policy of every {unit.name} is protected; its logs, which are published in part, are not.{invented}"
        )
    return (
        f"The chance of anything that could be concluded from this release changes at most by a factor of {factor} "
        f"and by {delta:.3g} added, {told}, in a public population of {unit.size:,}: "
        f"({epsilon:.6g}, {delta:.6g})-differential privacy for every {unit.name}.{invented}"
    )


def _contribution(part: Fields, unit: Unit) -> str:
    if part["kind"] == PREFIXES:
        return certificate_consensus.contribution(part, unit)
    if part["kind"] in certificate_devices.KINDS:
        return certificate_devices.contribution(part, unit)
    if part["kind"] == certificate_selection.KIND:
        return certificate_selection.contribution(part, lambda inner: _contribution(inner, unit))
    if part["kind"] == "marginals":
        return marginals.contribution(part, unit)
    if part["kind"] == "teacher_votes":
        return votes.contribution(part, unit)
    name, rows = f"{part['name']} ({part['kind']})", part["rows_per_unit"]
    made = f"at most {rows:,} of its rows"
    if "horizon" in part:
        made = f"at most {rows:,} fragments of its episodes, of {part['horizon']:,} rows each"
    if part.get("rows") == "first":
        made = f"its first {rows:,} rows in order of time"
    if part.get("reserve"):
        made += f", {part['reserve']:,} of its episodes left out"
    if part["kind"] in OWN_PROOF:
        return (
            f"{name}: one release, to which a {unit.name} contributes by {made}; "
            f"({part['epsilon']:.6g}, {part['delta']:.6g})-differentially private by its own proof"
        )
    if part["kind"] == "user_sum":
        return (
            f"{name}: {part['steps']:,} noisy sum(s), each over at most {part['users']:,} {unit.name}(s) that are met; "
            f"one {unit.name} adds to at most {part['participations']:,} of them a vector of norm at most "
            f"{part['clip']:.6g} made from {made} of that meeting, under {part['correlation']} noise of a "
            f"standard deviation of {part['noise_multiplier']:.6g} times the largest norm of all it adds"
        )
    fixed = part["kind"] == "fixed_size_sum"
    sampled = part["sampler"] if fixed else f"sampled at rate {part['rate']:.6g}"
    if part.get("fold") is not None:
        sampled += f", if the {unit.name} is in half {part['fold']} of two, fixed by a keyed hash of its own rows"
    return (
        f"{name}: {part['steps']:,} noisy sum(s); one {unit.name} adds to one sum a vector of "
        f"norm at most {part['clip']:.6g} made from {made}, {sampled}, "
        f"under noise of standard deviation {part['noise_multiplier'] * part['clip']:.6g} a number"
    )


def _up(value: float) -> float | str:
    """Rounded up to six significant digits; JSON has no infinity, so 'inf'."""
    return "inf" if math.isinf(value) else accounting.round_up(float(value), DIGITS)
