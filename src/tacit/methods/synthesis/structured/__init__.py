"""Transitions from structured noisy tables: what is counted together is decided on public rows."""

from tacit.methods.synthesis.structured.algorithm import StructuredPlan, StructuredSynthesizer, fit
from tacit.methods.synthesis.structured.structure import (
    Structure,
    choose_structure,
    default_structure,
    public_means,
    split_worlds,
)

__all__ = [
    "Structure",
    "StructuredPlan",
    "StructuredSynthesizer",
    "choose_structure",
    "default_structure",
    "fit",
    "public_means",
    "split_worlds",
]
