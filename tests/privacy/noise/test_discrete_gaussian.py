"""Discrete Gaussian noise: the law by drawing, and the exactness of the coin that keeps a proposal."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chisquare

from tacit.errors import PlanError
from tacit.privacy.noise import discrete
from tacit.privacy.noise.secret import SecretNoise


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(1, 2), 1, Fraction(22, 7), 10, 400])
def test_the_law(variance: int | Fraction) -> None:
    drawn = SecretNoise.for_tests(4).discrete_gaussian(100_000, variance)
    edge = math.ceil(3.5 * math.sqrt(variance))
    values = np.arange(-60 * edge, 60 * edge + 1)
    law = np.exp(-(values**2) / float(2 * variance))
    law /= law.sum()
    inside = np.abs(values) <= edge
    tail = law[values > edge].sum()
    counts = np.bincount(np.clip(drawn, -edge - 1, edge + 1) + edge + 1, minlength=2 * edge + 3)
    expected = 100_000 * np.concatenate([[tail], law[inside], [tail]])
    common = expected > 5
    assert counts[~common].sum() <= 5 + 5 * expected[~common].sum()
    assert chisquare(counts[common], expected[common] * counts[common].sum() / expected[common].sum()).pvalue > 1e-3


@pytest.mark.parametrize("variance", [2**20, 2**50, Fraction(2**50 - 1, 2**10 - 1)])
def test_large_variances_follow_the_continuous_law(variance: int | Fraction) -> None:
    drawn = SecretNoise.for_tests(9).discrete_gaussian(50_000, variance)
    assert chisquare(np.histogram(ndtr(drawn / math.sqrt(variance)), 50, (0, 1))[0]).pvalue > 1e-3
    assert len(np.unique(drawn % 1024)) == 1024  # the low digits are noise too


@pytest.mark.parametrize(
    ("variance", "y"),
    [
        *((Fraction(1, 9), 0), (Fraction(1, 2), 1), (7, 0), (7, 3), (7, 6), (Fraction(22, 7), 2), (100, 33)),
        *((2**50, 0), (2**50, 2**25 + 12345), (Fraction(2**50 - 1, 1023), 2 * 1049075)),
    ],
)
def test_the_exponent_is_taken_apart_without_a_rest(variance: int | Fraction, y: int) -> None:
    """Every coin that would be thrown is noted; their exponents sum to (y - V/t)^2 / (2 V), as fractions."""
    p, q = Fraction(variance).numerator, Fraction(variance).denominator
    t = max(1, math.isqrt(p // q))
    total = Fraction(0)

    def note(
        _: object, alive: np.ndarray, times: np.ndarray, factors: tuple[tuple[np.ndarray, np.ndarray], ...]
    ) -> None:
        nonlocal total
        assert all(0 <= int(top[0]) <= int(bottom[0]) for top, bottom in factors)
        total += int(times[0]) * math.prod((Fraction(int(a[0]), int(b[0])) for a, b in factors), start=Fraction(1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discrete, "_throw", note)
        discrete._keep(lambda high: high, np.array([y]), p, q, t)
    assert total == (y - Fraction(variance) / t) ** 2 / (2 * Fraction(variance))


def test_a_coin_of_a_product() -> None:
    draw = SecretNoise.for_tests(1).integers
    size = 200_000
    fractions = tuple((np.full(size, a), np.full(size, b)) for a, b in ((2, 3), (4, 5)))
    heads = discrete._bernoulli_exp_product(draw, fractions, size).mean()
    assert heads == pytest.approx(math.exp(-8 / 15), abs=5 * math.sqrt(0.25 / size))


def test_thrown_coins_multiply() -> None:
    draw = SecretNoise.for_tests(2).integers
    alive = np.ones(100_000, np.bool_)
    half = (np.ones(100_000, np.int64), np.full(100_000, 2))
    discrete._throw(draw, alive, np.repeat([0, 3], 50_000), (half,))
    assert alive[:50_000].all()
    assert alive[50_000:].mean() == pytest.approx(math.exp(-1.5), abs=0.01)


def test_no_numbers_at_all() -> None:
    assert SecretNoise().discrete_gaussian(0, 5).shape == (0,)


@pytest.mark.parametrize("variance", [0, -1, 2**50 + 1, Fraction(1, 2**10 + 1), 1.5, True, math.nan])
def test_wrong_variances(variance: int) -> None:
    with pytest.raises(PlanError, match="variance"):
        SecretNoise().discrete_gaussian(3, variance)
