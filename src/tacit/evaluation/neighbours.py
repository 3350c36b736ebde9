"""Does a synthetic table copy training rows? Distances to the nearest training row and to the nearest held-out one.

A generator that learnt the distribution, and no row of it, comes as near to held-out rows as to as many training rows:
half of its rows are then nearer to a training row. Looks at real rows and is not differentially private: outside
`vault.nonprivate` only for simulated or public data. A share of a half proves no privacy; a larger one disproves it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from tacit.errors import DataError
from tacit.evaluation.fidelity import flatten
from tacit.evaluation.lower_bounds import Rate, rate

Columns = Mapping[str, NDArray[np.generic]]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NearestRecords:
    """Distances in units of the training columns' standard deviations."""

    # to_train, to_holdout: [n] each, from n synthetic rows, no two alike, to the nearest of equally many rows of either
    # table
    to_train: Floats
    to_holdout: Floats
    # share of synthetic rows that are nearer to a training row, ties counting half (rounded down), with its exact
    # interval
    nearer_share: Rate
    copies: int  # how many synthetic rows are a training row, up to 1e-6 of a standard deviation in every column


def nearest_records(
    synthetic: Columns, train: Columns, holdout: Columns, *, rows: int = 5_000, confidence: float = 0.95, seed: int = 0
) -> NearestRecords:
    """Distances from synthetic rows to the nearest training row and to the nearest row that was held out.

    Next observations that are numbers enter as their difference from the observation, which a step's row would
    otherwise hold twice. Numbers are divided by the training column's standard deviation (a constant column enters
    unscaled), and two different values of a discrete column are one unit apart.

    Args:
        synthetic, train, holdout: columns by name, as of `fidelity`, with the same columns of the same kinds. The
            longer of `train` and `holdout` is cut to the length of the shorter, at random.
        rows: how many synthetic rows are looked at, at most (random ones, those that are alike once).
        confidence: of the interval of `nearer_share`.
        seed: of the random rows.

    Raises:
        DataError: the tables differ in their columns, are empty or hold a value that is not finite.
    """
    generator = np.random.default_rng(seed)
    tables = [numeric_columns(table) for table in (synthetic, train, holdout)]
    if len({tuple(table) for table in tables}) != 1:
        what, expected = "the tables have different columns", "the same columns of the same kinds in all three"
        remedy = "compare tables of one public specification"
        raise DataError(what, where="nearest_records", expected=expected, remedy=remedy)
    axes = [[_column_coordinates(table[name], [side[name] for side in tables]) for name in table] for table in tables]
    synthetic_points, train_points, holdout_points = (np.concatenate(columns, axis=1) for columns in axes)
    distinct = np.unique(synthetic_points, axis=0)  # a row that is there many times tells one thing
    synthetic_points = _sample_points(distinct, rows, generator)
    size = min(len(train_points), len(holdout_points))
    to_train = cKDTree(_sample_points(train_points, size, generator)).query(synthetic_points)[0]
    to_holdout = cKDTree(_sample_points(holdout_points, size, generator)).query(synthetic_points)[0]
    ties = int((to_train == to_holdout).sum())
    nearer = int((to_train < to_holdout).sum()) + ties // 2
    copies = int((cKDTree(train_points).query(synthetic_points, p=np.inf)[0] <= 1e-6).sum())
    return NearestRecords(to_train, to_holdout, rate(nearer, len(synthetic_points), confidence=confidence), copies)


def numeric_columns(columns: Columns) -> dict[str, NDArray[np.generic]]:
    """The scalar columns of a table (`fidelity.flatten`), with next observations as differences where they are
    numbers."""
    flat = flatten(columns)
    for name in [name for name in flat if name.startswith("next_") and flat[name].dtype == np.float32]:
        flat[name] = np.subtract(flat[name], flat[name.removeprefix("next_")], dtype=np.float32)
    return flat


def _column_coordinates(column: NDArray[np.generic], tables: Sequence[NDArray[np.generic]]) -> Floats:
    """[T, 1] numbers over the training column's deviation; [T, values] one-hot and 1 apart if discrete."""
    # `tables` are the same column of the synthetic table, the training rows and the held-out ones.
    if column.dtype == np.float32:
        spread = float(tables[1].astype(np.float64).std())
        return column[:, None].astype(np.float64) / (spread or 1.0)
    values = np.unique(np.concatenate(tables))
    return np.asarray(column[:, None] == values, np.float64) / math.sqrt(2)


def _sample_points(points: Floats, count: int, generator: np.random.Generator) -> Floats:
    return points if len(points) <= count else points[generator.choice(len(points), count, replace=False)]


# Two tables in one picture: t-SNE of a few rows of each. To look at, never to measure with.


def tsne(tables: Mapping[str, Columns], *, rows: int = 500, seed: int = 0) -> dict[str, Floats]:
    """Positions in the plane in which rows that are alike lie together (van der Maaten & Hinton, JMLR 9 (2008) 2579).

    All tables go through one embedding (scikit-learn's defaults: perplexity 30, from principal components), with
    columns standardised together. Positions have no unit. Where a table holds private rows, the picture shows them:
    outside `vault.nonprivate` only for simulated or public data.

    Args:
        tables: columns by name, as of `fidelity`, by label.
        rows: how many random rows of each table are shown, at most.
        seed: of the rows and of the embedding.

    Returns:
        [n, 2] a label, n at most `rows`.

    Raises:
        DataError: scikit-learn is not installed; the tables differ in their columns, hold a value that is not finite,
            or have too few rows for a perplexity of 30 (fewer than 31 together).
    """
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        what, expected = "scikit-learn is not installed", "the package that computes t-SNE"
        remedy = "run `pip install 'tacit[tsne]'`, or leave the picture out"
        raise DataError(what, where="embedding.tsne", expected=expected, remedy=remedy) from None
    generator = np.random.default_rng(seed)
    flat = {label: numeric_columns(table) for label, table in tables.items()}
    points = {label: np.stack([c.astype(np.float64) for c in table.values()], axis=1) for label, table in flat.items()}
    points = {label: generator.permutation(table)[:rows] for label, table in points.items()}
    if len({tuple(table) for table in flat.values()}) != 1 or sum(map(len, points.values())) <= 30:
        what = "the tables have different columns, or too few rows"
        expected = "the same columns in all tables, and more than 30 rows together"
        remedy = "compare larger tables of one public specification"
        raise DataError(what, where="embedding.tsne", expected=expected, remedy=remedy)
    joint = np.concatenate(list(points.values()))
    spread = joint.std(axis=0)
    joint = (joint - joint.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    placed = np.asarray(TSNE(random_state=seed).fit_transform(joint), np.float64)
    ends = np.cumsum([len(table) for table in points.values()])[:-1]
    return dict(zip(points, np.split(placed, ends), strict=True))
