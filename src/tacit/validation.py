"""One way to refuse a public parameter that is out of range."""

from __future__ import annotations

import math

from tacit.errors import PlanError


def require_valid(name: str, value: object, ok: bool, expected: str) -> None:
    """Raise a PlanError that names a public parameter unless `ok`.

    Args:
        name: of the parameter.
        value: of the parameter; the error shows it, so that it must not depend on a record.
        ok: whether the value is within its range.
        expected: the range in words.

    Raises:
        PlanError: the value is out of its range.
    """
    if not ok:
        raise PlanError(f"{name} is {value!r}", where="plan", expected=expected, remedy=f"choose another {name}")


def require_whole(minimum: int = 1, /, **values: int) -> None:
    """Raise a PlanError unless every value is a whole number >= `least`."""
    for name, value in values.items():
        require_valid(name, value, type(value) is int and value >= minimum, f"a whole number >= {minimum}")


def require_positive(**values: float) -> None:
    """Raise a PlanError unless every value is finite and > 0."""
    for name, value in values.items():
        require_valid(name, value, math.isfinite(value) and value > 0, "a finite number > 0")


def require_fraction(**values: float) -> None:
    """Raise a PlanError unless every value is in [0, 1)."""
    for name, value in values.items():
        require_valid(name, value, 0 <= value < 1, "a number in [0, 1)")
