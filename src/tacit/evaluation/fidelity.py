"""How close a synthetic table is to a real one: Marginal and Correlation, with the real-vs-real ceiling.

Both measures are the PrivORL paper's (Column Shapes and Column Pair Trends of SDMetrics) on the columns of
observations, actions, rewards and next observations; terminal flags are left out. They look at real rows and their
values are not differentially private: outside `vault.nonprivate` they may only be used on simulated or public data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import DataError

Floats = NDArray[np.float32]
FIELDS = ("observations", "actions", "rewards", "next_observations")


@dataclass(frozen=True)
class Fidelity:
    """Closeness of a synthetic table to a real one; 1 is equality."""

    marginal: float  # mean of `marginals`, in [0, 1]
    # mean over pairs of continuous columns of 1 - |r_real - r_synthetic| / 2, in [0, 1]; nan where no pair is left
    correlation: float
    columns: tuple[str, ...]  # names of all D columns, in order
    # D values: 1 - two-sample Kolmogorov-Smirnov statistic of a continuous column, 1 - total variation distance of a
    # discrete one
    marginals: tuple[float, ...]
    paired_columns: tuple[str, ...]  # names of the columns in the correlation matrices
    real: NDArray[np.float64]  # real, synthetic: correlation matrices [C, C] (Pearson) of the C `paired_columns`
    synthetic: NDArray[np.float64]


def fidelity(
    real: Mapping[str, NDArray[np.generic]],
    synthetic: Mapping[str, NDArray[np.generic]],
    *,
    spec: PublicSpec | None = None,
) -> Fidelity:
    """Marginal and Correlation of `synthetic` against `real` (PrivORL, section VI; SDMetrics' definitions).

    Both hold `observations` and `next_observations` [T, d] float or [T] int, `actions` alike and `rewards` [T], as
    `Trajectories.columns`, compared in float32; they may differ in T. A column that is constant in `real` has no
    correlation and is dropped from it; one that is constant only in `synthetic` counts as uncorrelated (r = 0), so that
    a collapsed column is not rewarded. Discrete columns enter Marginal alone. Raises DataError where the tables differ
    in their columns, are empty or hold a value that is not finite.
    """
    real_columns, synthetic_columns = flatten(real, spec), flatten(synthetic, spec)
    if [(n, c.dtype) for n, c in real_columns.items()] != [(n, c.dtype) for n, c in synthetic_columns.items()]:
        what = "the two tables have different columns"
        expected = f"the same columns of the same kinds in both ({', '.join(FIELDS)})"
        raise DataError(what, where="fidelity", expected=expected, remedy="compare tables of one public specification")
    names = tuple(real_columns)
    pairs_of = ((real_columns[name], synthetic_columns[name]) for name in names)
    marginals = tuple(
        1.0 - (kolmogorov_smirnov(a, b) if a.dtype == np.float32 else total_variation(a, b)) for a, b in pairs_of
    )
    continuous = [name for name in names if real_columns[name].dtype == np.float32]
    varying = tuple(name for name in continuous if np.ptp(real_columns[name]) > 0)
    r_real = correlations([real_columns[name] for name in varying])
    r_synthetic = correlations([synthetic_columns[name] for name in varying])
    above = np.triu_indices(len(varying), k=1)
    pairs = 1.0 - np.abs(r_real - r_synthetic)[above] / 2.0
    return Fidelity(
        marginal=float(np.mean(marginals)),
        correlation=float(np.mean(pairs)) if pairs.size else float("nan"),
        columns=names,
        marginals=marginals,
        paired_columns=varying,
        real=r_real,
        synthetic=r_synthetic,
    )


def ceiling(real: Mapping[str, NDArray[np.generic]], *, seed: int, spec: PublicSpec | None = None) -> Fidelity:
    """Fidelity of one random half of `real` against the other, disjoint half: what a perfect copy would score.

    Args:
        real: columns by name, as of `fidelity`; an odd last row is left out.
        seed: of the public split.
        spec: the public bounds, as of `flatten`.

    Raises:
        DataError: fewer than two rows, or as `fidelity`.
    """
    return fidelity(*halves(real, seed=seed), spec=spec)


def halves(
    real: Mapping[str, NDArray[np.generic]], *, seed: int
) -> tuple[dict[str, NDArray[np.generic]], dict[str, NDArray[np.generic]]]:
    """Two disjoint random halves of a table; an odd last row is left out. Raises DataError of fewer than two rows."""
    rows = len(next(iter(real.values())))
    if rows < 2:
        what, expected = "the table has fewer than two rows", "at least two rows, to be split into disjoint halves"
        raise DataError(what, where="ceiling", expected=expected, remedy="pass the whole real table")
    order = np.random.default_rng(seed).permutation(rows)
    first, second = order[: rows // 2], order[rows // 2 : 2 * (rows // 2)]
    return {name: np.asarray(real[name])[first] for name in FIELDS}, {
        name: np.asarray(real[name])[second] for name in FIELDS
    }


def flatten(
    columns: Mapping[str, NDArray[np.generic]], spec: PublicSpec | None = None
) -> dict[str, NDArray[np.generic]]:
    """The scalar columns [T] of a table by name: float32, or int64 if discrete. The spec names the columns and says
    which are categories, and so discrete; without it the names are "observations[0]", ..., "rewards". Raises DataError
    where a column is missing, of another length, empty, of more than two axes or not finite."""
    flat: dict[str, NDArray[np.generic]] = {}
    rows: int | None = None
    for field in FIELDS:
        if field not in columns:
            what, expected = f"the column {field!r} is missing", f"the columns {', '.join(FIELDS)}"
            remedy = "pass the columns of a Trajectories or of a sampled table"
            raise DataError(what, where="fidelity", expected=expected, remedy=remedy)
        values = np.asarray(columns[field])
        if values.ndim not in (1, 2) or len(values) == 0 or len(values) != (rows or len(values)):
            what = f"the column {field!r} has the wrong shape"
            expected = "[T] or [T, d] with one T >= 1 for all columns"
            remedy = "give every column one entry per transition"
            raise DataError(what, where="fidelity", expected=expected, remedy=remedy)
        rows = len(values)
        discrete = np.issubdtype(values.dtype, np.integer) or values.dtype == np.bool_
        values = values.astype(np.int64 if discrete else np.float32, copy=False)
        if not np.isfinite(values).all():
            what, remedy = f"the column {field!r} holds NaN or infinity", "clip the table to its public bounds first"
            raise DataError(what, where="fidelity", expected="finite values", remedy=remedy)
        if spec is not None:
            flat |= _name_columns(spec, field, values)
        elif values.ndim == 1:
            flat[field] = values
        else:
            flat |= {f"{field}[{i}]": values[:, i] for i in range(values.shape[1])}
    return flat


def _name_columns(spec: PublicSpec, field: str, values: NDArray[np.generic]) -> dict[str, NDArray[np.generic]]:
    space = spec.spaces[field]
    labels = (0,) if isinstance(space, Discrete) else space.categories
    columns = zip(spec.names(field), values.reshape(len(values), -1).T, labels, strict=True)
    return {name: column.astype(np.int64) if count else column for name, column, count in columns}


def kolmogorov_smirnov(a: NDArray[np.generic], b: NDArray[np.generic]) -> float:
    """Two-sample Kolmogorov-Smirnov statistic sup_t |F_a(t) - F_b(t)| of samples [n] and [m], ties included."""
    a, b = np.sort(a), np.sort(b)
    n = len(a)
    at = np.searchsorted(b, a, side="right") / len(b)
    before = np.searchsorted(b, a, side="left") / len(b)
    above = np.max(np.arange(1, n + 1) / n - at)
    below = np.max(before - np.arange(n) / n)
    return float(max(above, below, 0.0))


def total_variation(a: NDArray[np.generic], b: NDArray[np.generic]) -> float:
    """Total variation distance (1/2) sum_k |p_a(k) - p_b(k)| between the value frequencies of samples [n] and [m]."""
    values, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    p = np.bincount(codes[: len(a)], minlength=len(values)) / len(a)
    q = np.bincount(codes[len(a) :], minlength=len(values)) / len(b)
    return float(np.abs(p - q).sum() / 2.0)


def correlations(columns: list[NDArray[np.generic]]) -> NDArray[np.float64]:
    """Pearson correlation matrix [C, C] of C columns [T]; a constant column has r = 0 with every other."""
    if not columns:
        return np.zeros((0, 0))
    centred = np.empty((len(columns), len(columns[0])))
    for row, column in zip(centred, columns, strict=True):
        values = column.astype(np.float64)
        # Scaled to [0, 1] first, so that neither a tiny nor a huge unit can underflow or overflow the squares.
        spread = np.ptp(values)
        row[:] = (values - values.min()) / spread if spread > 0 else 0.0
        row -= row.mean()
        norm = np.linalg.norm(row)
        row /= norm if norm > 0 else 1.0
    r = centred @ centred.T
    np.fill_diagonal(r, 1.0)
    return np.clip(r, -1.0, 1.0)


# Control tables: what a measure or an agent scores when the table holds less than the synthetic one.


def independent_columns(columns: Mapping[str, NDArray[np.generic]], *, seed: int) -> dict[str, NDArray[np.generic]]:
    """The table ([T] or [T, d] by name) with each scalar column permuted on its own: equal marginals, no dependence.
    Looks at rows: for simulated, public or synthetic tables."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.permuted(values, axis=0) if values.ndim > 1 else generator.permutation(values)
        for name, values in columns.items()
    }


def uniform_table(spec: PublicSpec, *, rows: int, seed: int) -> dict[str, NDArray[np.generic]]:
    """A table of `rows` transitions drawn uniformly inside the public bounds, with no terminations: noise only."""
    generator = np.random.default_rng(seed)

    def draw(space: Box | Discrete) -> NDArray[np.generic]:
        if isinstance(space, Discrete):
            return generator.integers(space.n, size=rows)
        values = generator.uniform(space.low, np.add(space.high, space.whole), size=(rows, space.size))
        return np.where(space.whole, np.floor(values), values).astype(np.float32)

    return {
        "observations": draw(spec.observation),
        "actions": draw(spec.action),
        "rewards": draw(spec.reward)[:, 0],
        "next_observations": draw(spec.observation),
        "terminations": np.zeros(rows, dtype=np.bool_),
        "truncations": np.zeros(rows, dtype=np.bool_),
    }
