"""Are public rows also private ones? A check for the curator, before anything is learned from the public rows.

Pre-training on public rows is free of charge only if they are nobody's in the private data. Two datasets can hold the
same recording under two names, with other rewards (D4RL's kitchen-mixed and kitchen-partial label the same
demonstrations for different tasks), so rows are compared by observation and action alone.

Both sides are compared as they are after clipping to the public bounds. A pair of rows is *near* if no number of the
one differs from the other's by more than `tolerance` times the range of its column; rows that were rounded, stored in
another precision or written as text and read back are. Values of discrete columns must agree.

The answer depends on the private rows. So on real records this runs behind `Vault.nonprivate` (which the ledger notes)
and stays with the curator; on public or simulated data, anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.errors import DataError

__all__ = ["Overlap", "find", "refuse"]

Columns = Mapping[str, npt.NDArray[Any]]

TOLERANCE = 1e-4
"""Of a column's range; a million random rows in four dimensions have no two so near by chance."""
SHARE = 1e-3
"""Of either side's rows: as many may coincide (first states that a simulator always starts from do)."""


@dataclass(frozen=True)
class Overlap:
    """How many of the public rows are private rows too.

    Args:
        rows: public rows.
        exact: those whose observation and action are bit for bit those of a private row.
        near: those that are only near to one.
        covered: share of the private rows that are exact or near to a public one: few private rows can all be among
            many public ones.
    """

    rows: int
    exact: int
    near: int
    covered: float

    @property
    def share(self) -> float:
        """Share of the public rows that are exact or near."""
        return (self.exact + self.near) / self.rows


def find(public: Columns, private: Columns, spec: PublicSpec, *, tolerance: float = TOLERANCE) -> Overlap:
    """Count the public rows whose observation and action are a private row's, whatever their reward is.

    Args:
        public, private: observations [T, d] or [T] (discrete) and actions likewise; other columns are not read.
        spec: public bounds of the private rows.
        tolerance: largest difference of near rows, as a share of each column's range.

    Raises:
        DataError: a column is missing, empty or does not fit the bounds; the tolerance is not in [0, 1); or
            observations and actions are both discrete, where rows coincide by chance and nothing can be told.
    """
    if isinstance(spec.observation, Discrete) and isinstance(spec.action, Discrete):
        raise DataError(
            "rows of discrete observations and actions coincide by chance",
            where="overlap",
            expected="a continuous observation or action",
            remedy="compare where the two datasets come from, and who is in them",
        )
    if not 0.0 <= tolerance < 1.0:
        raise DataError(
            "the tolerance is out of range",
            where="overlap",
            expected="a share of the range, in [0, 1)",
            remedy=f"leave it out for {TOLERANCE:g}",
        )
    points, others = (_points(columns, spec, which) for columns, which in ((public, "public"), (private, "private")))
    there, back = _nearest(points, others, tolerance), _nearest(others, points, tolerance)
    exact = int((there == 0.0).sum())
    return Overlap(len(points), exact, int(np.isfinite(there).sum()) - exact, float(np.isfinite(back).mean()))


def refuse(
    public: Columns, private: Columns, spec: PublicSpec, *, tolerance: float = TOLERANCE, share: float = SHARE
) -> Overlap:
    """`find`, and an error if more than `share` of the public rows are private ones, or of the private rows public.

    The error gives no count, because it may end in a log that others read; `find` does.

    Raises:
        DataError: the datasets overlap; or as `find`.
    """
    found = find(public, private, spec, tolerance=tolerance)
    if max(found.share, found.covered) > share:
        raise DataError(
            "public rows are also among the private records (the same observations and actions, whatever the rewards)",
            where="overlap",
            expected=f"at most {share:.1%} of either side's rows so near to one of the other side",
            remedy="pre-train on other people's rows, or on none: what is learned from these is not protected",
        )
    return found


def _nearest(points: npt.NDArray[np.float64], among: npt.NDArray[np.float64], most: float) -> npt.NDArray[np.float64]:
    """Largest difference of each point from the nearest one of the others; infinite beyond `most`."""
    tree = cKDTree(among, balanced_tree=False, compact_nodes=False)
    bound = float(np.nextafter(most, np.inf))  # the tree's own bound is strict
    return np.asarray(tree.query(points, p=np.inf, distance_upper_bound=bound)[0])


def _points(columns: Columns, spec: PublicSpec, which: str) -> npt.NDArray[np.float64]:
    """[T, d + a]: what is compared, clipped to the bounds and in units of their range; discrete values as they are."""
    parts, rows = [], None
    for name, space in (("observations", spec.observation), ("actions", spec.action)):
        column = np.asarray(columns.get(name, ()))
        column = column[:, None] if column.ndim == 1 else column
        width = 1 if isinstance(space, Discrete) else space.size
        fits = column.ndim == 2 and column.shape[1] == width and len(column) == (rows or len(column)) > 0
        if not fits or column.dtype.kind not in "biuf" or not np.isfinite(column).all():
            raise DataError(
                f"the {which} {name} are missing, not finite or do not fit the bounds",
                where="overlap",
                expected=f"one row of {width} finite numbers for each transition",
                remedy="pass the columns of both datasets, and the bounds of the private one",
            )
        rows = len(column)
        parts.append(_scaled(column, space))
    return np.concatenate(parts, axis=1)


def _scaled(column: npt.NDArray[Any], space: Space) -> npt.NDArray[np.float64]:
    if isinstance(space, Discrete):
        return column.astype(np.float64)
    low, high = space.single()
    clipped = np.clip(column.astype(np.float32), low, high).astype(np.float64)
    return np.asarray((clipped - low) / (np.asarray(space.high) - np.asarray(space.low)))
