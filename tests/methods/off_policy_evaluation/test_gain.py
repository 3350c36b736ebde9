"""The known-noise filter against closed forms, numerical integrals and simulated noise."""

import numpy as np
import pytest
from scipy.integrate import quad

from tacit.methods.off_policy_evaluation.statistics import (
    Gram,
    read_gram,
    symmetric_matrix,
    truncated_moments,
    update,
    upper_triangle,
)


@pytest.mark.parametrize("seen", [-3.0, -0.5, 0.0, 0.7, 4.0])
def test_a_sign_narrows_what_was_seen(seen):
    total, mean, square = (
        quad(lambda g, k=k: g**k * np.exp(-((g - seen) ** 2) / 0.5 + seen**2 / 0.5 * (seen < 0)), 0, 10)[0]
        for k in range(3)
    )
    mean, square = mean / total, square / total
    found_mean, found_variance = truncated_moments(np.array([seen]), 0.5)
    assert found_mean[0] == pytest.approx(mean, rel=1e-5)
    assert found_variance[0] == pytest.approx(square - mean**2, rel=1e-4)


def test_far_from_zero_and_without_noise_nothing_changes():
    mean, variance = truncated_moments(np.array([5.0]), 0.1)
    assert (mean[0], variance[0]) == (pytest.approx(5.0), pytest.approx(0.01))
    mean, variance = truncated_moments(np.array([-1.0, 0.0, 2.0]), 1e-12)
    assert mean == pytest.approx([0.0, 0.0, 2.0], abs=1e-11)
    assert np.isfinite(variance).all()


def test_one_number_is_the_textbook_filter():
    gram = Gram(np.array([[0.4]]), np.array([0.01]), 0.1, True)
    change, after = update(gram, np.array([[2.0]]), np.array([0.3]), 0.2)
    scatter = 0.4**2 * 2.0 + 0.2**2 + 0.01 * 2.0
    assert change == pytest.approx([0.3 * 0.4 * 2.0 / scatter])
    assert after == pytest.approx(np.array([[2.0 - (0.4 * 2.0) ** 2 / scatter]]))


def test_without_noise_the_error_is_found_exactly():
    generator = np.random.default_rng(0)
    root = generator.normal(size=(4, 4))
    matrix, d = root @ root.T, generator.normal(size=4)
    gram = read_gram(upper_triangle(matrix), 0.0, tabular=False, n=4)
    change, after = update(gram, np.eye(4), matrix @ d, 0.0)
    assert change == pytest.approx(d, rel=1e-3)
    assert np.abs(after).max() < 1e-3


def test_noise_alone_moves_nothing_much():
    gram = read_gram(np.array([0.5, 0.5, 0.5]), 0.1, tabular=True, n=3)
    change, after = update(gram, np.eye(3), np.full(3, 0.1), 50.0)
    assert change == pytest.approx(np.full(3, 0.1 * 0.5 / 50**2), rel=1e-2)
    assert after == pytest.approx(np.eye(3), abs=1e-3)


def test_the_noise_of_a_released_triangle_acts_as_said():
    generator, n, noise = np.random.default_rng(1), 5, 0.3
    root = generator.normal(size=(n, n))
    covariance = root @ root.T
    errors = [symmetric_matrix(noise * generator.normal(size=n * (n + 1) // 2), n) for _ in range(20_000)]
    d = generator.multivariate_normal(np.zeros(n), covariance, size=len(errors))
    moved = np.einsum("kij,kj->ki", np.array(errors), d)
    expected = Gram(np.eye(n), np.ones(n), noise, False).spread(covariance)
    assert moved.T @ moved / len(errors) == pytest.approx(expected, abs=0.05 * np.trace(expected) / n)


def test_a_released_triangle_becomes_a_positive_matrix():
    matrix = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, -0.5]])
    gram = read_gram(upper_triangle(matrix), 0.01, tabular=False, n=3)
    assert np.linalg.eigvalsh(gram.matrix).min() >= 0
    assert gram.matrix[:2, :2] == pytest.approx(matrix[:2, :2], abs=1e-3)
    assert symmetric_matrix(upper_triangle(matrix), 3) == pytest.approx(matrix)
