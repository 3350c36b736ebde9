"""A report as JSON values, so that its page can be made again without the rows that it was measured on."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from tacit.errors import FileError, TacitError
from tacit.evaluation.report.content import Report
from tacit.evaluation.report.evaluation import EvaluationReport
from tacit.evaluation.report.experts import ExpertsReport
from tacit.evaluation.report.learning import PolicyReport
from tacit.evaluation.report.movement import MovementReport

AnyReport = Report | EvaluationReport | PolicyReport | ExpertsReport | MovementReport
Kind = type[Report] | type[EvaluationReport] | type[PolicyReport] | type[ExpertsReport] | type[MovementReport]


def to_json(report: AnyReport) -> dict[str, Any]:
    """Every field but the certificate, which has a file of its own."""
    return {name: _plain(getattr(report, name)) for name in _stored(type(report))}


def from_json(kind: Kind, value: Mapping[str, Any], certificate: Mapping[str, Any]) -> AnyReport:
    """The report of this kind that `to_json` wrote, with its certificate.

    Raises:
        FileError: a field is missing, unknown or of another kind.
    """
    try:
        hints, names = get_type_hints(kind), _stored(kind)
        if set(value) != set(names):
            raise ValueError
        return kind(certificate=certificate, **{name: _built(hints[name], value[name]) for name in names})
    except (TypeError, ValueError, KeyError, TacitError):
        raise FileError(
            "the stored report is damaged or of another version",
            where="report",
            expected="run.json as this version of tacit wrote it",
            remedy="run it again, or use the version that wrote it",
        ) from None


def _stored(kind: Kind) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.name != "certificate"]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and math.isnan(plain) else plain  # JSON has no such number


def _built(kind: Any, value: Any) -> Any:
    """The value of a field of this type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _one_of([argument for argument in arguments if argument is not NoneType], value)
    if origin is np.ndarray:
        return np.asarray(value, dtype=get_args(arguments[1])[0])  # None is not a number, as it was
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError
        each = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
        return tuple(_built(item, part) for item, part in zip(each, value, strict=True))
    if origin is Literal:
        if value not in arguments:
            raise ValueError
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        if not isinstance(value, dict) or set(value) != set(hints):
            raise TypeError
        return kind(**{name: _built(hint, value[name]) for name, hint in hints.items()})
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError
    return value


def _one_of(kinds: Sequence[Any], value: Any) -> Any:
    """The value as the first of these types that it fits."""
    if value is None:
        return None
    for kind in kinds[:-1]:
        with contextlib.suppress(TypeError, ValueError):
            return _built(kind, value)
    return _built(kinds[-1], value)
