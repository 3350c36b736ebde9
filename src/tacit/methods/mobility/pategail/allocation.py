"""How a round's budget is split among what is asked in it: public factors of the answer's coordinates.

Everybody's answer is multiplied by w before it is clipped, and the server divides the noisy mean by w: coordinate i
gets noise of scale 1 / w_i. With sum w^2 = B the norm of B rewards in [-1/2, 1/2] stays at most sqrt(B) / 2, so every
split of a round's budget costs the same, however it was chosen: the guarantee does not depend on this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError

Array = NDArray[Any]
Float64 = NDArray[np.float64]

Allocation = Literal["uniform", "paper", "utility", "own"]
"""Equal; less budget for what looked real in the round before; by what a reward moves the policy; the caller's."""

Allocate = Callable[[Float64, Float64], Array]
"""The caller's own: (pilot [B], share [B]) of public values -> positive numbers [B]."""

LEAST = 0.05
"""delta' of the paper's weight 1 - R + delta'."""
MOST_RATIO = 10.0
"""The largest weight over the smallest."""


def weights(allocation: Allocation, pilot: Float64, share: Float64, allocate: Allocate | None = None) -> Float64:
    """Positive weights [B] with sum of squares B and no two further apart than `MOST_RATIO`.

    Args:
        allocation: which rule. "paper" takes 1 - R + delta' with R = pilot + 1/2 in [0, 1]. "utility" is the best split
            of Gaussian noise, sum of (share_i sigma_i)^2 least: sigma_i^2 ~ 1 / share_i.
        pilot: rewards [B] in [-1/2, 1/2] that were released before: of the round before, at no cost.
        share: how much of the rollouts what is asked makes up, [B].
        allocate: the caller's rule, for "own".

    Raises:
        PlanError: the caller's rule gave something else than positive finite numbers [B].
    """
    if allocation == "own":
        assert allocate is not None
        found = np.asarray(allocate(pilot.copy(), share.copy()), np.float64)
        if found.shape != pilot.shape or not np.isfinite(found).all() or not (found > 0).all():
            raise PlanError(
                "the allocation is not positive numbers, one for each thing that is asked",
                where="pategail.fit",
                expected=f"an array of shape {pilot.shape}, finite and above 0",
                remedy="return such an array from allocate=",
            )
    elif allocation == "paper":
        found = 1.0 - np.clip(pilot + 0.5, 0.0, 1.0) + LEAST
    elif allocation == "utility":
        found = np.sqrt(share)
    else:
        found = np.ones(len(pilot))
    most = float(found.max(initial=0.0))
    found = np.maximum(found / most, 1.0 / MOST_RATIO) if most > 0 else np.ones(len(found))
    return np.asarray(found * math.sqrt(len(found)) / np.linalg.norm(found))
