"""What a certificate takes from its plan: parts, and the lines that people read, rebuilt for every method of tacit's.

`covered`, `not_covered`, `not_protected` and `assumptions` hold the plan's own words (`plan.label()`), those of its
parts and the standing ones. Beside them stand only lines that a vault or a user declares, in forms that are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from tacit.errors import PlanError
from tacit.parameters import current_part
from tacit.privacy.certificate import canonical
from tacit.privacy.certificate.fields import (
    STANDARD_ASSUMPTIONS,
    Fields,
    as_stated,
    differences,
    part_assumptions,
    part_not_protected,
    parts_of,
)
from tacit.privacy.mechanisms.base import Part, Plan
from tacit.privacy.mechanisms.kinds import MET
from tacit.serialization import from_json, holds_ones_own

LISTS = ("covered", "not_covered", "not_protected", "assumptions")
"""The fields that hold lines for people."""


@dataclass(frozen=True)
class Label:
    """A method's own words for its certificate.

    Args:
        covered: data accesses that the promise covers.
        not_covered: data accesses that it does not.
        not_protected: what a reader could wrongly believe to be protected.
        assumptions: what the method assumes beyond the certificate's standing assumptions.
    """

    covered: tuple[str, ...]
    not_covered: tuple[str, ...]
    not_protected: tuple[str, ...]
    assumptions: tuple[str, ...] = ()


class Labelled(Plan, Protocol):
    """A plan of a method of tacit's."""

    def label(self) -> Label:
        """The plan's words, as far as they follow from the plan."""


_ONES_OWN = ("the user's ", "candidate ")
"""How assumptions begin that name a piece of a user's own."""
_METHOD = re.compile("[!-~]+( [!-~]+)*")
"""How the name of a method is written, so that none looks like another one."""
_EARLIER: Mapping[str, Label] = {
    "synthesis of transitions": Label(
        covered=("every training step",),
        not_covered=("pre-training on public data (declared: physics)",),
        not_protected=("what a population has in common",),
        assumptions=("the user's callback keeps units apart",),
    ),
}
"""The words of methods that no longer have a plan, as certificates of theirs have them."""

_PHRASES: Mapping[str, str] = {
    "contributions are clipped to a ten-thousandth less than the clip that is priced, which pays for rounding; what is "
    "released lies on a public lattice; proofs/floating_point.md says what no proof covers": "attacks on the low-order "
    "bits of the noise are outside the proof",
    "against anyone who does not know": "against whoever does not know",
    "patients and all others in the experts' logs": "patients and whoever else is in the experts' logs",
    "its share of the noise as agreed": "its share of the noise as told",
    "seen by anyone who sees": "seen by whoever sees",
    "who came when, to anyone who serves": "who came when, to whoever serves",
    "who else comes, when and in which place, and what they do, depends": "when other people come and what they do "
    "depends",
    "outside the vault (see": r"outside the doors? \(see",
    "with which sampled rows are weighted to agree": "lost in an interruption, so unused",
    "{start}": "given by the user|drawn with the public seed [0-9]+",
}
"""Phrases of lines, and the patterns of what may stand in their place: earlier words, and what a run alone knows."""

_DECLARED: Mapping[str, Sequence[str]] = {
    "covered": (),
    "not_covered": (r".+ \(declared public by the user, not checked here\)",),
    "not_protected": (
        "logs, from the release of plan [0-9a-f]+, which the total of this ledger counts: it protects policies alone",
    ),
    "assumptions": (
        "the user's .+ keeps units apart and keeps nothing: it was (checked on invented rows|tried on decoys), not "
        "proved",
        "the user's .+ keeps nothing of the runs that are not released: that was not tried",
        "the user's .+ asks devices as tacit's own would: not checked",
        "the user's .+, with which people were served, keeps nothing of them",
        r"each \w+ counts as one .+: the records were imported without (unit )?ids",
        "each .+ is one of a query's result: that the query mixes no two of them was not checked",
        "ids that differ by case, width, Unicode form, spaces or invisible characters alone are different .+s, as the "
        "user says",
        r"the user's [0-9,]+ rank\(s\), on which the records lay in shards, are trusted: each adds its share of the "
        "noise and keeps it secret, and nobody else reads what they send each other; that was not checked",
        "the records of all devices lie with one curator, who computes for them",
        "one device is one person; every device runs tacit's client app and keeps her ledger",
        "where the server adds the noise, it sees every device's answer and is trusted with it",
        "where devices share the noise, the server follows the protocol of secure aggregation and runs no devices of "
        "its own; at least the part's floor of the devices whose answers are summed are honest and keep their shares "
        "secret",
        "whether a device takes part and answers in time depends on nobody's records, and is not hidden",
        "(who else comes, when and in which place, and what they do, depends|when other people come and what they do "
        "depends) on a .+ only through what was released",
        "who was drawn from the pool for a round stays secret",
        "evaluated: .+",
        "candidate .+: .+",
        "the behaviour policy is .+, and made the records",
        "the logged propensities are the true probabilities of the logged actions",
        "the records have no propensities: no ratios were used, and the value has no interval",
        "the features .+ were fixed without these records",
    ),
}
"""Patterns of the lines that a vault or a user declares; they stand beside the derived ones."""


def meetings(name: str) -> tuple[str, str]:
    """What is assumed of people who are met one after another, and contribute so often as a register allows."""
    return (
        f"who else comes, when and in which place, and what they do, depends on a {name} only through what was "
        "released",
        "the register of contributions was not rolled back together with the ledger and its lock",
    )


def mixing(name: str) -> str:
    """What is assumed of records that a query of the curator's made."""
    return f"each {name} is one of a query's result: that the query mixes no two of them was not checked"


def exact(name: str) -> str:
    """What is assumed of ids that the user declared to be different units (`tacit.data.unit_keys`)."""
    return (
        "ids that differ by case, width, Unicode form, spaces or invisible characters alone are different "
        f"{name}s, as the user says"
    )


def sharded(ranks: int) -> str:
    """What is assumed of records that lay in shards on so many ranks."""
    return (
        f"the user's {ranks:,} rank(s), on which the records lay in shards, are trusted: each adds its share of the "
        "noise and keeps it secret, and nobody else reads what they send each other; that was not checked"
    )


def certified_names() -> frozenset[str]:
    """What certificates call tacit's own methods."""
    return frozenset(method.certified for method in _registry().METHODS)


def place_of_plan(name: str) -> tuple[str, str]:
    """Module and name of the class of the plan of a method of tacit's; ("", "") of another one."""
    registry = _registry()
    places = (registry.complete(method.plan) for method in registry.METHODS if method.certified == name)
    module, _, kind = next(places, "").partition(":")
    return module, kind


def _registry() -> Any:
    """`tacit.methods`, which stands above this package: no import but this one, made when a method is asked for."""
    return import_module("tacit.methods")


def _plan_class(name: str) -> Any:
    """The class of the plan of a method of tacit's; None of another one."""
    registry = _registry()
    return next((registry.load(method.plan) for method in registry.METHODS if method.certified == name), None)


def plan_of(method: str, fields: Fields) -> Labelled | None:
    """The plan of a method of tacit's, rebuilt from its public fields."""
    # returns: none where the method is not tacit's, or where the plan holds a piece of a user's own
    plan_class: type[Labelled] | None = _plan_class(method)
    if plan_class is None:
        return None
    try:
        return from_json(plan_class, {name: _nested(value) for name, value in fields.items()})
    except _OnesOwn:
        return None
    except PlanError:
        if holds_ones_own(plan_class, fields):
            return None
        raise


class _OnesOwn(Exception):
    """A plan within a plan is, or holds, a piece of a user's own."""


def misnamed(method: str) -> str | None:
    """What is wrong with the name of a method that is not tacit's; None where nothing is."""
    if not _METHOD.fullmatch(method):
        return "is not in printable ASCII with single spaces"
    return "is tacit's but for its case" if method.casefold() in map(str.casefold, certified_names()) else None


def own_words(method: str, plan: Labelled | None) -> tuple[str, ...]:
    """The fields that are declared beside the usual ones, because there is no plan to rebuild that would imply them."""
    if plan is not None:
        return ()
    return ("plan", "source", "target_epsilon", *(() if method in _EARLIER else LISTS))


def contradictions(record: Fields, plan: Labelled | None) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) wherever parts, the promise or lines for people are not those of the plan."""
    parts = parts_of(record["parts"])
    if plan is not None:
        yield from _against_plan(record, parts, plan)
    elif record["method"] not in certified_names():
        yield from (("method", what) for what in [misnamed(record["method"])] if what)
    elif not any(line.startswith(_ONES_OWN) for line in record["assumptions"]):
        yield "plan", "holds a piece of a user's own that no assumption names"
    label = _EARLIER.get(record["method"]) if plan is None else plan.label()
    for name in LISTS:
        stated, standing = record[name], _standing(name, record["parts"])
        patterns = [_pattern(line) for line in standing]
        if len(set(stated)) != len(stated):
            yield name, "holds a line twice"
        elif label is None:
            if not all(any(pattern.fullmatch(line) for line in stated) for pattern in patterns):
                yield name, "lacks a standing line"
        else:
            own = [*getattr(label, name), *(_met(parts, record["unit"]["name"]) if name == "assumptions" else ())]
            patterns += [_pattern(line) for line in dict.fromkeys(own) if line not in standing]
            if not _follows(stated, patterns, () if plan is None else _DECLARED[name]):
                yield name, "does not hold the lines of its plan"


def _against_plan(record: Fields, parts: Sequence[Part], plan: Labelled) -> Iterator[tuple[str, str]]:
    stated = [{**part.certified(), **current_part(fields)} for part, fields in zip(parts, record["parts"], strict=True)]
    derived = [as_stated(part.certified()) for part in plan.parts()]
    if [part["kind"] for part in stated] != [part["kind"] for part in derived]:
        yield "parts", "are not those of the plan"
    else:
        yield from ((path, "is not as the plan has it") for path in differences(stated, derived, "parts"))
    if plan.promise is None:
        yield "plan", "is not calibrated"
        return
    promise, unit = plan.promise, plan.promise.unit
    if (unit.name, unit.relation, unit.size) != tuple(
        record["unit"][name] for name in ("name", "relation", "population")
    ):
        yield "unit", "is not that of the plan"
    if record["delta"] != promise.delta:
        yield "delta", "is not that of the plan"
    if record["target_epsilon"] != canonical.plain(promise.epsilon):
        yield "target_epsilon", "is not that of the plan"
    if record["source"] != plan.source:
        yield "source", "is not that of the plan"


def _nested(value: Any) -> Any:
    """A plan, or several, that another plan holds; any other value as it is."""
    if isinstance(value, list | tuple) and value and all(_states_plan(item) for item in value):
        return tuple(_nested(item) for item in value)
    if not _states_plan(value):
        return value
    plan = plan_of(value["method"], value["plan"])
    if plan is None:
        raise _OnesOwn
    return plan


def _states_plan(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"method", "plan"} and isinstance(value["plan"], Mapping)


def _standing(name: str, parts: Sequence[Fields]) -> list[str]:
    """The lines that every certificate with these parts has in a list."""
    lines: list[str] = []
    if name == "not_protected":
        lines = part_not_protected(parts)
    if name == "assumptions":
        lines = [*STANDARD_ASSUMPTIONS, *part_assumptions(parts)]
    return list(dict.fromkeys(lines))


def _met(parts: Sequence[Part], name: str) -> tuple[str, ...]:
    return meetings(name) if any(isinstance(part, MET) for part in parts) else ()


def _pattern(line: str) -> re.Pattern[str]:
    """What a certificate of any age may say for this line."""
    pattern = re.escape(line)
    for phrase, others in _PHRASES.items():
        pattern = pattern.replace(re.escape(phrase), f"(?:{re.escape(phrase)}|{others})")
    return re.compile(pattern)


def _follows(stated: Sequence[str], patterns: Sequence[re.Pattern[str]], declared: Sequence[str]) -> bool:
    """Whether the lines are those of the patterns, in their order, with none but declared ones between."""
    found = 0
    for line in stated:
        if found < len(patterns) and patterns[found].fullmatch(line):
            found += 1
        elif not any(re.fullmatch(form, line) for form in declared):
            return False
    return found == len(patterns)
