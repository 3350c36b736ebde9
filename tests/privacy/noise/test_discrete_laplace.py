"""Discrete Laplace noise: the law by drawing, and the exactness of its coins."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from tacit.errors import PlanError
from tacit.privacy.noise.discrete import _bernoulli_exp
from tacit.privacy.noise.secret import SecretNoise


@pytest.mark.parametrize("scale", [1, 3, 20])
def test_the_law(scale: int) -> None:
    drawn = SecretNoise.for_tests(4).discrete_laplace(200_000, scale)
    edge = 4 * scale
    values = np.arange(-edge, edge + 1)
    a = np.exp(-1 / scale)
    expected = (1 - a) / (1 + a) * a ** np.abs(values)
    counts = np.bincount(np.clip(drawn, -edge - 1, edge + 1) + edge + 1)
    ends = a ** (edge + 1) / (1 + a)
    assert chisquare(counts, 200_000 * np.concatenate([[ends], expected, [ends]])).pvalue > 1e-3


@pytest.mark.parametrize("scale", [2**20, 2**40])
def test_large_scales_follow_the_continuous_law(scale: int) -> None:
    drawn = SecretNoise.for_tests(9).discrete_laplace(100_000, scale)
    uniform = np.exp(-np.abs(drawn) / scale)  # of a Laplace variate
    assert chisquare(np.histogram(uniform, 50, (0, 1))[0]).pvalue > 1e-3
    assert abs(np.mean(drawn > 0) - 0.5) < 0.01
    assert len(np.unique(drawn % 1024)) == 1024  # the low digits are noise too


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 1), (1, 7), (5, 7), (2**40 - 1, 2**40)])
def test_one_in_exp_by_the_probability_of_every_coin(numerator: int, denominator: int) -> None:
    """Only a run of heads goes on, so there is one path: its coins' bounds are noted and their chances multiplied."""
    total = 0.0
    for heads in range(25):
        bounds: list[int] = []

        def draw(high: np.ndarray, heads: int = heads, bounds: list[int] = bounds) -> np.ndarray:
            bounds.append(int(high[0]))
            return high - 1 if len(bounds) > heads or numerator == 0 else np.zeros(1, np.int64)

        happened = bool(_bernoulli_exp(draw, np.array([numerator]), denominator)[0])
        chances = [numerator / bound for bound in bounds]
        path = math.prod(chances[:-1]) * (1 - chances[-1])
        total += path * happened * (len(bounds) == heads + 1)
    assert total == pytest.approx(math.exp(-numerator / denominator), abs=1e-12)


def test_no_numbers_at_all() -> None:
    assert SecretNoise().discrete_laplace(0, 5).shape == (0,)


@pytest.mark.parametrize("scale", [0, -1, 1.5, 2**40 + 1])
def test_wrong_scales(scale: float) -> None:
    with pytest.raises(PlanError, match="scale"):
        SecretNoise().discrete_laplace(3, scale)
