"""Are public rows also private ones? A look for the curator, before public records are chosen.

Pre-training on public rows is free of charge only if they are nobody's in the private data. Two datasets can hold the
same recording under two names, with other rewards (D4RL's kitchen-mixed and kitchen-partial label the same
demonstrations for different tasks), so rows are compared by observation, action and next observation, whatever the
rewards are.

Both sides are compared as they are after clipping to the public bounds. A pair of rows is *near* if no number of the
one differs from the other's by more than `tolerance` times the range of its column; rows that were rounded, stored in
another precision or written as text and read back are. Values of discrete columns must agree.

Rows of other people coincide too, by chance: often where there are few columns or whole numbers, never where there are
many continuous ones. How often is measured by the same comparison of two halves of either side with each other. By
the Cauchy-Schwarz inequality two sides that share nobody have about the geometric mean of these rates at most.

The answer depends on the private rows and is not protected. No run and no release may depend on it: a supplier of the
public rows would learn from that whether one record is private. On public or simulated rows it may be used anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.errors import DataError

Columns = Mapping[str, npt.NDArray[Any]]
Points = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

TOLERANCE = 1e-4
"""Of a column's range."""
LONG = 3
"""Exact rows in a row that are no accident, where chance gives none or much fewer."""
FEW = 4
"""Exact rows that may be chance where near ones are."""
_FARTHEST = 64
"""Longer stretches are not distinguished."""
_BLOCKS = 16


@dataclass(frozen=True)
class RowOverlap:
    """How many of the public rows are private rows too."""

    rows: int  # public rows
    exact: int  # those that are bit for bit a private row
    near: int  # those that are only near to one
    # share of the private rows that are exact or near to a public one: few private rows can all be among many public
    # ones
    covered: float
    longest: int  # how many exact rows follow each other on both sides; 64 to 127 stands for any longer stretch
    suspicious: bool  # whether clearly more rows coincide than chance explains, or more of them in a row

    @property
    def share(self) -> float:
        """Share of the public rows that are exact or near."""
        return (self.exact + self.near) / self.rows


@dataclass(frozen=True)
class _PairCounts:
    """Pairs of rows, one of either side: exact ones, near or exact ones, and the longest stretch of exact ones."""

    exact: int
    near: int
    longest: int


def find_overlap(public: Columns, private: Columns, spec: PublicSpec, *, tolerance: float = TOLERANCE) -> RowOverlap:
    """Count the public rows that are a private row, whatever their reward is; some are so by chance. The answer is not
    protected: it is for the curator alone, and no run or release may depend on it.

    Args:
        public, private: observations [T, d] or [T] (discrete), actions likewise, and next_observations, which are
            compared if both sides have them; other columns are not read.
        spec: public bounds of the private rows.
        tolerance: largest difference of near rows, as a share of each column's range.

    Raises:
        DataError: a column is missing, empty or does not fit the bounds; the tolerance is not in [0, 1); or
            observations and actions are both discrete, where rows coincide by chance and nothing follows.
    """
    points, others = _comparable_points(public, private, spec, tolerance)
    trees = [cKDTree(side, balanced_tree=False, compact_nodes=False) for side in (points, others)]
    public_distances = _nearest_distances(points, trees[1], tolerance)
    private_distances = _nearest_distances(others, trees[0], tolerance)
    exact = int((public_distances == 0.0).sum())
    near = int(np.isfinite(public_distances).sum()) - exact
    pairs = _pairs(points, others, tolerance)
    halves = [_pairs(side[_half_mask(len(side))], side[~_half_mask(len(side))], tolerance) for side in (points, others)]
    suspicious = _is_beyond_chance(pairs, *halves)
    return RowOverlap(len(points), exact, near, float(np.isfinite(private_distances).mean()), pairs.longest, suspicious)


def _is_beyond_chance(between: _PairCounts, public_pairs: _PairCounts, private_pairs: _PairCounts) -> bool:
    """Whether the two sides have clearly more pairs, or more of them in a row, than the halves of either."""
    chance = max(public_pairs.longest, private_pairs.longest)
    # The longest stretch by chance grows with the logarithm of the pairs, of which halves have a quarter.
    stretch = between.longest >= LONG and between.longest > (1 + 1.6 * chance if chance else 0)
    most = _pair_limit(public_pairs.near, private_pairs.near)
    # Of exact pairs, none is chance among rows so unlike that not even near ones come up.
    few: float = FEW if public_pairs.near or private_pairs.near or between.near > between.exact else 0
    if public_pairs.exact or private_pairs.exact:
        few = _pair_limit(public_pairs.exact, private_pairs.exact)
    return stretch or between.exact > few or between.near > most


def _pair_limit(public_count: int, private_count: int) -> float:
    """Pairs between the sides beyond which it is hardly chance, by the pairs between the halves of either."""
    expected = 4.0 * math.sqrt((public_count + 1.0) * (private_count + 1.0))
    return 1.5 * expected + 4.0 * math.sqrt(expected)


def _half_mask(rows: int) -> npt.NDArray[np.bool_]:
    """Half of the rows: every other one of a few blocks, so that hardly an episode is in both halves."""
    return np.asarray(np.arange(rows) * _BLOCKS // rows % 2 == 0)


def _pairs(points: Points, others: Points, tolerance: float) -> _PairCounts:
    if not len(points) or not len(others):
        return _PairCounts(0, 0, 0)
    codes = _codes(points, others)
    code_count = 1 + max(int(coded.max()) for coded in codes)
    counts = [np.bincount(coded, minlength=code_count) for coded in codes]
    near = _count_near_pairs(_distinct_rows(points, codes[0]), _distinct_rows(others, codes[1]), tolerance)
    return _PairCounts(int(counts[0] @ counts[1]), near, _longest_stretch(*codes))


def _distinct_rows(points: Points, codes: Codes) -> tuple[Points, Points]:
    _, first, count = np.unique(codes, return_index=True, return_counts=True)
    return points[first], count.astype(np.float64)


def _count_near_pairs(left: tuple[Points, Points], right: tuple[Points, Points], tolerance: float) -> int:
    (points, count), (others, other_count) = left, right
    other_tree = cKDTree(others, balanced_tree=False, compact_nodes=False)
    rows = np.isfinite(_nearest_distances(points, other_tree, tolerance))
    if not rows.any():
        return 0
    tree = cKDTree(points[rows], balanced_tree=False, compact_nodes=False)
    return int(tree.count_neighbors(other_tree, tolerance, p=np.inf, weights=(count[rows], other_count)))


def _codes(points: Points, others: Points) -> tuple[Codes, Codes]:
    """A number for each row, the same for rows that are bit for bit the same."""
    rows = np.ascontiguousarray(np.concatenate([points, others])) + 0.0
    coded = np.unique(rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel(), return_inverse=True)[1]
    return coded[: len(points)], coded[len(points) :]


def _longest_stretch(left: Codes, right: Codes) -> int:
    length, current = 1, _common_codes(left, right)
    levels = []
    while current is not None and length < _FARTHEST:
        levels.append((length, current))
        length, current = 2 * length, _extend_stretches(current, current, length)
    if not levels:
        return 0
    if current is None:
        length, current = levels.pop()
    for more, level in reversed(levels):
        longer = _extend_stretches(current, level, length)
        if longer is not None:
            length, current = length + more, longer
    return length


def _extend_stretches(first: tuple[Codes, Codes], then: tuple[Codes, Codes], length: int) -> tuple[Codes, Codes] | None:
    """Stretches of `length` rows continued by others: a number for each, or None if the two sides share none."""
    ends = [side[length:] for side in then]
    base = 1 + max((int(end.max()) for end in ends if len(end)), default=0)
    joined = [start[: len(end)] * base + end for start, end in zip(first, ends, strict=True)]
    coded = np.unique(np.concatenate(joined), return_inverse=True)[1]
    return _common_codes(coded[: len(joined[0])], coded[len(joined[0]) :])


def _common_codes(left: Codes, right: Codes) -> tuple[Codes, Codes] | None:
    return (left, right) if np.isin(left, right).any() else None


def _comparable_points(public: Columns, private: Columns, spec: PublicSpec, tolerance: float) -> tuple[Points, Points]:
    if isinstance(spec.observation, Discrete) and isinstance(spec.action, Discrete):
        what = "rows of discrete observations and actions coincide by chance"
        remedy = "compare where the two datasets come from, and who is in them"
        raise DataError(what, where="overlap", expected="a continuous observation or action", remedy=remedy)
    if not 0.0 <= tolerance < 1.0:
        what, expected = "the tolerance is out of range", "a share of the range, in [0, 1)"
        raise DataError(what, where="overlap", expected=expected, remedy=f"leave it out for {TOLERANCE:g}")
    spaces = {"observations": spec.observation, "actions": spec.action}
    if "next_observations" in public and "next_observations" in private:
        spaces["next_observations"] = spec.observation
    return _points(public, spaces, "public"), _points(private, spaces, "private")


def _nearest_distances(points: Points, tree: Any, max_distance: float) -> Points:
    """Largest difference of each point from the nearest one of a tree's; infinite beyond `most`."""
    bound = float(np.nextafter(max_distance, np.inf))  # the tree's own bound is strict
    return np.asarray(tree.query(points, p=np.inf, distance_upper_bound=bound)[0])


def _points(columns: Columns, spaces: Mapping[str, Space], which: str) -> Points:
    """[T, columns]: what is compared, clipped to the bounds, in units of their range; discrete values as they are."""
    parts, rows = [], None
    for name, space in spaces.items():
        column = np.asarray(columns.get(name, ()))
        column = column[:, None] if column.ndim == 1 else column
        width = 1 if isinstance(space, Discrete) else space.size
        fits = column.ndim == 2 and column.shape[1] == width and len(column) == (rows or len(column)) > 0
        if not fits or column.dtype.kind not in "biuf" or not np.isfinite(column).all():
            what = f"the {which} {name} are missing, not finite or do not fit the bounds"
            expected = f"one row of {width} finite numbers for each transition"
            remedy = "pass the columns of both datasets, and the bounds of the private one"
            raise DataError(what, where="overlap", expected=expected, remedy=remedy)
        rows = len(column)
        parts.append(_scale_column(column, space))
    return np.concatenate(parts, axis=1)


def _scale_column(column: npt.NDArray[Any], space: Space) -> Points:
    if isinstance(space, Discrete):
        return column.astype(np.float64)
    low, high = space.float32_bounds()
    clipped = np.clip(column.astype(np.float32), low, high).astype(np.float64)
    return np.asarray((clipped - low) / (np.asarray(space.high) - np.asarray(space.low)))
