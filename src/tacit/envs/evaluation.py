"""What evaluation asks of trained policies."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Policies"]


class Policies(Protocol):
    """K deterministic policies that act together, as the agents of `tacit.agents` that learn from tables do."""

    @property
    def members(self) -> int:
        """K."""

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Actions [K, N, d_a] for observations [K, N, d]."""
