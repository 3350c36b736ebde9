"""A graphical model as conditional tables along an elimination order: exact marginals and samples, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.methods.synthesis.cut import Codes

Array = NDArray[np.float64]
Clique = tuple[int, ...]
Potentials = Mapping[Clique, Array]
"""Log-potentials of cliques of columns, each of shape [bins of the clique's columns]."""


def elimination(shape: Sequence[int], cliques: Iterable[Clique]) -> list[tuple[int, Clique]]:
    """A greedy elimination order: (column, the columns that it is joined to when it goes), fewest cells first."""
    neighbours: list[set[int]] = [set() for _ in shape]
    for clique in cliques:
        for column in clique:
            neighbours[column] |= set(clique) - {column}
    left, order = set(range(len(shape))), []
    while left:
        cells = {column: shape[column] * math.prod(shape[other] for other in neighbours[column]) for column in left}
        column = min(sorted(left), key=cells.__getitem__)
        joined = neighbours[column]
        for other in joined:
            neighbours[other] = (neighbours[other] | joined) - {other, column}
        order.append((column, tuple(sorted(joined))))
        left.remove(column)
    return order


def model_cells(shape: Sequence[int], cliques: Iterable[Clique]) -> int:
    """Cells of the largest cliques that inference with these cliques has to hold (its junction tree)."""
    scopes = [{column, *joined} for column, joined in elimination(shape, cliques)]
    largest = [scope for i, scope in enumerate(scopes) if not any(scope <= earlier for earlier in scopes[:i])]
    return sum(math.prod(shape[column] for column in scope) for scope in largest)


@dataclass(frozen=True, eq=False)
class Tree:
    """A distribution over cells as a product of conditional tables.

    Args:
        order: all columns, parents before children.
        parents: of each column in `order`.
        tables: probabilities of each column in `order`, [bins of its parents, its own bins], summing to 1 over the last
            axis.
    """

    order: tuple[int, ...]
    parents: tuple[Clique, ...]
    tables: tuple[Array, ...]

    def __post_init__(self) -> None:
        bins = dict(zip(self.order, (table.shape[-1] for table in self.tables), strict=True))
        for i, (parents, table) in enumerate(zip(self.parents, self.tables, strict=True)):
            known = set(parents) <= set(self.order[:i]) and table.shape[:-1] == tuple(bins[p] for p in parents)
            if not known or table.min() < 0 or not np.allclose(table.sum(axis=-1), 1.0, atol=1e-6):
                raise ValueError("the tables are not conditional probabilities of their columns")
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError("the order is not one of all columns")

    @classmethod
    def from_potentials(cls, shape: Sequence[int], potentials: Potentials) -> Tree:
        """The distribution proportional to exp(sum of the potentials), by variable elimination.

        Args:
            shape: bins of each column.
            potentials: finite arrays; columns that none mentions are uniform.
        """
        factors = list(potentials.items())
        order, scopes, tables = [], [], []
        for column, parents in elimination(shape, potentials):
            scope = (*parents, column)
            joint = np.zeros([shape[c] for c in scope])
            for axes, values in factors:
                if column in axes:
                    joint += spread(values, axes, scope)
            highest = joint.max(axis=-1, keepdims=True)
            weights = np.exp(joint - highest)
            total = weights.sum(axis=-1, keepdims=True)
            factors = [factor for factor in factors if column not in factor[0]]
            factors.append((parents, (np.log(total) + highest)[..., 0]))
            order.append(column)
            scopes.append(parents)
            tables.append(weights / total)
        return cls(tuple(order[::-1]), tuple(scopes[::-1]), tuple(tables[::-1]))

    def marginal(self, axes: Clique) -> Array:
        """Probabilities [bins of the axes, in their order]."""
        needed: set[int] = set(axes)
        factors: list[Any] = []
        for column, parents, table in reversed(list(zip(self.order, self.parents, self.tables, strict=True))):
            if column in needed:
                needed |= set(parents)
                factors += [table, [*parents, column]]
        return np.asarray(np.einsum(*factors, list(axes), optimize="greedy"))

    def draw(self, count: int, rng: np.random.Generator) -> Codes:
        """Independent cells [count, A]."""
        codes = np.zeros((count, len(self.order)), np.int32)
        for column, parents, table in zip(self.order, self.parents, self.tables, strict=True):
            rows = table.reshape(-1, table.shape[-1])
            case = np.ravel_multi_index(tuple(codes[:, p] for p in parents), table.shape[:-1]) if parents else 0
            ends = np.cumsum(rows, axis=1)
            ends[:, -1] = 1.0
            place = np.searchsorted((ends + np.arange(len(rows))[:, None]).ravel(), case + rng.random(count), "right")
            codes[:, column] = np.minimum(place - case * rows.shape[1], rows.shape[1] - 1)
        return codes

    def to_json(self) -> dict[str, list[int] | list[list[int]]]:
        """What `arrays` does not hold."""
        return {"order": list(self.order), "parents": [list(parents) for parents in self.parents]}

    def arrays(self) -> dict[str, Array]:
        """The tables, by column."""
        return {f"table.{column}": table for column, table in zip(self.order, self.tables, strict=True)}


def spread(values: Array, axes: Clique, scope: Clique) -> Array:
    """An array over `axes` as one that broadcasts over `scope`, which holds them all."""
    ordered = np.transpose(values, np.argsort([scope.index(axis) for axis in axes]))
    sizes = iter(ordered.shape)
    return ordered.reshape([next(sizes) if column in axes else 1 for column in scope])
