"""Reading plans that `privacy.plan.public_fields` wrote: what all plans of synthesis have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tacit.errors import PlanError
from tacit.units import Unit


@contextmanager
def reading(plan: str) -> Iterator[None]:
    """Fields that are not those of the plan of this name end in one sentence.

    Raises:
        PlanError: a field is missing or unknown.
    """
    try:
        yield
    except (KeyError, TypeError) as error:
        raise PlanError(
            "a field is missing or unknown",
            where=f"{plan}.from_json",
            expected="the fields of this version's plan",
            remedy="use the version of tacit that wrote it",
        ) from error


def restored(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, with the unit and its epsilon (certificates write "inf" for infinity) as they were."""
    if fields["unit"] is None:
        return dict(fields)
    return {**fields, "unit": Unit(**fields["unit"]), "epsilon": float(fields["epsilon"])}
