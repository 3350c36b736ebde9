import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.errors import MechanismError
from tacit.privacy.gradients.clipping import SLACK, clip_rows, clipped_sums, coefficients


def test_coefficients_are_one_below_the_bound_and_the_ratio_above() -> None:
    norms = np.array([0.0, 1.0, 2.0 * (1 - SLACK), 4.0, 1e300])
    np.testing.assert_allclose(coefficients(norms, 2.0), [1, 1, 1, 0.5 * (1 - SLACK), 0], rtol=1e-15)


@pytest.mark.parametrize("hostile", [math.nan, math.inf, -1.0])
def test_hostile_norms_have_coefficient_zero(hostile: float) -> None:
    assert coefficients(np.array([hostile, 1.0]), 3.0).tolist() == [0.0, 1.0]
    assert coefficients(torch.tensor([hostile, 1.0], dtype=torch.float64), 3.0).tolist() == [0.0, 1.0]


def test_numpy_and_torch_agree() -> None:
    norms = np.array([0.0, 1e-320, 0.3, 7.0, 1e30, 1e40, math.nan])
    both = coefficients(torch.from_numpy(norms), 0.5).numpy(), coefficients(norms, 0.5)
    np.testing.assert_allclose(*both, rtol=1e-15)
    assert both[0].max() <= 1.0


def test_a_coefficient_that_float32_rounds_coarsely_is_zero() -> None:
    assert coefficients(np.array([1e39]), 1.0).tolist() == [0.0]
    assert coefficients(np.array([1e37]), 1.0).tolist() == [pytest.approx(1e-37, rel=2e-4)]


def test_clip_zero_lets_nothing_through() -> None:
    assert coefficients(np.array([0.0, 1e-300, 2.0]), 0.0).tolist() == [0.0, 0.0, 0.0]
    assert not clip_rows([[1.0, 2.0]], 0.0).any()


@pytest.mark.parametrize("clip", [math.nan, math.inf, -math.inf, -1e-9])
def test_without_a_finite_bound_nothing_is_clipped_but_refused(clip: float) -> None:
    with pytest.raises(MechanismError, match="finite bound"):
        clip_rows([[1.0]], clip)


def test_rows_are_scaled_one_by_one() -> None:
    clipped = clip_rows([[3.0, 4.0], [0.3, 0.4], [math.nan, 1.0], [math.inf, 0.0], [1e200, 0.0]], 1.0)
    expected = [[0.6 * (1 - SLACK), 0.8 * (1 - SLACK)], [0.3, 0.4], [0, 0], [0, 0], [0, 0]]
    np.testing.assert_allclose(clipped, expected, rtol=1e-14)


def test_rows_need_two_axes() -> None:
    with pytest.raises(MechanismError, match=r"\[units, d\]"):
        clip_rows([1.0, 2.0], 1.0)


def test_no_units_is_no_error() -> None:
    assert clip_rows(np.empty((0, 4)), 1.0).shape == (0, 4)


@given(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.floats(width=64)),
    st.floats(1e-100, 1e100),
)
def test_every_row_is_bounded_whatever_it_holds(rows: np.ndarray, clip: float) -> None:
    clipped = clip_rows(rows, clip)
    scaled = np.abs(clipped / clip)
    assert np.isfinite(clipped).all()
    assert (np.sqrt(np.square(scaled).sum(1)) <= 1).all()


def test_sums_are_those_of_each_replicate() -> None:
    vectors = np.array([[3.0, 4.0], [0.3, 0.4], [30.0, 40.0], [np.nan, 1.0]])
    found = clipped_sums(vectors, 1.0, np.array([0, 0, 2, 2]), 3)
    assert found == pytest.approx(np.array([[0.9, 1.2], [0.0, 0.0], [0.6, 0.8]]), rel=2e-4)
    assert clipped_sums(np.zeros((0, 2)), 1.0, np.zeros(0, np.int64), 2).shape == (2, 2)


def test_what_a_long_sum_rounds_away_is_kept() -> None:
    """Blocks of 0.1 on top of a total so large that each of them alone would be rounded by up to a half."""
    sums, lost, blocks = np.full((1, 1), 2.0**53), np.zeros((1, 1)), 200
    ones = np.full((1024, 1), 0.1 / 1024)
    for _ in range(blocks):
        clipped_sums(ones, 1.0, np.zeros(1024, np.int64), 1, sums, lost)
    kept = float(sums[0, 0] - 2.0**53) + float(lost[0, 0])
    assert kept == pytest.approx(0.1 * blocks, rel=1e-12)


def test_blocks_of_vectors_are_added_up_before_their_sums_are() -> None:
    vectors = np.zeros((2048, 1))
    vectors[0], vectors[1024:] = 2.0**53, 1.0
    assert clipped_sums(vectors, 2.0**60, np.zeros(2048, np.int64), 1) == 2.0**53 + 1024
