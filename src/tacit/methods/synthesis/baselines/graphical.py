"""Noisy marginals, and the graphical models that fit them best: Private-PGM (arXiv:1901.09136) through `mbi`.

A model is kept as conditional tables along an elimination order (`Tree`), with exact marginals and samples in NumPy.
Mirror descent (algorithm 1 of the paper) needs thousands of steps from a uniform start. Here it starts where iterative
proportional fitting ends, which is close to its goal at once; between the rounds of AIM that start is all there is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.methods.synthesis.discretisation import Codes
from tacit.methods.synthesis.table_matching import project_to_simplex

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
        cells = {
            column: shape[column] * math.prod(shape[neighbour] for neighbour in neighbours[column]) for column in left
        }
        column = min(sorted(left), key=cells.__getitem__)
        joined = neighbours[column]
        for neighbour in joined:
            neighbours[neighbour] = (neighbours[neighbour] | joined) - {neighbour, column}
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
    """A distribution over cells as a product of conditional tables."""

    order: tuple[int, ...]  # all columns, parents before children
    parents: tuple[Clique, ...]  # of each column in `order`
    # probabilities of each column in `order`, [bins of its parents, its own bins], summing to 1 over the last axis
    tables: tuple[Array, ...]

    def __post_init__(self) -> None:
        bins = dict(zip(self.order, (table.shape[-1] for table in self.tables), strict=True))
        for i, (parents, table) in enumerate(zip(self.parents, self.tables, strict=True)):
            fits = set(parents) <= set(self.order[:i]) and table.shape[:-1] == tuple(bins[p] for p in parents)
            if not fits or table.min() < 0 or not np.allclose(table.sum(axis=-1), 1.0, atol=1e-6):
                raise ValueError("the tables are not conditional probabilities of their columns")
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError("the order is not one of all columns")

    @classmethod
    def from_potentials(cls, shape: Sequence[int], potentials: Potentials) -> Tree:
        """The distribution proportional to exp(sum of the potentials), by variable elimination."""
        factors = list(potentials.items())
        order, scopes, tables = [], [], []
        for column, parents in elimination(shape, potentials):
            scope = (*parents, column)
            joint = np.zeros([shape[c] for c in scope])
            for axes, values in factors:
                if column in axes:
                    joint += broadcast_to_scope(values, axes, scope)
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


def broadcast_to_scope(values: Array, axes: Clique, scope: Clique) -> Array:
    """An array over `axes` as one that broadcasts over `scope`, which holds them all."""
    ordered = np.transpose(values, np.argsort([scope.index(axis) for axis in axes]))
    sizes = iter(ordered.shape)
    return ordered.reshape([next(sizes) if column in axes else 1 for column in scope])


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts of one marginal."""

    axes: Clique  # its columns, increasing
    counts: Array  # [bins of the columns]
    deviation: float  # standard deviation of the noise of a count, >= 0

    @property
    def precision(self) -> float:
        """Inverse variance of a count."""
        return float(max(self.deviation, 1e-6) ** -2.0)


def pool_measurements(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One measurement a marginal: repeated ones are averaged by their precision, which loses nothing."""
    groups: dict[Clique, list[Measurement]] = {}
    for measurement in measurements:
        groups.setdefault(measurement.axes, []).append(measurement)
    result = []
    for axes, repeats in groups.items():
        precisions = np.array([measurement.precision for measurement in repeats])
        counts = np.tensordot(
            precisions / precisions.sum(), np.stack([measurement.counts for measurement in repeats]), 1
        )
        result.append(Measurement(axes, counts, float(precisions.sum() ** -0.5)))
    return result


def record_count(measurements: Sequence[Measurement]) -> float:
    """The number of records by the sums of all measurements, with the least variance; at least 1."""
    weights = [measurement.precision / measurement.counts.size for measurement in measurements]
    return max(1.0, float(np.average([measurement.counts.sum() for measurement in measurements], weights=weights)))


def require_mbi() -> Any:
    """The package `mbi`."""
    try:
        import jax

        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "JAX persistent compilation cache")
            import mbi
    except ImportError as error:
        what, expected = "the package mbi is missing", "mbi and jax"
        remedy = "run `pip install 'tacit[marginals]'`, or use the baseline PrivSyn, which needs neither"
        raise PlanError(what, where="graphical models (PGM, MST, AIM)", expected=expected, remedy=remedy) from error
    return mbi


def fit_proportional(
    shape: Sequence[int], measured: Sequence[Measurement], *, sweeps: int, start: Potentials | None = None
) -> Potentials:
    """Log-potentials by iterative proportional fitting: in turn each measured marginal is made the model's own."""
    # Counts are first brought to the simplex, and one record is added to every cell on both sides, so that all
    # potentials are finite.
    # measured: the noisiest come first in a sweep, so that the others are fitted better; start: potentials to begin
    # with, None is the uniform distribution
    potentials = dict(start or {})
    measurements = sorted(pool_measurements(measured), key=lambda measurement: -measurement.deviation)
    total = record_count(measured)
    goals = [project_to_simplex(measurement.counts, total) + 1.0 for measurement in measurements]
    for _ in range(sweeps):
        for measurement, goal in zip(measurements, goals, strict=True):
            present = Tree.from_potentials(shape, potentials).marginal(measurement.axes) * total + 1.0
            potentials[measurement.axes] = potentials.get(measurement.axes, 0.0) + np.log(goal / present)
    return potentials


def estimate(
    shape: Sequence[int],
    measured: Sequence[Measurement],
    *,
    iterations: int,
    sweeps: int = 10,
    start: Potentials | None = None,
) -> Tree:
    """The graphical model over the measured cliques that is nearest to the measurements, weighted by precision."""
    mbi = require_mbi()
    import jax

    begun = _fold_potentials(shape, fit_proportional(shape, measured, sweeps=sweeps, start=start))
    with jax.enable_x64(True):
        domain = mbi.Domain(range(len(shape)), shape)
        pooled = pool_measurements(measured)
        noisy = [mbi.LinearMeasurement(m.counts.ravel(), m.axes, m.precision**-0.5) for m in pooled]
        tables = {axes: mbi.Factor(domain.project(axes), jax.numpy.asarray(v)) for axes, v in begun.items()}
        warm = mbi.CliqueVector(domain, tuple(tables), tables)
        fitter = mbi.estimation.MirrorDescent()
        model = fitter.estimate(domain, noisy, record_count(measured), iters=iterations, warm_start=warm)
        potentials = {axes: np.asarray(model.potentials[axes].values) for axes in model.potentials.cliques}
    return Tree.from_potentials(shape, potentials)


def _fold_potentials(shape: Sequence[int], potentials: Potentials) -> Mapping[Clique, Array]:
    """The same model with potentials of its maximal cliques alone."""
    folded: dict[Clique, Array] = {}
    for axes in sorted(potentials, key=len, reverse=True):
        home = next((clique for clique in folded if set(axes) <= set(clique)), None)
        if home is None:
            folded[axes] = np.array(potentials[axes])
        else:
            folded[home] += broadcast_to_scope(potentials[axes], axes, home)
    return folded
