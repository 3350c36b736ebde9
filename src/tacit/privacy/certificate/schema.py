"""The shape of a certificate: `certificate.schema.json`, and the few JSON Schema keywords that it uses.

Kept small on purpose, so that checking a certificate needs no further package; tests hold it equal to `jsonschema`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from tacit.errors import CertificateError

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
}
_MAX_DEPTH = 24


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a certificate."""
    text = resources.files("tacit.privacy.certificate").joinpath("certificate.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def require_shape(value: object) -> None:
    """Check a certificate's JSON value against the schema.

    Raises:
        CertificateError: a field is missing, unknown, of the wrong type or out of range; the message names it.
    """
    _plain(value, 0)
    problem = _problem(value, schema(), "")
    if problem:
        path, what = problem
        raise CertificateError(
            f"the field {path or 'certificate'!r} {what}",
            where="Certificate.from_json",
            expected="the fields of certificate.schema.json and no others",
            remedy="use the certificate as tacit wrote it",
        )


def _problem(value: Any, rule: Mapping[str, Any], path: str) -> tuple[str, str] | None:
    if "$ref" in rule:
        return _problem(value, schema()["$defs"][rule["$ref"].removeprefix("#/$defs/")], path)
    if "anyOf" in rule:
        kinds = _kinds(rule["anyOf"])
        if kinds and isinstance(value, Mapping) and value.get("kind", kinds[0]) not in kinds:
            return f"{path}.kind", f"is none of {kinds}"
        problems = [_problem(value, option, path) for option in _of_its_kind(rule["anyOf"], value)]
        return None if None in problems else problems[0]
    if "const" in rule and not (type(value) is type(rule["const"]) and value == rule["const"]):
        return path, f"is not {rule['const']!r}"
    if "enum" in rule and value not in rule["enum"]:
        return path, f"is none of {rule['enum']}"
    if "type" in rule:
        kind = rule["type"]
        if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind in ("number", "integer")):
            return path, f"is no {kind}"
    if isinstance(value, str):
        return _string_problem(value, rule, path)
    if isinstance(value, Mapping):
        return _object_problem(value, rule, path)
    if isinstance(value, list | tuple):
        if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)):
            return path, "has too few or too many entries"
        found = (_problem(item, rule.get("items", {}), f"{path}[{i}]") for i, item in enumerate(value))
        return next((problem for problem in found if problem), None)
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = rule.get("minimum", -math.inf), rule.get("maximum", math.inf)
        above, below = rule.get("exclusiveMinimum", -math.inf), rule.get("exclusiveMaximum", math.inf)
        if not (low <= value <= high and above < value < below):
            return path, "is out of range"
    return None


def _kinds_of(option: Mapping[str, Any]) -> Sequence[Any]:
    rule = schema()["$defs"][option["$ref"].removeprefix("#/$defs/")] if "$ref" in option else option
    kinds: Sequence[Any] = rule.get("properties", {}).get("kind", {}).get("enum", ())
    return kinds


def _kinds(options: Sequence[Mapping[str, Any]]) -> list[Any]:
    """All kinds that a value may say it is of; none where an option says nothing of kinds."""
    each = [_kinds_of(option) for option in options]
    return [kind for kinds in each for kind in kinds] if all(each) else []


def _of_its_kind(options: Sequence[Mapping[str, Any]], value: Any) -> Sequence[Mapping[str, Any]]:
    """The options for the kind that the value says it is of; all of them where none is."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    return [option for option in options if kind in _kinds_of(option)] or options


def _string_problem(value: str, rule: Mapping[str, Any], path: str) -> tuple[str, str] | None:
    if not rule.get("minLength", 0) <= len(value) <= rule.get("maxLength", len(value)):
        return path, "is too short or too long"
    pattern = rule.get("pattern", "^.*$")
    if not re.fullmatch(pattern.removeprefix("^").removesuffix("$"), value, re.DOTALL):
        return path, "has the wrong form"
    return None


def _object_problem(value: Mapping[str, Any], rule: Mapping[str, Any], path: str) -> tuple[str, str] | None:
    properties, extra = rule.get("properties", {}), rule.get("additionalProperties", True)
    for name in rule.get("required", ()):
        if name not in value:
            return f"{path}.{name}".lstrip("."), "is missing"
    for name, item in value.items():
        here = f"{path}.{name}".lstrip(".")
        if name not in properties and extra is False:
            return here[:80], "is unknown"
        inner = properties.get(name, extra if isinstance(extra, Mapping) else {})
        problem = _problem(item, inner, here)
        if problem:
            return problem
    return None


def _plain(value: object, depth: int) -> None:
    """Only finite JSON values, and no nesting bombs."""
    items: list[object] = []
    good = depth <= _MAX_DEPTH and (
        value is None or isinstance(value, bool | int | float | str | list | tuple | Mapping)
    )
    if isinstance(value, float):
        good = good and math.isfinite(value)
    if isinstance(value, int):
        good = good and abs(value) < 10**300  # what a float holds
    if isinstance(value, Mapping):
        good = good and all(isinstance(name, str) for name in value)
        items = list(value.values())
    elif isinstance(value, list | tuple):
        items = list(value)
    if not good:
        raise CertificateError(
            "a value is no finite JSON value or is nested too deeply",
            where="Certificate.from_json",
            expected=f"JSON of depth at most {_MAX_DEPTH}, without NaN or infinity (write 'inf')",
            remedy="use the certificate as tacit wrote it",
        )
    for item in items:
        _plain(item, depth + 1)
