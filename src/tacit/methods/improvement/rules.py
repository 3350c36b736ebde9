"""A policy in a few rules: a small tree of what it does at likely visits (post-processing, which costs no privacy).

Likely visits are public points: each column is normal with the mean and spread of the noisy look, within its public
bounds. A split is the one after which the commonest action of each side is right for most points, by their entropy
(ID3, Quinlan 1986). Points follow no private row, and columns are drawn one by one: shares of visits are rough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.memory import MEAN, NOW
from tacit.data.spec import Box, PublicSpec
from tacit.methods.improvement.algorithm import Improvement

POINTS, CUTS, DEPTH = 4_000, 9, 3
"""Public points, thresholds of a column that are tried, and conditions of a rule at most."""
LEAST_GAIN, LEAST_SHARE = 0.05, 0.02
"""Bits of entropy a point that a split has to save, and the least share of the points in a rule."""
Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """Where all conditions hold, the policy mostly takes an action.

    Args:
        conditions: (column, whether at least, threshold in the records' unit); none where one rule says all.
        action: its number.
        share: of the points, where the conditions hold.
        agreement: share of these where the policy takes the action.
    """

    conditions: tuple[tuple[int, bool, float], ...]
    action: int
    share: float
    agreement: float


def find_rules(value: Improvement, spec: PublicSpec) -> tuple[Rule, ...]:
    """What a released policy does, in at most eight rules.

    Args:
        value: the release.
        spec: public bounds of the columns.
    """
    assert isinstance(spec.observation, Box)
    low, high = np.array(spec.observation.low), np.array(spec.observation.high)
    columns = list(value.plan.columns)
    generator = np.random.default_rng(0)
    points = np.tile((low + high) / 2, (POINTS, 1))
    points[:, columns] = value.scales.centre + value.scales.spread * generator.standard_normal((POINTS, len(columns)))
    points = np.clip(points, low, high)
    actions = value.actor().predict(points.astype(np.float32), deterministic=True)[0]
    return _grow(points, np.asarray(actions, np.int64), columns, (), POINTS)


def _grow(
    points: Float64,
    actions: NDArray[np.int64],
    columns: list[int],
    conditions: tuple[tuple[int, bool, float], ...],
    all_points: int,
) -> tuple[Rule, ...]:
    counts = np.bincount(actions)
    leaf = (Rule(conditions, int(counts.argmax()), len(actions) / all_points, float(counts.max() / len(actions))),)
    best, split = LEAST_GAIN * all_points, None
    if len(conditions) < DEPTH:
        for column in columns:
            for cut in np.unique(np.quantile(points[:, column], np.arange(1, CUTS + 1) / (CUTS + 1))):
                above = points[:, column] >= cut
                if min(above.sum(), (~above).sum()) < LEAST_SHARE * all_points:
                    continue
                saved = _total_bits(actions) - _total_bits(actions[above]) - _total_bits(actions[~above])
                if saved > best:
                    best, split = saved, (column, float(cut))
    if split is None:
        return leaf
    column, cut = split
    above = points[:, column] >= cut
    rules = tuple(
        rule
        for side, inside in ((True, above), (False, ~above))
        for rule in _grow(points[inside], actions[inside], columns, (*conditions, (column, side, cut)), all_points)
    )
    return leaf if len({rule.action for rule in rules}) == 1 else rules


def _total_bits(actions: NDArray[np.int64]) -> float:
    counts = np.bincount(actions)
    counts = counts[counts > 0]
    return float(-(counts * np.log2(counts / counts.sum())).sum())


def describe_rule(rule: Rule, spec: PublicSpec, rates: Sequence[float]) -> str:
    """A rule's conditions in words, with the columns' names and what of their course is meant.

    Args:
        rule: whose.
        spec: names of columns.
        rates: of the policy's memory, one for each column.
    """
    names, words = spec.names("observations"), []
    for column, at_least, cut in rule.conditions:
        rate = rates[column]
        kept = "" if rate == NOW else "mean of " if rate == MEAN else "recent "
        words.append(f"{kept}{names[column]} {'at least' if at_least else 'below'} {cut:.3g}")
    return ", ".join(words) or "always"
