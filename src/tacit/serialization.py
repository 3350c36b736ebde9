"""Frozen dataclasses of public values as JSON, and back by their type hints: the only reader of plans and models."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from tacit.errors import PlanError
from tacit.parameters import current

T = TypeVar("T")

LATER = {"later": True}
"""Metadata of a field that came with a later version: while it is None, it is left out of the JSON."""

INLINE = {"inline": True}
"""Metadata of a field that is a dataclass or None, whose own fields stand among those of its owner, all or none."""


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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        entries: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if field.metadata == INLINE:
                entries |= {name: to_json(getattr(item, name, None)) for name in _inline(type(value), field.name)}
            elif item is not None or field.metadata != LATER:
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


def holds_ones_own(cls: type, values: Mapping[str, Any]) -> bool:
    """Whether no more keeps `from_json` from reading these fields than pieces that a user may have made.

    Such a piece stands where the type is a protocol, which says what a class can do and not what it is made of.
    """
    hints, fields = _fields(cls)
    entries, own = _gathered(cls, current(values, fields)), False
    needed = {name for name, field in fields.items() if field.metadata != LATER}
    if entries.keys() - fields.keys() or needed - entries.keys():
        return False
    for name, value in entries.items():
        try:
            _value(hints[name], value)
        except (KeyError, TypeError, ValueError, AttributeError, PlanError):
            if not _may_be_ones_own(hints[name]):
                return False
            own = True
    return own


def _may_be_ones_own(hint: Any) -> bool:
    """Whether a type is a protocol, or holds one."""
    if getattr(hint, "_is_protocol", False):
        return True
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return any(map(_may_be_ones_own, _fields(hint)[0].values()))
    return any(map(_may_be_ones_own, get_args(hint)))


def read(hint: Any, value: Any) -> Any:
    """A JSON value as one of a type: of a dataclass, of a union of them, of a protocol whose `Kinds` are annotated.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, PlanError: it is none.
    """
    return _value(hint, value)


def _object(cls: Any, values: Any) -> Any:
    hints, fields = _fields(cls)
    entries = _gathered(cls, current(values, fields))
    needed = {name for name, field in fields.items() if field.metadata != LATER}
    if entries.keys() - fields.keys() or needed - entries.keys():
        raise TypeError("unknown or missing fields")
    read = {name: _value(hints[name], value) for name, value in entries.items()}
    fixed = {name: read.pop(name) for name in entries if not fields[name].init}
    instance = cls(**read)
    if any(getattr(instance, name) != value for name, value in fixed.items()):
        raise ValueError("a fixed field differs")
    return instance


def _gathered(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a dataclass, those of its inline fields taken together."""
    entries = dict(values)
    for field in dataclasses.fields(cls):
        if field.metadata == INLINE:
            inner = {name: entries.pop(name) for name in _inline(cls, field.name)}
            entries[field.name] = None if all(item is None for item in inner.values()) else inner
    return entries


@functools.cache
def _inline(cls: type, name: str) -> tuple[str, ...]:
    """The names of the fields of an inline field."""
    kind = next(kind for kind in get_args(_fields(cls)[0][name]) if kind is not NoneType)
    return tuple(field.name for field in dataclasses.fields(kind))


@functools.cache
def _fields(cls: type) -> tuple[dict[str, Any], dict[str, dataclasses.Field[Any]]]:
    """Types of a dataclass's fields and the fields, by name."""
    return get_type_hints(cls, include_extras=True), {field.name: field for field in dataclasses.fields(cls)}


def _value(hint: Any, value: Any) -> Any:
    """A JSON value as one of the type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kinds = next((mark for mark in inner[1:] if isinstance(mark, Kinds)), None)
        if kinds is None:
            return _value(inner[0], value)
        return _chosen(kinds.classes, value)
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return None
        return _chosen(tuple(member for member in inner if member is not NoneType), value)
    if origin is Literal:
        if value not in inner:
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
    return _plain(hint, origin, inner, value)


def _plain(hint: Any, origin: Any, inner: tuple[Any, ...], value: Any) -> Any:
    if hint is float:
        if isinstance(value, bool) or not (isinstance(value, int | float) or value in ("inf", "-inf")):
            raise TypeError("no number")
        return float(value) if isinstance(value, str) else value + 0.0 if isinstance(value, int) else value
    if hint in (int, bool, str, NoneType):
        if type(value) is not hint:
            raise TypeError("a value of another type")
        return value
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _value(inner[1], item) for key, item in value.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [_value(inner[0], item) for item in value]
    return _object(hint, value) if dataclasses.is_dataclass(hint) else value


def _chosen(types: tuple[Any, ...], value: Any) -> Any:
    """The value as the first of the types that it fits."""
    failed: Exception | None = None
    for kind in types:
        try:
            return _value(kind, value)
        except (KeyError, TypeError, ValueError, AttributeError, PlanError) as error:
            if failed is None or isinstance(error, PlanError):
                failed = error
    raise failed or TypeError("no type")
