"""The JSON of a certificate: plain and read-only values, the canonical digest, and files that are whole or absent."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tacit import plain_files, plain_text
from tacit.errors import CertificateError
from tacit.parameters import PART_FIELDS, as_in_format_1, current_part

MAX_BYTES = 4 * 2**20
MAX_VALUES = 100_000
"""Bytes and JSON values that a certificate may have: reading more would cost more than any honest one does."""


def digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but digest and signature; 1.0 and 1 are the same number."""
    content = {name: value for name, value in record.items() if name not in ("digest", "signature")}
    text = json.dumps(_whole_numbers(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plan_id(method: str, fields: Mapping[str, Any]) -> str:
    """A short identifier of everything in a plan: SHA-256 of its canonical JSON, 16 hex digits.

    1.0 and 1 are one, and fields have their names of format 1, so that a plan keeps its identifier.
    """
    named = as_in_format_1({"method": method, **fields})
    text = json.dumps(_whole_numbers(plain(named)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _whole_numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def plain(value: Any) -> Any:
    """Mappings, sequences and numbers as JSON knows them; infinities as 'inf' and '-inf'."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    return value


def freeze(value: Any) -> Any:
    """The value with mappings and sequences made read-only."""
    if isinstance(value, Mapping):
        return MappingProxyType({name: freeze(item) for name, item in value.items()})
    return tuple(freeze(item) for item in value) if isinstance(value, list | tuple) else value


def text(record: Mapping[str, Any]) -> str:
    """The content of a certificate's file."""
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write JSON, all or nothing (see `plain_files.write`)."""
    plain_files.write(path, text(record))


def read(path: Path) -> Any:
    """Read JSON of at most 4 MiB, strictly: no repeated names, no NaN, no infinity.

    Raises:
        CertificateError: the file is missing, too large or not such JSON.
    """
    try:
        return parsed(plain_files.text(path, MAX_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        problem = error.strerror if isinstance(error, OSError) else type(error).__name__
        exists = path.is_file()
        raise CertificateError(
            f"the file cannot be read as a certificate ({problem or error})",
            where=str(path),
            expected="a certificate's JSON file of at most 4 MiB as tacit writes it",
            remedy="ask for the original file"
            if exists
            else "check the path: a run has its certificate.json in its folder",
        ) from None


def parsed(text: str) -> Any:
    """The value of a JSON text, read as `read` does.

    Raises:
        ValueError: it is no JSON, is too large, repeats a name, or has a number that is not finite.
        RecursionError: it is nested too deeply.
    """
    if len(text) > MAX_BYTES or sum(map(text.count, ",[{")) > MAX_VALUES:
        raise ValueError("too many values")
    return json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a field is repeated")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


# The shape of a certificate: `certificate.schema.json`, and the few JSON Schema keywords that it uses.
#
# Kept small on purpose, so that checking a certificate needs no further package; tests hold it equal to `jsonschema`.


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
    """Check a certificate's JSON value against the schema, one of format 1 by the names of format 2."""
    require_plain(value)
    if isinstance(value, Mapping) and value.get("format") == 1 and isinstance(value.get("parts"), list | tuple):
        stated = [current_part(part) if isinstance(part, Mapping) else part for part in value["parts"]]
        later = any(isinstance(part, Mapping) and not part.keys().isdisjoint(PART_FIELDS) for part in value["parts"])
        value = {**value, "parts": stated, **({"format": "1, with names of format 2"} if later else {})}
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
        item_problems = (_problem(item, rule.get("items", {}), f"{path}[{i}]") for i, item in enumerate(value))
        return next((problem for problem in item_problems if problem), None)
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
    if len(value) > rule.get("maxProperties", len(value)):
        return path, "has too many entries"
    for name in rule.get("required", ()):
        if name not in value:
            return f"{path}.{name}".lstrip("."), "is missing"
    for name, item in value.items():
        item_path = f"{path}.{name}".lstrip(".")
        if name not in properties and extra is False:
            return item_path[:80], "is unknown"
        inner = properties.get(name, extra if isinstance(extra, Mapping) else {})
        problem = _problem(item, inner, item_path)
        if problem:
            return problem
    return None


def require_plain(value: object) -> None:
    """Only finite JSON values and plain texts, and no nesting bombs; a text inside a plan may have lines."""
    _require_plain(value, 0, [MAX_VALUES], lines=False)


def _require_plain(value: object, depth: int, left: list[int], *, lines: bool) -> None:
    left[0] -= 1
    good = depth <= _MAX_DEPTH and left[0] >= 0
    items: list[tuple[object, bool]] = []
    if isinstance(value, str):
        if not plain_text.plain(value, lines=lines):
            what = f"the text {plain_text.escaped(value[:80])!r} is not plain"
            expected = "characters that are seen as they are: no control or format characters, no half surrogates"
            remedy = "use the certificate as tacit wrote it"
            raise CertificateError(what, where="Certificate.from_json", expected=expected, remedy=remedy)
    elif isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, float):
        good = good and math.isfinite(value)
    elif isinstance(value, int):
        good = good and abs(value) < 10**300  # what a float holds
    elif isinstance(value, Mapping):
        items = [(name, False) for name in value]
        items += [(item, lines or name == "plan") for name, item in value.items()]
        good = good and all(isinstance(name, str) for name in value)
    elif isinstance(value, list | tuple):
        items = [(item, lines) for item in value]
    else:
        good = False
    if not good:
        what = "a value is no finite JSON value, is nested too deeply, or there are too many"
        expected = f"{MAX_VALUES:,} values of JSON at depth {_MAX_DEPTH} at most, no NaN, no infinity (write 'inf')"
        remedy = "use the certificate as tacit wrote it"
        raise CertificateError(what, where="Certificate.from_json", expected=expected, remedy=remedy)
    for item, in_lines in items:
        _require_plain(item, depth + 1, left, lines=in_lines)
