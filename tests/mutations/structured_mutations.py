"""Mistakes in the synthesis from structured tables, planted as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.methods.synthesis.structured import StructuredPlan, algorithm
from tacit.methods.synthesis.structured.guides import GuideMeans

Plant = Callable[[pytest.MonkeyPatch], None]


def means_begin_with_private_rows(patch: pytest.MonkeyPatch) -> None:
    """The means of guides begin with those of the private rows."""
    seen: list[float] = []
    real = algorithm.GuideCounts.cells

    def noting(self: Any, rows: Any, state: None) -> Any:
        seen.append(float(np.mean(rows["actions"])))
        return real(self, rows, state)

    def private(self: GuideMeans, counts: Any, deviation: float) -> Any:
        return np.full(len(self.root), seen[-1] if seen else 0.0)

    patch.setattr(algorithm.GuideCounts, "cells", noting)
    patch.setattr(GuideMeans, "means", private)


def copies_are_next_states(patch: pytest.MonkeyPatch) -> None:
    """Rows whose next observation is their own copy are learned from, as if no action had an effect."""
    patch.setattr(StructuredPlan, "learns_transitions", False)


STRUCTURED: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("means begin with private rows", means_begin_with_private_rows, ("steps_are_of_the_sums_alone",)),
    ("copies are next states", copies_are_next_states, ("steps_have_next_states",)),
)
