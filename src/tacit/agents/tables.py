"""Tables that offline agents learn from, checked and standardised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import DataError, PlanError

__all__ = ["Columns", "Table", "in_range"]

Columns = Mapping[str, npt.NDArray[Any]]


def in_range(sound: bool, *, where: str, expected: str) -> None:
    """Refuse a hyper-parameter that is outside its range.

    Raises:
        PlanError: `sound` is false.
    """
    if not sound:
        raise PlanError(
            "a hyper-parameter is outside its range", where=where, expected=expected, remedy="correct the value"
        )


@dataclass(frozen=True)
class Table:
    """A table's rows as one tensor [T, d + d_a + 1 + d + 1], standardised, and what standardised it."""

    rows: Tensor
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    action: int

    @classmethod
    def of(cls, columns: Columns, device: torch.device, where: str) -> Self:
        given = {
            name: np.asarray(columns.get(name, ()))
            for name in ("observations", "actions", "rewards", "next_observations", "terminations")
        }
        if given["actions"].size and given["actions"].dtype.kind in "biu":
            raise DataError(
                "the actions are whole numbers, of a discrete space",
                where=where,
                expected="continuous actions [T, d_a] in [-1, 1]",
                remedy="train a discrete agent instead (tacit.agents.discrete_offline)",
            )
        s, a, r, s_next, end = (column.astype(np.float32, copy=False) for column in given.values())
        rows = len(r) if r.ndim else 0
        sound = (
            rows > 0
            and s.ndim == a.ndim == 2
            and r.shape == end.shape == (rows,)
            and len(s) == len(a) == rows
            and s_next.shape == s.shape
            and all(np.isfinite(column).all() for column in (s, a, r, s_next))
            and np.abs(a).max() <= 1.0
        )
        if not sound:
            raise DataError(
                "a column is missing, empty, of another shape, not finite, or an action is outside [-1, 1]",
                where=where,
                expected="observations [T, d], actions [T, d_a] in [-1, 1], rewards [T], next_observations [T, d], "
                "terminations [T]",
                remedy="pass the columns of one Trajectories with continuous observations and actions",
            )
        mean, scale = s.mean(axis=0, dtype=np.float64), _scale(s)
        level = 0.0 if end.any() else r.mean(dtype=np.float64)
        table = np.concatenate(
            [(s - mean) / scale, a, ((r - level) / _scale(r))[:, None], (s_next - mean) / scale, 1.0 - end[:, None]],
            axis=1,
            dtype=np.float32,
        )
        return cls(torch.from_numpy(table).to(device), mean.astype(np.float32), scale.astype(np.float32), a.shape[1])


def _scale(column: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Standard deviations over the rows; 1 for a constant column, which another value may meet later."""
    spread = np.asarray(column.std(axis=0, dtype=np.float64))
    floor = 1e-6 * (1.0 + np.abs(column.mean(axis=0, dtype=np.float64)))
    return np.where(spread > floor, spread, 1.0) + 1e-6
