"""Mistakes in the synthesis of whole people, planted as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.methods.synthesis.people import algorithm, sums
from tacit.methods.synthesis.people.scheme import ONCE, Scheme

Plant = Callable[[pytest.MonkeyPatch], None]


def once_cells(scheme: Scheme) -> int:
    """Cells of the tables that count a person once; they come first."""
    nodes = [node for node in scheme.nodes if node.role in ONCE]
    return sum(scheme.size(node) * int(np.prod(scheme.shape(node))) for node in nodes)


def visits_without_weight(patch: pytest.MonkeyPatch) -> None:
    """Every visit counts as one, so that who comes often counts for more, and is cut."""
    real = sums.VisitTables.__call__

    def plain(self: Any, rows: Any, state: None) -> Any:
        vectors, begin = real(self, rows, state), once_cells(self.scheme)
        count = self.scheme.visits_of(rows).count
        vectors[:, begin:] *= np.sqrt(np.maximum(count, 1))[:, None]
        return vectors

    patch.setattr(sums.VisitTables, "__call__", plain)


def lengths_under_the_joint_clip(patch: pytest.MonkeyPatch) -> None:
    """What a person has once is scaled with her visits, so that who comes often has no sex and no length."""
    real = sums.VisitTables.__call__

    def scaled(self: Any, rows: Any, state: None) -> Any:
        vectors, begin = real(self, rows, state), once_cells(self.scheme)
        norms = np.linalg.norm(vectors[:, begin:], axis=1)
        vectors[:, :begin] *= np.minimum(1.0, 1.5 / np.maximum(norms, 1e-9))[:, None]
        return vectors

    patch.setattr(sums.VisitTables, "__call__", scaled)


def structure_by_the_records(patch: pytest.MonkeyPatch) -> None:
    """Tables are as fine as the true number of people allows."""
    seen = []
    real = sums.NumberShares.__call__
    read = algorithm.read_densities

    def counting(self: Any, rows: Any, state: None) -> Any:
        seen.append(int(rows["mask"].any(axis=1).sum()))
        return real(self, rows, state)

    patch.setattr(sums.NumberShares, "__call__", counting)
    patch.setattr(algorithm, "read_densities", lambda *args: (read(*args)[0], float(sum(seen))))


def moments_of_any_length(patch: pytest.MonkeyPatch) -> None:
    """A person's moments are not divided by their norm, so that one who comes often decides, or is cut."""
    real = np.linalg.norm

    def ones(vectors: Any, *args: Any, **options: Any) -> Any:
        return real(vectors, *args, **options) * 0 if options.get("keepdims") else real(vectors, *args, **options)

    patch.setattr(sums.np.linalg, "norm", ones)


PEOPLE: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("visits without their weight", visits_without_weight, ("people_count_once_and_by_the_root",)),
    ("lengths under the joint clip", lengths_under_the_joint_clip, ("people_count_once_and_by_the_root",)),
    ("structure chosen on private rows", structure_by_the_records, ("people_are_of_the_sums_alone",)),
    ("moments of any length", moments_of_any_length, ("moments_are_of_length_one",)),
)
