"""Networks that measure: columns as standardised numbers, by the moments of one table, and a plain perceptron."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tacit.errors import DataError

Flat = Mapping[str, NDArray[np.generic]]
"""Scalar columns [T] by name, float32 or int64, as of `fidelity.flatten` and `neighbours.numbers`."""


@dataclass(frozen=True, eq=False)
class Features:
    """How each scalar column becomes numbers.

    Args:
        numbers: (mean, standard deviation) of each column of numbers, by name.
        values: [V] values of each discrete column, by name: it becomes V columns, 1 at its value and 0 elsewhere. A
            value that is not among them is 0 in all.
    """

    numbers: Mapping[str, tuple[float, float]]
    values: Mapping[str, NDArray[np.int64]]

    @classmethod
    def fit(cls, columns: Flat) -> Features:
        """The moments and values of a table; a constant column enters unscaled."""
        numbers = {
            name: (float(column.mean(dtype=np.float64)), float(column.std(dtype=np.float64)) or 1.0)
            for name, column in columns.items()
            if column.dtype == np.float32
        }
        values = {name: np.unique(column).astype(np.int64) for name, column in columns.items() if name not in numbers}
        return cls(numbers, values)

    @property
    def size(self) -> int:
        """D, the number of columns after the map."""
        return len(self.numbers) + sum(map(len, self.values.values()))

    def apply(self, columns: Flat) -> NDArray[np.float32]:
        """[T, D]: the columns of numbers, less their mean and over their deviation, then the discrete ones.

        Raises:
            DataError: the columns are not those of the table that was fitted.
        """
        number = {name for name, column in columns.items() if column.dtype == np.float32}
        if number != set(self.numbers) or set(columns) - number != set(self.values):
            raise DataError(
                "the tables have different columns",
                where="measure.Features",
                expected="the same columns of the same kinds in all tables",
                remedy="compare tables of one public specification",
            )
        parts: list[NDArray[np.generic]] = [
            ((columns[name].astype(np.float64) - center) / scale)[:, None]
            for name, (center, scale) in self.numbers.items()
        ]
        parts += [columns[name][:, None] == values for name, values in self.values.items()]
        return np.concatenate(parts, axis=1).astype(np.float32)


def perceptron(*sizes: int, seed: int) -> nn.Sequential:
    """Linear layers of these sizes with rectifiers in between; the weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [layer for ends in pairwise(sizes) for layer in (nn.Linear(*ends), nn.ReLU())]
        return nn.Sequential(*layers[:-1])
