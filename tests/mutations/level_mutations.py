"""Mistakes in the level of values off-policy, planted as those of `mutations.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.methods.off_policy_evaluation import residual
from tacit.methods.off_policy_evaluation.residual import LevelVector, ResidualRegression

Plant = Callable[[pytest.MonkeyPatch], None]


def pair_without_its_clip(patch: pytest.MonkeyPatch) -> None:
    """The two numbers of a unit have no bounds of their own, so that the sum's clip leaves one of them alone."""
    sums = ResidualRegression.sums
    patch.setattr(
        ResidualRegression, "sums", lambda plan: tuple(dataclasses.replace(part, blocks=None) for part in sums(plan))
    )

    def unclipped(self: LevelVector, rows: Any, state: np.ndarray) -> np.ndarray:
        slopes, constants = rows["level"][:, :-1].astype(np.float64), rows["level"][:, -1]
        weights = slopes @ self.summary.bellman.features.constant(1.0)
        return np.asarray(np.stack([constants - slopes @ state, weights], axis=1) / self.scales)

    patch.setattr(LevelVector, "__call__", unclipped)


def charged_once(patch: pytest.MonkeyPatch) -> None:
    """The level is no part: after the rounds, too, it is released as the centre."""
    split, find = ResidualRegression._split, residual._find_level

    def without(self: ResidualRegression) -> dict[str, float]:
        fields = split(self)
        return {**fields, "round": fields["round"] + fields.pop("level", 0.0)}

    patch.setattr(ResidualRegression, "_split", without)
    patch.setattr(residual, "_find_level", lambda vault, run, part, *rest: find(vault, run, "centre", *rest))


def level_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """The level is a part, but the rounds keep its share."""
    split = ResidualRegression._split

    def free(self: ResidualRegression) -> dict[str, float]:
        fields = split(self)
        return {**fields, "round": fields["round"] + fields.get("level", 0.0)}

    patch.setattr(ResidualRegression, "_split", free)


LEVELS: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("a level's pair without its clip", pair_without_its_clip, ("levels_are_bounded",)),
    ("a level charged once", charged_once, ("levels_are_paid",)),
    ("a level for nothing", level_for_nothing, ("levels_are_paid",)),
)
