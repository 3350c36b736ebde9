"""What a certificate takes from its plan: parts and statements, rebuilt for every method of tacit's.

`covered`, `not_covered`, `not_protected` and `assumptions` hold the statements of the plan (`plan.label()`), those of
its parts and the standing ones. Beside them stand only those that a vault or a user declares (`sentences.DECLARED`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from tacit.errors import PlanError
from tacit.privacy.certificate import canonical
from tacit.privacy.certificate.fields import Fields, differences, parts_from_json
from tacit.privacy.mechanisms.base import Part, Plan, certificate_parts
from tacit.privacy.mechanisms.kinds import VisitorPart
from tacit.privacy.sentences import (
    DECLARED,
    LISTS,
    STANDARD_ASSUMPTIONS,
    UNDERIVED_FIELDS,
    USER_PIECES,
    Clause,
    Label,
    clause,
    clauses,
)
from tacit.serialization import from_json, needs_user_classes

_METHOD = re.compile("[!-~]+( [!-~]+)*")
"""How the name of a method is written, so that none looks like another one."""


class LabelledPlan(Plan, Protocol):
    """A plan of a method of tacit's."""

    def label(self) -> Label:
        """The plan's statements, as far as they follow from the plan."""


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


def plan_from_json(method: str, fields: Fields) -> LabelledPlan | None:
    """The plan of a method of tacit's, rebuilt from its public fields."""
    # returns: none where the method is not tacit's, or where the plan holds a piece of a user's own
    registry = _registry()
    place = next((each.plan for each in registry.METHODS if each.certified == method), None)
    if place is None:
        return None
    plan_class: type[LabelledPlan] = registry.load(place)
    read: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            read[name] = _rebuild_nested(value)
        except _UserPieceError:  # in a field that may hold any plan, with all others as the class has them
            if not needs_user_classes(plan_class, fields, name):
                what, where = f"the field {name[:80]!r} holds a plan", f"{plan_class.__name__}.from_json"
                expected, remedy = "the fields of its class", "use the certificate as tacit wrote it"
                raise PlanError(what, where=where, expected=expected, remedy=remedy) from None
            return None
    try:
        return from_json(plan_class, read)
    except PlanError:
        if needs_user_classes(plan_class, fields):
            return None
        raise


class _UserPieceError(Exception):
    """A plan within a plan is, or holds, a piece of a user's own."""


def name_problem(method: str) -> str | None:
    """What is wrong with the name of a method that is not tacit's; None where nothing is."""
    if not _METHOD.fullmatch(method):
        return "is not in printable ASCII with single spaces"
    return "is tacit's but for its case" if method.casefold() in map(str.casefold, certified_names()) else None


def registry_problem(plan: Plan) -> str | None:
    """What is wrong with the name of a plan's method beside the registry: no certificate of it would verify."""
    registry = _registry()
    places = {f"{kind.__module__}:{kind.__qualname__}" for kind in type(plan).__mro__}
    named = [method for method in registry.METHODS if method.certified == plan.method]
    if named and not any(registry.complete(method.plan) in places for method in named):
        return "is that of another method"
    entered = {method.certified for method in registry.METHODS if registry.complete(method.plan) in places}
    return "is not what its entry in `tacit.methods` says" if entered and plan.method not in entered else None


def underived_fields(plan: LabelledPlan | None) -> tuple[str, ...]:
    """The fields that are declared beside the usual ones, because there is no plan to rebuild that would imply them."""
    if plan is not None:
        return ()
    return UNDERIVED_FIELDS


def contradictions(record: Fields, plan: LabelledPlan | None) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) wherever parts, the promise or statements are not those of the plan."""
    parts = parts_from_json(record["parts"])
    if plan is not None:
        yield from _plan_contradictions(record, plan)
    elif record["method"] not in certified_names():
        yield from (("method", what) for what in [name_problem(record["method"])] if what)
    elif not any(one["code"] in USER_PIECES for one in record["assumptions"]):
        yield "plan", "holds a piece of a user's own that no assumption names"
    for name in LISTS:
        found: Sequence[Clause] = [dict(one) for one in record[name]]
        if clauses(found) != found:
            yield name, "holds a statement twice, or in hidden characters"
        standing = standing_clauses(name, parts)
        if plan is not None:
            of_plan = getattr(plan.label(), name)
            if not _follows(found, clauses([*standing, *of_plan]), DECLARED[name]):
                yield name, "does not hold the statements of its plan"
        elif not all(one in found for one in standing):
            yield name, "lacks a standing statement"


def standing_clauses(name: str, parts: Sequence[Part]) -> list[Clause]:
    """The statements that every certificate with these parts has in a list."""
    if name == "not_protected":
        return clauses(one for part in parts for one in part.not_protected())
    if name != "assumptions":
        return []
    met = [clause("coming"), clause("register_kept")] if any(isinstance(part, VisitorPart) for part in parts) else []
    return clauses([*STANDARD_ASSUMPTIONS, *(one for part in parts for one in part.assumptions()), *met])


def _plan_contradictions(record: Fields, plan: LabelledPlan) -> Iterator[tuple[str, str]]:
    derived = certificate_parts(plan.parts())
    if record["parts"] == _without_blocks(record["parts"]):  # as older versions had them, at a dearer price
        derived = _without_blocks(derived)
    if [part["kind"] for part in record["parts"]] != [part["kind"] for part in derived]:
        yield "parts", "are not those of the plan"
    else:
        yield from ((path, "is not as the plan has it") for path in differences(record["parts"], derived, "parts"))
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
    if record["target_epsilon"] != canonical.to_plain(promise.epsilon):
        yield "target_epsilon", "is not that of the plan"
    if record["source"] != plan.source:
        yield "source", "is not that of the plan"


def _without_blocks(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_without_blocks(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_blocks(item) for name, item in value.items() if name != "blocks"}


def _rebuild_nested(value: Any) -> Any:
    """A plan, or several, that another plan holds; any other value as it is."""
    if isinstance(value, list | tuple) and value and all(_states_plan(item) for item in value):
        return tuple(_rebuild_nested(item) for item in value)
    if not _states_plan(value):
        return value
    plan = plan_from_json(value["method"], value["plan"])
    if plan is None:
        raise _UserPieceError
    return plan


def _states_plan(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"method", "plan"} and isinstance(value["plan"], Mapping)


def _follows(found: Sequence[Clause], derived: Sequence[Clause], declared: frozenset[str]) -> bool:
    """Whether the statements are the derived ones, in their order, with none but declared ones between."""
    at = 0
    for one in found:
        if at < len(derived) and one == derived[at]:
            at += 1
        elif one["code"] not in declared:
            return False
    return at == len(derived)
