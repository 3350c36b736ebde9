"""The published formula: its table, its minimum over lambda, its inverse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.gpope import published_epsilon, published_sigma

# m, N, sigma, epsilon at delta = 1e-5.
TABLE = [
    (1_000, 1_000, 0.5, 1.64),
    (1_000, 1_000, 0.574, 1.00),
    (1_000, 1_000, 0.8, 0.47),
    (1_000, 1_000, 1.0, 0.357),
    (1_000, 1_000, 1.6, 0.211),
    (1_000, 10_000, 1.0, 1.15),
    (1_000, 100_000, 5.0, 0.621),
    (100, 1_000, 2.0, 1.67),
]


@pytest.mark.parametrize(("m", "n", "sigma", "expected"), TABLE)
def test_it_is_the_minimum_over_lambda(m: int, n: int, sigma: float, expected: float) -> None:
    found = published_epsilon(m, n, sigma, 1e-5)
    assert found == pytest.approx(expected, rel=8e-3)
    c = min(4 * (math.exp(1 / sigma**2) - 1), 2 * math.exp(1 / sigma**2))
    grid = np.geomspace(0.1, 1e4, 20_001)
    searched = ((n * grid * (grid + 1) / (2 * m**2) * c + math.log(1e5)) / grid).min()
    assert found == pytest.approx(searched, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.1, 3.12), (1.0, 0.574)])
def test_the_inverse(epsilon: float, sigma: float) -> None:
    found = published_sigma(1_000, 1_000, epsilon, 1e-5)
    assert found == pytest.approx(sigma, rel=2e-3)
    assert published_epsilon(1_000, 1_000, found, 1e-5) == pytest.approx(epsilon, rel=1e-12)


def test_hardly_any_noise_is_no_privacy() -> None:
    assert published_epsilon(1_000, 1_000, 0.01, 1e-5) == math.inf


@pytest.mark.parametrize(
    "bad", [(0, 1, 1.0, 0.1), (1, 0, 1.0, 0.1), (1, 1, 0.0, 0.1), (1, 1, math.nan, 0.1), (1, 1, 1.0, 1.0)]
)
def test_bad_arguments_are_refused(bad: Any) -> None:
    for function in (published_epsilon, published_sigma):
        with pytest.raises(PlanError, match="out of range"):
            function(*bad)
