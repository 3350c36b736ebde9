"""DP-LSL: least squares over each unit's first-visit returns with a ridge, and smooth sensitivity (on-policy).

Balle, Gomrokchi and Precup (arXiv:1603.02010). The mechanism is in `privacy/mechanisms/smooth_sensitivity.py`, its
proof in `proofs/smooth_sensitivity.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacit.methods.off_policy_evaluation.baselines.first_visits import FirstVisitPlan, evaluate
from tacit.privacy.mechanisms.smooth_sensitivity import RegularisedLoss

__all__ = ["Lsl", "evaluate"]


@dataclass(frozen=True, kw_only=True)
class Lsl(FirstVisitPlan):
    """DP-LSL's public parameters (see `FirstVisitPlan`)."""

    method: ClassVar[str] = "DP-LSL"

    ridge: float | None = None
    """lambda; None takes the population. The published constants need more than the squared norm of the matrix of all
    states' features."""

    def mechanism(self) -> RegularisedLoss:
        """The release."""
        assert self.unit is not None
        return RegularisedLoss(**self._shared(), ridge=float(self.unit.size) if self.ridge is None else self.ridge)
