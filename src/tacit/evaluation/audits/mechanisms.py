"""The mechanisms of a plan by themselves: its parts without its method, and the same with less noise.

An audit of them asks each part as loudly as its bounds allow. The plan is a method's with its default options, so that
a wrong rate, a unit that counts twice or too little noise in the parts that it is priced by shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.kinds import Selection
from tacit.privacy.mechanisms.marginals import Marginals
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.mechanisms.sums import Once
from tacit.privacy.vault import plan as plans


@dataclass(frozen=True, kw_only=True)
class Mechanisms(plans.PrivatePlan):
    """The mechanisms of a plan, without the method."""

    method: ClassVar[str] = "an audit of mechanisms"
    source: ClassVar[str] = "tacit"
    queries: tuple[Any, ...]

    def parts(self) -> tuple[Part, ...]:
        """As given."""
        return self.queries


def of_plan(plan: Any, change: Callable[[Any], Any] | None = None) -> Mechanisms:
    """The mechanisms of a method's calibrated plan, under its own promise."""
    parts = plan.parts() if change is None else tuple(change(part) for part in plan.parts())
    return Mechanisms(queries=parts, promise=plan.promise)


def fitted(part: Any, canaries: int) -> Any:
    """The part for canaries of one row each, of marginals with one column in which each of them has a bin."""
    # What a part costs does not depend on rows or columns.
    if isinstance(part, Marginals):
        bins = Axis("observations", 0, tuple((np.arange(canaries + 1) - 0.5).tolist()))
        return dataclasses.replace(part, axes=(bins,), rows_per_unit=1)
    return dataclasses.replace(part, rows_per_unit=1, horizon=1)


def with_noise(plan: Mechanisms, factor: float) -> Mechanisms:
    """The plan with so many times the noise in every part, at what that costs."""
    # Parts that are known by their epsilon alone get one divided by the factor.
    parts = tuple(_with_noise(part, factor) for part in plan.queries)
    return dataclasses.replace(plan, queries=parts).account(unit=plan.unit, delta=plan.delta)


def _with_noise(part: Any, factor: float) -> Any:
    if isinstance(part, Once):
        return Once(mechanism=_costlier(part.mechanism, factor))
    if isinstance(part, AboveThreshold):
        return _costlier(part, factor)
    if isinstance(part, Selection):
        return dataclasses.replace(part, candidates=tuple(_noisier(plan, factor) for plan in part.candidates))
    return _noisier(part, factor)


def _costlier(part: Any, factor: float) -> Any:
    return dataclasses.replace(part, epsilon=part.epsilon / factor)


def _noisier(part: Any, factor: float) -> Any:
    noisier = dataclasses.replace(part, noise_multiplier=factor * part.noise_multiplier)
    return noisier.account(unit=part.unit, delta=part.delta) if hasattr(part, "account") else noisier
