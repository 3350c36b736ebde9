"""By which digest a ledger knows a policy again that was fixed, released or declared under it."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np

from tacit.errors import PlanError


def digest(*values: Any) -> str:
    """SHA-256 of all that makes up these values, fields and arrays, 16 hex digits; see `known_by_digest`."""
    return hashlib.sha256(repr(tuple(map(_plain, values))).encode()).hexdigest()[:16]


def known_by_digest(value: Any) -> bool:
    """Whether the digest tells such policies apart: not where it holds no more of a function or class than its name."""
    if hasattr(value, "function"):
        return False
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = type(value).__module__.partition(".")[0] == __name__.partition(".")[0]  # others may read what they like
        return own and all(known_by_digest(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, tuple):
        return all(map(known_by_digest, value))
    return value is None or isinstance(value, str | int | float | np.ndarray)


def acting(value: Any) -> Any | None:
    """What of a released value acts over discrete actions: a policy itself, or its layers; None where nothing does."""
    if not hasattr(value, "feed_forward"):
        return value if hasattr(value, "probabilities") else None
    try:
        return value.feed_forward()
    except PlanError:
        return None


def _plain(value: Any) -> object:
    """What makes up a value, arrays by their digest; of a class of the user's own only the name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, _plain(getattr(value, field.name))) for field in dataclasses.fields(value))
        return type(value).__qualname__, tuple(fields)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, tuple):
        return tuple(_plain(entry) for entry in value)
    return value if isinstance(value, str | int | float | bool | None) else type(value).__qualname__
