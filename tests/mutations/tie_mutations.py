"""Mistakes in what is decided on private rows, planted as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit import rowwise

Plant = Callable[[pytest.MonkeyPatch], None]


def decided_by_the_batch(patch: pytest.MonkeyPatch) -> None:
    """A product as BLAS may round it: the last rows of an odd batch add up some columns in another order."""

    def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        result: Any = x @ w
        last = len(x) - len(x) % 4
        result[last:, 1::2] = np.cumsum(x[last:, ::-1, None] * w[::-1, 1::2], axis=1)[:, -1]
        return np.asarray(result)

    patch.setattr(rowwise, "product", product)


TIES: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (("decided by the batch", decided_by_the_batch, ("ties_stay",)),)
