"""Intervals from noisy sums: coverage, closed forms, and what they do when the noise says nonsense."""

import math

import numpy as np
import pytest
from experiments.beyond.ope_rare_scores import LAWS, coverage
from scipy.stats import beta, norm

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation import intervals
from tacit.methods.off_policy_evaluation.intervals import UPPER, NoisySums, bounds, share_bounds

SHARES = (0.65, 0.25, 0.1)
NOISE = {0.1: 30.75, 1.0: 3.7307, 10.0: 0.49989}
"""Noise multipliers of one Gaussian release at delta 1e-5, add-or-remove."""


def noisy(u, epsilon, rng, *, floor, population=None):
    noise = tuple(NOISE[epsilon] / math.sqrt(share) for share in SHARES)
    total, count, squares = np.array([u.sum(), len(u), (u**2).sum()]) + rng.normal(size=3) * noise
    return NoisySums(
        total=total, count=count, squares=squares, noise=noise, population=population or len(u), floor=floor
    )


def chain(rng, size):
    return 2 * 0.99 ** (2 * rng.integers(1, 40, size)) - 1, None


def skewed(rng, size):
    return 2 * np.minimum(rng.exponential(0.1, size), 1) - 1, 2 * 0.1 * (1 - math.exp(-10)) - 1


def rare(rng, size):
    return 2.0 * (rng.random(size) < 0.02) - 1, -0.96


def heavy(rng, size):
    return np.minimum(np.exp(1.5 * rng.normal(size=size) - 3), 1), None


def constant(rng, size):
    return np.full(size, 0.7), 0.7


@pytest.mark.parametrize(("draw", "floor"), [(chain, -1), (skewed, -1), (rare, -1), (heavy, 0), (constant, -1)])
@pytest.mark.parametrize(("size", "epsilon"), [(1000, 1.0), (1000, 0.1), (100, 1.0), (200, 10.0)])
@pytest.mark.parametrize("sides", ["both", "lower"])
def test_coverage_reaches_the_nominal_level(draw, floor, size, epsilon, sides):
    rng = np.random.default_rng(3)
    truth = draw(rng, 10)[1]
    truth = draw(rng, 2_000_000)[0].mean() if truth is None else truth
    hits = 0
    for _ in range(200):
        low, high = bounds(noisy(draw(rng, size)[0], epsilon, rng, floor=floor), level=0.9, sides=sides)
        hits += low <= truth <= high
    assert beta.ppf(0.995, hits + 1, 200 - hits) >= 0.9 if hits < 200 else True


def test_the_population_may_be_larger_than_the_data():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        low, high = bounds(noisy(skewed(rng, 400)[0], 1.0, rng, floor=-1, population=2000), level=0.9, sides="both")
        hits += low <= -0.8 <= high
    assert beta.ppf(0.995, hits + 1, 200 - hits) >= 0.9


def test_a_noise_only_interval_would_miss():
    """The control: counting the privacy noise alone, as published work does, covers far too seldom."""
    rng = np.random.default_rng(0)
    truth = chain(rng, 2_000_000)[0].mean()
    hits = 0
    for _ in range(200):
        sums = noisy(chain(rng, 1000)[0], 1.0, rng, floor=-1)
        hits += abs(sums.total - truth * sums.count) <= 1.645 * math.hypot(sums.noise[0], truth * sums.noise[1])
    assert hits < 0.7 * 200


def test_widths_are_those_of_a_normal_interval_where_that_is_right():
    """chain, 1,000 units: within a fifth of the interval of somebody who knows the true variance."""
    rng = np.random.default_rng(0)
    u = chain(rng, 1000)[0]
    for epsilon in (0.1, 1.0, 10.0):
        sums = noisy(u, epsilon, rng, floor=-1)
        low, high = bounds(sums, level=0.95, sides="both")
        oracle = 1.96 * math.sqrt(1000 * u.var() + sums.noise[0] ** 2 + (u.mean() * sums.noise[1]) ** 2) / 1000
        assert oracle * 0.9 < (high - low) / 2 < oracle * 1.2


def test_without_noise_and_with_many_units_it_is_the_score_interval():
    """u in {0, 1}: Wilson's score interval up to the skewness term, which vanishes as 1/N."""
    n, p, z = 10**8, 0.3, 1.959963984540054
    sums = NoisySums(total=n * p, count=n, squares=n * p, noise=(0.0, 0.0, 0.0), population=n, floor=0)
    low, high = bounds(sums, level=0.95, sides="both")
    wilson = math.sqrt(p * (1 - p) / n) * z
    assert low == pytest.approx(p - wilson, abs=2e-3 * wilson)
    assert high == pytest.approx(p + wilson, abs=2e-3 * wilson)


def test_where_noise_is_all_it_is_the_noise_interval():
    """One unit's worth of variance under noise 1000 times larger: Fieller's roots of the noise alone."""
    n, s, z = 10**6, 10**4, 1.2815515655446004
    sums = NoisySums(total=0.25 * n, count=n, squares=0.0625 * n, noise=(s, 0.0, 1e-9), population=n, floor=-1)
    low, high = bounds(sums, level=0.9, sides="lower")
    # V(mu) = UPPER 2 mu s (the noise of its own estimate); T = n (1/4 - mu)
    expected = 0.25 - z * math.sqrt(s**2 + UPPER * 0.5 * s) / n
    assert low == pytest.approx(expected, abs=1e-5)
    assert high == 1.0


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("two_sided", [True, False])
def test_the_raised_variance_keeps_the_level_for_every_variance_and_noise(level, two_sided):
    """P(|N(0, V + nu)| <= z sqrt(max(V + g, 0) + UPPER + nu)) over g ~ N(0, 1), in units of the estimate's noise."""
    z = norm.ppf((1 + level) / 2 if two_sided else level)
    g = np.linspace(-8, 8, 2001)
    weight = norm.pdf(g) / norm.pdf(g).sum()
    variance = np.concatenate([[1e-9], np.geomspace(0.01, 300, 60)])[:, None, None]
    noise = np.concatenate([[0], np.geomspace(0.001, 100, 30)])[:, None]

    def coverage(upper):
        inside = norm.cdf(z * np.sqrt((np.maximum(variance + g, 0) + upper + noise) / (variance + noise)))
        return ((2 * inside - 1 if two_sided else inside) @ weight).min()

    assert coverage(UPPER) >= level - 1e-9
    assert coverage(0.0) < level - 0.01 or level == 0.5 or (level == 0.8 and not two_sided)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [0.0, 0.05, 0.3, 1.0, 3.0])
def test_scores_that_are_rarely_large_or_small_are_covered_at_every_rate(law, scale):
    """Exact, so that nothing is left to luck (`experiments.beyond.ope_rare_scores`); scale is the noise multiplier."""
    noise = tuple(scale / math.sqrt(share) for share in SHARES)
    for level in (0.9, 0.95, 0.975, 0.99):
        for rare in (0.02, 0.06, 0.3, 0.7, 1.0, 1.5, 2.2, 3.0, 4.0, 9.0, 40.0):
            assert coverage(1_000, rare, LAWS[law], level, noise) >= level - 1e-6


def test_a_normal_tail_would_not_cover_them(monkeypatch):
    """The control: with room for the skewness of the studentised sum alone, as before."""

    def normal(*, residual, noise, spread, spread_noise, below, above, population, z, sides):
        variance = np.minimum(np.maximum(spread, 0) + UPPER * spread_noise, population * above * below)
        share = variance / np.maximum(variance + noise, 1e-300)
        skew = (2 * z**2 + 1) / 3 * np.where(residual > 0, below, above) * share
        return np.abs(residual) - z * np.sqrt(variance + noise) - skew

    monkeypatch.setattr(intervals, "_excess", normal)
    noise = tuple(0.5 / math.sqrt(share) for share in SHARES)
    for level, most in ((0.95, 0.94), (0.99, 0.981)):
        assert coverage(1_000, 1.5, LAWS["rare successes, from below"], level, noise) < most


@pytest.mark.parametrize("total", [-1e9, -3.0, 0.0, 3.0, 1e9])
@pytest.mark.parametrize("count", [-1e9, -5.0, 0.0, 4.0, 1e9])
@pytest.mark.parametrize("squares", [-1e9, 0.0, 1e9])
@pytest.mark.parametrize("noise", [0.0, 2.0, 1e6])
@pytest.mark.parametrize("floor", [-1.0, 0.0])
def test_nonsense_gives_an_interval_within_the_range(total, count, squares, noise, floor):
    sums = NoisySums(total=total, count=count, squares=squares, noise=(noise, noise, noise), population=10, floor=floor)
    for sides in ("both", "lower"):
        low, high = bounds(sums, level=0.95, sides=sides)
        assert floor <= low <= high <= 1
    assert floor <= sums.mean <= 1


def test_a_higher_level_is_wider_and_one_side_is_tighter():
    rng = np.random.default_rng(1)
    sums = noisy(skewed(rng, 500)[0], 1.0, rng, floor=-1)
    inner, outer = bounds(sums, level=0.9, sides="both"), bounds(sums, level=0.99, sides="both")
    assert outer[0] < inner[0] < sums.mean < inner[1] < outer[1]
    assert inner[0] < bounds(sums, level=0.9, sides="lower")[0] < sums.mean
    assert bounds(sums, level=0.95, sides="lower")[0] == pytest.approx(inner[0])


@pytest.mark.parametrize("level", [0.0, 0.4, 0.9999, 1.0, math.nan])
def test_levels_out_of_range_are_refused(level):
    sums = NoisySums(total=0, count=1, squares=1, noise=(1, 1, 1), population=2, floor=0)
    with pytest.raises(PlanError, match="level"):
        bounds(sums, level=level, sides="both")


@pytest.mark.parametrize("sides", ["both", "lower"])
@pytest.mark.parametrize(("size", "epsilon"), [(1000, 1.0), (1000, 0.1), (200, 10.0)])
def test_the_share_of_two_means_is_covered(size, epsilon, sides):
    """u = w x and v = w (1 - x) / 3 with heavy weights w; the share of u with scales 1 and 3 is E[w x] / E[w]."""
    rng = np.random.default_rng(5)

    def draw(count):
        weight, x = np.minimum(np.exp(rng.normal(size=count) - 2), 1), rng.beta(2, 5, count)
        return weight * x, weight * (1 - x) / 3

    u, v = draw(2_000_000)
    truth, hits = u.mean() / (u.mean() + 3 * v.mean()), 0
    for _ in range(200):
        first, second = (noisy(part, epsilon, rng, floor=0) for part in draw(size))
        low, high = share_bounds(first, second, (1.0, 3.0), level=0.9, sides=sides)
        hits += low <= truth <= high
    assert beta.ppf(0.995, hits + 1, 200 - hits) >= 0.9 if hits < 200 else True


def test_the_share_without_noise_is_as_its_definition_says():
    """Its ends solve |T| = z sqrt(V) + rare with V = a^2 Q + b^2 Q', the rare terms times a and b."""
    first, second = (
        NoisySums(total=t, count=100.0, squares=q, noise=(0.0, 0.0, 0.0), population=100, floor=0.0)
        for t, q in ((30.0, 12.0), (10.0, 2.0))
    )
    low, high = share_bounds(first, second, (0.5, 1.0), level=0.9, sides="both")
    assert low < 0.5 * 30 / (0.5 * 30 + 10) < high
    z = norm.ppf(0.95)
    for share, near, far in ((low, 0.5 * (1 - low), low), (high, high, 0.5 * (1 - high))):
        a, b, rare = 0.5 * (1 - share), share, max((z**2 + 2) / 6 * near, math.log(20) * far)
        variance = min(a**2 * 12 + b**2 * 2, 100 * a * b)
        assert abs(a * 30 - b * 10) == pytest.approx(z * math.sqrt(variance) + rare, rel=1e-6)
    assert share_bounds(first, second, (0.5, 1.0), level=0.95, sides="lower")[0] == pytest.approx(low)
