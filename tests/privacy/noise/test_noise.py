"""The secret noise: its law, its independence, and that it cannot be had twice."""

import copy
import math
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy import stats

from tacit.errors import MechanismError, PlanError
from tacit.privacy.noise import secret as noise_module
from tacit.privacy.noise.box_muller import box_muller_compiled, box_muller_numpy
from tacit.privacy.noise.lattice import NoiseSource
from tacit.privacy.noise.secret import CHUNK, SecretNoise

KERNELS = [
    pytest.param(box_muller_numpy, id="numpy"),
    pytest.param(
        box_muller_compiled,
        id="compiled",
        marks=pytest.mark.skipif(box_muller_compiled is None, reason="installed without a C compiler"),
    ),
]


@pytest.mark.parametrize("kernel", KERNELS)
def test_law_is_standard_normal(kernel):
    z = SecretNoise.for_tests(1, kernel).gaussian(1_000_000).astype(np.float64)
    n = z.size
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(z.mean()) < 4 / math.sqrt(n)
    assert abs((z**2).mean() - 1) < 4 * math.sqrt(2 / n)
    assert abs((z**3).mean()) < 4 * math.sqrt(15 / n)
    assert abs((z**4).mean() - 3) < 4 * math.sqrt(96 / n)
    edges = np.array([-np.inf, -4, -3.5, -3, -2.5, -2, -1, -0.01, 0, 0.01, 1, 2, 2.5, 3, 3.5, 4, np.inf])
    expected = n * np.diff(stats.norm.cdf(edges))
    observed = np.histogram(z, edges)[0]
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3


@pytest.mark.parametrize("kernel", KERNELS)
def test_tail_beyond_32_bits_is_reached_with_its_exact_law(kernel):
    noise = SecretNoise.for_tests(2, kernel)
    draw = noise._stream.words

    def all_in_the_tail(count):
        words = draw(count)
        words[: count // 2] = 0
        return words

    noise._stream.words = all_in_the_tail
    first, second = np.split(noise.gaussian(CHUNK, scale=0.5).astype(np.float64) / 0.5, 2)
    given_tail = np.exp(-(first**2 + second**2) / 2) * 2.0**32  # u / 2^-32 given u < 2^-32
    assert stats.kstest(given_tail, "uniform").pvalue > 1e-3
    assert stats.kstest(np.arctan2(second, first) / (2 * np.pi) % 1, "uniform").pvalue > 1e-3
    assert np.hypot(first, second).max() > 7.5


@pytest.mark.parametrize("size", [0, 1, 2, 3, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_every_size_is_filled(size):
    z = SecretNoise.for_tests(3).gaussian(size)
    assert z.shape == (size,)
    assert z.dtype == np.float32
    assert np.unique(z).size >= 0.99 * size
    assert np.all(np.abs(z) < 7)


def test_coordinates_and_calls_are_independent():
    noise = SecretNoise.for_tests(4)
    n = 2 * CHUNK
    a, b = noise.gaussian(n).astype(np.float64), noise.gaussian(n).astype(np.float64)
    assert not np.intersect1d(a[:1000], b).size > 5
    limit = 4 / math.sqrt(n / 2)
    for x, y in [(a, b), (a[:-1], a[1:]), (a[: CHUNK // 2], a[CHUNK // 2 : CHUNK]), (a[:CHUNK], a[CHUNK:])]:
        for f in (np.asarray, np.square, np.abs, np.sign):
            assert abs(np.corrcoef(f(x), f(y))[0, 1]) < 2 * limit


def test_scale_and_out():
    out = np.empty(1001, np.float32)
    z = SecretNoise.for_tests(5).gaussian(1001, 3.0, out=out)
    assert z is out
    np.testing.assert_allclose(z, 3 * SecretNoise.for_tests(5).gaussian(1001), rtol=1e-6)
    assert not SecretNoise.for_tests(5).gaussian(4, 0.0).any()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 2, CHUNK + 1, 2 * CHUNK])
def test_the_noisy_mean_is_the_sum_on_the_lattice_over_the_divisor(kernel, dtype, size):
    total = (np.random.default_rng(0).normal(size=size) * 9).astype(dtype)
    mean = SecretNoise.for_tests(5, kernel).noisy_mean(total, 1.5, 3.0)
    noisy = total.astype(np.float64) + SecretNoise.for_tests(5, kernel).gaussian(size, 1.5)
    np.testing.assert_array_equal(mean, np.rint(noisy * 128).astype(np.float32) * np.float32(1 / 128 / 3))


def test_a_source_that_draws_otherwise_gives_its_own_numbers_to_the_mean():
    class Ones(SecretNoise):
        def gaussian(self, size, scale=1.0, out=None):
            return np.full(size, scale, np.float32)

    mean = Ones().noisy_mean(np.arange(4.0), 2.0, 2.0)
    np.testing.assert_array_equal(mean, [1.0, 1.5, 2.0, 2.5])
    np.testing.assert_array_equal(SecretNoise().noisy_mean(np.arange(4.0), 0.0, 2.0), [0.0, 0.5, 1.0, 1.5])


def test_scale_is_rounded_up_to_float32():
    assert noise_module._float32_scale(0.1) >= 0.1
    assert noise_module._float32_scale(0.3) >= 0.3
    assert noise_module._float32_scale(0.3) == pytest.approx(0.3, rel=2e-7)
    assert noise_module._float32_scale(1.5) == 1.5


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, -0.5, 1e-30, 1e30])
def test_scale_out_of_range_is_refused(scale):
    with pytest.raises(PlanError, match="standard deviation"):
        SecretNoise().gaussian(4, scale)


@pytest.mark.parametrize(
    "out", [np.empty(3, np.float32), np.empty(4), np.empty(8, np.float32)[::2], np.empty((2, 2), np.float32)]
)
def test_out_that_cannot_hold_the_noise_is_refused(out):
    with pytest.raises(MechanismError, match="float32"):
        SecretNoise().gaussian(4, out=out)


def test_secret_noise_differs_between_objects_and_calls():
    noise, other = SecretNoise(), SecretNoise()
    draws = [noise.gaussian(64).tobytes(), noise.gaussian(64).tobytes(), other.gaussian(64).tobytes()]
    assert len(set(draws)) == 3
    assert noise.seed64() != noise.seed64()
    assert not noise.seeded


def test_seeded_noise_says_so_and_repeats():
    noise: NoiseSource = SecretNoise.for_tests(6)
    assert noise.seeded
    np.testing.assert_array_equal(noise.gaussian(100), SecretNoise.for_tests(6).gaussian(100))
    assert not np.array_equal(SecretNoise.for_tests(7).gaussian(100), SecretNoise.for_tests(6).gaussian(100))


def test_each_thread_has_its_own_stream():
    noise, drawn = SecretNoise.for_tests(8), []
    threads = [threading.Thread(target=lambda: drawn.append(noise.gaussian(1000).tobytes())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*drawn, noise.gaussian(1000).tobytes()}) == 5


def test_a_key_serves_a_bounded_number_of_bytes(monkeypatch):
    before = SecretNoise.for_tests(9).gaussian(3000)
    monkeypatch.setattr(noise_module, "BYTES_PER_KEY", 4 * 1000)
    noise = SecretNoise.for_tests(9)
    parts = [noise.gaussian(1000) for _ in range(3)]
    assert len({part.tobytes() for part in parts}) == 3
    np.testing.assert_array_equal(parts[0], SecretNoise.for_tests(9).gaussian(1000))
    assert not np.isin(parts[1], before).any()  # under the next key, not further along the first


@pytest.mark.parametrize("steal", [pickle.dumps, copy.copy, copy.deepcopy])
def test_state_can_neither_be_pickled_nor_copied(steal):
    with pytest.raises(MechanismError, match="pickled or copied"):
        steal(SecretNoise())


def test_repr_shows_no_state():
    assert repr(SecretNoise()) == "SecretNoise(seeded=False)"


FORK = """
import os, sys
from tacit.privacy.noise.secret import SecretNoise
noise = SecretNoise()
noise.gaussian(10)
r, w = os.pipe()
child = os.fork()
if child == 0:
    os.write(w, noise.gaussian(16).tobytes())
    os._exit(0)
os.waitpid(child, 0)
sys.exit(0 if os.read(r, 64) != noise.gaussian(16).tobytes() else 1)
"""
SAME_PID = FORK.replace("noise = SecretNoise()", "os.getpid = lambda: 1\nnoise = SecretNoise()")  # a pid used again
NO_HOOKS = "import os\nos.register_at_fork = lambda **hooks: None\n" + FORK  # a fork below Python


@pytest.mark.skipif(not hasattr(noise_module.os, "fork"), reason="no fork on this platform")
@pytest.mark.parametrize("script", [FORK, SAME_PID, NO_HOOKS], ids=["fork", "same pid", "no hooks"])
def test_a_forked_child_draws_other_noise(script):
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_kernel_leaves_denormal_numbers_alone():
    script = (
        "from tacit.privacy.noise.secret import SecretNoise; import numpy as np; SecretNoise().gaussian(9);"
        "assert (np.full(99, 2.0**-120, np.float32) * np.float32(2.0**-20) > 0).all();"
        "assert float.fromhex('0x1p-1022') / 2 > 0"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_uniform_lies_on_midpoints_of_the_open_interval():
    noise = SecretNoise.for_tests(10)
    u = noise.uniform(100_000)
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    np.testing.assert_array_equal(u * 2**53 % 2, 1)


@pytest.mark.parametrize(
    ("word", "u", "energy"),
    [(0, 2.0**-53, 65 * math.log(2)), (2**64 - 1, 1 - 2.0**-53, 2.0**-65), (2**63, 0.5 + 2.0**-53, math.log(2))],
)
def test_uniform_and_exponential_at_the_ends(monkeypatch, word, u, energy):
    noise = SecretNoise()
    monkeypatch.setattr(noise._stream, "words64", lambda count: np.full(count, word, np.uint64))
    assert noise.uniform(1)[0] == u
    assert noise.exponential(1)[0] == pytest.approx(energy, rel=1e-15)


def test_exponential_law():
    assert stats.kstest(SecretNoise.for_tests(11).exponential(100_000), "expon").pvalue > 1e-3


def test_integers_are_uniform_without_modulo_bias():
    noise = SecretNoise.for_tests(12)
    high = 3 * 2**61  # the plain remainder would give thirds 3/8, 3/8, 2/8
    drawn = noise.integers(np.full((100, 300), high, np.int64))
    assert drawn.shape == (100, 300)
    assert drawn.min() >= 0
    assert drawn.max() < high
    assert stats.chisquare(np.bincount(drawn.ravel() // 2**61, minlength=3)).pvalue > 1e-3
    assert stats.chisquare(np.bincount(noise.integers(np.full(70_000, 7, np.int64)), minlength=7)).pvalue > 1e-3
    assert not noise.integers(np.ones(50, np.int64)).any()


def test_bytes_and_seed64():
    noise = SecretNoise.for_tests(13)
    assert [len(noise.bytes(n)) for n in (0, 1, 8, 33)] == [0, 1, 8, 33]
    seeds = [noise.seed64() for _ in range(100)]
    assert len(set(seeds)) == 100
    assert max(seeds) > 2**62
    assert all(0 <= seed < 2**64 for seed in seeds)
