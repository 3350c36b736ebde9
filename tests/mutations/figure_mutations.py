"""Mistakes in figures that are stated, planted as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from tacit.methods.off_policy_evaluation import intervals
from tacit.methods.off_policy_evaluation.difference import Following
from tacit.privacy.accounting.events import Event
from tacit.privacy.certificate import markdown
from tacit.privacy.gradients import clipping

Plant = Callable[[pytest.MonkeyPatch], None]


def normal_tail(patch: pytest.MonkeyPatch) -> None:
    """A lower bound with room for the skewness of the studentised sum alone."""

    def excess(
        *, residual: Any, noise: Any, spread: Any, spread_noise: Any, below: Any, above: Any, **rest: Any
    ) -> Any:
        z, most = rest["z"], rest["population"] * above * below
        variance = np.minimum(np.maximum(spread, 0) + intervals.UPPER * spread_noise, np.maximum(most, 0))
        share = variance / np.maximum(variance + noise, 1e-300)
        skew = (2 * z**2 + 1) / 3 * np.where(residual > 0, below, above) * share
        distance = residual if rest["sides"] == "lower" else np.abs(residual)
        return distance - z * np.sqrt(variance + noise) - skew

    patch.setattr(intervals, "_excess", excess)


def loose_power(patch: pytest.MonkeyPatch) -> None:
    """The best attack is stated from epsilon and delta alone."""
    missed = markdown.miss_rate

    def of_any_mechanism(record: Any, false_alarms: float) -> float:
        return missed({**record, "mu": "inf", "profile": []}, false_alarms)

    patch.setattr(markdown, "miss_rate", of_any_mechanism)


def upper_as_lower(patch: pytest.MonkeyPatch) -> None:
    """Privacy losses are rounded up where a lower bound on epsilon is asked for."""
    real = privacy_loss_distribution.from_gaussian_mechanism

    def pessimistic(*arguments: Any, **options: Any) -> Event:
        return real(*arguments, **{**options, "pessimistic_estimate": True})

    patch.setattr(privacy_loss_distribution, "from_gaussian_mechanism", pessimistic)


def sums_in_one_level(patch: pytest.MonkeyPatch) -> None:
    """Blocks are added without what is rounded away of them."""

    def add_to(total: np.ndarray, lost: np.ndarray, block: np.ndarray) -> None:
        total += block

    patch.setattr(clipping, "add_compensated", add_to)


def differences_cut_below_too(patch: pytest.MonkeyPatch) -> None:
    """A cut so small that it takes away what episodes of small weight speak against the policy."""
    patch.setattr(Following, "clip", lambda self, spec, problem, most: 0.3)


FIGURES: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("normal tail for rare scores", normal_tail, ("rare_scores_are_covered",)),
    ("sums in one level", sums_in_one_level, ("long_sums_lose_nothing",)),
    ("power of any mechanism", loose_power, ("figures_of_sampled_plans",)),
    ("differences cut below too", differences_cut_below_too, ("cut_differences_only_fall",)),
    ("upper bound as a lower one", upper_as_lower, ("figures_of_sampled_plans",)),
)
