"""What the simulators with physical parameters share: the check of these parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tacit.errors import DataError

__all__ = ["require"]


def require(where: str, positive: Mapping[str, float], nonnegative: Mapping[str, float] | None = None) -> None:
    """Refuse physical parameters that are out of range.

    Args:
        where: the simulator's name.
        positive: names and values that must be finite and above 0.
        nonnegative: those that may be 0, too.

    Raises:
        DataError: one of them is out of range.
    """
    for values, least, words in ((positive, 0.0, "> 0"), (nonnegative or {}, -math.ulp(0.0), ">= 0")):
        for name, value in values.items():
            if not (math.isfinite(value) and value > least):
                raise DataError(
                    f"{name} is {value!r}",
                    where=where,
                    expected=f"a finite number {words}",
                    remedy=f"choose another {name}, or leave it out for the usual one",
                )
