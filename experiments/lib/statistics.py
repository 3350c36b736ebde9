"""Scores of a few runs in one figure: the interquartile mean and its stratified bootstrap interval.

Source: R. Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (arXiv:2108.13264):
the mean of the middle half of all scores hardly depends on one lucky run and wastes less of them than the median; its
interval comes from runs drawn again, task by task.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import special

from tacit.errors import DataError

Floats = npt.NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Estimate:
    """A figure and its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def iqm(scores: npt.ArrayLike) -> float:
    """Interquartile mean of the scores of all runs (and tasks): of n scores floor(n / 4) are left out at either end."""
    return float(_interquartile_means(_table(scores)[None])[0])


def bootstrap(scores: npt.ArrayLike, *, confidence: float = 0.95, draws: int = 2_000, seed: int = 0) -> Estimate:
    """The interquartile mean of runs, with percentiles of that of runs drawn again with replacement.

    Args:
        scores: [runs], or [runs, tasks]: each task's runs are drawn on their own.
        confidence: of the interval, two-sided, in (0, 1).
        draws: how often runs are drawn again.
        seed: of the draws.

    Returns:
        The estimate. With few runs its interval is too short rather than too long, and a single run's has no width.

    Raises:
        DataError: there is no score, or one that is not finite, or the confidence is out of range.
    """
    runs = _table(scores)
    return _estimate(iqm(runs), _resample(runs, draws, np.random.default_rng(seed)), confidence)


def ratio(
    scores: npt.ArrayLike, reference: npt.ArrayLike, *, confidence: float = 0.95, draws: int = 2_000, seed: int = 0
) -> Estimate:
    """The interquartile mean of some runs over that of others, such as returns on synthetic over those on real data:
    [runs] or [runs, tasks] each, drawn again independently. Raises DataError as `bootstrap`; or where the reference's
    mean, or that of a draw, is not above 0."""
    generator = np.random.default_rng(seed)
    above, below = _table(scores), _table(reference)
    numerators = _resample(above, draws, generator)
    denominators = _resample(below, draws, generator)
    if min(iqm(below), denominators.min()) <= 0:
        raise _data_error("the reference is not above zero", "a reference whose scores are positive")
    return _estimate(iqm(above) / iqm(below), numerators / denominators, confidence)


def is_disjoint(one: Estimate, other: Estimate) -> bool:
    """Whether two intervals have no point in common."""
    return one.high < other.low or other.high < one.low


@dataclass(frozen=True)
class Comparison:
    """The mean of some runs less that of others."""

    difference: float  # of the means
    low: float  # low, high: Welch's interval of the difference, of this pair alone
    high: float
    p: float  # two-sided p-value, corrected for all pairs that were compared together
    error: float  # chance that the tests of all pairs say "above" or "below" of any pair whose means are equal

    @property
    def verdict(self) -> Literal["above", "below", "not apart"]:
        """What the test says of the first mean."""
        if self.p > self.error:
            return "not apart"
        return "above" if self.difference > 0 else "below"


def compare(pairs: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]], *, error: float = 0.05) -> dict[str, Comparison]:
    """Welch's tests of all pairs in both directions, with one correction for all of them (Welch 1947; Holm 1979).

    Args:
        pairs: [runs], or [runs, tasks] each, of at least two runs. A run is worth its mean over tasks, so that tasks
            that share a run's data count once.
        error: of all tests together, in (0, 1).

    Raises:
        DataError: a side has fewer than two runs or a score that is not finite, or the error is out of range.
    """
    if not 0 < error < 1:
        raise _data_error("the error is not between 0 and 1", "0 < error < 1, such as 0.05")
    results = {name: _welch(_table(one).mean(1), _table(other).mean(1), error) for name, (one, other) in pairs.items()}
    order = sorted(results, key=lambda name: results[name].p)
    adjusted = np.maximum.accumulate([(len(order) - i) * results[name].p for i, name in enumerate(order)])
    holm = dict(zip(order, np.minimum(adjusted, 1.0).tolist(), strict=True))
    return {name: replace(one, p=holm[name]) for name, one in results.items()}


def _welch(one: Floats, other: Floats, error: float) -> Comparison:
    if min(len(one), len(other)) < 2:
        raise _data_error("there are too few runs for a test", "at least two on each side")
    gap = float(one.mean() - other.mean())
    parts = [runs.var(ddof=1) / len(runs) for runs in (one, other)]
    deviation = math.sqrt(sum(parts))
    if not deviation:
        return Comparison(gap, gap, gap, float(gap == 0), error)
    freedom = sum(parts) ** 2 / sum(part**2 / (len(runs) - 1) for part, runs in zip(parts, (one, other), strict=True))
    half = deviation * special.stdtrit(freedom, 1 - error / 2)
    p = 2 * special.stdtr(freedom, -abs(gap) / deviation)
    return Comparison(gap, gap - float(half), gap + float(half), float(p), error)


def _resample(scores: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """[draws] interquartile means of runs drawn with replacement, each task's on its own."""
    runs, tasks = scores.shape
    return _interquartile_means(scores[generator.integers(runs, size=(draws, runs, tasks)), np.arange(tasks)])


def _interquartile_means(tables: Floats) -> Floats:
    """[N, runs, tasks] -> [N], the mean of each table's middle half."""
    ordered = np.sort(tables.reshape(len(tables), -1), axis=1)
    cut = ordered.shape[1] // 4
    return np.asarray(ordered[:, cut : ordered.shape[1] - cut].mean(axis=1))


def _estimate(value: float, again: Floats, confidence: float) -> Estimate:
    if not 0 < confidence < 1:
        raise _data_error("the confidence is not between 0 and 1", "0 < confidence < 1, such as 0.95")
    low, high = np.quantile(again, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(value, float(low), float(high))


def _table(scores: npt.ArrayLike) -> Floats:
    table = np.asarray(scores, np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.size == 0 or not np.isfinite(table).all():
        raise _data_error("the scores are not finite numbers [runs] or [runs, tasks]", "at least one finite score")
    return table


def _data_error(what: str, expected: str) -> DataError:
    return DataError(what, where="statistics", expected=expected, remedy="pass one score a run, all of them finite")
