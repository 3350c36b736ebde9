"""Frozen dataclasses of public values as JSON, and back by their type hints: the only reader of plans and models."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

from tacit.errors import PlanError

T = TypeVar("T")

OPTIONAL = {"optional": True}
"""Metadata of a field that JSON may leave out, and leaves out while it is None."""

INLINE = "inline"
"""In the metadata of a field of a dataclass or None, that class: its fields stand among the owner's, all or none."""


@dataclasses.dataclass(frozen=True)
class Kinds:
    """Classes of a field whose type is a protocol: `Annotated[Features, Kinds(Scaled, OneHot)]`."""

    classes: tuple[type, ...]

    def __init__(self, *classes: type) -> None:
        object.__setattr__(self, "classes", classes)


class Json:
    """Base of frozen dataclasses that are written as JSON and read again."""

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values; `from_json` gives back an equal object."""
        return cast(dict[str, Any], to_json(self))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The object that `to_json` wrote.

        Raises:
            PlanError: a field is missing, unknown or of another type, or a value is out of range.
        """
        return from_json(cls, values)


def to_json(value: Any) -> Any:
    """Plain JSON values: dataclasses and mappings are objects, tuples and arrays lists, infinities "inf" and "-inf"."""
    if type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value)):  # nearly all, so first
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        entries: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if INLINE in field.metadata:  # not by its hints, which a class of a notebook's cannot resolve
                inner = dataclasses.fields(field.metadata[INLINE])
                entries |= {one.name: to_json(getattr(item, one.name, None)) for one in inner}
            elif item is not None or field.metadata != OPTIONAL:
                entries[field.name] = to_json(item)
        return entries
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(item) for item in value]
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def from_json(cls: type[T], values: Any) -> T:
    """The dataclass `cls` with these fields; those of its fields that are dataclasses are read likewise.

    Raises:
        PlanError: a field is missing, unknown or of another type, or a value is out of range.
    """
    try:
        return cast(T, _object(cls, values))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = "a field is missing or unknown"
        expected, remedy = "the fields that this version writes", "use the version of tacit that wrote it"
        raise PlanError(what, where=f"{cls.__name__}.from_json", expected=expected, remedy=remedy) from error


def needs_user_classes(cls: type, values: Mapping[str, Any], known: str = "") -> bool:
    """Whether no more keeps `from_json` from reading these fields than pieces that a user may have made.

    `known` is a field of which that is known already: any value may stand there where its type says so.

    Such a piece stands where the type is a protocol, which says what a class can do and not what it is made of.
    """
    hints, fields = _fields(cls)
    try:
        entries = _gather_inline(cls, values)
    except KeyError:
        return False
    needed = {name for name, field in fields.items() if field.metadata != OPTIONAL}
    if entries.keys() - fields.keys() or needed - entries.keys():
        return False
    if known and known not in hints:
        return False
    if known and not _may_be_user_class(hints[known]) and Any not in (hints[known], *get_args(hints[known])):
        return False
    own = bool(known)
    for name, value in entries.items():
        try:
            _value(hints[name], value)
        except (KeyError, TypeError, ValueError, AttributeError, PlanError):
            if not _may_be_user_class(hints[name]):
                return False
            own = True
    return own


def _may_be_user_class(hint: Any) -> bool:
    """Whether a type is a protocol, or holds one."""
    if getattr(hint, "_is_protocol", False):
        return True
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return any(map(_may_be_user_class, _fields(hint)[0].values()))
    return any(map(_may_be_user_class, get_args(hint)))


def read(hint: Any, value: Any) -> Any:
    """A JSON value as one of a type: of a dataclass, of a union of them, of a protocol whose `Kinds` are annotated.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, PlanError: it is none.
    """
    return _value(hint, value)


def _object(cls: Any, values: Any) -> Any:
    hints, fields = _fields(cls)
    entries = _gather_inline(cls, values)
    needed = {name for name, field in fields.items() if field.metadata != OPTIONAL}
    if entries.keys() - fields.keys() or needed - entries.keys():
        raise TypeError("unknown or missing fields")
    read = {name: _value(hints[name], value) for name, value in entries.items()}
    fixed = {name: read.pop(name) for name in entries if not fields[name].init}
    instance = cls(**read)
    if any(getattr(instance, name) != value for name, value in fixed.items()):
        raise ValueError("a fixed field differs")
    return instance


def _gather_inline(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a dataclass, those of its inline fields taken together."""
    entries = dict(values)
    for field in dataclasses.fields(cls):
        if INLINE in field.metadata:
            inner = {one.name: entries.pop(one.name) for one in dataclasses.fields(field.metadata[INLINE])}
            entries[field.name] = None if all(item is None for item in inner.values()) else inner
    return entries


@functools.cache
def _fields(cls: type) -> tuple[dict[str, Any], dict[str, dataclasses.Field[Any]]]:
    return get_type_hints(cls, include_extras=True), {field.name: field for field in dataclasses.fields(cls)}


def _value(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kinds = next((mark for mark in inner[1:] if isinstance(mark, Kinds)), None)
        if kinds is None:
            return _value(inner[0], value)
        return _read_union(kinds.classes, value)
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return None
        return _read_union(tuple(member for member in inner if member is not NoneType), value)
    if origin is Literal:
        if not any(type(value) is type(one) and value == one for one in inner):
            raise ValueError("none of the words")
        return value
    if origin is tuple:
        if isinstance(value, str | Mapping):
            raise TypeError("no list")
        types = [inner[0]] * len(value) if inner[1:] == (...,) else inner
        return tuple(_value(kind, item) for kind, item in zip(types, value, strict=True))
    if hint is np.ndarray or origin is np.ndarray:
        dtype = get_args(inner[1])[0] if len(inner) > 1 and get_args(inner[1]) else None
        return np.asarray(value, None if dtype is Any else dtype)
    return _read_plain(hint, origin, inner, value)


def _read_plain(hint: Any, origin: Any, inner: tuple[Any, ...], value: Any) -> Any:
    if hint is float:
        if isinstance(value, bool) or not (isinstance(value, int | float) or value in ("inf", "-inf")):
            raise TypeError("no number")
        return float(value) if isinstance(value, str) else value + 0.0 if isinstance(value, int) else value
    if hint in (int, bool, str, NoneType):
        if type(value) is not hint:
            raise TypeError("a value of another type")
        return value
    if is_typeddict(hint):
        hints, needed = get_type_hints(hint), _needed(hint)
        if not isinstance(value, Mapping) or not needed <= value.keys() <= hints.keys():
            raise TypeError("unknown or missing fields")
        return {name: _value(hints[name], item) for name, item in value.items()}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _value(inner[1], item) for key, item in value.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [_value(inner[0], item) for item in value]
    return _object(hint, value) if dataclasses.is_dataclass(hint) else value


def _needed(hint: Any) -> set[str]:
    # of a TypedDict, which does not know itself what is `NotRequired` where its hints are strings
    hints = get_type_hints(hint, include_extras=True)
    return {name for name, one in hints.items() if get_origin(one) is not NotRequired}


def kinds_of(cls: Any) -> tuple[str, ...]:
    """The words of the field `kind` of a dataclass, by which it is told from others in JSON; none where it has none."""
    return get_args(_fields(cast(type, cls))[0].get("kind")) if dataclasses.is_dataclass(cls) else ()


def _read_union(types: tuple[Any, ...], value: Any) -> Any:
    """The value as the first of the types that it fits; of those of its own `kind`, where it says one."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if isinstance(kind, str):
        types = tuple(one for one in types if kind in kinds_of(one)) or types
    failed: Exception | None = None
    for one in types:
        try:
            return _value(one, value)
        except (KeyError, TypeError, ValueError, AttributeError, PlanError) as error:
            if failed is None or isinstance(error, PlanError):
                failed = error
    raise failed or TypeError("no type")


def schema_of(hint: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of the values that `read` takes for this type; that of each dataclass is added to `defs`.

    It says which fields there are and of which type. Ranges, and what fields have to do with each other, are checked
    by the classes themselves.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kinds = next((mark.classes for mark in inner[1:] if isinstance(mark, Kinds)), None)
        return schema_of(inner[0], defs) if kinds is None else {"anyOf": [schema_of(one, defs) for one in kinds]}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(one, defs) for one in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if hint is float:
        return {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}]}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is tuple and inner[1:] != (...,):
        each = [schema_of(one, defs) for one in inner]
        return {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return {"type": "array", "items": schema_of(inner[0], defs)}
    if dataclasses.is_dataclass(hint):
        hints, fields = _fields(cast(type, hint))
        name = cast(type, hint).__name__
        if name not in defs:
            defs[name] = {}
            needed = [field for field, it in fields.items() if it.metadata != OPTIONAL]
            defs[name] |= _object_schema({field: schema_of(hints[field], defs) for field in fields}, needed)
        return {"$ref": f"#/$defs/{name}"}
    if is_typeddict(hint):
        hints = get_type_hints(hint)
        needed = [name for name in hints if name in _needed(hint)]
        return _object_schema({name: schema_of(one, defs) for name, one in hints.items()}, needed)
    return {"type": "object"} if isinstance(origin, type) and issubclass(origin, Mapping) else {}


_PLAIN = {int: "integer", bool: "boolean", str: "string", NoneType: "null"}


def _object_schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
