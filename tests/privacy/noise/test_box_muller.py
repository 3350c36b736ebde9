"""From keystream words to Gaussians: both kernels against float64, and the refined tail against closed forms."""

import math
import sys

import numpy as np
import pytest
from scipy import stats

from tacit.privacy.noise import box_muller

KERNELS = [
    pytest.param(box_muller.box_muller_numpy, id="numpy"),
    pytest.param(
        box_muller.box_muller_compiled,
        id="compiled",
        marks=pytest.mark.skipif(box_muller.box_muller_compiled is None, reason="installed without a C compiler"),
    ),
]


def words(pairs, seed=0):
    """Random words whose first pairs are the extremes of both ends and every octant's edge."""
    w = np.random.default_rng(seed).integers(0, 2**32, 2 * pairs, dtype=np.uint32)
    edges = [1, 2, 255, 65535, 65536, 65537, 2**24, 2**31 - 1, 2**31, 3037000499, 2**32 - 129, 2**32 - 2, 2**32 - 1]
    w[: len(edges)] = edges
    octants = [(k * 2**29 + d) % 2**32 for k in range(8) for d in (-1, 0, 1)]
    w[pairs : pairs + len(octants)] = octants
    return w


def extra_of(w, seed=1):
    """One further word for each of its rare pairs."""
    return np.random.default_rng(seed).integers(0, 2**64, box_muller.rare_pairs(w), dtype=np.uint64)


def exact(w):
    """Cosines, sines and radii in float64, from u = a / 2^32 and its exact complement; a = 0 has none."""
    a, b = np.split(w.astype(np.float64), 2)
    energy = np.where(a < 2**31, -np.log(np.maximum(a, 1) / 2**32), -np.log1p(-(2**32 - a) / 2**32))
    radius, angle = np.sqrt(2 * energy), 2 * np.pi * b / 2**32
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)]), np.tile(radius, 2)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("pairs", [50, 16384, 40001])
def test_kernel_is_box_muller_within_5e7_of_the_radius(kernel, pairs):
    w = words(pairs)
    before, out = w.copy(), np.full(2 * pairs, np.nan, np.float32)
    assert box_muller.rare_pairs(w) == np.count_nonzero(w[:pairs] < 2**16) >= 4
    kernel(w, extra_of(w), out, 1.0)
    expected, radius = exact(w)
    common = np.tile(w[:pairs] >= 2**16, 2)
    assert np.all(np.abs(out - expected)[common] <= 5e-7 * radius[common])
    np.testing.assert_array_equal(w, before)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_multiplies_by_the_scale(kernel):
    w = words(1000)
    one, many = np.empty(2000, np.float32), np.empty(2000, np.float32)
    kernel(w, extra_of(w), one, 1.0)
    kernel(w, extra_of(w), many, 2.0**-40)
    np.testing.assert_array_equal(many, one * np.float32(2.0**-40))


@pytest.mark.skipif(box_muller.box_muller_compiled is None, reason="installed without a C compiler")
def test_compiled_and_numpy_kernels_agree():
    w = words(50_000, seed=3)
    a, b = np.empty(100_000, np.float32), np.empty(100_000, np.float32)
    box_muller.box_muller_compiled(w, extra_of(w), a, 3.0)
    box_muller.box_muller_numpy(w, extra_of(w), b, 3.0)
    assert np.all(np.abs(a - b) <= 3.0 * 1e-6 * exact(w)[1])


@pytest.mark.skipif(box_muller.box_muller_compiled is None, reason="installed without a C compiler")
@pytest.mark.parametrize(("n_words", "n_out"), [(3, 3), (4, 6), (6, 4)])
def test_compiled_kernel_refuses_buffers_that_do_not_match(n_words, n_out):
    with pytest.raises(ValueError, match="same even size"):
        box_muller.box_muller_compiled(
            np.zeros(n_words, np.uint32), np.zeros(0, np.uint64), np.zeros(n_out, np.float32), 1.0
        )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("further", [0, 1, 3])
def test_every_rare_pair_needs_one_further_word(kernel, further):
    w = np.array([5, 2**20, 65535, 1, 2, 3], np.uint32)
    with pytest.raises(ValueError, match="one word for each rare pair"):
        kernel(w, np.zeros(further, np.uint64), np.zeros(6, np.float32), 1.0)


@pytest.mark.skipif(box_muller.noisy_mean_compiled is None, reason="installed without a C compiler")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pairs", [1, 50, 1024, 5000])
def test_the_noisy_mean_is_the_sum_at_the_nearest_multiple_of_the_step(dtype, pairs):
    w = words(max(pairs, 50))[-2 * pairs :].copy()
    total = (np.random.default_rng(2).normal(size=2 * pairs) * 100).astype(dtype)
    noise, out = np.empty(2 * pairs, np.float32), np.empty(2 * pairs, np.float32)
    box_muller.box_muller_compiled(w, extra_of(w), noise, 3.0)
    box_muller.noisy_mean_compiled(w, extra_of(w), total, out, 3.0, 2.0**-6, 7.0)
    whole = np.rint((total.astype(np.float64) + noise) * 64).astype(np.float32)
    np.testing.assert_array_equal(out, whole * np.float32(2.0**-6 / 7.0))
    if dtype is np.float32:  # in place
        box_muller.noisy_mean_compiled(w, extra_of(w), total, total, 3.0, 2.0**-6, 7.0)
        np.testing.assert_array_equal(total, out)


@pytest.mark.skipif(box_muller.noisy_mean_compiled is None, reason="installed without a C compiler")
def test_a_sum_next_to_the_middle_of_two_multiples_goes_to_the_nearer_one():
    """Float32 alone would round it to the middle first, and then to the even multiple."""
    w = words(4096)
    noise = np.empty(8192, np.float32)
    box_muller.box_muller_compiled(w, extra_of(w), noise, 1.0)
    middle = np.round(noise) + 0.5
    total = (middle - noise.astype(np.float64)).astype(np.float32)
    total = np.nextafter(total, np.where(np.arange(8192) % 2, np.inf, -np.inf).astype(np.float32))
    out = np.empty(8192, np.float32)
    box_muller.noisy_mean_compiled(w, extra_of(w), total, out, 1.0, 1.0, 1.0)
    exact_sum = total.astype(np.float64) + noise
    np.testing.assert_array_equal(out, np.rint(exact_sum))
    assert np.count_nonzero(out != np.rint(total + noise)) > 100


@pytest.mark.parametrize("kernel", KERNELS)
def test_refinement_gives_the_radius_of_the_extended_word(kernel):
    w = np.array([0, 0, 7, 65535, 65536, 0, 2**30, 2**31, 3 * 2**30, 12345], np.uint32)
    extra = np.array([0, 2**64 - 1, 2**63, 1], np.uint64)
    out = np.full(10, 9.0, np.float32)
    kernel(w, extra, out, 2.0)
    u = [0.5 * 2.0**-96, 2.0**-32, (7 + 0.5) * 2.0**-32, 65535 * 2.0**-32]
    radius = [2 * math.sqrt(-2 * math.log(v)) for v in u]
    assert radius[0] == pytest.approx(2 * 11.596, abs=1e-3)  # the end of the support
    np.testing.assert_allclose(np.hypot(out[:4], out[5:9]), radius, rtol=1e-6)
    np.testing.assert_allclose(
        out[[0, 6, 2, 8]], np.multiply(radius, [1, 1, -1, -1]), rtol=1e-6
    )  # angles 0, 90, 180, 270
    assert np.hypot(out[4], out[9]) == pytest.approx(2 * math.sqrt(-2 * math.log(2.0**-16)), rel=1e-6)  # not rare


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("word", [0, 1, 40_000])
def test_refined_words_fill_their_cell_of_the_tail_uniformly(kernel, word):
    n = 20_000
    rng = np.random.default_rng(word)
    w = np.concatenate([np.full(n, word, np.uint32), rng.integers(0, 2**32, n, dtype=np.uint32)])
    out = np.empty(2 * n, np.float32)
    kernel(w, rng.integers(0, 2**64, n, dtype=np.uint64), out, 1.0)
    radius = np.hypot(out[:n].astype(float), out[n:].astype(float))
    place = np.exp(-(radius**2) / 2) * 2.0**32 - word
    if word == 40_000:  # float32 rounds the radius by 1e-7, which is 1e-6 * 40,000 of a cell
        assert place.min() > -0.2
        assert place.max() < 1.2
    else:
        assert stats.kstest(place, "uniform").pvalue > 1e-3


def test_without_the_compiled_module_there_is_no_compiled_kernel(monkeypatch):
    monkeypatch.setitem(sys.modules, "tacit.privacy.noise._gaussian", None)
    assert box_muller._load_kernel("gaussian") is None
