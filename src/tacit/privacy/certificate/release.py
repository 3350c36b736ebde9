"""A release: a value that left the vault, and the certificate that says what was promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tacit.privacy.certificate.certificate import Certificate

Value = TypeVar("Value")


@dataclass(frozen=True, repr=False)
class Release(Generic[Value]):
    """A public value with its certificate; anything computed from the value alone is free (post-processing).

    Args:
        value: what was learned.
        certificate: who was promised what, and how to recompute it.
    """

    value: Value
    certificate: Certificate

    def __repr__(self) -> str:
        return f"Release of {type(self.value).__name__}: {self.certificate.sentence}"
