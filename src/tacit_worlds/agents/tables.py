"""Tables that offline agents learn from, checked and standardised."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import DataError, PlanError

__all__ = [
    "COUNT",
    "DISCOUNT",
    "INSIDE",
    "NOT_NEGATIVE",
    "POSITIVE",
    "SHARE",
    "TWO",
    "Columns",
    "Limit",
    "Table",
    "in_range",
]

Columns = Mapping[str, npt.NDArray[Any]]


Limit = tuple[str, Callable[[float], bool]]
"""What a number must be, in words, and whether it is."""

COUNT: Limit = ("a whole number of at least 1", lambda value: value >= 1 and value == int(value))
TWO: Limit = ("a whole number of at least 2", lambda value: value >= 2 and value == int(value))
POSITIVE: Limit = ("a finite number above 0", lambda value: 0.0 < value < math.inf)
NOT_NEGATIVE: Limit = ("a finite number of at least 0", lambda value: 0.0 <= value < math.inf)
DISCOUNT: Limit = ("a number in [0, 1)", lambda value: 0.0 <= value < 1.0)
SHARE: Limit = ("a number in (0, 1]", lambda value: 0.0 < value <= 1.0)
INSIDE: Limit = ("a number in (0, 1)", lambda value: 0.0 < value < 1.0)


def in_range(config: object, **limits: Limit) -> None:
    """Refuse the first field of `config` that is outside its limit."""
    for name, (words, sound) in limits.items():
        value = getattr(config, name)
        if not isinstance(value, numbers.Real) or not math.isfinite(value) or not sound(float(value)):
            what = f"{name} is {value!r}"
            raise PlanError(what, where=type(config).__name__, expected=words, remedy=f"choose another {name}")


@dataclass(frozen=True)
class Table:
    """A table's rows as one tensor [T, d + d_a + 1 + d + 1], standardised, and what standardised it."""

    rows: Tensor
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    action: int

    @classmethod
    def of(cls, columns: Columns, device: torch.device, where: str) -> Self:
        arrays = {
            name: np.asarray(columns.get(name, ()))
            for name in ("observations", "actions", "rewards", "next_observations", "terminations")
        }
        if arrays["actions"].size and arrays["actions"].dtype.kind in "biu":
            what = "the actions are whole numbers, of a discrete space"
            remedy = "train a discrete agent instead (tacit.agents.discrete_offline)"
            raise DataError(what, where=where, expected="continuous actions [T, d_a] in [-1, 1]", remedy=remedy)
        if wrong := _wrong(arrays):
            raise DataError(
                wrong,
                where=where,
                expected="observations [T, d], actions [T, d_a] in [-1, 1], rewards [T], next_observations [T, d], "
                "terminations [T]",
                remedy="pass the columns of one Trajectories with continuous observations and actions",
            )
        s, a, r, s_next, end = (column.astype(np.float32, copy=False) for column in arrays.values())
        mean, scale = s.mean(axis=0, dtype=np.float64), _scale(s)
        level = 0.0 if end.any() else r.mean(dtype=np.float64)
        table = np.concatenate(
            [(s - mean) / scale, a, ((r - level) / _scale(r))[:, None], (s_next - mean) / scale, 1.0 - end[:, None]],
            axis=1,
            dtype=np.float32,
        )
        return cls(torch.from_numpy(table).to(device), mean.astype(np.float32), scale.astype(np.float32), a.shape[1])


def _wrong(columns: Columns) -> str | None:
    """What is wrong with the first column that cannot be learned from."""
    for name, column in columns.items():
        flat = name in ("rewards", "terminations")
        if not column.size:
            return f"{name} is missing or empty"
        if column.dtype.kind not in "biuf":
            return f"{name} is no column of numbers"
        if column.ndim != (1 if flat else 2):
            return f"{name} has {column.ndim} axes and not {1 if flat else 2}"
        with np.errstate(over="ignore"):
            held = np.isfinite(column.astype(np.float32, copy=False)).all()
        if not held:
            return f"{name} has a value that is NaN, infinite or above what float32 holds"
    rows = len(columns["rewards"])
    for name, column in columns.items():
        if len(column) != rows:
            return f"{name} has {len(column):,} rows, and there are {rows:,} rewards"
    if columns["next_observations"].shape != columns["observations"].shape:
        return "next_observations has another width than observations"
    if np.abs(columns["actions"]).max() > 1.0:
        return "actions has a value outside [-1, 1]: scale the actions to it first"
    return None


def _scale(column: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Standard deviations over the rows; 1 for a constant column, which another value may meet later."""
    spread = np.asarray(column.std(axis=0, dtype=np.float64))
    floor = 1e-6 * (1.0 + np.abs(column.mean(axis=0, dtype=np.float64)))
    return np.where(spread > floor, spread, 1.0) + 1e-6
