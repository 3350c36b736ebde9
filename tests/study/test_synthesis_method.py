"""Which method `--method auto` takes, by what is public."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tacit.data import Column, PublicSpec
from tacit.data.spec import Box, Discrete, space_of
from tacit.data.store import UnitKind
from tacit.study.synthesis_plans import choose_method
from tacit.study.synthesis_report import count_distinct

NAMED = PublicSpec(
    space_of(Column("pulse", low=30, high=220)),
    space_of(Column("drug", "category", labels=("none", "a"))),
    space_of(Column("relief", low=0, high=1)),
    "declared",
)

FORCE = space_of(Column("force", low=-1, high=1))
STEERED = dataclasses.replace(NAMED, action=FORCE)
AGED = space_of(Column("age", "integer", low=18, high=99, static=True), Column("pulse", low=30, high=220))
DOSED = dataclasses.replace(STEERED, observation=AGED)


def plane(numbers: int) -> PublicSpec:
    """Records of so many numbers without names."""
    return PublicSpec(Box((0,) * numbers, (1,) * numbers), Box((-1,), (1,)), Box((0,), (1,)), "declared")


@pytest.mark.parametrize(
    ("kind", "spec", "given", "method"),
    [
        ("id", NAMED, set(), "people"),
        ("id", NAMED, {"public"}, "privorl"),
        ("id", dataclasses.replace(NAMED, action=Discrete(3)), set(), "people"),
        ("id", DOSED, set(), "people"),
        ("id", STEERED, set(), "privorl"),
        ("id", plane(4), set(), "privorl"),
        ("transition", plane(4), set(), "privorl"),
        ("transition", plane(4), {"public"}, "structured"),
        ("transition", plane(8), {"public", "rows", "rows_per_unit"}, "structured"),
        ("transition", plane(9), {"public"}, "privorl"),
        ("transition", plane(4), {"public", "steps"}, "privorl"),
        ("episode", plane(4), {"public"}, "privorl"),
    ],
)
def test_the_default_method_follows_what_is_public(
    kind: UnitKind, spec: PublicSpec, given: set[str], method: str
) -> None:
    found, why = choose_method(kind, spec, given)
    assert found == method
    assert why


def test_rows_are_alike_where_all_columns_are() -> None:
    columns = {"observations": np.array([[0.0, 1], [0, 1], [0, 1], [2, 1]]), "rewards": np.array([1.0, 1, 2, 1])}
    assert count_distinct(columns) == 3
