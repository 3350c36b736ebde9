"""One way to refuse a public parameter that is out of range."""

from __future__ import annotations

from tacit.errors import PlanError


def check(name: str, value: object, ok: bool, expected: str) -> None:
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
