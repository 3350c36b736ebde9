"""Poisson sampling of units and sampling of rows inside them: exact laws on small cases, edges, refusals."""

import itertools

import numpy as np
import pytest
from scipy import stats

from tacit.errors import PlanError
from tacit.privacy.noise.secret import SecretNoise, pad_rows, poisson_sample, rows_within_units


class Exponentials(SecretNoise):
    """A generator whose exponentials are all one chosen value."""

    def __init__(self, value):
        super().__init__()
        self.value, self.calls = value, 0

    def exponential(self, size):
        self.calls += 1
        return np.full(size, self.value)


def indicators(population, rate, repeats, seed):
    """[repeats, population] of whether each unit was drawn."""
    noise = SecretNoise.for_tests(seed)
    result = np.zeros((repeats, population), bool)
    for row in result:
        row[poisson_sample(population, rate, noise)] = True
    return result


@pytest.mark.parametrize("rate", [0.05, 0.4, 0.97])
def test_every_subset_has_its_product_probability(rate):
    drawn = indicators(4, rate, 20_000, seed=int(100 * rate))
    observed = np.bincount(drawn @ [1, 2, 4, 8], minlength=16)
    size = np.array([bin(subset).count("1") for subset in range(16)])
    expected = len(drawn) * rate**size * (1 - rate) ** (4 - size)
    pooled = expected < 5
    observed, expected = (np.append(x[~pooled], x[pooled].sum()) for x in (observed, expected))
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-3


def test_inclusion_frequency_is_the_rate_for_every_unit_and_pairs_are_independent():
    population, rate, repeats = 30, 0.1, 10_000
    drawn = indicators(population, rate, repeats, seed=1)
    z = (drawn.sum(axis=0) - repeats * rate) / np.sqrt(repeats * rate * (1 - rate))
    assert stats.chi2.sf(np.sum(z**2), population) > 1e-3
    pairs = np.corrcoef(drawn.T)[np.triu_indices(population, 1)] * np.sqrt(repeats)
    assert stats.chi2.sf(np.sum(pairs**2), pairs.size) > 1e-3


def test_size_is_binomial_in_a_large_population():
    noise, population, rate, repeats = SecretNoise.for_tests(2), 1_000_000, 16e-6, 4000
    sizes = np.array([poisson_sample(population, rate, noise).size for _ in range(repeats)])
    edges = np.arange(8, 25)
    cdf = stats.binom(population, rate).cdf(edges)
    expected = repeats * np.diff([0, *cdf, 1])
    observed = np.bincount(np.searchsorted(edges, sizes), minlength=expected.size)
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_positions_are_uniform_over_a_large_population():
    noise = SecretNoise.for_tests(3)
    drawn = np.concatenate([poisson_sample(1_000_000, 1e-3, noise) for _ in range(50)])
    assert stats.kstest((drawn + 0.5) / 1_000_000, "uniform").pvalue > 1e-3


def test_indices_are_sorted_distinct_and_inside():
    drawn = poisson_sample(1000, 0.3, SecretNoise())
    assert drawn.dtype == np.int64
    assert np.all(np.diff(drawn) > 0)
    assert drawn[0] >= 0
    assert drawn[-1] < 1000


def test_rate_one_takes_everyone_and_an_empty_population_nobody():
    np.testing.assert_array_equal(poisson_sample(5, 1.0, SecretNoise()), [0, 1, 2, 3, 4])
    assert poisson_sample(0, 0.5, SecretNoise()).size == 0


@pytest.mark.parametrize("rate", [1e-18, 1e-300, 5e-324])
def test_a_tiny_rate_takes_nobody_without_overflow(rate):
    assert poisson_sample(10**9, rate, SecretNoise()).size == 0


@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.5, 1 - 2**-53])
def test_the_smallest_exponential_takes_everyone_in_as_many_rounds_as_needed(rate):
    noise = Exponentials(2.0**-65)
    np.testing.assert_array_equal(poisson_sample(1000, rate, noise), np.arange(1000))
    assert noise.calls > 1 or rate > 0.5


@pytest.mark.parametrize("rate", [5e-324, 1e-9, 0.01])
def test_the_largest_exponential_takes_nobody(rate):
    assert poisson_sample(1000, rate, Exponentials(65 * np.log(2))).size == 0


def test_gaps_by_hand():
    noise = Exponentials(1.0)  # floor(1 / -ln(0.7)) = floor(2.80) = 2 units passed over each time
    np.testing.assert_array_equal(poisson_sample(10, 0.3, noise), [2, 5, 8])


@pytest.mark.parametrize(
    ("rate", "message"), [(1.5, "over 1"), (0.0, "not above 0"), (-0.1, "not above 0"), (np.nan, "not above 0")]
)
def test_a_rate_that_is_no_probability_is_refused(rate, message):
    with pytest.raises(PlanError, match=message):
        poisson_sample(10, rate, SecretNoise())


OFFSETS = np.array([0, 1, 6, 8, 11], np.int64)  # units of 1, 5, 2 and 3 rows


def test_a_small_unit_gives_all_its_rows_and_pads_with_its_own_first():
    found = rows_within_units(OFFSETS, np.array([2, 0]), 4, SecretNoise())
    np.testing.assert_array_equal(found[0], [6, 7, 0])
    np.testing.assert_array_equal(found[1], [2, 1])
    positions, mask = pad_rows(*found, 4)
    np.testing.assert_array_equal(positions, [[6, 7, 6, 6], [0, 0, 0, 0]])
    np.testing.assert_array_equal(mask, [[True, True, False, False], [True, False, False, False]])


def test_every_subset_of_a_large_unit_is_equally_likely():
    positions, kept = rows_within_units(OFFSETS, np.full(20_000, 1), 3, SecretNoise.for_tests(4))
    assert (kept == 3).all()
    positions = positions.reshape(-1, 3)
    subsets = list(itertools.combinations(range(1, 6), 3))
    observed = [np.all(positions == subset, axis=1).sum() for subset in subsets]
    assert sum(observed) == 20_000
    assert stats.chisquare(observed).pvalue > 1e-3


def test_the_draws_of_two_units_are_independent():
    units = np.tile([1, 3, 1], 20_000)
    positions, _ = rows_within_units(OFFSETS, units, 1, SecretNoise.for_tests(5))
    a, b, again = positions.reshape(-1, 3).T
    joint = np.bincount((a - 1) * 3 + (b - 8), minlength=15)
    assert stats.chisquare(joint).pvalue > 1e-3
    same_unit = np.bincount((a - 1) * 5 + (again - 1), minlength=25)
    assert stats.chisquare(same_unit).pvalue > 1e-3


def test_no_units_and_exactly_full_units():
    positions, mask = pad_rows(*rows_within_units(OFFSETS, np.array([], np.int64), 3, SecretNoise()), 3)
    assert positions.shape == mask.shape == (0, 3)
    positions, mask = pad_rows(*rows_within_units(OFFSETS, np.array([3]), 3, SecretNoise()), 3)
    np.testing.assert_array_equal(positions, [[8, 9, 10]])
    assert mask.all()


def test_without_noise_the_first_rows_of_a_unit_are_taken():
    positions, kept = rows_within_units(OFFSETS, np.array([1, 0, 3]), 2, None)
    np.testing.assert_array_equal(positions, [1, 2, 0, 8, 9])
    np.testing.assert_array_equal(kept, [2, 1, 2])


def test_a_unit_draws_the_same_rows_beside_smaller_ones():
    alone = rows_within_units(OFFSETS, np.array([1, 3]), 2, SecretNoise.for_tests(6))[0]
    beside = rows_within_units(OFFSETS, np.array([1, 2, 3, 0]), 2, SecretNoise.for_tests(6))[0]
    np.testing.assert_array_equal(beside[[0, 1, 4, 5]], alone)
    np.testing.assert_array_equal(beside[[2, 3, 6]], [6, 7, 0])


def test_a_cap_below_one_row_is_refused():
    with pytest.raises(PlanError, match="rows_per_unit"):
        rows_within_units(OFFSETS, np.array([0]), 0, SecretNoise())
