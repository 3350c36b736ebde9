"""Rows counted in tables: the same sums as those of dense vectors, and no unit beyond its clip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tacit.errors import MechanismError
from tacit.privacy.gradients.clipping import SLACK, clip_rows
from tacit.privacy.mechanisms.tallies import clipped_tallies, contribution_vectors


@dataclass(frozen=True)
class Given:
    """The cells that the rows themselves name, one column a table."""

    sizes: tuple[int, ...]

    def cells(self, rows: Mapping[str, np.ndarray], state: Any) -> Sequence[np.ndarray]:
        return list(rows["cells"].T)


def summed(sizes: tuple[int, ...], cells: Any, counts: Sequence[int], clip: float, replicate: Any = None) -> np.ndarray:
    """The clipped sums of units with so many rows each."""
    replicate = np.zeros(len(counts), np.int64) if replicate is None else replicate
    sums, lost = np.zeros((2, int(replicate.max(initial=0)) + 1, sum(sizes)))
    owner = np.repeat(np.arange(len(counts)), counts)
    clipped_tallies(Given(sizes), {"cells": np.asarray(cells)}, None, clip, owner, replicate, sums, lost)
    return sums + lost


def dense(sizes: tuple[int, ...], cells: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Each unit's mean one-hot vectors, row by row."""
    vectors, starts = np.zeros((len(counts), sum(sizes))), np.cumsum([0, *sizes[:-1]])
    for unit, rows in zip(vectors, np.split(cells, np.cumsum(counts)[:-1]), strict=True):
        for row in rows:
            unit[starts + row] += 1 / len(rows)
    return vectors


def test_a_unit_adds_the_mean_of_its_rows_within_its_clip() -> None:
    cells = [[0, 1], [1, 1], [1, 0]]
    np.testing.assert_allclose(summed((2, 2), cells, [2, 1], 10.0), [[0.5, 1.5, 1.0, 1.0]])
    bound = 1 - SLACK  # norms sqrt(.5 + 1) and sqrt(2)
    expected = np.array([0.5, 0.5, 0, 1]) * bound / 1.5**0.5 + np.array([0, 1, 1, 0]) * bound / 2**0.5
    np.testing.assert_allclose(summed((2, 2), cells, [2, 1], 1.0)[0], expected, rtol=1e-15)


@pytest.mark.parametrize("sizes", [(3, 5), (70_000, 3, 900)])
@pytest.mark.parametrize("most", [1, 3, 40])
def test_sums_are_those_of_clipped_dense_vectors(sizes: tuple[int, ...], most: int) -> None:
    rng = np.random.default_rng(most)
    counts = rng.integers(1, most + 1, 30)
    cells = np.stack([rng.integers(0, min(size, 9), counts.sum()) for size in sizes], axis=1)
    replicate = np.sort(rng.integers(0, 3, len(counts)))
    clipped = clip_rows(dense(sizes, cells, counts), 1.0)
    expected = np.stack([clipped[replicate == r].sum(axis=0) for r in range(3)])
    found = summed(sizes, cells, counts, 1.0, replicate)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)


def test_several_rows_in_one_cell_do_not_pass_the_clip() -> None:
    for rows in (2, 64, 5_000):
        moved = summed((4, 70_000), np.full((rows, 2), 3), [rows], 1.0)
        assert np.linalg.norm(moved) == pytest.approx(1 - SLACK, rel=1e-12)


def test_one_of_many_rows_moves_their_sum_by_a_clip() -> None:
    cells = np.zeros((1_000_000, 1), np.int64)
    whole, rest = (summed((1,), cells[:count], np.ones(count, int), 0.3)[0, 0] for count in (1_000_000, 999_999))
    assert 0.3 * (1 - 2 * SLACK) < whole - rest <= 0.3 * (1 - SLACK) * (1 + 5e-7)


def test_what_the_sums_began_with_stays_where_no_row_is() -> None:
    sums, lost = np.full((2, 70_003), 5.0), np.zeros((2, 70_003))
    rows, owner = {"cells": np.array([[2, 9], [2, 69_999]])}, np.array([0, 1])
    clipped_tallies(Given((3, 70_000)), rows, None, 10.0, owner, np.array([0, 1]), sums, lost)
    expected = np.full((2, 70_003), 5.0)
    expected[:, 2] = expected[0, 12] = expected[1, 70_002] = 6.0
    np.testing.assert_array_equal(sums + lost, expected)


def test_padded_units_have_the_same_vectors() -> None:
    mask = np.array([[True, True, False], [True, False, False], [False] * 3])
    cells = np.array([[[0, 1], [2, 1], [9, 9]], [[1, 0], [9, 9], [9, 9]], [[9, 9]] * 3])
    found = contribution_vectors(Given((3, 2)), {"cells": cells, "mask": mask, "replicate": np.zeros(3, int)}, None)
    np.testing.assert_array_equal(found, [[0.5, 0, 0.5, 0, 1], [0, 1, 0, 1, 0], [0] * 5])


def test_nobody_adds_nothing() -> None:
    assert summed((2, 2), np.zeros((0, 2), int), [], 1.0).tolist() == [[0, 0, 0, 0]]
    np.testing.assert_array_equal(summed((2,), [[1]], [0, 1], 9.0), [[0, 1]])


@pytest.mark.parametrize("cells", [[[0, 2]], [[-1, 0]], [[0.0, 1.0]], [[0]], [[0, 0], [0, 0]]])
def test_cells_that_are_not_there_are_refused(cells: Any) -> None:
    with pytest.raises(MechanismError, match="other cells"):
        summed((2, 2), cells, [1], 1.0)
