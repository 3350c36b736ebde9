"""A report as JSON values, so that its page can be made again without the rows that it was measured on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from tacit import serialization
from tacit.errors import FileError, TacitError
from tacit.evaluation.report.blocks import PublicReport
from tacit.parameters import current

R = TypeVar("R", bound=PublicReport)


def to_json(report: PublicReport) -> dict[str, Any]:
    """Every field but the certificate, which has a file of its own."""
    return {name: _written(serialization.to_json(getattr(report, name))) for name in _stored(type(report))}


def from_json(kind: type[R], value: Mapping[str, Any], certificate: Mapping[str, Any]) -> R:
    """The report of this kind that `to_json` wrote, with its certificate.

    Raises:
        FileError: a field is missing, unknown or of another kind.
    """
    try:
        hints, names = get_type_hints(kind), _stored(kind)
        stored = current(value, names)
        if set(stored) != set(names):
            raise ValueError
        fields = {name: serialization.read(hints[name], stored[name]) for name in names}
        return kind(certificate=certificate, **fields)
    except (TypeError, ValueError, KeyError, AttributeError, TacitError):
        what = "the stored report is damaged or of another version"
        expected = "run.json as this version of tacit wrote it"
        remedy = "run it again, or use the version that wrote it"
        raise FileError(what, where="report", expected=expected, remedy=remedy) from None


def _stored(kind: type[PublicReport]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.name != "certificate"]


def _written(value: Any) -> Any:
    """None in place of what is not a number, which JSON has no word for; arrays read it as that."""
    if isinstance(value, dict):
        return {name: _written(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_written(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value
