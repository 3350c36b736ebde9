"""Two tables in one picture: t-SNE of a few rows of each. To look at, never to measure with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.evaluation.neighbours import Columns, numbers

Floats = NDArray[np.float64]


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
        raise DataError(
            "scikit-learn is not installed",
            where="embedding.tsne",
            expected="the package that computes t-SNE",
            remedy="run `pip install 'tacit[tsne]'`, or leave the picture out",
        ) from None
    generator = np.random.default_rng(seed)
    flat = {label: numbers(table) for label, table in tables.items()}
    points = {label: np.stack([c.astype(np.float64) for c in table.values()], axis=1) for label, table in flat.items()}
    points = {label: generator.permutation(table)[:rows] for label, table in points.items()}
    if len({tuple(table) for table in flat.values()}) != 1 or sum(map(len, points.values())) <= 30:
        raise DataError(
            "the tables have different columns, or too few rows",
            where="embedding.tsne",
            expected="the same columns in all tables, and more than 30 rows together",
            remedy="compare larger tables of one public specification",
        )
    together = np.concatenate(list(points.values()))
    spread = together.std(axis=0)
    together = (together - together.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    placed = np.asarray(TSNE(random_state=seed).fit_transform(together), np.float64)
    ends = np.cumsum([len(table) for table in points.values()])[:-1]
    return dict(zip(points, np.split(placed, ends), strict=True))
