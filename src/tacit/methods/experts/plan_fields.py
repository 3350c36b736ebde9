"""Reading plans that `privacy.plan.public_fields` wrote: what all plans of this method have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.errors import PlanError
from tacit.methods.experts.returns import ReturnWeight
from tacit.units import Unit


def restored(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with the unit, the weight and an infinite epsilon as they were.

    Raises:
        KeyError, TypeError, ValueError, PlanError: a field is missing or out of range.
    """
    values = dict(fields)
    if values["epsilon"] is not None:
        values["epsilon"] = float(values["epsilon"])  # certificates write "inf" for infinity
    for name, kind in (("weight", ReturnWeight), ("unit", Unit)):
        if values.get(name) is not None:
            values[name] = kind(**values[name])
    return values


def unreadable(plan: str) -> PlanError:
    """The error for fields that are not those of the plan of this name."""
    return PlanError(
        "a field is missing or unknown",
        where=f"{plan}.from_json",
        expected="the fields of this version's plan",
        remedy="use the version of tacit that wrote it",
    )
