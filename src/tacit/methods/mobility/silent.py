"""The control of every method: people who say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Silent:
    """A contribution that says nothing: the control in which a release is its noise alone, population and all.

    Args:
        contribution: whose place it takes.
    """

    contribution: Any

    @property
    def summary(self) -> Any:
        """That of the contribution, if it has one."""
        return getattr(self.contribution, "summary", None)

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: object = None) -> NDArray[np.float64]:
        """Zeros of the contribution's shape."""
        return np.zeros_like(np.asarray(self.contribution(rows, state), np.float64))
